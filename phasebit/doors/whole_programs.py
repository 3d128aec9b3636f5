"""A program of Python, run as it stands behind a door for its kernels.

    python -m phasebit.cute --target sm_90a program.py its arguments
    python -m phasebit.triton program.py its arguments
"""

from __future__ import annotations

import argparse
import runpy
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from phasebit.runtime import in_process
from phasebit.runtime.in_process import SCHEDULES, Runs
from phasebit.runtime.report import AsJson, End, ForPeople


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
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args(words)
    sys.argv = [given.program, *given.arguments]
    sys.path.insert(0, str(Path(given.program).resolve().parent))  # as `python program` has it
    in_process.process()  # its libraries of CUDA before PyTorch's
    with ExitStack() as stack:
        file = stack.enter_context(given.report.open("w")) if given.report else None
        reporter = AsJson(file) if file else ForPeople(sys.stderr)
        status = 0
        with emulated(given.target, schedules=given.schedule) as runs:
            try:
                runpy.run_path(given.program, run_name="__main__")
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else int(end.code is not None)
            except Exception:  # what was found is told all the same
                traceback.print_exc()
                status = 1
        reporter.found(runs.findings)
        reporter.ended(End(status), None)
    return status


__all__ = ["run"]
