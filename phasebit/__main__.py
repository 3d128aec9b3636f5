"""The command line: ``python -m phasebit doctor``, ``record``, ``ptx``, ``descriptor`` …"""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import json
import os
import resource
import sys
from collections.abc import Sequence
from pathlib import Path

from phasebit import __version__

REFUSED = 2
INTERRUPTED = 130
"""As a shell tells of a program that SIGINT ended."""
_REMEDIES = {
    errno.ENOSPC: "make room there", errno.EDQUOT: "make room there",
    errno.EROFS: "run this where it can be written",
    errno.EACCES: "run this as someone who may do that",
    errno.EMFILE: "raise this process's limit, ulimit -n 256",
    errno.ENFILE: "close programs",
    errno.ENOMEM: "lift this process's limit, ulimit -v unlimited",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.E2BIG: "give fewer or shorter words",
    errno.EFBIG: "lift this process's limit, ulimit -f unlimited",
    errno.EAGAIN: "raise this user's limit of processes, ulimit -u",
}  # fmt: skip
"""What the machine may lack, and is no defect of ours."""


def _doctor(args: argparse.Namespace) -> int:
    from phasebit import doctor

    diagnosis = doctor.examine()
    print(diagnosis.to_json() if args.json else diagnosis)
    return 0 if diagnosis.healthy else 1


def _record(args: argparse.Namespace) -> int:
    from phasebit import recording

    try:  # a wrong name is said before the first chapter takes its minutes
        asked = [recording.chapter(word) for word in args.chapter]
    except LookupError as error:
        return _refuse(error)
    mine, others = (asked, []) if asked else recording.possible()
    for chapter in mine:
        print(f"wrote {recording.record(chapter)}")
    if others:
        print(f"left out, since they need another GPU: {', '.join(others)}")
    return 0


def _prove(args: argparse.Namespace) -> int:
    from phasebit import proving

    return proving.prove(proving.cases(), args.case)


def _ptx(args: argparse.Namespace) -> int:
    from phasebit.emulator import listing

    try:
        print(listing.describe(args.mnemonic) if args.mnemonic else listing.listing())
    except LookupError as error:
        return _refuse(error)
    return 0


def _rules(args: argparse.Namespace) -> int:
    from phasebit.emulator import rulebook

    try:
        print(rulebook.describe(args.name) if args.name else rulebook.listing())
    except ValueError as error:
        return _refuse(error)
    return 0


def _score(args: argparse.Namespace) -> int:
    from phasebit import bugs, files, score

    try:
        wanted = args.tool or score.names()
        for name in wanted:
            score.tool(name)
        of = [bugs.bug(name) for name in args.bug] if args.bug else bugs.every()
    except ValueError as error:
        return _refuse(error)
    record = score.measure(wanted, of, lambda line: print(line, file=sys.stderr, flush=True))
    if args.write:
        record = score.merged(score.read(), record)
        files.renew(score.path(), json.dumps(record, indent=1) + "\n")
        print(f"wrote {score.path()}")
    print(score.text(record))
    return 0


def _originals(args: argparse.Namespace) -> int:
    from phasebit import originals

    try:
        of = [originals.named(name) for name in args.run_these] if args.run_these else []
        if not (of or args.all):
            print(originals.listing())
            return 0
        record = originals.measure(
            of or originals.every(), args.clone, lambda line: print(line, flush=True)
        )
    except originals.Refused as error:
        return _refuse(error)
    if args.write:
        print(f"wrote {originals.write(record)}")
    return 0


def _descriptor(args: argparse.Namespace) -> int:
    from phasebit.emulator import descriptor_words, matrix_descriptors

    if args.kind not in (None, *descriptor_words.KINDS):
        known = ", ".join(descriptor_words.KINDS)
        return _refuse(f"tcgen05.mma has no kind {args.kind}; it has {known}")
    wide = [value for value in args.value if value >> 32]
    if args.kind and wide:
        return _refuse(
            f"{wide[0]:#x} has more than the 32 bits of an instruction descriptor; "
            "leave --kind out for a matrix descriptor"
        )
    for value in args.value:
        if args.kind:
            print(descriptor_words.explain(value, args.kind))
        elif value < 1 << 32 and not args.of:
            print(descriptor_words.survey(value))
        else:
            of = args.of or ("tcgen05" if value >> 46 & 7 else "wgmma")
            print(matrix_descriptors.explain(value, of))
    return 0


def _bits(text: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if not 0 <= value < 1 << 64:
        raise argparse.ArgumentTypeError(f"{text} is no number of 64 bits, as 0x08200010")
    return value


def _refuse(why: object) -> int:
    with contextlib.suppress(OSError):
        print(f"phasebit: {why}", file=sys.stderr)
    return REFUSED


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    try:
        _open_streams()
        if sys.stdout is None:
            return _refuse("standard output is closed: send it somewhere, as with >/dev/null")
        status = _command(argv)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # whoever reads our output has seen enough
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except (MemoryError, ImportError, SystemError) as error:  # NumPy's start fails in many ways
        limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
        if not limited and not isinstance(error, MemoryError):
            raise
        why = str(error).rstrip().split("\n")[-1] or type(error).__name__
        return _refuse(f"not enough memory ({why}): {_REMEDIES[errno.ENOMEM]}")
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not os.stat(os.curdir).st_nlink:
            return _refuse("the folder that this was started in is gone: go to another one")
        if error.errno not in _REMEDIES:
            raise
        where = f"{error.filename}: " if error.filename else ""
        return _refuse(f"{where}{error.strerror}: {_REMEDIES[error.errno]}")
    finally:
        _settle()


def _open_streams() -> None:
    """No file of ours may be taken for a stream that is closed; see :func:`main`."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            os.set_inheritable(number, True)
            if number == 2:
                sys.stderr = os.fdopen(number, "w")
    for stream in (sys.stdout, sys.stderr):  # letters that a terminal of ASCII does not have
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(OSError):  # no file any more, but a pipe
                stream.reconfigure(errors="backslashreplace")


def _settle() -> None:
    """What cannot be written is not tried once more at the end, with a traceback."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _command(argv: Sequence[str] | None) -> int:
    from phasebit import build_cache, toolchain
    from phasebit.runtime import command as runtime

    parser = argparse.ArgumentParser(
        prog="phasebit",
        description="The tools of The Phase Bit: CUDA programs, with a GPU and without one.",
    )
    parser.add_argument("--version", action="version", version=f"phasebit {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser("doctor", help="what this machine has, and what the book can do")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_doctor)

    command = commands.add_parser("record", help="measure a chapter's kernels on this machine")
    command.add_argument("chapter", nargs="*", help="names or numbers of chapters; all if none")
    command.set_defaults(run=_record)

    command = commands.add_parser("prove", help="compare the emulator's bits with this GPU's")
    command.add_argument("case", nargs="*", help="only cases whose names contain this; all if none")
    command.set_defaults(run=_prove)

    command = commands.add_parser("ptx", help="the emulator's instructions, with their proof")
    command.add_argument("mnemonic", nargs="?", help="only this one, with its documentation")
    command.set_defaults(run=_ptx)

    command = commands.add_parser("rules", help="what a program can be found to break")
    command.add_argument("name", nargs="?", help="only this one, as race")
    command.set_defaults(run=_rules)

    command = commands.add_parser("score", help="what tools find in the programs of bugs/")
    command.add_argument("--tool", action="append", help="only this one; may be given again")
    command.add_argument("--write", action="store_true", help="into records/, for the book")
    command.add_argument("bug", nargs="*", help="only these, as lane_behind_the_copy")
    command.set_defaults(run=_score)

    command = commands.add_parser("originals", help="others' programs, with a bug and without it")
    command.add_argument("--list", action="store_true", help="what there is; so without --run")
    which = command.add_mutually_exclusive_group()
    which.add_argument("--run", dest="run_these", action="append", metavar="NAME",
                       help="fetch, compile and run this one; may be given again")  # fmt: skip
    which.add_argument("--all", action="store_true", help="all of them")
    command.add_argument("--from", dest="clone", type=Path, metavar="FOLDER",
                         help="a clone of the repository, in place of GitHub")  # fmt: skip
    command.add_argument("--write", action="store_true", help="into records/, for the book")
    command.set_defaults(run=_originals)

    command = commands.add_parser("descriptor", help="what a descriptor of a tensor core says")
    command.add_argument(
        "value", type=_bits, nargs="+",
        help="64 bits, as 0x4000404000010040, of a matrix; 32, as 0x08200010, of an instruction",
    )  # fmt: skip
    which = command.add_mutually_exclusive_group()
    which.add_argument(
        "--of", choices=("wgmma", "tcgen05"), help="the instruction; by its version if not given"
    )
    which.add_argument(
        "--kind", help="of tcgen05.mma: an instruction descriptor of this kind, as mxf4nvf4"
    )
    command.set_defaults(run=_descriptor)

    runtime.add_commands(commands)

    args = parser.parse_args(argv)
    try:
        status: int = args.run(args)
    except (toolchain.CudaError, build_cache.CacheError) as error:
        _refuse(error)
        return 1
    return status


def nvcc() -> int:
    """``phasebit nvcc`` as a program of its own, for build systems that want the path of one."""
    return main(["nvcc", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
