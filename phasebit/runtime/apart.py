"""Run a program on the emulator from Python: in a process of its own, with what was found as data.

A process of its own, because a time limit is a signal there (`run_program`), and because whatever
the program does to its process is then done to that one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import phasebit
from phasebit import build_cache, process
from phasebit.runtime.report import Report, read


def run(
    program: Sequence[str | os.PathLike[str]],
    seconds: float,
    timeout: float,
    *options: str,
    environment: Mapping[str, str] | None = None,
) -> tuple[process.Finished, Report]:
    """How a program and its arguments ended, with its own status, and what was found.

    The emulator ends it after ``seconds``; after ``timeout`` seconds the emulator is ended too.
    ``options`` are those of `python -m phasebit run`.
    """
    variables = dict(os.environ if environment is None else environment)
    # The child finds this package wherever it was imported from.
    package = os.fspath(Path(phasebit.__file__).resolve().parent.parent)
    paths = filter(None, [package, variables.get("PYTHONPATH")])
    variables["PYTHONPATH"] = os.pathsep.join(paths)
    with build_cache.Scratch() as folder:
        file = Path(folder, "report")
        emulator = [sys.executable, "-P", "-m", "phasebit", "run", "--limit", f"{seconds:g}"]
        telling = ["--quiet", "--error-exitcode", "0", "--report", os.fspath(file)]
        command = [*emulator, *telling, "--report-format", "json", *options, *program]
        done = process.run(command, timeout=timeout, env=variables)
        return done, read(file)
