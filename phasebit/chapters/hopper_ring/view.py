"""What the page shows of the record: rates, cycles, and the ring's stamps as a timeline."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from phasebit import measure
from phasebit.chapters.hopper_ring.variants import LADDER, RING, SIZES
from phasebit.pipeline.ring_drawing import RingDrawing
from phasebit.timeline import RING_LEGEND, Timeline

rate = measure.square_rate
SECTOR = 32
"""Bytes that L2 counts as one."""


def cycles(row: Mapping[str, Any], name: str) -> float:
    """Median cycles of a launch: each time by the clock of the launches that it was among."""
    times, mhz = row["times_us"][name], row["mhz"][name]
    each = len(times) // len(mhz)
    return float(statistics.median(us * mhz[n // each] for n, us in enumerate(times)))


def per_cycle(
    recorded: dict[str, Any], name: str, size: int = SIZES[0], part: str = "ladder"
) -> float:
    """FLOP a cycle on each multiprocessor, in a ``part`` of the record.

    ``name``: of a rung or a variant; of "neighbours" whoever ran before.
    """
    flop = float(measure.matmul_flop(size, size, size))
    if part == "neighbours":
        row = {"times_us": recorded[part]["after_us"], "mhz": recorded[part]["mhz"]}
    else:
        (row,) = [row for row in recorded[part] if row["size"] == size]
    return flop / cycles(row, name) / int(recorded["multiprocessors"])


def pays_table(recorded: Mapping[str, Any]) -> measure.Table:
    """Boxes of C and pairs, in two tiles: bytes, cycles, energy of a launch."""
    rows = []
    for name in recorded["times"]:
        counted, seen = recorded["counted"][name], recorded["times"][name]
        cost = cycles({what: {name: seen[what]} for what in ("times_us", "mhz")}, name)
        rows.append((
            name, f"{counted['asked_of_l2'] * SECTOR / 1e9:.1f}",
            f"{counted['brought'] * SECTOR / 1e9:.1f}", f"{cost / 1e6:.3f}",
            f"{statistics.median(seen['times_us']):.0f}",
            *(f"{recorded['energy'][name][what]:{form}}"
              for what, form in (("joules", ".3f"), ("microseconds", ".0f"))),
        ))  # fmt: skip
    heads = ("kernel and tile", "GB asked of L2", "GB brought", "million cycles", "µs",
             "joules, for 2 s", "µs, for 2 s")  # fmt: skip
    return measure.Table(heads, tuple(rows), measure.source(dict(recorded)))


def launch_cycles(seen: Mapping[str, Any]) -> float:
    """Median cycles of a launch of one contender: its ``times_us`` and ``mhz``."""
    return cycles({what: {"": seen[what]} for what in ("times_us", "mhz")}, "")


LOOPS = ("as it is", "nothing copied", "no hand-over, nothing copied",
         "no hand-over, one under way", "stamps in every step",
         "stamps, and a warp that looks")  # fmt: skip
"""Of ``ring_controls``, what the page shows."""
_SHOWN = {"no hand-over, one under way": "the same, one product under way"}


def a_step(seen: Mapping[str, Any], steps: int, part: str = "loop") -> float:
    """Cycles of a step without stamps: of the median block, or of the ``first``, block 0."""
    found = (each if part == "first" else each[1] for each in seen[f"{part}_cycles"])
    return float(statistics.median(found)) / steps


def loops(recorded: Mapping[str, Any]) -> measure.Table:
    """The ring with and without its copies, its hand-over, its stamps."""
    rows = []
    for name in LOOPS:
        seen = recorded["loops"][name]
        both = (f"{a_step(seen, recorded['steps'], part):,.1f}" for part in ("loop", "first"))
        rows.append((_SHOWN.get(name, name), *both, f"{launch_cycles(seen) / 1e6:.3f}"))
    heads = ("the ring", "cycles a step, median block", "block 0", "million cycles a launch")
    return measure.Table(heads, tuple(rows), measure.source(dict(recorded)))


PARTS = {
    "before": "from a block's begin to its first full slot",
    "loop": "its loop along K",
    "store": "its stores asked for",
    "gap": "from there to the next block's begin",
}


def parts(recorded: Mapping[str, Any], name: str = "as it is") -> dict[str, float]:
    """Cycles of a block and of what follows it: each the median of all blocks."""
    seen = recorded["loops"][name]
    return {part: statistics.median(each[1] for each in seen[f"{part}_cycles"]) for part in PARTS}


def stores(recorded: Mapping[str, Any]) -> measure.Table:
    """How results leave the registers, at the two larger sizes: million cycles of a launch."""
    sizes = {str(size): recorded["stores"][str(size)] for size in SIZES[:2]}
    rows = tuple(
        (name, *(f"{launch_cycles(each[name]) / 1e6:.4f}" for each in sizes.values()))
        for name in next(iter(sizes.values()))
    )
    heads = ("the way out, million cycles", *(f"at {size}" for size in sizes))
    return measure.Table(heads, rows, measure.source(dict(recorded)))


def roof() -> float:
    """FLOP a cycle on each multiprocessor of the products' own instruction, 64 × 256 × 16.

    As *Four warps multiply* measured it: two warp groups, tiles that stay in shared memory.
    """
    (row,) = (
        row
        for row in measure.read("warpgroup_products")["rates"]
        if (row["n"], row["a"], row["groups"], row["pending"]) == (256, "shared", 2, 0)
    )
    return float(statistics.median(row["flop_a_cycle"]))


def rates(recorded: dict[str, Any]) -> dict[str, str]:
    """Kernel -> its rate in the ladder of the record, on the largest product."""
    row = next(row for row in recorded["ladder"] if row["size"] == SIZES[0])
    return {
        kernel: measure.spoken([SIZES[0]] * 3, statistics.median(row["times_us"][rung]))
        for rung, kernel in LADDER.items()
    }


def simulated(copy: float, multiply: float, *, slots: int, steps: int) -> Timeline:
    """Part I's simulator with these two times, in cycles: as many copies at a time as slots."""
    from phasebit.pipeline import Pipeline, simulate

    machine = Pipeline(
        producers=slots, consumers=1, slots=slots, produce=round(copy), consume=round(multiply)
    )
    return simulate(machine, jobs=steps).timeline


@dataclass(frozen=True)
class Stamps:
    """The stamps of one block: ``places[place][tile]`` in cycles since its beginning, -1 if none.

    ``cycles`` and ``ns`` are the length of its loop on the multiprocessor's clock and the GPU's.
    """

    places: tuple[tuple[int, ...], ...]
    cycles: int
    ns: int
    slots: int

    @property
    def ghz(self) -> float:
        """Cycles a nanosecond, while it ran."""
        return self.cycles / self.ns

    @property
    def tile(self) -> float:
        """Mean cycles from one tile to the next, in the second half of the run."""
        read = self.places[4]
        half, last = len(read) // 2, len(read) - 8
        return (read[last] - read[half]) / (last - half)

    @property
    def copy(self) -> float:
        """Mean cycles from a slot that may be written to one that is full."""
        return self._mean((1,), (3, 5) if self.slots == 1 else (7,))

    @property
    def multiply(self) -> float:
        """Mean cycles from the first consumer that begins with a tile to the last that ends."""
        return self._mean((3, 5), (4, 6))

    @property
    def hand_off(self) -> float:
        """Mean cycles from the end of a consumer's multiplication to the begin of its next."""
        return self.tile - (self._mean((3,), (4,)) + self._mean((5,), (6,))) / 2

    def _mean(self, begins: tuple[int, ...], ends: tuple[int, ...]) -> float:
        tiles = range(len(self.places[4]) // 2, len(self.places[4]) - 8)
        return statistics.mean(
            max(self.places[end][tile] for end in ends)
            - min(self.places[begin][tile] for begin in begins)
            for tile in tiles
        )


def stamps(recorded: dict[str, Any], kernel: str) -> Stamps:
    """The stamps of a kernel in this chapter's record."""
    data = recorded["stamps"][kernel]
    places = tuple(tuple(place) for place in data["places"])
    return Stamps(places, data["cycles"], data["ns"], 4 if kernel == RING else 1)


def timeline(given: Stamps, first: int, last: int, title: str) -> Timeline:
    """What was done with tiles ``first`` to ``last``, in cycles, drawn as Part I draws a ring."""
    at = given.places
    tiles = range(first, last + 1)
    ring = at[0][first] >= 0  # a producer that asks for a slot, and one who looks
    written, full = (1, 7) if ring else (1, 3)
    begin = min(at[place][first] for place in (0, 1, 3, 5) if at[place][first] >= 0)
    drawing = RingDrawing(lambda cycle: cycle - begin, begin)
    rows = ["producer"] if ring else []
    rows += [f"slot {slot}" for slot in range(given.slots)]
    for tile in tiles:
        slot = f"slot {tile % given.slots}"
        if ring:
            asked, may_write, has_written = at[0][tile], at[1][tile], at[2][tile]
            drawing.work("producer", asked, may_write, has_written, "produce", str(tile),
                         slot)  # fmt: skip
        reading, read = min(at[3][tile], at[5][tile]), max(at[4][tile], at[6][tile])
        filled = at[full][tile]
        drawing.turn(slot, at[written][tile], filled, max(reading, filled), read, str(tile))
        for group, (may, has) in enumerate(((3, 4), (5, 6))):
            row = f"consumer {group}"
            asked, may_read, has_read = at[has][tile - 1], at[may][tile], at[has][tile]
            drawing.work(row, asked, may_read, has_read, "consume", str(tile), slot)
    rows += ["consumer 0", "consumer 1"]
    return Timeline(
        rows,
        drawing.spans,
        unit="cycles",
        title=title,
        legend=RING_LEGEND,
    )
