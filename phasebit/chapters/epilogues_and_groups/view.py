"""Tables of *Epilogues and groups*."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from phasebit import measure
from phasebit.chapters.epilogues_and_groups import epilogue_bench as benchmark
from phasebit.chapters.epilogues_and_groups import epilogue_orders, fetching, fused_slips
from phasebit.chapters.epilogues_and_groups.epilogues import (
    Numbers,
    Programs,
    fused,
    with_steps,
)
from phasebit.measure import Table

if TYPE_CHECKING:
    from phasebit.draw import Picture
    from phasebit.emulator import Run

GROUP_WARPS = 4
SWITCHED = (
    benchmark.LONG, f"{benchmark.LONG} but GELU", f"{benchmark.LONG} but the residual",
    epilogue_orders.NOT_READ, f"{benchmark.LONG}, {epilogue_orders.LOOP}",
    epilogue_orders.ONE_PLACE, epilogue_orders.EARLY, epilogue_orders.WIDE,
)  # fmt: skip
"""Of the contenders those that are shown."""
WAITS = {"long_scoreboard": "long waits", "no_instruction": "for code"}
"""The profiler's reasons, and what they are called here.

A long scoreboard is not of reads alone: a kernel whose threads read nothing has it too.
"""


def bytes_moved(run: Run) -> tuple[int, int]:
    """Bytes that threads load from global memory and store there; copies of boxes not counted."""
    counted = run.counters
    return counted.get("bytes.global.load", 0), counted.get("bytes.global.store", 0)


def compared(together: Run, apart: Sequence[Run], steps: Sequence[str], result: int) -> Picture:
    """Fused, ``together``, against a product and a kernel for each of ``steps``: KiB moved.

    ``result``: bytes that the copy engine stores of D. Prints which of the two executes fewer
    instructions.
    """
    from phasebit.draw import bars

    moved = {
        f"{len(steps) + 1} kernels": [bytes_moved(run) for run in apart],
        "fused": [bytes_moved(together)],
    }
    asked: dict[str, float] = {}
    for name, each in moved.items():
        asked[f"{name}: read by threads"] = sum(load for load, _ in each) / 1024
        asked[f"{name}: written"] = (sum(store for _, store in each) + result) / 1024
    executed = [run.counters["smsp__inst_executed.sum"] for run in apart]
    fewer = together.counters["smsp__inst_executed.sum"] < sum(executed)
    print(f"fewer instructions: {'fused' if fewer else 'apart'}")
    return bars(
        asked, x_label="KiB", hues={name: "orange" for name in asked if "fused" in name},
        title="Counted by the emulator, but for boxes of A and B, which are the same in both",
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


def rates(recorded: dict[str, Any]) -> dict[str, str]:
    """Kernel -> how fast it was; SwiGLU was not timed. The later two have a record of their own."""
    later = measure.read(fetching.NAME)
    first, second, experts = recorded["epilogues"][0], later["epilogues"][0], later["groups"][-1]
    took = microseconds(first, f"{benchmark.LONG}, {fetching.FIRST}")
    fetched = microseconds(second, f"{benchmark.LONG}, {fetching.SHARED}")
    sizes = experts["sizes"]
    return {
        "a_fused": f"{measure.spoken(first['shape'], took)}, {benchmark.LONG}",
        "c_groups": f"{microseconds(experts, benchmark.GROUPED):,.0f} µs, {sum(sizes):,} rows in "
        f"{sum(map(bool, sizes))} groups, {later['gpu']}",
        "d_fetched": f"{measure.spoken(second['shape'], fetched)}, {benchmark.LONG}, "
        f"{later['gpu']}",
    }


def fusing(recorded: dict[str, Any]) -> Picture:
    """Each chain fused, by torch's kernels and by cuBLASLt, over cuBLAS and one kernel."""
    return _over_one_kernel(recorded, {"fused": "fused", "cuBLAS, then torch's": "apart"})


def _over_one_kernel(recorded: dict[str, Any], ways: Mapping[str, str]) -> Picture:
    """Times over cuBLAS and one kernel behind it, or without steps over cuBLAS alone."""
    from phasebit.draw import dots

    rows: dict[str, dict[str, float]] = {}
    for row in recorded["epilogues"]:
        for chain in benchmark.CHAINS:
            plain = chain == benchmark.PLAIN
            one = microseconds(row, benchmark.CUBLAS if plain else f"{chain}, then one kernel")
            names = {name: f"{chain}, {way}" for name, way in ways.items()}
            if chain == benchmark.SHORT:
                names["cuBLASLt, fused"] = benchmark.CUBLASLT
            rows[f"{' × '.join(map(str, row['shape']))}: {chain}"] = {
                name: microseconds(row, way) / one
                for name, way in names.items() if way in row["times"]
            }  # fmt: skip
    return dots(
        rows, line=1, x_label="time / that of cuBLAS and one kernel, or without steps of cuBLAS",
        title=f"Left of 1: faster; {measure.source(recorded)}",
    )  # fmt: skip


def fusing_drawn(recorded: dict[str, Any], shape: tuple[int, ...], chain: str) -> Picture:
    """A bar for each way to a product with a chain of steps, and the products alone."""
    from phasebit.draw import bars

    (row,) = (row for row in recorded["epilogues"] if row["shape"] == list(shape))
    ways = {
        "our product, no step": f"{benchmark.PLAIN}, fused", "cuBLAS, no step": benchmark.CUBLAS,
        "fused": f"{chain}, fused", "cuBLAS, then one kernel": f"{chain}, then one kernel",
        "cuBLAS, then torch's": f"{chain}, apart",
    }  # fmt: skip
    if chain == benchmark.SHORT:
        ways["cuBLASLt, fused"] = benchmark.CUBLASLT
    hues = dict.fromkeys(("our product, no step", "cuBLAS, no step"), "grey") | {"fused": "orange"}
    return bars(
        {name: microseconds(row, way) for name, way in ways.items()}, x_label="microseconds",
        hues=hues, show=lambda value: f"{value:.1f}",
        title=f"{chain[0].upper()}{chain[1:]}, {' × '.join(map(str, shape))}; "
        + measure.source(recorded),
    )  # fmt: skip


def predicted(k: int, instructions: float, order: str) -> float:
    """Time over that of a kernel without epilogue, by arithmetic: 4096 × 4096, 132 blocks.

    ``instructions``: those of a warp for a whole tile, one a cycle; a tile's products take 8K
    cycles.
    """
    return by_arithmetic(8 * k, instructions, order)


def by_arithmetic(products: float, epilogue: float, order: str) -> float:
    """The same from the cycles of a tile's products and of a warp group's epilogue of it.

    A block makes eight tiles. By turns each group makes four of them, and the second group begins
    when the first has its first products; where the products are the longer, all eight follow one
    another, and the last epilogue is seen. Together each epilogue is half as long and seen whole.
    """
    if order == "together":
        return 1 + epilogue / 2 / products
    return max(8 * products + epilogue, 5 * products + 4 * epilogue) / (8 * products)


def over_plain(recorded: dict[str, Any], chain: str, order: str) -> list[float]:
    """For each K cycles with an epilogue over cycles without, in the same order of the groups."""
    return [
        cycles(row, f"{order}, {chain}") / cycles(row, f"{order}, {benchmark.PLAIN}")
        for row in recorded["hidden"]
    ]


def cycles_an_instruction(recorded: dict[str, Any], chain: str, instructions: float) -> float:
    """Cycles between two instructions of a warp at its epilogue, where hardly anything else is.

    At the shortest K, the groups sharing each tile: a block makes eight, half of each epilogue
    a group, and what a tile takes longer than without steps is theirs.
    """
    row = min(recorded["hidden"], key=lambda each: each["k"])
    more = cycles(row, f"together, {chain}") - cycles(row, f"together, {benchmark.PLAIN}")
    return more / 8 / (instructions / 2)


def hidden_drawn(
    recorded: dict[str, Any], chain: str, instructions: float, *, mended: bool = False
) -> Picture:
    """Per cent of cycles that an epilogue adds, over K, in both orders: predicted and measured.

    ``mended``: predicted with the measured cycles of products and of an instruction.
    """
    from phasebit.draw import curves

    each = cycles_an_instruction(recorded, chain, instructions) if mended else 1
    found = {}
    for order in benchmark.TEAMS:
        found[f"{order}, measured"] = over_plain(recorded, chain, order)
        found[f"{order}, predicted"] = [
            by_arithmetic(
                cycles(row, f"{order}, {benchmark.PLAIN}") / 8 if mended else 8 * row["k"],
                each * instructions, order,
            )
            for row in recorded["hidden"]
        ]  # fmt: skip
    return curves(
        [row["k"] for row in recorded["hidden"]],
        {name: [100 * (x - 1) for x in values] for name, values in found.items()},
        x_label="K", y_label="per cent of cycles added", evenly=True, ratios=True,
        show=lambda value: f"{float(value):.0f}",
        title=f"{chain[0].upper()}{chain[1:]}, 4096 × 4096 × K; {measure.source(recorded)}",
    )  # fmt: skip


def orders_drawn(recorded: dict[str, Any]) -> Picture:
    """Time by turns over time together, without an epilogue and with each chain, over K."""
    from phasebit.draw import curves

    turns, shared = benchmark.TEAMS
    return curves(
        [row["k"] for row in recorded["hidden"]],
        {chain: [microseconds(row, f"{turns}, {chain}") / microseconds(row, f"{shared}, {chain}")
                 for row in recorded["hidden"]]
         for chain in (benchmark.PLAIN, benchmark.SHORT, benchmark.LONG)},
        x_label="K", y_label="time by turns / time shared", evenly=True, from_zero=False,
        title=f"Below 1 turns are faster: 4096 × 4096 × K; {measure.source(recorded)}",
    )  # fmt: skip


def switched_in_both(recorded: dict[str, Any]) -> Picture:
    """Time by turns over time together, over K, of chains with one thing otherwise.

    Prints how long warps wait, and for what, as the profiler counted for some.
    """
    from phasebit.draw import Cell, chart

    long = benchmark.LONG
    print("cycles that an instruction waits, by turns and shared")
    for name in (f"{long} but the residual", long, f"{long}, {epilogue_orders.LOOP}"):
        counts = {spoken: [waits(recorded, f"{each}: {name}", why) for each in benchmark.TEAMS]
                  for why, spoken in WAITS.items()}  # fmt: skip
        print(f"{name}:", "; ".join(f"{spoken} {turns:.1f}, {shared:.1f}"
                                    for spoken, (turns, shared) in counts.items()))  # fmt: skip
    cells = []
    for name in SWITCHED:
        found = [over_shared(recorded, name, depth) for depth in recorded["times"]]
        cells.append([Cell(f"{each:.2f}", "green" if each < 1 else "orange") for each in found])
    return chart(
        cells, rows=[name.replace(f"{long},", "six,").replace(f"{long} but", "six but")
                     for name in SWITCHED],
        columns=list(recorded["times"]), row_label="steps", column_label="K",
        legend={"green": "turns are faster", "orange": "sharing is"},
        title=f"Time by turns / time shared, 4096 × 4096 × K; {measure.source(recorded)}",
    )  # fmt: skip


def over_shared(recorded: dict[str, Any], name: str, depth: str) -> float:
    """Time by turns over time shared of a variant."""
    found = recorded["times"][depth]
    turns, shared = (statistics.median(found[f"{each}: {name}"]["us"]) for each in benchmark.TEAMS)
    return float(turns / shared)


def waits(recorded: dict[str, Any], contender: str, why: str) -> float:
    """Cycles that warps wait for one reason, for each instruction: a key of :data:`WAITS`."""
    metric = f"smsp__average_warps_issue_stalled_{why}_per_issue_active.ratio"
    return float(recorded["counters"][contender][metric])


def moved(rows: int, n: int, k: int, groups: int) -> int:
    """Bytes of the weights of all groups, of A and of C: each moves once at least."""
    return 2 * (groups * n * k + rows * (n + k))


CONTENDERS = benchmark.GROUPED, fetching.ONE, fetching.ONE_CUBLAS


def experts(recorded: dict[str, Any]) -> Table:
    """Grouped, and one product of as many rows with one matrix of weights."""
    rows = []
    for row in recorded["groups"]:
        sizes = row["sizes"]
        filled = sum(map(bool, sizes))
        rate = moved(sum(sizes), row["n"], row["k"], filled) / microseconds(row, benchmark.GROUPED)
        rows.append((
            f"{sum(sizes):,} in {filled}", f"{rate * 1e-6:.1f}",
            *(f"{microseconds(row, name):,.0f}" if name in row["times"] else "–"
              for name in CONTENDERS),
        ))  # fmt: skip
    return Table(
        ("rows, groups", "grouped, TB/s", *CONTENDERS), tuple(rows),
        f"µs; N = {benchmark.INNER}, K = {benchmark.HIDDEN}; TB/s: of weights, A and C; "
        f"{measure.source(recorded)}",
    )  # fmt: skip


def experts_drawn(recorded: dict[str, Any]) -> Picture:
    """Grouped, by torch's kernel and by a loop, over the rows."""
    from phasebit.draw import curves

    return curves(
        [f"{sum(row['sizes']):,}" for row in recorded["groups"]],
        {name: [microseconds(row, name) for row in recorded["groups"]]
         for name in (benchmark.GROUPED, benchmark.TORCHS, benchmark.LOOP)},
        x_label="rows in all", y_label="microseconds", evenly=True, ratios=True,
        show=lambda value: f"{float(value):.0f}",
        title=f"A product for each of 64 groups; {measure.source(recorded)}",
    )  # fmt: skip


def tiles_of_groups(recorded: dict[str, Any]) -> Table:
    """The grouped kernel, and each thing that it got taken back, in microseconds."""
    names = benchmark.GROUPED, fetching.SMALL_TILES, fetching.DOWN
    found = recorded["groups"]
    rows = tuple((name, *(f"{microseconds(row, name):,.0f}" for row in found)) for name in names)
    return Table(
        ("µs, by rows in all", *(f"{sum(row['sizes']):,}" for row in found)), rows,
        measure.source(recorded),
    )  # fmt: skip


# -- what is fetched while the products run ------------------------------------------

FETCHED_WAYS = fetching.FIRST, fetching.TURNS, fetching.SHARED


def fetched(recorded: dict[str, Any]) -> Picture:
    """Each chain by the first kernel and by the fetching one, over cuBLAS and one kernel.

    Prints by how much cuBLASLt leads, and how much of that the products do without any step.
    """
    for row in recorded["epilogues"]:
        ours = {
            chain: min(microseconds(row, f"{chain}, {way}") for way in FETCHED_WAYS[1:])
            for chain in (benchmark.SHORT, benchmark.PLAIN)
        }
        lead = ours[benchmark.SHORT] - microseconds(row, benchmark.CUBLASLT)
        product = ours[benchmark.PLAIN] - microseconds(row, benchmark.CUBLAS)
        said = [f"{abs(us):.1f} µs {'ahead' if us > 0 else 'behind'}" for us in (lead, product)]
        print(f"{' × '.join(map(str, row['shape']))}: cuBLASLt is {said[0]} with three steps, "
              f"cuBLAS {said[1]} without any")  # fmt: skip
    return _over_one_kernel(recorded, {
        way if way == "fused" else f"fetched, {way}": each
        for each, way in zip(FETCHED_WAYS, ("fused", "by turns", "together"), strict=True)
    })  # fmt: skip


def taken_back(recorded: dict[str, Any]) -> Picture:
    """The fetching kernel, and each thing that is new in it taken back, in microseconds."""
    from phasebit.draw import bars

    found = recorded["back"]
    names = [name for name in found if name != benchmark.CUBLAS]
    return bars(
        {name: float(statistics.median(found[name]["us"])) for name in names},
        x_label="microseconds", show=lambda value: f"{value:.1f}",
        hues=dict.fromkeys((name for name in names if name in benchmark.CHAINS), "orange"),
        title=f"Fetched, by turns, 4096 × 4096 × 512; {measure.source(recorded)}",
    )  # fmt: skip


def against_the_rest(recorded: dict[str, Any]) -> Picture:
    """All six steps: time over cuBLAS and one kernel, over K, of a square result."""
    from phasebit.draw import curves

    rows = [row for row in recorded["epilogues"] + recorded["hidden"]
            if row["shape"][:2] == [benchmark.SQUARE] * 2]  # fmt: skip
    rows.sort(key=lambda row: row["shape"][2])
    other = f"{benchmark.LONG}, then one kernel"
    return curves(
        [row["shape"][2] for row in rows],
        {way: [microseconds(row, f"{benchmark.LONG}, {way}") / microseconds(row, other)
               for row in rows]
         for way in FETCHED_WAYS[:3]},
        x_label="K", y_label="time / cuBLAS, then one kernel", evenly=True,
        title=f"All six steps, 4096 × 4096 × K; {measure.source(recorded)}",
    )  # fmt: skip


# -- what an epilogue's time is made of ----------------------------------------------


def switched(recorded: dict[str, Any]) -> Picture:
    """The controls' chains, each with one thing otherwise, in microseconds."""
    from phasebit.draw import bars

    found = recorded["epilogues"]
    names = [name for name in found if name != benchmark.CUBLAS]
    as_they_are = [name for name in names if name in benchmark.CHAINS]
    return bars(
        {name: float(statistics.median(found[name]["us"])) for name in names},
        x_label="microseconds", hues=dict.fromkeys(as_they_are, "orange"),
        show=lambda value: f"{value:.1f}",
        title=f"By turns, 4096 × 4096 × 512; {measure.source(recorded)}",
    )  # fmt: skip


def issued(recorded: dict[str, Any], name: str, tiles: int = 32 * 32) -> tuple[float, float, float]:
    """What Nsight Compute counted of a contender.

    Instructions that a warp executes for a tile beyond those of the kernel without steps; the share
    of its cycles in which a scheduler issues; stalls for want of an instruction, for each issued.
    """
    counted = recorded["counters"]
    executed = counted[name]["smsp__inst_executed.sum"]
    more = executed - counted[benchmark.PLAIN]["smsp__inst_executed.sum"]
    busy = counted[name]["smsp__issue_active.sum"] / counted[name]["smsp__cycles_active.sum"]
    none = "smsp__average_warps_issue_stalled_no_instruction_per_issue_active.ratio"
    return more / tiles / GROUP_WARPS, busy, counted[name][none]


def bands(recorded: dict[str, Any]) -> Table:
    """The product without steps, its tiles numbered in several ways, and cuBLAS."""
    found = recorded["products"]
    least = statistics.median(found[benchmark.CUBLAS]["us"])
    rows = tuple(
        (name, f"{(took := float(statistics.median(each['us']))):,.0f}", f"{took / least:.2f}",
         f"{statistics.median(each['mhz']):,.0f}")
        for name, each in found.items()
    )  # fmt: skip
    return Table(
        ("8192 × 8192 × 8192", "µs", "cuBLAS = 1", "MHz"), rows, measure.source(recorded)
    )
