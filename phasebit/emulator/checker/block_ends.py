"""Blocks that leave the kernel: was all that others do to their shared memory done before?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from phasebit.emulator.checker.races import Races
from phasebit.emulator.checker.reports import Findings
from phasebit.emulator.checker.shared_shadow import I4, LIVE, SharedShadow
from phasebit.emulator.findings import Said, say
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.ptx.types import Array


class BlockEnds(LaunchObserver):
    """Looks at a block when the last of its threads has left.

    ``others``: who looks, too, with the block's place in its batch and what its threads knew.
    """

    def __init__(
        self, races: Races, findings: Findings,
        others: Sequence[Callable[[Batch, int, Array], None]],
    ) -> None:  # fmt: skip
        self.machine = races.machine
        self.facts = races.facts
        self.shadows = races.shadows
        self.races = races
        self.findings = findings
        self.others = others

    def leaves(self, g: Group) -> None:
        """Threads leave the kernel; with the last of a block its shared memory goes."""
        batch = g.batch
        if self.facts.outsiders:
            slots, counts = np.unique(batch.slots(g.lanes), return_counts=True)
            for slot in slots[batch.live_in_block[slots] == counts].tolist():
                self._block_ends(batch, slot)

    def _block_ends(self, batch: Batch, slot: int) -> None:
        """All threads of a block have left: was all that others do to its memory done before?

        Before means: before the exit of one of its threads, for the memory stays until the last.
        """
        s = self.shadows[batch]
        own = np.arange(slot * batch.threads, (slot + 1) * batch.threads)
        if s.unsettled:  # a relaxed wait orders no access, but what it waited for has come
            self.races.order.messages.settle(s, own)
        known = s.clock[own].max(axis=0)
        known[: s.team] = np.maximum(known[: s.team], s.floor[slot])
        known[s.threads(own)] = known[s.team : s.bulk] = np.iinfo(I4).max
        for look in self.others:
            look(batch, slot, known)
        start = slot * batch.shared_stride >> self.facts.shift
        words = slice(start, start + (self.machine.shared_size >> self.facts.shift))
        times = s.write_time[words]
        late = np.flatnonzero((times > known[s.writer[words]]) & (times < LIVE))
        if len(late):
            word = start + int(late[0])
            self._outlives(s, slot, word, int(s.writer[word]), int(s.write_access[word]), "writes")
        # Most threads read their last word before: no word of theirs need be looked at.
        some = np.flatnonzero(np.maximum(s.last_read, s.last_remote) > known[: s.team])
        if not len(some):
            return
        s.enter_reads()
        late = np.flatnonzero((s.readers[words, some] > known[some]).any(axis=1))
        if len(late):
            word = start + int(late[0])
            who = int(np.argmax(s.readers[word] > known[: s.team]))
            self._outlives(s, slot, word, who, int(s.read_access[word]), "uses")

    def _outlives(
        self, s: SharedShadow, slot: int, word: int, who: int, access: int, verb: str
    ) -> None:
        batch = s.batch
        team = slot * batch.threads // s.team * s.team
        other: Said = batch.describe(np.array([team + who % s.team]))
        if s.bulk <= who < s.inits:
            other = f"a bulk copy that mbarrier {s.site_name(who)} counts"
        self.findings.report(
            "block-leaves-too-early",
            say(
                "block {} may leave the kernel before {} {} its {}: {}; nothing orders the two: "
                "let the cluster wait for all before a block ends",
                int(batch.blocks[slot]), other, verb, self.races.shared_name(s, word),
                self.findings.place(access),
            ),
            access, ("outlives", access),
        )  # fmt: skip


__all__ = ["BlockEnds"]
