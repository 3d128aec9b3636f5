"""A program of Python, run as it stands behind a door for its kernels.

    python -m phasebit.cute --target sm_90a program.py its arguments
    python -m phasebit.triton program.py its arguments
    python -m phasebit.triton -m pytest tests_of_kernels.py
"""

from __future__ import annotations

import argparse
import importlib.util
import runpy
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TextIO

from phasebit import build_cache, files
from phasebit.emulator import EmulatorError
from phasebit.runtime import in_process, library
from phasebit.runtime.in_process import SCHEDULES, Runs
from phasebit.runtime.report import AsJson, End, ForPeople
from phasebit.runtime.run_program import ProgramError


def run(
    door: str, emulated: Callable[..., AbstractContextManager[Runs]], target: str,
    words: Sequence[str],
) -> int:  # fmt: skip
    """Run the program that ``words`` name within ``emulated``; its exit status.

    ``door``: the module, as ``python -m`` has it.  ``target``: what it is for where no other is
    asked for.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m {door}", description="Run a program whose kernels meet the emulator."
    )
    parser.add_argument(
        "--target", default=target, help=f"as on a GPU of sm_90a or sm_100a (default: {target})"
    )
    parser.add_argument("--schedule", default="late", choices=SCHEDULES)
    parser.add_argument("--report", type=Path, metavar="FILE", help="findings as JSON, a line each")
    parser.add_argument(
        "-m", dest="module", action="store_true",
        help="program names a module, as for python -m: -m pytest file.py",
    )  # fmt: skip
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args(words)
    file: TextIO | None = None
    try:
        wrong = _unusable(given.program, given.module)
        in_process.capability(given.target)
        if not wrong and given.report:  # a report in place of the program would be its end
            if not given.module and given.report.resolve() == Path(given.program).resolve():
                wrong = f"--report {given.report}: that is the program: name another file"
            else:
                file = files.for_writing(given.report)
        if not wrong:
            in_process.process()  # its libraries of CUDA before PyTorch's
    except (EmulatorError, library.BuildError, build_cache.CacheError, ProgramError) as error:
        wrong = str(error)
    except OSError as error:
        wrong = f"the report cannot be written: {error.strerror}: {error.filename}"
    if wrong:
        parser.error(wrong)
    sys.argv = [given.program, *given.arguments]
    # As `python program` and `python -m program` have it.
    sys.path.insert(0, str(Path.cwd() if given.module else Path(given.program).resolve().parent))
    with ExitStack() as stack:
        if file:
            stack.enter_context(file)
        reporter = AsJson(file) if file else ForPeople(sys.stderr)
        runs, status = Runs(), 130
        try:
            with emulated(given.target, schedules=given.schedule) as runs:
                status = _status(given.program, given.module)
        except ModuleNotFoundError as error:  # of what the door needs
            parser.error(str(error))
        except KeyboardInterrupt:
            pass
        reporter.found(runs.findings)
        reporter.ended(End(status), None)
    return status


def _status(program: str, module: bool) -> int:
    """Run the program; the status with which it would end. What was found is told all the same."""
    try:
        if module:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)  # as Python does
        return 1
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def _unusable(program: str, module: bool) -> str:
    """Why that is no program of Python, in a sentence; empty where it is one."""
    if module:
        try:
            known = importlib.util.find_spec(program)
        except (ImportError, ValueError):
            known = None
        return "" if known else f"there is no module {program}: is it installed in {sys.prefix}?"
    path = Path(program)
    if path.is_dir() and not (path / "__main__.py").exists():
        return f"{program} is a folder without a __main__.py"
    if path.is_dir():
        return ""
    try:
        begins = path.read_bytes()[:4]
    except OSError as error:
        return f"{program} cannot be read: {error.strerror}"
    if begins == b"\x7fELF":
        return f"{program} is a compiled program: python -m phasebit run {program}"
    return ""


__all__ = ["run"]
