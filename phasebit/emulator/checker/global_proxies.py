"""Fences that the copy engine needs before it sees what threads have stored in global memory.

It reads the numbers through the *async* proxy and tensor maps through the *tensormap* proxy (PTX
ISA 8.6).  What threads of the same launch have stored there through the generic proxy it sees
only behind a fence:

numbers        ``fence.proxy.async`` (or ``.global``) on the way from the store to the copy
a tensor map   ``fence.proxy.tensormap::generic.release`` by who changed it (``cp_fenceproxy``
               has it built in) and ``.acquire`` of its address by who copies

That the store itself is ordered before the copy is the business of
``checker.races``; here it is enough that somebody on that way has fenced: the thread
that stored, the one that copies, or one of the latter's block that it has heard of since.
"""

from __future__ import annotations

import numpy as np

from phasebit.emulator.checker.footprint import Footprint
from phasebit.emulator.checker.races import Look, Races
from phasebit.emulator.checker.reports import Findings
from phasebit.emulator.copy_engine.copy_observer import BulkCopyObserver
from phasebit.emulator.findings import Threads, say
from phasebit.emulator.machine.group import Group
from phasebit.emulator.ptx.types import Array

MAP = 128
"""Bytes of a tensor map."""


class Fences:
    """When each thread of the grid last fenced."""

    def __init__(self, races: Races) -> None:
        self.races = races
        self.times = np.zeros(0, np.int32)

    def note(self, g: Group) -> None:
        """These threads do."""
        s = self.races.shadows[g.batch]
        last = s.first + int(g.lanes[-1]) + 1
        if last > len(self.times):
            self.times = np.append(self.times, np.zeros(2 * last - len(self.times), np.int32))
        self.times[g.lanes + s.first] = self.races.machine.now

    def since(self, g: Group, time: int, writer: int) -> bool:
        """Whether one on the way has fenced since: ``writer``, thread ``g``, or one it heard of."""
        s = self.races.shadows[g.batch]
        if writer < len(self.times) and self.times[writer] >= time:
            return True
        lane = int(g.lanes[0])
        first = lane // s.team * s.team
        times = self.times[s.first + first : s.first + first + s.team]
        known = np.maximum(s.clock[lane, : s.team], s.floor[lane // g.batch.threads])
        known[lane - first] = self.races.machine.now
        known = known[: len(times)]
        return bool(((times >= time) & (times > 0) & (times <= known)).any())


class GlobalProxies(BulkCopyObserver):
    """What the checker does about fences for global memory."""

    def __init__(self, races: Races, findings: Findings) -> None:
        self.races = races
        self.machine = races.machine
        self.findings = findings
        self.async_fences = Fences(races)
        self.releases = Fences(races)
        self.acquires: dict[int, Fences] = {}
        """By the byte of the buffer at which a tensor map begins."""
        self.published: dict[int, int] = {}
        """When ``cp_fenceproxy`` wrote the tensor map there."""

    # -- numbers --------------------------------------------------------------

    def fence(self, g: Group) -> None:
        """``fence.proxy.async``, of all spaces or of global memory."""
        self.async_fences.note(g)

    def reads(self, g: Group, words: Array, access: int) -> None:
        """A copy of this thread reads these words of global memory."""
        world = self.races.global_memory.shadow
        times = world.write_time[words]
        if times.max() <= 0:
            return
        makers = world.write_access[words]
        stored = (times > 0) & ~np.isin(
            makers, [m for m in np.unique(makers) if self.findings.is_copy(int(m))]
        )
        if not stored.any():
            return
        who = world.writer[words]
        for writer in np.unique(who[stored]).tolist():
            mine = stored & (who == writer)
            i = int(np.argmax(np.where(mine, times, 0)))
            if self.async_fences.since(g, int(times[i]), writer):
                continue
            block, thread = divmod(writer, g.batch.threads)
            findings = self.findings
            findings.report(
                "missing-proxy-fence",
                say(
                    "a bulk copy of {} reads {} through the async proxy: {}; {} wrote it through "
                    "the generic proxy, and no fence.proxy.async of global memory lies between: {}",
                    g.batch.describe(g.lanes), self.races.global_memory.name(int(words[i])),
                    findings.place(access),
                    Threads.of(self.machine.order[block], [thread], g.batch.threads),
                    findings.place(int(makers[i])),
                ),
                access, ("global proxy", access, int(makers[i])),
            )  # fmt: skip
            return

    # -- tensor maps ----------------------------------------------------------

    def _words(self, where: int) -> Array:
        shift = self.races.facts.shift
        return np.arange(where >> shift, where + MAP >> shift)

    def loads_map(self, g: Group, where: int, access: int) -> None:
        """A thread reads the tensor map there."""
        self._touches_map(g, where, access, writes=False)

    def changes_map(self, g: Group, where: int, access: int) -> None:
        """A thread changes the tensor map there."""
        self._touches_map(g, where, access, writes=True)

    def _touches_map(self, g: Group, where: int, access: int, writes: bool) -> None:
        """A thread reads or changes the tensor map at this byte of the buffer."""
        words = Footprint.plain(self._words(where)[:, None])
        shared = g.batch.shared
        space = "shared" if shared.start <= where < shared.start + shared.size else "global"
        look: Look
        if space == "shared":
            look = self.races.shared_store if writes else self.races.shared_load
        else:
            look = self.races.global_memory.store if writes else self.races.global_memory.load
        look(g, words, 0, access, False)

    def publishes_map(self, where: int) -> None:
        """``tensormap.cp_fenceproxy`` has just written it, and released it."""
        self.published[where] = self.machine.now

    def releases_maps(self, g: Group) -> None:
        """``fence.proxy.tensormap::generic.release``."""
        self.releases.note(g)

    def acquires_map(self, g: Group, where: int) -> None:
        """``fence.proxy.tensormap::generic.acquire`` of the tensor map there."""
        self.acquires.setdefault(where, Fences(self.races)).note(g)

    def reads_map(self, g: Group, where: int, access: int) -> None:
        """The copy engine reads a tensor map, through the tensormap proxy."""
        if self.machine.memory.find(where, ("global",)) is None:
            return
        races, findings = self.races, self.findings
        words = self._words(where)
        races.global_memory.load(g, Footprint.plain(words[:, None]), 0, access, False)
        times = races.global_memory.shadow.write_time[words]
        i = int(np.argmax(times))
        written, writer = int(times[i]), int(races.global_memory.shadow.writer[words[i]])
        if written <= 0:
            return
        missing = ""
        if self.published.get(where, 0) < written and not self.releases.since(g, written, writer):
            missing = (
                "the thread that changes it needs a fence.proxy.tensormap::generic.release "
                "(or tensormap.cp_fenceproxy, which copies and releases it)"
            )
        acquired = self.acquires.get(where)
        if acquired is None or not acquired.since(g, written, -1):
            missing = (
                "between the change and the copy its block needs a "
                "fence.proxy.tensormap::generic.acquire of that address"
            )
        if missing:
            maker = int(races.global_memory.shadow.write_access[words[i]])
            findings.report(
                "missing-tensormap-fence",
                say(
                    "a bulk copy of {} uses a tensor map that the kernel has changed: {}; {}: {}",
                    g.batch.describe(g.lanes), findings.place(access), missing,
                    findings.place(maker),
                ),
                access, ("map", access),
            )  # fmt: skip


__all__ = ["GlobalProxies"]
