"""Who sends, who waits and who reads, from a run of two devices on the emulator.

Its clock counts instructions, and a store to a peer takes no longer on it than another: it shows
order and overlap, not a time that any link would take.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from phasebit.chapters.two_gpus.on_peers import Done
from phasebit.measure import Table

if TYPE_CHECKING:
    from phasebit.draw import Picture
    from phasebit.emulator import Execution

TILES, COLUMNS, SLOTS = 2, 2, 2
"""Of the kernel that gathers and multiplies: tiles of a GPU, blocks that read each, slots."""
REDUCED = 4
"""Tiles that a GPU sends in the kernel that multiplies and reduces."""


class Block(NamedTuple):
    """What a block of that kernel did in one turn, on the emulator's clock."""

    device: int
    role: str
    """``sends``, ``own rows`` or ``peer's rows``."""
    tile: int
    begins: int
    waits: int
    """When it has what it waits for; ``begins``, if it waits for nothing."""
    ends: int


def blocks(execution: Execution) -> list[Block]:
    """The blocks of one launch; of those that read one tile, the first."""
    events, device = execution.result().trace.events, execution.machine.seat.device
    found = []
    for number in sorted({event.block for event in events}):
        unit = number - TILES
        if unit >= 0 and unit % COLUMNS:
            continue
        own = [event for event in events if event.block == number]
        role = "sends" if unit < 0 else "own rows" if unit < TILES * COLUMNS else "peer's rows"
        tile = number if unit < 0 else unit // COLUMNS % TILES
        begins = min(event.start for event in own)
        waits = max((event.end for event in own if event.kind == "wait"), default=begins)
        found.append(Block(device, role, tile, begins, waits, max(event.end for event in own)))
    return found


def of_turn(done: Done, turn: int) -> list[Block]:
    """The blocks of both devices in one turn, from 0; device 0 first."""
    launches = sorted(done.executions, key=lambda each: each.machine.seat.number)
    pair = launches[2 * turn : 2 * turn + 2]
    return sorted((block for each in pair for block in blocks(each)), key=lambda b: b.device)


def table(found: Sequence[Block]) -> Table:
    """Each tile that goes over the link: where its slot and its flag lie, and who waits."""
    rows = [
        (f"{block.tile} of GPU {block.device}", f"GPU {block.device}, block {block.tile}",
         f"GPU {1 - block.device}", f"full[{block.tile}] on GPU {1 - block.device}",
         f"GPU {1 - block.device}, {COLUMNS} blocks")
        for block in found if block.role == "sends"
    ]  # fmt: skip
    source = "from the trace of the first turn, on the emulator with two devices"
    return Table(("tile", "producer", "slot", "flag", "consumer"), tuple(rows), source)


def picture(found: Sequence[Block]) -> Picture:
    """Both devices, block by block: who sends, who multiplies, who waits."""
    from phasebit.draw import Picture
    from phasebit.timeline import Span, Timeline

    rows, spans, said = [], [], []
    kinds = {"sends": "produce", "own rows": "store", "peer's rows": "consume"}
    for block in found:
        row = f"GPU {block.device} {block.role} {block.tile}"
        rows.append(row)
        if block.waits > block.begins:
            flag = f"full[{block.tile}]: GPU {1 - block.device} sends {block.tile}"
            spans.append(Span(row, block.begins, block.waits, "wait", "", flag))
        spans.append(Span(row, block.waits, block.ends, kinds[block.role], str(block.tile)))
        if block.role == "peer's rows":
            sender = next(b for b in found if b.role == "sends" and b.tile == block.tile
                          and b.device != block.device)  # fmt: skip
            own = [b for b in found if b.role == "own rows" and b.device == block.device]
            beside = all(b.begins < sender.ends and b.ends > sender.begins for b in own)
            said.append(
                f"{row}: goes on {'when' if block.waits >= sender.ends - 1 else 'before'} GPU "
                f"{sender.device} has sent it; beside the sending own rows are multiplied: "
                f"{'yes' if beside else 'no'}"
            )
    legend = {"produce": "stores into the peer's slot", "store": "multiplies own rows",
              "wait": "waits for the flag", "consume": "multiplies the peer's rows"}  # fmt: skip
    title = "One turn on two devices"
    drawn = Timeline(rows, spans, unit="clock", title=title, legend=legend)
    head = f"{title}, by tiles. The emulator's clock runs to the right."
    return Picture.of(drawn, "\n".join([head, *said]))


def parts(done: Done, tile: int = 0) -> Picture:
    """Of the kernel that multiplies and reduces: who makes the parts of a tile, sends, and adds.

    Its sentences say whether a block that adds waits for the peer's part.
    """
    from phasebit.draw import Picture
    from phasebit.timeline import Span, Timeline

    rows, spans, said = [], [], []
    pair = sorted(done.executions, key=lambda each: each.machine.seat.number)[:2]
    for execution in sorted(pair, key=lambda each: each.machine.seat.device):
        device, events = execution.machine.seat.device, execution.result().trace.events
        sends, adds = ([event for event in events if event.block == number]
                       for number in (tile, tile + REDUCED))  # fmt: skip
        row = f"GPU {device} for GPU {1 - device}"
        rows.append(row)
        spans.append(Span(row, 0, max(event.end for event in sends), "produce", ""))
        row = f"GPU {device} for itself"
        rows.append(row)
        ends = max(event.end for event in adds)
        waits = [event for event in adds if event.kind == "wait"]
        starts = min((event.start for event in waits), default=ends)
        goes_on = max((event.end for event in waits), default=ends)
        spans.append(Span(row, 0, starts, "store", ""))
        if waits:
            flag = f"full[{tile}]: GPU {1 - device} sends its part"
            spans.append(Span(row, starts, goes_on, "wait", "", flag))
        spans.append(Span(row, goes_on, ends, "consume", ""))
        said.append(f"{row}: waits for the part of GPU {1 - device}: {'yes' if waits else 'no'}")
    legend = {"produce": "multiplies the peer's rows, sends", "store": "multiplies own rows",
              "wait": "waits for the flag", "consume": "adds what has come"}  # fmt: skip
    title = f"Tile {tile} of each GPU's rows, in one turn"
    drawn = Timeline(rows, spans, unit="clock", title=title, legend=legend)
    head = f"{title}. The emulator's clock runs to the right."
    return Picture.of(drawn, "\n".join([head, *said]))


def slots(done: Done, device: int = 0, tile: int = 0) -> Picture:
    """The places where a tile of the peer's comes, turn by turn: being filled, being read."""
    from phasebit.draw import Picture
    from phasebit.timeline import Span, Timeline

    spans, lines = [], []
    last: dict[str, tuple[int, int]] = {}  # of a slot: its last turn, and when that was read
    for turn in range(1, len(done.executions) // 2 + 1):
        found = [block for block in of_turn(done, turn - 1) if block.tile == tile]
        sent = next(b for b in found if b.role == "sends" and b.device != device)
        used = next(b for b in found if b.role == "peer's rows" and b.device == device)
        slot = f"slot {turn % SLOTS}"
        spans += [Span(slot, sent.begins, sent.ends, "produce", str(turn)),
                  Span(slot, used.waits, used.ends, "consume", str(turn))]  # fmt: skip
        lines.append(f"turn {turn}: {slot} is filled, then read")
        if slot in last:
            before, end = last[slot]
            lines[-1] += f"; turn {before} had been read {sent.begins - end} clocks before"
        last[slot] = turn, used.ends
    title = f"Where tile {tile} of GPU {1 - device} comes on GPU {device}"
    legend = {"produce": f"GPU {1 - device} stores", "consume": f"GPU {device} reads"}
    rows = [f"slot {each}" for each in range(SLOTS)]
    drawn = Timeline(rows, spans, unit="clock", title=title, legend=legend)
    return Picture.of(drawn, "\n".join([f"{title}, by turns.", *lines]))
