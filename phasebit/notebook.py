"""``%load_ext phasebit``: CUDA cells that raise when something is wrong, and that end.

``%%cuda`` is that of nvcc4jupyter, with other insides. A compile error, a failing program or one
that does not end raises an exception that names the cause and the line of the cell; the target
fits the GPU; a second run compiles nothing.

Where there is no GPU that runs the target, the program runs all the same: on the emulator, which
also looks for races and the like, and raises what it finds. It has no times; those of this very
program are then shown as they were recorded, each led by where and when.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import io
import os
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import cell_magic, magics_class
from nvcc4jupyter import NVCCPlugin  # type: ignore[import-untyped]

import phasebit
from phasebit import (
    backtrace,
    build_cache,
    cpp_cells,
    hardware,
    measure,
    process,
    replay,
    toolchain,
)
from phasebit.emulator import Finding, digest
from phasebit.launching import devices
from phasebit.runtime import apart, library
from phasebit.runtime.report import Report

DEFAULT_SECONDS = 60.0
"""How long the program of a cell may run, unless ``--timeout`` says otherwise."""


RECORDING = "PHASEBIT_RECORD"
"""Environment variable: when it is set, cells that run on a GPU are recorded."""

CELL = "cell"
"""What compiler and program call the source of a cell; its first line, the magic, is line 1."""


EMULATOR = "emulator"
"""What stands in for the GPU's name in a run on the emulator."""

_LONGEST = 1e6  # seconds; timers of the operating system have an end too
_EMULATOR_GRACE = 15.0
"""Seconds beyond the limit: the emulator ends its program by itself and says where it was."""


class ProgramError(toolchain.CudaError):
    """The program of a cell failed or did not end.

    ``line`` is the line of the cell, where it is known; ``status`` the exit status.
    """

    def __init__(self, message: str, line: int | None, status: int) -> None:
        super().__init__(message)
        self.line = line
        self.status = status


@dataclass(frozen=True)
class CellRun(replay.RecordedRun):
    """A run here, and what the emulator found in it; a GPU finds nothing."""

    findings: tuple[Finding, ...] = ()

    def record(self) -> replay.RecordedRun:
        """What is recorded of it."""
        names = [each.name for each in fields(replay.RecordedRun)]
        return replay.RecordedRun(**{name: getattr(self, name) for name in names})


def where() -> str:
    """One line that says where this notebook runs, and what that means for its outputs."""
    try:
        compiler = toolchain.nvcc()
        target = _target(compiler)
    except toolchain.CudaError:
        return "⏱ no nvcc: CUDA cells cannot be compiled, see python -m phasebit doctor"
    choice = devices.choose(target, cuda=compiler.major)
    if choice.gpu:
        gpu = choice.gpu
        return f"⏱ {gpu.name} ({gpu.target}), driver {gpu.driver}; nvcc {compiler.version}"
    return (
        f"⏱ the emulator ({choice.why}); nvcc {compiler.version}. CUDA cells run; "
        f"times are the recorded ones of {measure.recorded_on()}"
    )


def build(
    source: str, target: str | None = None, options: Sequence[str] = (), first_line: int = 1
) -> tuple[toolchain.Build, devices.Choice]:
    """Compile a program for the device that will run it.

    A cell that does not compile for the GPU here, and does for the GPU that the book's records
    come from, uses what this one lacks: it is the emulator's.
    """

    def compiled(target: str, choice: devices.Choice) -> tuple[toolchain.Build, devices.Choice]:
        runtime = None if choice.gpu else library.for_linking(compiler.major)
        built = toolchain.build(
            source,
            name=CELL,
            first_line=first_line,
            target=target,
            options=options,
            runtime=runtime,
        )
        return built, choice

    compiler = toolchain.nvcc()
    own = target or _target(compiler)
    compiler.check(own)
    choice = devices.choose(own, cuda=compiler.major)
    try:
        return compiled(own, choice)
    except toolchain.CompileError:
        other = compiler.target_for(None)
        if target or choice.gpu is None or phasebit.device == "gpu" or own == other:
            raise
        why = f"{choice.gpu.name} ({own}) lacks what the cell uses, {other} has it"
        with contextlib.suppress(toolchain.CompileError):  # the cell itself is wrong
            return compiled(other, devices.Choice(None, why))
        raise


def _target(compiler: toolchain.Nvcc) -> str:
    """The target of a cell that names none: the GPU's own, where it is to run and one is built."""
    elsewhere = phasebit.device == "emulator" or hardware.too_old_for(compiler.major)
    gpu = None if elsewhere else hardware.gpu()
    try:
        return compiler.target_for(gpu)
    except toolchain.CudaError:
        if gpu is None:
            raise
        return compiler.target_for(None)


def _with_notes(text: str, notes: Sequence[str]) -> str:
    """What a program printed, and each of the emulator's notes on a line of its own."""
    if notes and text and not text.endswith("\n"):
        text += "\n"
    return text + "".join(f"phasebit: {note}\n" for note in notes)


def run(
    built: toolchain.Build,
    choice: devices.Choice,
    name: str,
    args: Sequence[str] = (),
    timeout: float = DEFAULT_SECONDS,
) -> tuple[CellRun, str]:
    """Run a built program; ``name`` is what its record is called.

    Returns the run, and words that say where it ran.
    """
    command = [os.fspath(built.program), *args]
    environment = dict(os.environ)
    with build_cache.Scratch() as folder:
        stopped = Path(folder, "stopped")
        environment[backtrace.VARIABLE] = os.fspath(stopped)
        if choice.gpu:
            done = process.run(command, timeout=timeout, ask=signal.SIGUSR1, env=environment)
            reported = Report()
        else:
            latest = timeout + _EMULATOR_GRACE
            done, reported = apart.run(command, timeout, latest, environment=environment)
        line = backtrace.stopped_at(built.program, stopped, CELL)
    fresh = CellRun(
        gpu=choice.gpu.name if choice.gpu else EMULATOR,
        driver=choice.gpu.driver if choice.gpu else "",
        cuda=built.nvcc,
        date=datetime.date.today().isoformat(),
        stdout=_with_notes(done.stdout, reported.notes),
        stderr=done.stderr,
        status=done.status,
        stopped=done.stopped,
        line=line,
        timeout=timeout,
        findings=reported.findings,
    )
    end = reported.end
    if end and end.limit:
        fresh = replace(fresh, stopped="time")
    elif end and end.signal:
        fresh = replace(fresh, status=-signal.Signals[end.signal])
    if not built.resources:
        return fresh, "run here: it has no kernel"
    if choice.gpu is None:
        return fresh, f"run on the {EMULATOR}: {choice.why}"
    if os.environ.get(RECORDING):
        replay.save(name, fresh.record())
    return fresh, f"run on {choice.gpu.name}"


def printed(run: CellRun, name: str, built: toolchain.Build) -> str:
    """What the program printed, with the recorded times where its kernels ran on the emulator.

    ``name`` is what the program's record is called.
    """
    if run.gpu != EMULATOR or not built.resources:
        return run.stdout
    record = replay.find(name)
    if record is None:
        note = f"⏱ the {EMULATOR}'s clock is no time, and this very program has no record"
        return "\n".join([*run.stdout.splitlines(), note])
    plain = [line for line in run.stdout.splitlines() if not line.startswith("⏱")]
    times = [line for line in record.stdout.splitlines() if line.startswith("⏱")]
    label = f"⏱ recorded on {record.gpu}, {record.date}:"
    return "\n".join([*plain, *(line.replace("⏱", label, 1) for line in times)])


def failure(run: CellRun) -> ProgramError | None:
    """The error that a run ended in, or ``None`` when it ended well.

    On the emulator a finding is an error, whatever the program made of it.
    """
    found = digest.told(run.findings)
    if run.status == 0 and not run.stopped and not found:
        return None
    own = run.stderr.strip()
    reported = re.search(rf"^{CELL}:(\d+): ", own, re.MULTILINE)
    line = int(reported[1]) if reported else run.line
    if run.findings:
        places = [place for place in run.findings[0].places if place.file == CELL]
        line = places[0].line if places else line
    if run.stopped == "time":
        what = (
            f"the program did not end within {run.timeout:g} s and was stopped: an endless loop, "
            "or a wait for something that never comes (%%cuda --timeout SECONDS gives it longer)"
        )
    elif run.stopped == "output":
        what = f"the program printed more than {process.OUTPUT_LIMIT >> 20} MiB and was stopped"
    elif run.status < 0:
        what = f"the program was ended by {signal.Signals(-run.status).name}"
    elif run.status == 0:
        what = f"the {EMULATOR} found {'a mistake' if len(found) == 1 else 'mistakes'}"
    else:
        what = f"the program ended with exit status {run.status}"
    at = f"line {line} of the cell: " if line else ""
    tail = "\n".join([*own.splitlines()[-10:], *found])
    return ProgramError(at + what + (f"\n{tail}" if tail else ""), line, run.status)


def verdict(source: str, timeout: float = DEFAULT_SECONDS) -> str:
    """Compile a program, run it, and say in one line how it ended.

    The first line that it printed without ``⏱``, if it ended well, else the cause of failure.
    Prints ``⏱`` lines: where the program ran, and what the emulator found. Raises
    :class:`toolchain.CompileError`.
    """
    built, choice = build(source)
    outcome, origin = run(built, choice, replay.key(source), timeout=timeout)
    print(f"⏱ compiled by nvcc {built.nvcc} for {built.target}; {origin}")
    for text in digest.told(outcome.findings):
        print("\n".join(f"⏱ {line}" for line in text.splitlines()))
    if outcome.status == 0 and not outcome.stopped:
        plain = [line for line in outcome.stdout.splitlines() if line[:1] not in ("", "⏱")]
        return plain[0] if plain else "it ended without a word"
    own = outcome.stderr.strip().splitlines()
    return own[-1] if own else str(failure(outcome))


def shorten(text: str, most: int = 400) -> str:
    """A program's output, without its middle when it has more than ``most`` lines."""
    lines = text.splitlines(keepends=True)
    left_out = len(lines) - most
    if left_out <= 0:
        return text
    half = most // 2
    return "".join([*lines[:half], f"… {left_out} lines left out …\n", *lines[-half:]])


def report(build: toolchain.Build) -> str:
    """What ptxas says about the kernels of a build.

    What depends on the target stands on ``⏱`` lines, what must not on a plain one.
    """
    lines = []
    for use in build.resources:
        lines.append(f"⏱ ptxas: {use.kernel} uses {use.registers} registers a thread")
    for use in build.resources:
        spilled = f"{use.spill_stores} bytes spilled" if use.spills else "no register spills"
        lines.append(f"{use.kernel}: {use.shared:,} bytes of static shared memory, {spilled}")
    return "\n".join(lines)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid float value: {text!r}") from None
    if not 0 < value <= _LONGEST:  # as nan is not
        raise argparse.ArgumentTypeError(f"{text} is no time: more than 0, at most {_LONGEST:g} s")
    return value


@magics_class
class CudaMagics(NVCCPlugin):  # type: ignore[misc]
    """``%%cuda`` of nvcc4jupyter, on the book's toolchain."""

    def __init__(self, shell: Any) -> None:
        self._scratch = build_cache.Scratch()
        self.wd = self._scratch.name
        with contextlib.redirect_stdout(io.StringIO()):  # it prints its folder
            super().__init__(shell)
        self.parser_cuda.add_argument("--timeout", type=_seconds, default=DEFAULT_SECONDS)
        self.parser_cuda.add_argument("--args", default="")
        self.parser_cuda.add_argument("--arch", default=None)

    @cell_magic
    def cuda(self, line: str, cell: str) -> None:
        """Compile the program in the cell and run it.

        ``--timeout SECONDS``, ``--args "ARGUMENTS"`` of the program, ``--arch sm_90a`` to choose
        the target, ``-c "OPTIONS"`` for nvcc.
        """
        given = self._parse(line)
        if given.timeit or given.profile:
            raise UsageError(
                "%%cuda times and profiles no whole process, since most of that time is start-up: "
                "time with events (harness.cuh does), profile with ncu"
            )
        options, args = cpp_cells.words(given.compiler_args()), cpp_cells.words(given.args)
        built, choice = build(cell, given.arch, options, first_line=2)
        name = replay.key(cell, options, args)
        outcome, origin = run(built, choice, name, args, given.timeout)
        print(f"⏱ compiled by nvcc {built.nvcc} for {built.target}; {origin}")
        for text in (report(built), built.warnings, shorten(printed(outcome, name, built))):
            if text:
                print(text, end="" if text.endswith("\n") else "\n")
        error = failure(outcome)
        if error:
            raise error

    def _parse(self, line: str) -> argparse.Namespace:
        # A wrong option must stop the cell; nvcc4jupyter would print the help and go on.
        with contextlib.redirect_stderr(io.StringIO()) as said:
            try:
                given: argparse.Namespace = self.parser_cuda.parse_args(cpp_cells.words(line))
                return given
            except SystemExit:
                raise UsageError(said.getvalue().strip().rpartition("error: ")[2]) from None


def load(shell: Any) -> None:
    """Register the magics and say in one line where the notebook runs."""
    shell.register_magics(CudaMagics(shell))
    cpp_cells.load(shell)
    print(where())
