"""Fences that the copy engine needs before it sees what threads have stored in global memory.

It reads the numbers through the *async* proxy and tensor maps through the *tensormap* proxy (PTX
ISA 8.6).  What threads of the same launch have stored there through the generic proxy it sees
only behind a fence:

numbers        ``fence.proxy.async`` (or ``.global``) on the way from the store to the copy
a tensor map   ``fence.proxy.tensormap::generic.release`` by who changed it (``cp_fenceproxy``
               has it built in) and ``.acquire`` of its address by who copies

That the store itself is ordered before the copy is the business of
:mod:`~phasebit.emulator.races`; here it is enough that somebody on that way has fenced: the thread
that stored, the one that copies, or one of the latter's block that it has heard of since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from phasebit.emulator.footprint import Footprint
from phasebit.emulator.types import Array

if TYPE_CHECKING:
    from phasebit.emulator.group import Group
    from phasebit.emulator.machine import Machine
    from phasebit.emulator.proxies import Engine

MAP = 128
"""Bytes of a tensor map."""


class Fences:
    """When each thread of the grid last fenced."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.times = np.zeros(0, np.int32)

    def note(self, g: Group) -> None:
        """These threads do."""
        s = self.engine.races.shadows[g.batch]
        last = s.first + int(g.lanes[-1]) + 1
        if last > len(self.times):
            self.times = np.append(self.times, np.zeros(2 * last - len(self.times), np.int32))
        self.times[g.lanes + s.first] = self.engine.machine.now

    def since(self, g: Group, time: int, writer: int) -> bool:
        """Whether one on the way has fenced since: ``writer``, thread ``g``, or one it heard of."""
        s = self.engine.races.shadows[g.batch]
        if writer < len(self.times) and self.times[writer] >= time:
            return True
        lane = int(g.lanes[0])
        first = lane // s.team * s.team
        times = self.times[s.first + first : s.first + first + s.team]
        known = np.maximum(s.clock[lane, : s.team], s.floor[lane // g.batch.threads])
        known[lane - first] = self.engine.machine.now
        known = known[: len(times)]
        return bool(((times >= time) & (times > 0) & (times <= known)).any())


class GlobalProxies:
    """What the checker does about fences for global memory."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.machine: Machine = engine.machine
        self.async_fences = Fences(engine)
        self.releases = Fences(engine)
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
        world = self.engine.races.world
        times = world.write_time[words]
        if times.max() <= 0:
            return
        makers = world.write_access[words]
        stored = (times > 0) & ~np.isin(
            makers, [m for m in np.unique(makers) if self.engine.is_copy(int(m))]
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
            findings = self.engine.findings
            findings.report(
                "proxy",
                f"a bulk copy of {g.batch.describe(g.lanes)} reads "
                f"{self.engine.races._global_name(int(words[i]))} through the async proxy: "
                f"{findings.place(access)}; thread {thread} of block "
                f"{int(self.machine.order[block])} wrote it through the generic proxy, and no "
                "fence.proxy.async of global memory lies between: "
                f"{findings.place(int(makers[i]))}",
                access, ("global proxy", access, int(makers[i])),
            )  # fmt: skip
            return

    # -- tensor maps ----------------------------------------------------------

    def _words(self, where: int) -> Array:
        shift = self.engine.races.shift
        return np.arange(where >> shift, where + MAP >> shift)

    def touches_map(self, g: Group, where: int, access: int, writes: bool) -> None:
        """A thread reads or changes the tensor map at this byte of the buffer."""
        words = Footprint.plain(self._words(where)[:, None])
        shared = g.batch.shared
        space = "shared" if shared.start <= where < shared.start + shared.size else "global"
        look = getattr(self.engine.races, f"{space}_{'store' if writes else 'load'}")
        look(g, words, 0, access, False)

    def publishes_map(self, where: int) -> None:
        """``tensormap.cp_fenceproxy`` has just written it, and released it."""
        self.published[where] = self.machine.now

    def release(self, g: Group) -> None:
        """``fence.proxy.tensormap::generic.release``."""
        self.releases.note(g)

    def acquire(self, g: Group, where: int) -> None:
        """``fence.proxy.tensormap::generic.acquire`` of the tensor map there."""
        self.acquires.setdefault(where, Fences(self.engine)).note(g)

    def reads_map(self, g: Group, where: int, access: int) -> None:
        """The copy engine reads a tensor map, through the tensormap proxy."""
        if self.machine.memory.find(where, ("global",)) is None:
            return
        races, findings = self.engine.races, self.engine.findings
        words = self._words(where)
        races.global_load(g, Footprint.plain(words[:, None]), 0, access, False)
        times = races.world.write_time[words]
        i = int(np.argmax(times))
        written, writer = int(times[i]), int(races.world.writer[words[i]])
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
            maker = int(races.world.write_access[words[i]])
            findings.report(
                "proxy",
                f"a bulk copy of {g.batch.describe(g.lanes)} uses a tensor map that the kernel "
                f"has changed: {findings.place(access)}; {missing}: {findings.place(maker)}",
                access, ("map", access),
            )  # fmt: skip


__all__ = ["GlobalProxies"]
