"""What is drawn, and what tables show of the record: groups of copies; the time of a tile."""

from __future__ import annotations

from typing import Any

from phasebit import draw, files, measure
from phasebit.chapters.asynchronous_copies import exercises
from phasebit.chapters.asynchronous_copies import record as benchmark
from phasebit.launching import ring_timeline
from phasebit.timeline import Span, Timeline

_STEP = 4  # columns of a drawing for one thing that the block does


def rates(recorded: dict[str, Any]) -> dict[str, str]:
    """Kernel -> nanoseconds a tile, by one block from memory, with the best number of stages."""
    best: dict[str, tuple[float, int]] = {}
    for row in recorded["rows"]:
        if row["blocks"] == 1:
            each = measure.summary(row["flushed_us"]).median * 1e3 / row["tiles"]
            best[row["kernel"]] = min(
                best.get(row["kernel"], (each, row["stages"])), (each, row["stages"])
            )
    return {
        kernel: f"{each:.0f} ns a tile, one block, {stages} slot{'s' * (stages > 1)}"
        for kernel, (each, stages) in best.items()
    }


def groups_under_way(tiles: int, stages: int) -> Timeline:
    """The loop of ``groups``, step by step: which tiles' copies may be under way, and until when.

    Order, no times: a step is one thing that the block does. A group may be under way from its
    start until the wait that leaves fewer groups than have been committed since.
    """
    spans: list[Span] = []
    started: dict[int, int] = {}  # tile -> the step in which its copies start
    groups: list[int] = []  # the tile of each group; past the last tile a group is empty
    now = 0

    def does(kind: str, label: str, waits_for: str = "") -> None:
        nonlocal now
        spans.append(Span("block", now, now + _STEP, kind, label, waits_for))
        now += _STEP

    def fetch_and_commit(tile: int) -> None:
        if tile < tiles:
            started[tile] = now
            does("produce", str(tile))
        groups.append(tile)

    for tile in range(stages - 1):
        fetch_and_commit(tile)
    for tile in range(tiles):
        fetch_and_commit(tile + stages - 1)
        slot = f"slot {tile % stages}"
        does("wait", "", f"the copies of tile {tile} to {slot}")
        # At most stages - 1 groups are left: this tile's is the newest that must be done.
        assert groups[len(groups) - stages] == tile
        spans.append(Span(slot, started[tile], now, "copy", str(tile)))
        spans.append(Span(slot, now, now + _STEP, "consume", str(tile)))
        does("consume", str(tile))
    return Timeline(
        ["block", *(f"slot {n}" for n in range(stages))],
        spans,
        unit="order",
        title=f"{tiles} tiles, {stages} slots: a group a tile, in order, without times",
        legend={"produce": "starts copies", "wait": "waits for the oldest group",
                "consume": "weighs", "copy": "may be under way"},
    )  # fmt: skip


def producer_warp(tiles: int) -> Timeline:
    """The ring with the producer warp on the emulator: one consumer warp stands for the four."""
    run, _ = exercises.run(
        files.kernel("asynchronous_copies/mbarrier"), 160, tiles=tiles, schedule="late"
    )
    stages = 4
    barriers = [f"ring+{stages * (128 + 2) * 16 + 8 * n}" for n in range(2 * stages)]
    return ring_timeline.timeline(
        run.trace, producer=4, consumer=0, full=barriers[:stages], empty=barriers[stages:]
    )


def starting(recorded: dict[str, Any]) -> measure.Table:
    """What it costs to start copies, with the chapter's tiles and with tiles that fit.

    Instructions of a warp for a tile are counted by the emulator, ns a tile are the record's.
    Prints why the warps wait: how many do, for each instruction that is issued.
    """
    for what, name in (
        ("resident", "no copies"),
        ("unwaited", "copies, nobody waits"),
        ("unwaited, fits", "the same, tiles that fit"),
    ):
        stalls = recorded["stalls"][what]
        print(f"{name:>25}: {stalls['barrier']:.1f} warps wait at the barrier,", end=" ")
        print(f"{stalls['wait']:.1f} for the result of an instruction")
    fits = recorded["fits"]
    kernels = {
        "no copies": (benchmark.resident(), recorded["resident"]),
        "no copies, tiles that fit": (benchmark.fitting(benchmark.resident()), fits["resident"]),
        "copies, nobody waits": (benchmark.unwaited(), recorded["unwaited"]),
        "the same, tiles that fit": (benchmark.fitting(benchmark.unwaited()), fits["unwaited"]),
    }
    return measure.Table(
        ("four slots", "instructions", "ns a tile"),
        tuple(
            (name, str(instructions(text)), f"{_tile(times['warm_us'], benchmark.ONE_BLOCK):.0f}")
            for name, (text, times) in kernels.items()
        ),
        measure.source(recorded),
    )


def instructions(source: str) -> int:
    """Instructions that a warp of a filter executes for a tile, on the emulator."""
    tiles, warps = 24, 4
    run, _ = exercises.run(source, 32 * warps, tiles=tiles)
    executed: float = run.counters["smsp__inst_executed.sum"]
    return round(executed / warps / tiles)


def rings(recorded: dict[str, Any]) -> draw.Picture:
    """Nanoseconds a tile of the rings with some numbers of slots, one block, from memory.

    Prints those of two kernels that have no curve, or no such point on it, from L2 as well.
    """
    kernels = {"groups": "groups", "pipeline": "cuda::pipeline", "mbarrier": "a producer warp"}
    times = {
        (row["kernel"], row["stages"]): [
            _tile(row[state], row["tiles"]) for state in ("warm_us", "flushed_us")
        ]
        for row in recorded["rows"]
        if row["blocks"] == 1
    }
    slots = (1, 2, 4, 8)
    print("ns a tile                  from L2  from memory")
    for what, kernel, number in (
        ("registers, one slot", "loads", 1),
        ("groups, one slot", "groups", 1),
        ("groups, three slots", "groups", 3),
    ):
        cached, memory = times[kernel, number]
        print(f"{what:<25} {cached:>8.0f} {memory:>12.0f}")
    return draw.curves(
        list(slots),
        {name: [times[kernel, each][1] for each in slots] for kernel, name in kernels.items()},
        x_label="slots", y_label="ns a tile", show=lambda value: f"{float(value):.0f}",
        title=f"One block, from memory, {measure.source(recorded)}",
    )  # fmt: skip


def _tile(times_us: list[float], tiles: int) -> float:
    """Median ns a tile."""
    return measure.summary(times_us).median / tiles * 1e3


def matrix_rings(waits: dict[str, Any], inside: dict[str, Any]) -> draw.Picture:
    """The rings of *Double buffering with barriers* whose producers do not wait, beside its b.

    ``waits``: the record in which b and c with one slot to three take turns.
    """
    rows = {}
    kinds = {"warm": "warm_us", "flushed": "flushed_us"}
    for kernel, name in (("b", "b, threads carry"), ("c", "c, copies")):
        for slots in (1, 2, 3):
            count = f"{slots} slot{'s' * (slots > 1)}"
            times = waits["times"][f"{kernel}, {count}"]
            rows[f"{name}: {count}"] = {
                kind: measure.summary(times[key]).median for kind, key in kinds.items()
            }
    for point in inside["sweep"]:
        slots, producers = (point["constants"].get(name, "") for name in ("SLOTS", "PRODUCERS"))
        times = {kind: point[key] for kind, key in kinds.items()}
        if point["kernel"] == "c_async_copies" and slots == 6:
            rows[f"c, copies: {slots} slots"] = times
        elif point["kernel"] == "d_few_arrivals":
            rows[f"d, {producers} producers: 6 slots"] = times
    return draw.dots(
        rows, x_label="µs", show=lambda value: f"{float(value):.1f}",
        title=f"b, c with 1 to 3 slots by turns, {measure.source(waits)}; "
        f"6 slots a process each, {inside['date']}",
    )  # fmt: skip
