"""Fences that the copy engine needs before it sees what threads have stored in global memory.

It reads numbers, and writes over them, through the *async* proxy, and it reads tensor maps through
the *tensormap* proxy (PTX ISA 8.6).  What threads of the same launch have stored there through the
generic proxy it sees, and comes after, only behind a fence:

numbers        ``fence.proxy.async`` (or ``.global``) on the way from the store to the copy
a tensor map   ``fence.proxy.tensormap::generic.release`` by who changed it (``cp_fenceproxy``
               has it built in) and ``.acquire`` of its address by who copies, both with a
               scope that reaches from the one to the other

That the store itself is ordered before the copy is the business of
``checker.races``; here it is enough that somebody on that way has fenced: the thread
that stored, the one that copies, or one of the latter's block that it has heard of since.

A tensor map is read while its copy is under way, until its mbarrier, or
``cp.async.bulk.wait_group.read``, says that the copy has read (9.7.9.27.2.2): who changes it must
have waited for that.  A load is in no bulk group, so by the letter only its mbarrier tells of it.
But CUTLASS's grouped products, in C++ (``tma_desc_wait_group``) and in CuTe DSL, let the thread
that asked for loads close a group and wait for it before it changes their maps: that counts, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phasebit.emulator.checker.footprint import Footprint
from phasebit.emulator.checker.races import Look, Races
from phasebit.emulator.checker.reports import Findings
from phasebit.emulator.copy_engine.bulk_copies import BulkCopy
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
        """Whether one on the way has fenced since: ``writer``, thread ``g``, or one it heard of.

        ``writer``: -1 where it does not count.
        """
        s = self.races.shadows[g.batch]
        if 0 <= writer < len(self.times) and self.times[writer] >= time:
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
        self.releases, self.wide_releases = Fences(races), Fences(races)
        self.acquires: dict[tuple[int, bool], Fences] = {}
        """By the byte of the buffer at which a tensor map begins, and whether of wide scope."""
        self.drained: dict[int, tuple[int, int]] = {}
        """When a thread of the grid last closed a bulk group that it then waited for, and then."""
        self.closed: dict[int, int] = {}
        self.published: dict[int, int] = {}
        """When ``cp_fenceproxy`` wrote the tensor map there."""
        self.asked: tuple[int, int] | None = None
        """The last map in global memory that a copy was asked for by, and the instruction."""
        self.using: dict[int, dict[object, BulkCopy]] = {}
        """By the byte of a map: of each barrier, or thread with bulk groups, the last copy."""

    # -- numbers --------------------------------------------------------------

    def fence(self, g: Group) -> None:
        """``fence.proxy.async``, of all spaces or of global memory."""
        self.async_fences.note(g)

    def touches(self, g: Group, words: Array, access: int, verb: str) -> None:
        """A copy of this thread "reads" or "writes" these words of global memory."""
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
                    "a bulk copy of {} {} {} through the async proxy: {}; {} wrote it through "
                    "the generic proxy, and no fence.proxy.async of global memory lies between: {}",
                    g.batch.describe(g.lanes), verb, self.races.global_memory.name(int(words[i])),
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
        if writes:
            self._still_used(g, where, access)
        shared = g.batch.shared
        space = "shared" if shared.start <= where < shared.start + shared.size else "global"
        look: Look
        if space == "shared":
            look = self.races.shared_store if writes else self.races.shared_load
        else:
            look = self.races.global_memory.store if writes else self.races.global_memory.load
        look(g, words, 0, access, False)

    def starts_copies(self, g: Group, copies: Sequence[tuple[Group, BulkCopy]]) -> None:
        """Copies begin: by the map that has just been read, if there is one in global memory."""
        asked, self.asked = self.asked, None
        for _, copy in copies:
            if asked and asked[1] == copy.access:
                user = copy.site or (copy.batch, int(copy.lanes[0]))
                self.using.setdefault(asked[0], {})[user] = copy

    def source_is_free(self, copy: BulkCopy) -> None:
        """A thread has waited until its copy has read: as if the thread had read the map now."""
        user = copy.batch, int(copy.lanes[0])
        for where, users in self.using.items():
            if users.get(user) is copy:
                del users[user]
                g = Group(copy.batch, copy.lanes, 0, [], 0)
                self._touches_map(g, where, copy.access, writes=False)

    def closes_group(self, g: Group) -> None:
        """Threads close a bulk group."""
        first = self.races.shadows[g.batch].first
        self.closed.update((first + int(lane), self.machine.now) for lane in g.lanes)

    def waits_for_groups(self, g: Group) -> None:
        """Threads have waited until no bulk group of theirs reads any more."""
        first = self.races.shadows[g.batch].first
        for thread in (first + int(lane) for lane in g.lanes):
            if thread in self.closed:
                self.drained[thread] = self.closed[thread], self.machine.now

    def _still_used(self, g: Group, where: int, access: int) -> None:
        """A thread changes the map there: have the copies by it that its block asked for read?"""
        s = self.races.shadows[g.batch]
        lane = int(g.lanes[0])
        for copy in self.using.get(where, {}).values():
            if copy.batch is not g.batch or int(copy.lanes[0]) // s.team != lane // s.team:
                continue
            if copy.site is not None and s.clock[lane, s.site(copy.site)] >= copy.started:
                continue
            asker = int(copy.lanes[0])
            closed, waited = self.drained.get(s.first + asker, (-1, 0))
            if closed >= copy.started and (
                asker == lane or s.clock[lane, asker % s.team] >= waited
                or s.floor[lane // g.batch.threads] >= waited
            ):  # fmt: skip
                continue
            wait = (
                f"nobody has waited for mbarrier {copy.site.name}" if copy.site is not None
                else "it has not waited (cp.async.bulk.wait_group.read)"
            )  # fmt: skip
            self.findings.report(
                "tensor-map-changed-in-use",
                say(
                    "{} changes a tensor map: {}; a bulk copy of {} may still go by it, and {}: {}",
                    g.batch.describe(g.lanes), self.findings.place(access),
                    g.batch.describe(copy.lanes), wait, self.findings.place(copy.access),
                ),
                access, ("map in use", access, copy.access),
            )  # fmt: skip

    def publishes_map(self, where: int) -> None:
        """``tensormap.cp_fenceproxy`` has just written it, and released it."""
        self.published[where] = self.machine.now

    def releases_maps(self, g: Group, scope: str) -> None:
        """``fence.proxy.tensormap::generic.release``."""
        self.releases.note(g)
        if scope != "cta":
            self.wide_releases.note(g)

    def acquires_map(self, g: Group, where: int, scope: str) -> None:
        """``fence.proxy.tensormap::generic.acquire`` of the tensor map there."""
        for wide in (False, True)[: 1 + (scope != "cta")]:
            self.acquires.setdefault((where, wide), Fences(self.races)).note(g)

    def reads_map(self, g: Group, where: int, access: int) -> None:
        """The copy engine reads a tensor map, through the tensormap proxy."""
        self.asked = None
        if self.machine.memory.find(where, ("global",)) is None:
            return
        self.asked = where, access
        races, findings = self.races, self.findings
        words = self._words(where)
        races.global_memory.load(g, Footprint.plain(words[:, None]), 0, access, False)
        times = races.global_memory.shadow.write_time[words]
        i = int(np.argmax(times))
        written, writer = int(times[i]), int(races.global_memory.shadow.writer[words[i]])
        if written <= 0:
            return
        missing = ""
        mine = races.shadows[g.batch].first + int(g.lanes[0])
        far = writer // g.batch.threads != mine // g.batch.threads
        scope = " with a scope that reaches the other block, .gpu" if far else ""
        releases = self.wide_releases if far else self.releases
        if self.published.get(where, 0) < written and not releases.since(g, written, writer):
            missing = (
                "the thread that changes it needs a fence.proxy.tensormap::generic.release "
                f"(or tensormap.cp_fenceproxy, which copies and releases it){scope}"
            )
        acquired = self.acquires.get((where, far))
        if acquired is None or not acquired.since(g, written, -1):
            missing = (
                "between the change and the copy its block needs a "
                f"fence.proxy.tensormap::generic.acquire of that address{scope}"
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
