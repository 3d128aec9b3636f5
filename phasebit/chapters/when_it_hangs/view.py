"""What the page prints and draws: a report in short lines, and parities that are too early."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np

from phasebit import bugs, files
from phasebit.chapters.when_it_hangs import symptoms
from phasebit.draw import Cell, Picture, chart
from phasebit.emulator import MbarrierObserver, observing
from phasebit.launching.launch import compile as compile_cuda

TILES, STEPS, THREADS = 2, 3, 32  # of the program


def report(program: str) -> None:
    """Print what is found in a program of ``bugs/``, in lines that fit the page."""
    for finding in symptoms.outcome(program).findings:
        for line in str(finding).splitlines():
            begin = line[: len(line) - len(line.lstrip())]
            print(textwrap.fill(line, 80, subsequent_indent=f"{begin}    "))


class _Passed(MbarrierObserver):
    """Notes how many phases were complete each time a wait was over."""

    def __init__(self) -> None:
        self.complete: list[int] = []

    def passes(self, g: Any, site: Any) -> None:
        self.complete.append(site.barrier.phase)


def parities() -> Picture:
    """Which parity each wait of ``phase_begins_anew`` asks for, as it is and repaired.

    Both programs' kernels run on the emulator, with copies that end late. A wait passes when the
    last phase that is complete has the parity that it asks for; the wait of step k is too early
    when that is not phase k.
    """
    folders = [files.bugs() / "include", files.kernels() / "include"]
    options = [word for folder in folders for word in ("-I", str(folder))]
    steps = range(TILES * STEPS)
    lines: list[list[Cell | None]] = [[Cell(str(step)) for step in steps]]
    x = np.arange(TILES * STEPS * THREADS, dtype=np.int32)
    for twin in bugs.TWINS:
        kernel = compile_cuda(bugs.bug("phase_begins_anew").path(twin), "sm_90a", options)["sums"]
        seen = _Passed()
        with observing(seen):
            kernel.launch(1, THREADS, [x, np.zeros(TILES * THREADS, np.int32)], schedule="late",
                          device="emulator", raises=False, on_fault="report")  # fmt: skip
        asked = [_asked(step, complete) for step, complete in enumerate(seen.complete)]
        lines.append([*asked, *[None] * (len(steps) - len(asked))])
    return chart(
        lines, rows=("phase of the copy", "asked, broken", "asked, repaired"),
        columns=[f"{step // STEPS}: {step % STEPS}" for step in steps], row_label="wait",
        column_label="tile: k", title="Six steps of two tiles: the parity that each wait asks for",
        legend={"green": "the copy has come", "red": "passes before the copy has come"},
    )  # fmt: skip


def _asked(step: int, complete: int) -> Cell:
    """The wait of a step that passed when so many phases were complete."""
    return Cell(str((complete - 1) % 2), "green" if complete == step + 1 else "red")
