"""Tables of *Epilogues and groups*."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from phasebit import measure
from phasebit.chapters.epilogues_and_groups import fused_slips
from phasebit.chapters.epilogues_and_groups import record as benchmark
from phasebit.chapters.epilogues_and_groups.epilogues import (
    Numbers,
    Programs,
    fused,
    with_steps,
)
from phasebit.measure import Table

if TYPE_CHECKING:
    from phasebit.emulator import Run

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


def instructions(
    text: str, given: Numbers, chains: Sequence[tuple[str, ...]]
) -> dict[tuple[str, ...], float]:
    """What each chain adds to a kernel without one: instructions of a warp, for one tile."""
    built = Programs({" ".join(each): with_steps(text, each) for each in ((), *chains)})
    executed = {
        name: fused(built, name, given, name.split()).run.counters["smsp__inst_executed.sum"]
        for name in built.texts
    }
    return {each: (executed[" ".join(each)] - executed[""]) / GROUP_WARPS for each in chains}


def lengths(text: str, given: Numbers, chains: Sequence[tuple[str, ...]]) -> Table:
    """:func:`instructions` as a table."""
    found = instructions(text, given, chains)
    rows = tuple((", ".join(each), f"{count:,.0f}") for each, count in found.items())
    return Table(("steps", "instructions of a warp"), rows, "PTX, counted by the emulator")


def found(built: Programs, names: Sequence[str]) -> Table:
    """What is said of slips."""
    rows = tuple((name, fused_slips.verdict(built, name)) for name in names)
    source = "WRONG: only the result tells; right: nothing does"
    return Table(("slip", "the emulator says"), rows, source)


# -- what the H200 needed ------------------------------------------------------------


def microseconds(row: dict[str, Any], name: str) -> float:
    """The median of a contender's times."""
    return float(statistics.median(row["times"][name]["us"]))


def cycles(row: dict[str, Any], name: str) -> float:
    """The same in cycles of the multiprocessors, at the clock that each turn had."""
    times = row["times"][name]
    return float(
        statistics.median(us * mhz for us, mhz in zip(times["us"], times["mhz"], strict=True))
    )


def times() -> Table:
    """:func:`fusing`; without a record a row that says so."""
    try:
        return fusing(measure.read(benchmark.NAME))
    except FileNotFoundError:
        return Table(
            ("what", "µs"), (("nothing", "not measured yet"),),
            "python -m phasebit record epilogues_and_groups, on an H200, fills this table",
        )  # fmt: skip


def fusing(recorded: dict[str, Any]) -> Table:
    """Each chain fused, in one kernel behind cuBLAS, in torch's kernels, and by cuBLASLt."""
    rows = []
    for row in recorded["epilogues"]:
        for chain in benchmark.CHAINS:
            ways = [f"{chain}, {way}" for way in ("fused", "then one kernel", "apart")]
            if chain == benchmark.PLAIN:
                ways[1:] = [benchmark.CUBLAS, ""]
            ways.append(benchmark.CUBLASLT if chain == benchmark.SHORT else "")
            cells = (f"{microseconds(row, way):,.1f}" if way else "" for way in ways)
            rows.append((" × ".join(map(str, row["shape"])), chain, *cells))
    return Table(
        ("M × N × K", "epilogue", "fused, µs", "cuBLAS, then one kernel", "cuBLAS, then torch's",
         "cuBLASLt"), tuple(rows), measure.source(recorded),
    )  # fmt: skip


def predicted(k: int, instructions: float, order: str) -> float:
    """Time over that of a kernel without epilogue, by arithmetic: 4096 × 4096, 132 blocks.

    ``instructions``: those of a warp for a whole tile. A block makes eight tiles of 8K cycles. By
    turns a pair of tiles takes two products, or one and an epilogue, whichever is longer, and the
    last epilogue is seen; together each epilogue is half as long and seen whole.
    """
    products = 8 * k
    if order == "together":
        return 1 + instructions / 2 / products
    tile = max(products, (products + instructions) / 2)
    return (8 * tile + instructions) / (8 * products)


def over_plain(recorded: dict[str, Any], chain: str, order: str) -> list[float]:
    """For each K cycles with an epilogue over cycles without, in the same order of the groups."""
    return [
        cycles(row, f"{order}, {chain}") / cycles(row, f"{order}, {benchmark.PLAIN}")
        for row in recorded["hidden"]
    ]


def hidden(recorded: dict[str, Any], chain: str, instructions: float) -> Table:
    """What an epilogue adds, in both orders: predicted and measured."""
    measured = {order: over_plain(recorded, chain, order) for order in benchmark.TEAMS}
    rows = []
    for i, row in enumerate(recorded["hidden"]):
        cells = []
        for order in benchmark.TEAMS:
            guessed = predicted(row["k"], instructions, order)
            cells += [f"{guessed - 1:+.0%}", f"{measured[order][i] - 1:+.0%}"]
        rows.append((f"{row['k']}", *cells))
    heads = [f"{order}, {what}" for order in benchmark.TEAMS for what in ("predicted", "measured")]
    return Table(
        ("K", *heads), tuple(rows),
        f"{chain}: cycles over those without epilogue, 4096 × 4096 × K; {measure.source(recorded)}",
    )  # fmt: skip


def best_order(recorded: dict[str, Any], chain: str) -> Table:
    """Microseconds of both orders for a chain, and without any."""
    rows = tuple(
        (f"{row['k']}", *(f"{microseconds(row, f'{order}, {name}'):.1f}"
                          for name in (benchmark.PLAIN, chain) for order in benchmark.TEAMS))
        for row in recorded["hidden"]
    )  # fmt: skip
    heads = (f"{name}, {order}" for name in (benchmark.PLAIN, chain) for order in benchmark.TEAMS)
    return Table(("K", *heads), rows, f"µs, 4096 × 4096 × K; {measure.source(recorded)}")


def least(rows: int, n: int, k: int, groups: int) -> float:
    """Microseconds in which memory gives the weights of all groups, A and C, at 4.2 TB/s."""
    return 2 * (groups * n * k + rows * (n + k)) / 4.2e6


def experts(recorded: dict[str, Any]) -> Table:
    """Grouped, by loops, and one product of as many rows with one matrix of weights."""
    names = (benchmark.GROUPED, benchmark.TORCHS, benchmark.LOOP, benchmark.ASKED,
             benchmark.ONE, benchmark.ONE_CUBLAS)  # fmt: skip
    rows = []
    for row in recorded["groups"]:
        sizes = row["sizes"]
        filled = sum(1 for size in sizes if size)
        memory = least(sum(sizes), row["n"], row["k"], filled)
        rows.append((
            f"{sum(sizes):,} in {filled}", f"{memory:.0f}",
            *(f"{microseconds(row, name):,.0f}" if name in row["times"] else "–"
              for name in names),
        ))  # fmt: skip
    return Table(
        ("rows, groups", "memory needs, µs", *names), tuple(rows),
        f"µs; N = {benchmark.INNER}, K = {benchmark.HIDDEN}; {measure.source(recorded)}",
    )  # fmt: skip
