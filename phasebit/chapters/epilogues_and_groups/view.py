"""Tables of *Epilogues and groups*."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from phasebit import measure
from phasebit.chapters.epilogues_and_groups import fused_slips
from phasebit.chapters.epilogues_and_groups.epilogues import (
    Numbers,
    Programs,
    fused,
    with_steps,
)
from phasebit.measure import Table

if TYPE_CHECKING:
    from phasebit.emulator import Run

BENCHMARK = "epilogues_and_groups"
GROUP_WARPS = 4


def bytes_moved(run: Run) -> tuple[int, int]:
    """Bytes that threads load from global memory and store there; copies of boxes not counted."""
    counted = run.counters
    return counted.get("bytes.global.load", 0), counted.get("bytes.global.store", 0)


def compared(together: Run, apart: Sequence[Run], steps: Sequence[str], result: int) -> Table:
    """Fused, ``together``, against a kernel for each step.

    ``result``: bytes that the copy engine stores of C. Prints which of the two executes fewer
    instructions.
    """
    rows: list[tuple[str, ...]] = []
    total = [0, 0, 0]
    for name, run in zip(("product", *steps), apart, strict=True):
        load, store = bytes_moved(run)
        store += result if name == "product" else 0
        executed = run.counters["smsp__inst_executed.sum"]
        total = [a + b for a, b in zip(total, (load, store, executed), strict=True)]
        rows.append((name, f"{load:,}", f"{store:,}"))
    load, store = bytes_moved(together)
    rows.append(("all apart", *(f"{x:,}" for x in total[:2])))
    rows.append(("fused", f"{load:,}", f"{store + result:,}"))
    fewer = together.counters["smsp__inst_executed.sum"] < total[2]
    print(f"fewer instructions: {'fused' if fewer else 'apart'}")
    return Table(
        ("kernel", "bytes read by threads", "bytes written"), tuple(rows),
        "counted by the emulator; boxes of A and B, the same in both, are not in it",
    )  # fmt: skip


def lengths(text: str, given: Numbers, chains: Sequence[tuple[str, ...]]) -> Table:
    """What each chain adds to a kernel without one: instructions of a warp, for one tile."""
    built = Programs({" ".join(each): with_steps(text, each) for each in ((), *chains)})
    executed = {
        name: fused(built, name, given, name.split()).run.counters["smsp__inst_executed.sum"]
        for name in built.texts
    }
    rows = tuple(
        (", ".join(each), f"{(executed[' '.join(each)] - executed['']) / GROUP_WARPS:,.0f}")
        for each in chains
    )
    return Table(("steps", "instructions of a warp"), rows, "PTX, counted by the emulator")


def found(built: Programs, names: Sequence[str]) -> Table:
    """What is said of slips."""
    rows = tuple((name, fused_slips.verdict(built, name)) for name in names)
    source = "WRONG: only the result tells; right: nothing does"
    return Table(("slip", "the emulator says"), rows, source)


def times() -> Table:
    """Medians of the record; without one a row that says so."""
    try:
        recorded = measure.read(BENCHMARK)
    except FileNotFoundError:
        return Table(
            ("what", "µs"), (("nothing", "not measured yet"),),
            "python -m phasebit record epilogues_and_groups, on an H200, fills this table",
        )  # fmt: skip
    rows = []
    for kind in ("epilogues", "groups"):
        for entry in recorded[kind]:
            head = " × ".join(map(str, entry["shape"])) if kind == "epilogues" else (
                f"{entry['mean']} rows a group")  # fmt: skip
            rows += [(f"{head}: {name}", f"{statistics.median(us):.1f}")
                     for name, us in entry["us"].items()]  # fmt: skip
    return Table(("what", "µs"), tuple(rows), measure.source(recorded))
