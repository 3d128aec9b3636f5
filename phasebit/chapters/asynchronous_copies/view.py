"""What is drawn, and what tables show of the record: groups of copies; the time of a tile."""

from __future__ import annotations

from typing import Any

from phasebit import measure
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

    def does(kind: str, label: str) -> None:
        nonlocal now
        spans.append(Span("block", now, now + _STEP, kind, label))
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
        does("wait", "")
        # At most stages - 1 groups are left: this tile's is the newest that must be done.
        assert groups[len(groups) - stages] == tile
        slot = f"slot {tile % stages}"
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
