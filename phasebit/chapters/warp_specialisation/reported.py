"""Mistakes in warp-specialised kernels that people told of in public trackers, made small.

The programs are this book's own; of the originals they have the order of events and no code. They
were chosen because the thread says what went wrong and how it was mended, and because they need
nothing but this chapter's means: they say nothing of how often a mistake is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from phasebit import measure
from phasebit.chapters.warp_specialisation import clinic


@dataclass(frozen=True)
class Report:
    """A thread, and the program that stands for it."""

    name: str  # of the program, in kernels/warp_specialisation
    thread: str  # repository#number
    state: str  # "merged": a repair; "confirmed": an owner agrees
    what: str  # what went wrong

    @property
    def url(self) -> str:
        """Where the thread is."""
        repository, _, number = self.thread.partition("#")
        return f"https://github.com/{repository}/issues/{number}"


REPORTS = (
    Report("r1_wait_too_late", "tile-ai/tilelang#2166", "merged",
           "the wait stands before the use of A; B is read above it"),
    Report("r2_one_for_all", "triton-lang/triton#10035", "merged",
           "one warp gives the slot back while others of its role still wait or read"),
    Report("r3_epilogue", "Dao-AILab/flash-attention#1344", "confirmed",
           "the result leaves through shared memory, and nobody waits for its rows"),
    Report("r4_elected", "flashinfer-ai/flashinfer#2996", "merged",
           "__syncthreads in the consumers' branch; the other threads never come to it"),
    Report("r5_tail", "NVIDIA/Fuser#2008", "merged",
           "copies of no use are under way when the slots get another use"),
    Report("18_unaided", "mlc-ai/TIRx-kernels#202", "merged",
           "one lane arrives for lanes that are not done"),
)  # fmt: skip
"""The threads, read in November 2026."""


def table(recorded: dict[str, Any]) -> measure.Table:
    """What is found in each program on the emulator; below, of how many the result is right.

    Beside it, when the record has them, how five processes ended on its GPU, and the tools of
    compute-sanitizer that found something.
    """
    known = {**recorded["clinic"], **recorded.get("reported", {})}
    on_gpu = all(f"{report.name} broken" in known for report in REPORTS)
    rows, right = [], 0
    for report in REPORTS:
        seen = clinic.examine(clinic.source(report.name))
        right += seen.verdict == "right"
        row = [report.thread, report.what, seen.kinds or "–"]
        if on_gpu:
            twins = (known[f"{report.name} {twin}"] for twin in ("broken", "repaired"))
            row += clinic.recorded(*twins)
        rows.append(tuple(row))
    heading = ["thread", "what went wrong", "emulator"]
    merged = sum(report.state == "merged" for report in REPORTS)
    note = (f"right on the emulator: {right} of {len(REPORTS)}; the repair was merged in {merged}; "
            "kernels/warp_specialisation/reported")  # fmt: skip
    if on_gpu:
        heading += [str(recorded["gpu"]), "compute-sanitizer"]
        note += f"; {measure.source(recorded)}"
    return measure.Table(tuple(heading), tuple(rows), note)
