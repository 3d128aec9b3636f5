"""`python -m phasebit nvcc` and `python -m phasebit run`.

python -m phasebit nvcc saxpy.cu -o saxpy            # any nvcc option may follow
python -m phasebit nvcc -arch=sm_80 saxpy.cu -o saxpy
python -m phasebit run ./saxpy 1000                  # options of `run` come before the program
python -m phasebit run --ptx other.ptx ./saxpy 1000  # with kernels that were changed by hand
python -m phasebit run --json ./saxpy 1000           # what was found, and the end, as JSON lines
python -m phasebit run --report found.sarif ./saxpy  # in a file too: .sarif, .xml (JUnit), .jsonl
python -m phasebit run --suppress race@scan.cuh ./saxpy
python -m phasebit mutate ./saxpy 1000               # is each barrier missed that is left out?
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from phasebit import build_cache, files, toolchain
from phasebit.emulator import Finding, digest, search_limits
from phasebit.runtime import elf, known, library
from phasebit.runtime.mapped_memory import SPAN
from phasebit.runtime.protocol import MOST_DEVICES
from phasebit.runtime.report import (
    AsJson,
    AtTheEnd,
    CannotTell,
    End,
    ForPeople,
    Reporter,
    Several,
    of_program,
    write_line,
)
from phasebit.runtime.run_program import TIMED_OUT, ProgramError, run_program

DEFAULT_LIMIT = 60.0
REFUSED = 2
FOUND = 99
"""The exit status of a program that came to its own end, when something was found."""
SEARCHING = 0.75
"""The part of a program's time that may go into ``--schedule every``."""
_LONGEST = 1e6  # seconds; the limit is a timer of the operating system, which has an end too
_SUFFIXES = {".sarif": "sarif", ".xml": "junit"}
_AT_LINK_TIME = ("-dlto", "--dlink-time-opt")
_ARCH = ("-arch", "--gpu-architecture")
_GENCODE = ("-gencode", "--generate-code")
_CODE = ("-code", "--gpu-code")
_TARGET = re.compile(r"(?:sm_|compute_)(\d+[af]?)")
_GENERATED = re.compile(r"arch=compute_(\d+[af]?),code=(?!.*lto_).*")


def nvcc_command(options: Sequence[str]) -> list[str]:
    """The nvcc command line for a program that the stand-in can run.

    PTX and no machine code, not compressed; the runtime as a shared library, found in the
    stand-in's folder; source lines kept, for findings, the host's too. `-arch` or `-gencode` among
    `options` pick the targets (`sm_90a` without them); the newest is what the emulator executes.
    The same program runs on a GPU, where the driver compiles the PTX.

    Raises toolchain.ToolMissing, library.BuildError, and ValueError for a target that is none.
    """
    targets: list[str] = []
    rest: list[str] = []
    words = _spelled_out(options)
    for word in words:
        name, equals, value = word.partition("=")
        if name in _AT_LINK_TIME:
            raise ValueError(
                f"{word}: this leaves no PTX, which is what the emulator reads; "
                "-rdc=true without it does"
            )
        if word == "-lcudadevrt":  # NVIDIA's own device code, which the emulator has of its own
            continue
        if name not in (*_ARCH, *_GENCODE, *_CODE):
            rest.append(word)
            continue
        value = value if equals else next(words, "")
        if name in _CODE:  # which machine code: none
            continue
        match = (_TARGET if name in _ARCH else _GENERATED).fullmatch(value)
        if not match:
            raise ValueError(f"{name}={value} is not a target: write -arch=sm_90a")
        targets.append(f"sm_{match[1]}")
    folder = library.for_linking(toolchain.nvcc().major)
    given = ["--no-compress", "-lineinfo", "-Xcompiler", "-g1", "-cudart", "shared",
             "-cudadevrt", "none", f"-L{folder}", *rest]  # fmt: skip
    chosen = dict.fromkeys(targets or [toolchain.DEFAULT_TARGET])
    command = toolchain.nvcc_command("program of PTX", *chosen, options=given, include=False)
    return [str(word) for word in command]


def _spelled_out(options: Iterable[str], within: tuple[str, ...] = ()) -> Iterator[str]:
    """Options, and those in files of options, which build systems write.

    ``within``: the files that these options are in. Raises ValueError for one that cannot be read.
    """
    words = iter(options)
    for word in words:
        name, equals, value = word.partition("=")
        if name not in ("-optf", "--options-file"):
            yield word
            continue
        for file in (value if equals else next(words, "")).split(","):
            if file in within:
                raise ValueError(f"{name}: {file} names itself: leave that out")
            try:
                words_in_it = shlex.split(files.read_text(file))
            except ValueError as error:
                raise ValueError(f"{name}: {error}: name a file of options") from error
            yield from _spelled_out(words_in_it, (*within, file))


def nvcc(arguments: argparse.Namespace) -> int:
    """Compile; nvcc's exit status."""
    try:
        command = nvcc_command(arguments.options)
    except (library.BuildError, ValueError) as error:
        return _refuse(error)
    status = subprocess.run(command, check=False).returncode
    return status if status >= 0 else 128 - status  # as a shell tells of a signal


def run(arguments: argparse.Namespace) -> int:
    """Run a program on the emulator; its exit status, or that of a finding."""
    try:
        _check(arguments)
        hidden = known.suppressions(arguments.suppress, arguments.suppressions)
        old = known.baseline(arguments.baseline) if arguments.baseline else frozenset()
        ptx = _text(arguments.ptx) if arguments.ptx else None
        # At last: what is wrong with the others leaves the report of an earlier run as it was.
        sieve = known.Sieve(_reporter(arguments), hidden, old)
    except (ProgramError, known.KnownError) as error:
        return _refuse(error)
    gc.set_threshold(50_000, 20, 50)  # reading PTX makes a hundred thousand objects that all stay
    try:
        status = _executed(arguments, ptx, sieve)
        if status is None:
            return REFUSED
        if arguments.write_baseline:
            known.write_baseline(arguments.write_baseline, sieve.sites)
            return status
    except (known.KnownError, CannotTell) as error:
        return _refuse(error)
    except KeyboardInterrupt:
        return 130
    by_itself = status not in (TIMED_OUT, REFUSED) and status < 128
    return arguments.error_exitcode or status if sieve.new and by_itself else status


def _check(arguments: argparse.Namespace) -> None:
    """Raise ProgramError for options that mean nothing together, or whose files are one."""
    from phasebit.runtime.emulated import EVERY

    random, every = arguments.schedule == "random", arguments.schedule == EVERY
    if arguments.fast and every:
        raise ProgramError("--schedule every looks for races: leave out --fast")
    if arguments.seeds > 1 and not random:
        raise ProgramError("--seeds counts orders of --schedule random: ask for that too")
    if arguments.seed and not random:
        raise ProgramError("--seed picks an order of --schedule random: ask for that too")
    if arguments.most_runs != search_limits.MOST_RUNS and not every:
        raise ProgramError("--most-runs bounds --schedule every: ask for that too")
    if arguments.counters and arguments.quiet and _form(arguments) != "json":
        raise ProgramError(
            "--quiet tells nobody of --counters: leave it out, or ask for --report FILE.json"
        )
    read = [arguments.program, arguments.ptx, *arguments.suppressions]
    for option, name, others in (
        ("report", arguments.report, [*read, arguments.baseline, arguments.write_baseline]),
        ("write-baseline", arguments.write_baseline, read),
    ):
        if name and (_holds_program(name) or any(_same_file(name, other) for other in others)):
            raise ProgramError(
                f"--{option} {name}: that is a program, or another file of this run: name a new one"
            )


def _holds_program(name: str) -> bool:
    """Whether a file is there that is executed: a report would take its place."""
    if not os.path.isfile(name):  # to open a pipe might wait for ever
        return False
    try:
        with open(name, "rb") as file:
            return file.read(4).startswith((b"\x7fELF", b"#!"))
    except OSError:
        return False


def _same_file(one: str, other: str | None) -> bool:
    """Whether two names are of one file; of a device or a pipe many may be."""
    if not other or (os.path.exists(one) and not os.path.isfile(one)):
        return False
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them is not there yet
        return os.path.normpath(one) == os.path.normpath(other)


def _executed(arguments: argparse.Namespace, ptx: str | None, sieve: known.Sieve) -> int | None:
    """Run the program, as often as is asked for; its exit status, None where it cannot be run.

    Why it cannot is told as a finding, so that a report has it too.
    """
    try:
        if arguments.seeds > 1:
            return _under_seeds(arguments, ptx, sieve)
        return _once(arguments, ptx, arguments.seed, sieve)
    except (
        ProgramError, elf.UnsuitableProgram, library.BuildError, build_cache.CacheError
    ) as error:  # fmt: skip
        sieve.found([of_program(str(error))])
        sieve.ended(End(REFUSED), None)
        return None
    except (KeyboardInterrupt, SystemExit) as stop:  # what was found until then is told
        number = signal.SIGINT if isinstance(stop, KeyboardInterrupt) else signal.SIGTERM
        sieve.ended(End(128 + number, number.name), None)
        return 128 + number


def _once(arguments: argparse.Namespace, ptx: str | None, seed: int, reporter: Reporter) -> int:
    """Run the program; its exit status."""
    from phasebit.runtime.emulated import EmulatorBackend

    backend = EmulatorBackend(
        not arguments.fast, arguments.schedule, ptx=ptx, seed=seed,
        counters=arguments.counters, most_runs=arguments.most_runs,
        seconds=arguments.limit * SEARCHING if arguments.limit else math.inf,
    )  # fmt: skip
    status = run_program(
        [arguments.program, *arguments.arguments],
        backend,
        limit=arguments.limit or None,
        memory_bytes=arguments.memory and arguments.memory << 20,
        devices=arguments.devices,
        reporter=reporter,
        stdout=sys.stderr.fileno() if arguments.json else None,
    )
    for kernel, seen in backend.searches:
        reporter.note(f"every order of {kernel}: {seen}")
    return status


class _OneOfMany:
    """What a run among several tells, all but its end; `told`: how many findings; `end`."""

    apart = True

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self.told = 0
        self.end = End(0)
        self.counted, self.note = reporter.counted, reporter.note

    def found(self, findings: Sequence[Finding]) -> None:
        """See `Reporter`."""
        self.told += len(findings)
        self._reporter.found(findings)

    def ended(self, end: End, standing: Finding | None) -> None:
        """See `Reporter`: where a kernel stood at the time limit is a finding of this run."""
        self.end = end
        self.found([standing] if standing else [])


def _under_seeds(arguments: argparse.Namespace, ptx: str | None, sieve: known.Sieve) -> int:
    """Run the program under one seed after the other: the first exit status that is not 0.

    All in this process, so that the kernels are read and translated once.
    """
    ends: dict[int, End] = {}
    hits = []
    for seed in range(arguments.seed, arguments.seed + arguments.seeds):
        one = _OneOfMany(sieve)
        _once(arguments, ptx, seed, one)
        ends[seed] = one.end
        hits += [seed] if one.told else []
    first = f", first under {hits[0]}" if hits else ""
    last = arguments.seed + arguments.seeds - 1
    sieve.note(f"seeds {arguments.seed} to {last}: found something under {len(hits)} of "
               f"{arguments.seeds}{first}")  # fmt: skip
    bad, end = next(((s, e) for s, e in ends.items() if e.status), (0, End(0)))
    if end.limit or end.signal:
        sieve.note(f"under seed {bad}:")
    sieve.ended(end, None)
    return end.status


def mutate(arguments: argparse.Namespace) -> int:
    """Run a program without each of its synchronisation instructions, one at a time."""
    from phasebit.runtime import mutation

    schedules = arguments.schedule or ["late", "eager", "random"]
    words = [arguments.program, *arguments.arguments]
    verdicts: list[mutation.Verdict] = []
    status = 0
    try:
        for verdict in mutation.survey(words, schedules, arguments.limit or None):
            verdicts.append(verdict)
            if sys.stderr.isatty():
                print(f"PTX line {verdict.deletion.line}: {verdict}", file=sys.stderr)
    except (ProgramError, elf.UnsuitableProgram, library.BuildError) as error:
        return _refuse(error)
    except KeyboardInterrupt:  # what was tried until then took its time
        status = 130
    if verdicts or not status:
        print(mutation.table(verdicts))
    return status


def _reporter(arguments: argparse.Namespace) -> Reporter:
    if arguments.json:
        told: list[Reporter] = [AsJson(sys.stdout)]
    elif arguments.quiet:
        told = []
    else:
        told = [ForPeople(sys.stderr, None if arguments.all else digest.MOST)]
    if arguments.report:
        told.append(_file(arguments.report, _form(arguments), arguments.program))
    return Several(told)


def _form(arguments: argparse.Namespace) -> str:
    """The form of the report in a file; empty where none is asked for."""
    given: str = arguments.report_format or ""
    suffix = Path(arguments.report or "").suffix.lower()
    return (given or _SUFFIXES.get(suffix, "json")) if arguments.report else ""


def _file(name: str, form: str, program: str) -> Reporter:
    """Who writes the report to a file; raises ProgramError where it cannot be written."""
    try:
        file = files.for_writing(name)  # now, so that it is not said when the program is over
    except OSError as error:
        raise ProgramError(f"cannot write {name}: {error.strerror}") from error
    if form == "json":
        return AsJson(file)

    def write(findings: Sequence[Finding], end: End) -> None:
        from phasebit.runtime import junit, sarif  # most runs write neither

        if form == "sarif":
            text = json.dumps(sarif.log(program, findings, end), indent=1, ensure_ascii=False)
        else:
            text = junit.suites(program, findings, end)
        write_line(file, text.removesuffix("\n"))

    return AtTheEnd(write)


def _text(path: str) -> str:
    try:
        return files.read_text(path)
    except ValueError as error:
        raise ProgramError(f"{error}: --ptx takes PTX, not machine code") from error


def _refuse(error: Exception) -> int:
    with contextlib.suppress(OSError):
        print(f"phasebit: {error}", file=sys.stderr)
    return REFUSED


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= _LONGEST:
        raise argparse.ArgumentTypeError(f"{text} is no time: 0 to {_LONGEST:g} s, 0: never ends")
    return value


def _name(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("a file has a name: give one")
    return text


def _status(text: str) -> int:
    if not text.isdecimal() or int(text) > 255:
        raise argparse.ArgumentTypeError(f"{text} is no exit status: 0 to 255")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is no seed: give a whole number from 0")
    return int(text)


def _runs(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is no number of runs: give one from 1")
    return int(text)


def _mebibytes(text: str) -> int:
    most = SPAN // 2 >> 20  # what DeviceMemory hands out at once
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text} is no amount of memory: 1 to {most} MiB")
    return int(text)


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add both subcommands to `python -m phasebit`."""
    command = commands.add_parser(
        "nvcc",
        help="compile a CUDA program that also runs without a GPU",
        add_help=False,
        prefix_chars="\0",  # every option is nvcc's
    )
    command.add_argument("options", nargs=argparse.REMAINDER, help="options and files for nvcc")
    command.set_defaults(run=nvcc)

    command = commands.add_parser(
        "run",
        help="run a CUDA program without a GPU",
        description=(
            "Run a CUDA program without a GPU, and say what is wrong with its kernels. "
            f"The exit status is the program's own; {FOUND} when something was found in a program "
            f"that came to its own end (see --error-exitcode); {TIMED_OUT} past the time limit; "
            f"{REFUSED} when it cannot be run; 128 + n when signal n ended it."
        ),
        allow_abbrev=False,  # the program's own --m is no abbreviation of --memory
    )
    command.add_argument(
        "--limit", type=_seconds, default=DEFAULT_LIMIT, metavar="SECONDS",
        help=f"end the program after so many seconds (default {DEFAULT_LIMIT:g}; 0: never)",
    )  # fmt: skip
    command.add_argument(
        "--memory", type=_mebibytes, default=0, metavar="MIB",
        help="device memory (default: half of this machine's, 16 GiB at most)",
    )  # fmt: skip
    command.add_argument("--fast", action="store_true", help="do not look for races")
    command.add_argument(
        "--schedule", default="late", choices=("eager", "late", "random", "every"),
        help="when asynchronous copies finish: as soon or as late as they may, or at random; or "
        "each launch in every order of its synchronisation (default: late)",
    )  # fmt: skip
    command.add_argument(
        "--most-runs", type=_runs, default=search_limits.MOST_RUNS, metavar="N",
        help="of --schedule every: the most orders of one launch "
        f"(default: {search_limits.MOST_RUNS})",
    )  # fmt: skip
    command.add_argument(
        "--seed", type=_seed, default=0, metavar="N",
        help="of --schedule random: which of its orders (default: 0)",
    )  # fmt: skip
    command.add_argument(
        "--seeds", type=_runs, default=1, metavar="N",
        help="of --schedule random: run the program N times, with the seeds from --seed on; the "
        "exit status is the first that is not 0 (default: 1)",
    )  # fmt: skip
    command.add_argument(
        "--devices", type=int, default=1, choices=range(1, MOST_DEVICES + 1), metavar="N",
        help="how many devices the program finds; kernels of several run at the same time "
        f"(default: 1; at most {MOST_DEVICES})",
    )  # fmt: skip
    command.add_argument(
        "--counters", action="store_true",
        help="print at the end what each kernel's counters show, summed over its launches",
    )
    _add_report_options(command)
    command.add_argument(
        "--ptx", type=_name, metavar="FILE",
        help="execute this PTX in place of the program's own (of one module, with its kernels)",
    )  # fmt: skip
    _add_program(command)
    command.set_defaults(run=run)

    command = commands.add_parser(
        "mutate", help="delete each barrier, fence and wait of a program: is that noticed?"
    )
    command.add_argument(
        "--limit", type=_seconds, default=60.0, metavar="SECONDS",
        help="end each of the runs after so many seconds (default 60; 0: never)",
    )  # fmt: skip
    command.add_argument(
        "--schedule", action="append", choices=("eager", "late", "random"),
        help="try this one (may be repeated; default: late, then eager, then random)",
    )  # fmt: skip
    _add_program(command)
    command.set_defaults(run=mutate)


def _add_program(command: argparse.ArgumentParser) -> None:
    command.add_argument("program", help="the program, built with `python -m phasebit nvcc`")
    command.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")


def _add_report_options(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("what is found")
    loudness = group.add_mutually_exclusive_group()
    loudness.add_argument(
        "--all", action="store_true",
        help="tell every finding by itself; else each place is told once, and of each rule at most "
        f"{digest.MOST} places in a kernel",
    )  # fmt: skip
    loudness.add_argument(
        "--quiet", action="store_true", help="print nothing: standard error is the program's own"
    )
    loudness.add_argument(
        "--json", action="store_true",
        help="print what is found, and how the program ends, as JSON, a line each; what the "
        "program itself prints goes to standard error",
    )  # fmt: skip
    group.add_argument(
        "--report", type=_name, metavar="FILE", help="write what is found to FILE as well"
    )
    group.add_argument(
        "--report-format", choices=("json", "sarif", "junit"),
        help="of that file (default: by its suffix, .sarif or .xml; JSON lines for any other)",
    )  # fmt: skip
    group.add_argument(
        "--error-exitcode", type=_status, default=FOUND, metavar="N",
        help=f"exit status when something is found (default: {FOUND}; 0: the program's own)",
    )  # fmt: skip
    group.add_argument(
        "--suppress", action="append", default=[], metavar="RULE[@PLACE]",
        help="do not count findings of a rule, of `python -m phasebit rules`; at a file, FILE:LINE "
        "or function if given; * stands for any letters; may be given again",
    )  # fmt: skip
    group.add_argument(
        "--suppressions", action="append", default=[], type=_name, metavar="FILE",
        help="suppressions, one a line; # begins a comment",
    )  # fmt: skip
    group.add_argument(
        "--baseline", type=_name, metavar="FILE",
        help="count what is in this file, of --write-baseline, but do not tell it nor fail",
    )  # fmt: skip
    group.add_argument(
        "--write-baseline", type=_name, metavar="FILE",
        help="write what is found to FILE, for --baseline; the exit status is the program's own",
    )  # fmt: skip
