"""What the records of *Layouts* say of packed operands, as tables and a picture."""

from __future__ import annotations

from statistics import median
from typing import Any

from phasebit import draw, measure
from phasebit.chapters.layouts import layouts_controls, layouts_lines, packed_tiles
from phasebit.chapters.layouts.layouts_interleaved import ANEW, COPY, FIRST, PACKED
from phasebit.chapters.layouts.packed_operands import ASKED, VENDOR, VENDOR_DENSE
from phasebit.draw import Picture

Record = dict[str, Any]
_NAMED = {
    layouts_controls.IN_PLACE: "in place, first loop",
    layouts_controls.SAME: "in place, second loop",
    "no conflicts": "… and no conflicts",
    "no limits": "… and no limits",
    "no limits, a pointer": "… and no limits, no address",
    "16 bytes": "… and 16 bytes at a time",
    "16 bytes, no conflicts, no limits, a pointer": "… and all four",
    layouts_controls.PACKED: "from tiles",
}
"""Ways that the chapter's table has, and what it calls them; the record has their mixtures too."""
TOGETHER = COLUMNS = (1, 2, 4, 8, 16)
"""Products that are interleaved; and columns of blocks, 128 wide."""


def sectors() -> Picture:
    """Sectors for A on the emulator, packed over in place; prints what loads and stores do."""
    ratio: dict[str, list[float]] = {}
    loads, conflicts, holds = set(), set(), []
    columns = (1, 2, 4)
    for s in (1, 2, 4):
        name = "row-major" if s == 1 else f"{s} interleaved"
        for n in columns:
            strides = (16 * s, s, 1) if s > 1 else (16 + 4096, 1, 0)  # of m, k and the batch
            moved = packed_tiles.count((128, 128 * n, 16), strides, batch=s)
            loads.add(moved.strided_loads / moved.packed_loads)
            conflicts.add((moved.strided_conflicts // (s * n), moved.packed_conflicts // (s * n)))
            dense = s * 128 * 16 * 4 // 32
            holds.append((moved.strided, moved.copy, moved.packed)
                         == (n * s * dense, 2 * dense, n * dense))  # fmt: skip
            ratio.setdefault(name, []).append(moved.with_copy / moved.strided)
    print(f"the three formulas hold in {sum(holds)} of {len(holds)} cases")
    print("instructions that load A, in place for each one from tiles:", *sorted(loads))
    for in_place, packed in sorted(conflicts):
        print(f"bank conflicts when a tile is stored: in place {in_place}, from tiles {packed}")
    return draw.curves(
        columns, ratio, x_label="columns of blocks, 128 wide", evenly=True,
        line=1, y_label="sectors with copy / in place",
        title="Sectors for A on the emulator: below 1 packing moves less",
    )  # fmt: skip


def interleaved(record: Record) -> dict[tuple[int, int], dict[str, float]]:
    """Products together and N -> the median µs of each way."""
    return {(each["interleaved"], each["shape"][1]): _medians(each)
            for each in record["interleaved"]}  # fmt: skip


def _medians(entry: Record) -> dict[str, float]:
    return {name: median(each["times_us"]) for name, each in entry["times"].items()}


def counted(record: Record) -> measure.Table:
    """Counted sectors, and times; prints how far the formula is from them, in place and packed."""
    took_all, rows, off = interleaved(record), [], 0.0
    for each in record["interleaved_counted"]:
        s, (m, n, k) = each["interleaved"], each["shape"]
        dense = s * m * k * 4 / 32
        of_b = s * (m // 128) * k * n * 4 / 32  # each row of blocks reads all of B
        formula = n / 128 * min(s, 8)
        strided, packed = ((each[way][ASKED] - of_b) / dense for way in ("strided", "packed"))
        off = max(off, abs(strided / formula - 1), abs(packed / (n / 128) - 1))
        took = took_all[s, n]
        rows.append((
            str(s), f"{strided:.2f}",
            f"{each['strided']['dram__bytes_read.sum'] / 1e9:.2f}", f"{took['strided']:.0f}",
            f"{took['copy and packed'] - took['copy']:.0f}", f"{took['copy']:.0f}",
        ))  # fmt: skip
    slower = took_all[8, 1024]["strided"] / took_all[1, 1024]["strided"] - 1
    print(f"sectors: the formula is off by {off:.1%} at most")
    print(f"eight interleaved beside a dense A, in place: {slower:.1%} slower")
    return measure.Table(
        ("interleaved", "sectors in place", "GB from memory, in place", "µs in place", "µs packed",
         "µs copy"),
        tuple(rows), measure.source(record) + "; sectors for A in units of a dense A, N = 1024",
    )  # fmt: skip


def brought(controls: Record, record: Record) -> measure.Table:
    """Ways to bring a tile of a dense A; prints what the second loop saves of the gain.

    ``record``: the one with the time of the copy.
    """
    way = layouts_controls
    took = {name: median(each["times_us"]) for name, each in controls["times"].items()}
    rows = [
        (
            told,
            *(f"{controls['counters'][name][counter] / 1e6:.1f}" for counter in
              (way.INSTRUCTIONS, way.LOADS, way.CONFLICTS)),
            f"{took[name]:.0f}",
        )
        for name, told in _NAMED.items()
    ]  # fmt: skip
    m, n, k = controls["shape"]
    gain, by_loop = took[way.IN_PLACE] - took[way.PACKED], took[way.IN_PLACE] - took[way.SAME]
    print(f"tiles save {gain:.0f} µs; the second loop saves {by_loop:.0f} of them")
    copy = interleaved(record)[1, n]["copy"]
    saved = took[way.SAME] - took[way.PACKED]
    print(f"beside it tiles save {saved:.0f} µs; the copy takes {copy:.0f}")
    return measure.Table(
        ("a tile of A", "instructions of warps", "loads", "bank conflicts of stores", "µs"),
        tuple(rows),
        f"{measure.source(controls)}; A of {m} × {k}, N = {n}; counts in millions",
    )


def when_it_pays(record: Record) -> Picture:
    """Time with the copy over time in place, with the second loop; prints a rule's verdicts.

    The rule has one price and one gain for each interleaving. They are taken from the most columns,
    which do not count among the cases.
    """
    took_all, ratio, verdicts = interleaved(record), {}, []
    for s in TOGETHER:
        took = {n: took_all[s, 128 * n] for n in COLUMNS}
        ratio[f"{s} interleaved"] = [took[n][PACKED] / took[n][ANEW] for n in COLUMNS]
        most = took[COLUMNS[-1]]
        saved = (most[ANEW] - most[PACKED] + most[COPY]) / COLUMNS[-1]
        pays = [n for n in COLUMNS if took[n][PACKED] < took[n][ANEW]]
        verdicts += [(n > most[COPY] / saved, n in pays) for n in COLUMNS[:-1]]
        print(f"{s:2} interleaved: copy {most[COPY]:3.0f} µs, a column saves {saved:4.1f} µs: "
              f"from {most[COPY] / saved:4.1f} columns on; "
              f"measured: {f'from {pays[0]}' if pays else 'never'}")  # fmt: skip
    right, never = (sum(said == paid for said, paid in cases)
                    for cases in (verdicts, [(False, paid) for _, paid in verdicts]))  # fmt: skip
    print(f"up to {COLUMNS[-2]} columns the rule decides right in {right} of {len(verdicts)} "
          f"cases; never to pack, in {never}")  # fmt: skip
    return draw.curves(
        COLUMNS, ratio, x_label="columns of blocks, 128 wide; below 1 packing pays", evenly=True,
        from_zero=False, line=1, y_label="time with copy / in place",
        title=f"Packing A, with its copy, beside the second loop, {measure.source(record)}",
    )  # fmt: skip


def slower(record: Record, n: int = 1024) -> Picture:
    """Times over those of a dense A: both loops in place, and from tiles; prints the two largest.

    The time of the copy is not in that from tiles.
    """
    took_all = interleaved(record)
    ways = {"in place, first loop": FIRST, "in place, second loop": ANEW, "from tiles": PACKED}

    def beside_dense(s: int, way: str) -> float:
        mine, dense = (took[way] - (took[COPY] if way == PACKED else 0)
                       for took in (took_all[s, n], took_all[1, n]))  # fmt: skip
        return mine / dense

    for s in TOGETHER[-2:]:
        more = (f"{beside_dense(s, way) - 1:.1%} {name}" for name, way in ways.items())
        print(f"{s:2} interleaved, slower than a dense A:", "; ".join(more))
    return draw.curves(
        TOGETHER, {name: [beside_dense(s, way) for s in TOGETHER] for name, way in ways.items()},
        x_label="interleaved", evenly=True, from_zero=False, line=1,
        y_label="time / that of a dense A",
        title=f"Products with N = {n}, {measure.source(record)}",
    )  # fmt: skip


def lines(record: Record) -> measure.Table:
    """Eight and sixteen matrices, with gaps and without: times, and what Nsight Compute counted."""
    asked = {
        layouts_lines.LINES: "lines looked up in L1",
        layouts_lines.ASKS_L2: "requests to L2",
        layouts_lines.FROM_L2: "sectors from L2",
    }
    rows = []
    for name, times in record["times"].items():
        counts = record["counters"][name]
        rows.append((
            name, f"{median(times['times_us']):.0f}",
            *(f"{counts[counter] / 1e6:.1f}" for counter in asked),
            f"{counts['dram__bytes_read.sum'] / 1e9:.2f}", f"{counts[layouts_lines.WAITS]:.2f}",
        ))  # fmt: skip
    return measure.Table(
        ("interleaved", "µs", *asked.values(), "GB from memory", "cycles of waits for loads"),
        tuple(rows), f"{measure.source(record)}; counts in millions; waits for each instruction",
    )  # fmt: skip


def beside_the_vendor(record: Record) -> Picture:
    """cuBLAS and its copy over our second loop in place; prints where that wins, and the copies."""
    took_all = interleaved(record)
    ratio = {f"N = {128 * n}": [took_all[s, 128 * n][VENDOR] / took_all[s, 128 * n][ANEW]
                                for s in TOGETHER] for n in COLUMNS}  # fmt: skip
    for (s, n), took in took_all.items():
        if took[ANEW] < took[VENDOR]:
            print(f"{s:2} interleaved, N = {n}: in place {took[ANEW]:.0f} µs; cuBLAS "
                  f"{took[VENDOR]:.0f} µs, of which its copy takes "
                  f"{took[VENDOR] - took[VENDOR_DENSE]:.0f}")  # fmt: skip
    most = 128 * COLUMNS[-1]
    for s in TOGETHER[1:]:
        took = took_all[s, most]
        copy = took[VENDOR] - took[VENDOR_DENSE]
        print(f"{s:2} interleaved, N = {most}: torch's copy {copy:.0f} µs, ours {took[COPY]:.0f}")
    return draw.curves(
        TOGETHER, ratio, x_label="interleaved; above 1 in place is faster", evenly=True,
        line=1, y_label="time of cuBLAS / in place",
        title=f"cuBLAS in f32, with its copy, {measure.source(record)}",
    )  # fmt: skip


def rows_far_apart(record: Record) -> None:
    """Print the times of one product whose A lies in several ways: least and most."""
    took = {entry["name"]: _medians(entry) for entry in record["alone"]}
    print(f"{measure.source(record)}; A of 2048 × 1024 as", ", ".join(took))
    for way, told in {"strided": "in place, first loop", PACKED: PACKED, VENDOR: VENDOR}.items():
        times = [each[way] for each in took.values()]
        print(f"{told:>20}: {min(times):.0f} to {max(times):.0f} µs")
