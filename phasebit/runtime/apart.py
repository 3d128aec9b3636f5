"""Run a program on the emulator from Python: in a process of its own, with what was found as data.

A process of its own, because a time limit is a signal there (`run_program`), and because whatever
the program does to its process is then done to that one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
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
    cwd: str | os.PathLike[str] | None = None,
) -> tuple[process.Finished, Report]:
    """How a program and its arguments ended, with its own status, and what was found.

    The emulator ends it after ``seconds``; after ``timeout`` seconds the emulator is ended too.
    ``options`` are those of `python -m phasebit run`; ``cwd`` is the folder that it runs in.
    """
    telling = ["--quiet", "--error-exitcode", "0", "--report-format", "json", "--report"]
    limit = ["--limit", f"{seconds:g}"]
    return reported(
        lambda file: ["phasebit", "run", *limit, *telling, file, *options, *program],
        timeout, environment, cwd,
    )  # fmt: skip


def reported(
    words: Callable[[str], Sequence[str | os.PathLike[str]]],
    timeout: float,
    environment: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
) -> tuple[process.Finished, Report]:
    """The same for any module of this package that writes a report, ended after ``timeout`` s.

    ``words``: the name of the file for the report, to the module and its arguments.
    """
    variables = dict(os.environ if environment is None else environment)
    # The child finds this package wherever it was imported from.
    package = os.fspath(Path(phasebit.__file__).resolve().parent.parent)
    paths = filter(None, [package, variables.get("PYTHONPATH")])
    variables["PYTHONPATH"] = os.pathsep.join(paths)
    with build_cache.Scratch() as folder:
        file = Path(folder, "report")
        command = [sys.executable, "-P", "-m", *words(os.fspath(file))]
        done = process.run(command, timeout=timeout, cwd=cwd, env=variables)
        return done, read(file)
