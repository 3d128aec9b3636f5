"""Bringing threads together: those that a ``.sync`` instruction names wait for each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.group import Group, merge
from phasebit.emulator.machine.waiting import Waiting

WARP_GROUP = "warp group"
"""In place of a member mask: all four warps of the warp group."""


class Gathering:
    """The groups that wait at such an instruction."""

    def __init__(self) -> None:
        self.waiting: dict[tuple[int, int, int], Group] = {}
        """Batch, call stack, block -> who is there."""

    def bring(self, g: Group, membermask: Any) -> bool:
        """Bring the threads of the member masks together; True when all are here already."""
        batch, machine = g.batch, g.batch.machine
        key = (id(batch), g.stack, g.pc)
        warp = batch.warp_of[g.lanes]
        here = np.zeros(len(batch.alive_mask), np.uint32)
        np.bitwise_or.at(here, warp, batch.lane_bit[g.lanes])
        need = batch.alive_mask[warp]
        unit = "warp"
        if membermask is WARP_GROUP:
            unit = "warp group"
            four = np.arange(len(here)) // batch.warps, np.arange(len(here)) % batch.warps // 4
            number = four[0] * -(-batch.warps // 4) + four[1]
            missing = np.bincount(number, (batch.alive_mask & ~here) != 0)
            complete = missing[number[warp]] == 0
        else:
            if membermask is not None:
                need = need & membermask
            complete = (need & ~here[warp]) == 0
        if complete.all():
            return True  # whoever else waits here waits for others
        waiting = self.waiting.pop(key, None)
        if waiting is not None:
            machine.parked.pop(waiting, None)
            machine.make_ready(merge([waiting, g]))
            return False
        where = machine.where(g)
        if complete.any():
            machine.make_ready(g.part(np.flatnonzero(complete), g.pc))
            g = g.part(np.flatnonzero(~complete), g.pc)
        self.waiting[key] = g
        machine.park(g, Waiting(f"the other threads of the {unit}", where))
        return False

    def let_go(self, batch: Batch) -> list[Group]:
        """Threads of a batch have left: who waited there must look again."""
        keys = [key for key, g in self.waiting.items() if g.batch is batch]
        return [self.waiting.pop(key) for key in keys]


__all__ = ["WARP_GROUP", "Gathering"]
