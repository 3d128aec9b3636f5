"""Triton's concurrency sanitizer, over the programs in Gluon, on this machine's GPU.

A folder of ``bugs/`` has a ``gluon.py`` where its mistake can be made in that language.  Triton
puts checks into the kernel (``TRITON_INSTRUMENTATION_MODE=consan``); one that fails ends it, and
names the line of the operation.  ``LINES`` in ``gluon.py`` are the texts of the lines that the
repair changes or protects, as the lines of ``bug.toml`` and of the repair are for ``broken.cu``.
"""

from __future__ import annotations

import ast
import importlib.metadata
import os
import re
import sys
import time
from dataclasses import replace
from pathlib import Path

from phasebit import bugs, files, process
from phasebit.score import Absent, Seen, since
from phasebit.score.on_a_gpu import gpu

__all__ = ["AT_A_TIME", "TITLE", "judge", "look", "numbers", "path", "runs", "version"]

TITLE = "ConSan"
AT_A_TIME = 8
"""Each compiles its kernel first, which takes a core."""

SECONDS = 90.0
"""For PyTorch, the compiler, and the kernel; together they take about ten."""

ENDS = (0, 2)
"""How a program ends that nothing has stopped: its result is right, or wrong."""

_FAILED = re.compile(r"gluon\.py:(\d+):.*Assertion `([^`']*)['`] failed")


def version() -> str:
    """Triton's version, and the GPU. Raises :class:`phasebit.score.Absent` without either."""
    name = gpu().name
    try:
        return f"Triton {importlib.metadata.version('triton')}, {name}"
    except importlib.metadata.PackageNotFoundError:
        raise Absent("no Triton here: pip install triton torch") from None


def path(bug: bugs.Bug) -> Path:
    """The program in Gluon, where the mistake can be made in it."""
    return bug.path("broken").with_name("gluon.py")


def runs(bug: bugs.Bug) -> bool:
    """Those that can be written in Gluon, and that the GPU has the architecture for."""
    return path(bug).is_file() and gpu().assembles(bug.arch)


def numbers(bug: bugs.Bug) -> frozenset[int]:
    """The lines of ``gluon.py`` that the repair changes or protects; a report names one.

    Raises ``ValueError`` where it has no ``LINES``.
    """
    text = path(bug).read_text(encoding="utf-8")
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "LINES":
            lines = [line.strip() for line in text.splitlines()]
            return frozenset(lines.index(of) + 1 for of in ast.literal_eval(statement.value))
    raise ValueError(f'{path(bug)} names no line: it needs LINES = ("…",)')


def look(bug: bugs.Bug, twin: str) -> Seen:
    """One process."""
    folders = [str(files.bugs() / "include"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, folders)),
        "TRITON_INSTRUMENTATION_MODE": "consan",
        "CUDA_LAUNCH_BLOCKING": "1",
    }
    began = time.perf_counter()
    done = process.run([sys.executable, str(path(bug)), twin], timeout=SECONDS, env=environment)
    return replace(judge(bug, done), facts={"seconds": since(began)})


def judge(bug: bugs.Bug, done: process.Finished) -> Seen:
    """What the checks said.

    Raises ``RuntimeError`` for a program that came to another end: that is no report.
    """
    failed = {(int(line), text) for line, text in _FAILED.findall(done.stdout + done.stderr)}
    if not failed and done.stopped:
        return Seen(0, frozenset(), ended=False)
    if not failed and done.status not in ENDS:
        raise RuntimeError(f"{path(bug)} ended with status {done.status}: {done.stderr[-500:]}")
    said = "; ".join(f"{text} (gluon.py:{line})" for line, text in sorted(failed))
    ends = "" if failed else bugs.result(done.stdout, done.status)
    return Seen(len(failed), frozenset(line for line, _ in failed), said, ends)
