"""Where threads stand and what they wait for, in words: for a deadlock, for one who interrupts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from phasebit.emulator.errors import Deadlock
from phasebit.emulator.findings import Sentence, Threads, Wait, blocks_text, joined, say
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.waiting import Waiting
from phasebit.emulator.ptx.control_flow import Block


def position(block: Block) -> str:
    """A block of the program: its first and its last instruction."""
    items = [*block.body, *filter(None, [block.collective, block.skip, block.end])]
    if not items:
        return "an empty block"
    return f"PTX lines {items[0].line} to {items[-1].line} (the last: {items[-1].text})"


def deadlock(parked: Mapping[Group, Waiting], unstarted: int = 0) -> Deadlock:
    """The error for threads of which each waits; ``unstarted``: blocks, for lack of room."""
    lines = [say("deadlock: every thread waits and nothing is left that could wake one")]
    waits = []
    for one, others in _alike(parked):
        for g, waiting in one:
            who, why = g.batch.describe(g.lanes), waiting.explain() if waiting.explain else ""
            lines.append(say("  {} wait for {}: {}", who, waiting.what, waiting.where))
            if why:
                lines.append(say("    {}", why))
            place = next(iter(waiting.where.places), None)
            missing = waiting.missing() if waiting.missing else 0
            every = Threads((*who.blocks, *(replace(who.blocks[0], block=n) for n in others)))
            waits.append(Wait(every, waiting.what, place, str(why), waiting.barrier, missing))
        if others:
            lines.append(say("  so do those of {}", blocks_text(others)))
    lines += not_started(unstarted)
    return Deadlock(joined("\n", lines), waits)


def not_started(blocks: int) -> list[Sentence]:
    """A line about blocks for which there is no room, if there are any."""
    if not blocks:
        return []
    return [say("  {} more blocks wait for room: no GPU holds more of them at once", blocks)]


Parked: TypeAlias = list[tuple[Group, Waiting]]


def _alike(parked: Mapping[Group, Waiting]) -> list[tuple[Parked, list[int]]]:
    """What is parked, block by block; with the numbers of other blocks that wait in the same way.

    Groups of several blocks at once stand alone.
    """
    blocks: dict[object, Parked] = {}
    for g, waiting in parked.items():
        among = g.batch.describe(g.lanes).blocks
        key: object = among[0].block if len(among) == 1 else (g,)
        blocks.setdefault(key, []).append((g, waiting))
    found: dict[object, tuple[Parked, list[int]]] = {}
    for key, groups in blocks.items():
        form = tuple(_form(g, waiting) for g, waiting in groups) if isinstance(key, int) else key
        if form in found and isinstance(key, int):
            found[form][1].append(key)
        else:
            found[form] = groups, []
    return list(found.values())


def _form(g: Group, waiting: Waiting) -> tuple[object, ...]:
    """How a group of one block waits, whichever block it is."""
    (who,) = g.batch.describe(g.lanes).blocks
    why = waiting.explain() if waiting.explain else ""
    words = why.words if isinstance(why, Sentence) else (why,)
    return (who.ranges, waiting.what, str(waiting.where),
            *(_anywhere(word, who.block) for word in words))  # fmt: skip


def _anywhere(word: object, block: int) -> object:
    """A word of a sentence without the number of the block that it is about."""
    if isinstance(word, Threads) and [each.block for each in word.blocks] == [block]:
        return "threads", word.blocks[0].ranges
    return str(word)


def standing(
    running: Group | None, where: Sentence | None, parked: Mapping[Group, Waiting]
) -> Sentence:
    """Where the threads are: those that run now, and what the others wait for."""
    parts: list[Sentence] = []
    if running is not None:
        parts.append(say("{} stand at {}", running.batch.describe(running.lanes), where))
    for one, others in _alike(parked):
        for g, waiting in one:
            parts.append(say("{} wait for {}", g.batch.describe(g.lanes), waiting.what))
        if others:
            parts.append(say("so do those of {}", blocks_text(others)))
    return joined("; ", parts) if parts else say("no thread has begun")


__all__ = ["deadlock", "not_started", "position", "standing"]
