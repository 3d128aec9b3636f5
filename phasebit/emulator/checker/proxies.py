"""The copy engine in the checker: what it reads and writes, through the async proxy.

Three things are not as with a thread's own accesses (PTX ISA 8.6, 9.7.9.25.4):

*It works later.*  What it writes to shared memory is ordered before those who have waited
for the mbarrier that counts it: a column of the clocks belongs to each mbarrier.  What it
reads, or writes to global memory, is under way until its thread has waited for the bulk
group (or somebody for the mbarrier).

*It looks through another proxy.*  It sees what threads have stored in shared memory only if
a ``fence.proxy.async`` lies between, on the way from the store to the copy.  So each thread
has, beside the clocks of what it knows, a second row: what of that has been fenced.  It
spreads by the same barriers.  A third row says what it may have overwritten by a copy, though
threads have read it: what was fenced, or read before an arrival at a barrier.

*Nobody may leave before it is done* with a block's shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from phasebit.emulator.checker.alike_copies import Alike, free, untouched
from phasebit.emulator.checker.footprint import Footprint, touching
from phasebit.emulator.checker.global_proxies import GlobalProxies
from phasebit.emulator.checker.mbarrier_order import MbarrierOrder
from phasebit.emulator.checker.races import Races
from phasebit.emulator.checker.reports import Findings
from phasebit.emulator.checker.shared_shadow import SITES, SharedShadow
from phasebit.emulator.copy_engine.bulk_copies import BulkCopy, Reduced, Side
from phasebit.emulator.copy_engine.copy_observer import BulkCopyObserver
from phasebit.emulator.copy_engine.tensor_copy import LINE, Box, Rows
from phasebit.emulator.copy_engine.tensormap import PACKED, SWIZZLES
from phasebit.emulator.findings import Said, Sentence, say
from phasebit.emulator.machine.barrier_sites import BarrierSite, BarrierSites, MbarrierObserver
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.numbers.swizzle import MODES
from phasebit.emulator.numbers.words import among
from phasebit.emulator.ptx.types import Array

REMOTE = "remote"
"""``st.async`` and ``red.async`` go through the generic proxy (PTX ISA 8.6 names the others)."""

ANSWERS = "launches"
"""What ``clusterlaunchcontrol.try_cancel`` writes."""

ELEMENTS = ("", *sorted(PACKED))
"""Types of tensor maps whose elements have less than a byte, after the others."""

MANY = 64
"""Copies between shared memories that are kept before those done are dropped."""


class Engine(BulkCopyObserver, MbarrierObserver, LaunchObserver):
    """What the checker does about bulk copies."""

    def __init__(self, races: Races, findings: Findings, mbarriers: MbarrierOrder) -> None:
        self.machine = races.machine
        self.findings = findings
        self.races = races
        self.mbarriers = mbarriers
        self.reading: dict[Batch, dict[BulkCopy, Array]] = {}
        """Copies that may still read shared memory: the words, in order."""
        self.writing: list[tuple[Array, BulkCopy]] = []
        """Words of global memory that copies may still write."""
        self.written_by = np.zeros(0, np.uint16)
        """How many of them may still write each word."""
        self.world = GlobalProxies(races, findings)
        self.patterns: dict[Batch, Array] = {}
        """How tensor copies swizzled each 128 bytes of shared memory: :data:`SWIZZLES`, plus 1."""
        self.elements: dict[Batch, Array] = {}
        """Of which elements below a byte a tensor copy filled them: :data:`ELEMENTS`."""
        self.commits: set[int] = set()
        """Instructions that closed bulk groups."""
        self.grouped = False
        """Whether a copy of the launch was in a bulk group."""
        self.took_map: set[tuple[int, int]] = set()
        """Threads, by batch and lane, that have acquired a tensor map and closed no group since."""

    # -- a copy begins --------------------------------------------------------

    def starts_copies(self, g: Group, copies: Sequence[tuple[Group, BulkCopy]]) -> None:
        """Threads ask for copies: their sources must be ready, their targets free."""
        for _, together in groupby(copies, lambda pair: pair[1].site):
            some = list(together)
            if len(some) == 1 or not self._starts_alike(g, [copy for _, copy in some]):
                for one, copy in some:
                    self._starts(one, copy)

    def _starts_alike(self, g: Group, copies: list[BulkCopy]) -> bool:
        """Look at copies of one barrier at once, if they are alike and nothing is amiss with any.

        ``cuda::memcpy_async`` makes a copy of a few bytes for each thread.
        """
        lanes = np.concatenate([copy.lanes for copy in copies])
        if len(lanes) < g.n:
            g = g.part(np.flatnonzero(np.isin(g.lanes, lanes)), g.pc)
        alike = Alike.of(g, copies, self.races.facts.shift)
        if alike is None or self.reading.get(g.batch) or self.writing:
            return False
        s = self.races.shadows[g.batch]
        world = self.races.global_memory
        if not untouched(world.shadow, alike.reads) or not free(s, g, alike.writes - s.base):
            return False
        first = copies[0]
        site = alike.site
        made = self.mbarriers.of(site).made[1]
        others = g.lanes[s.threads(g.lanes) != made % s.team]
        if len(others):
            self.mbarriers.touch(g, g.lanes if len(others) == g.n else others, site, itself=False)
        column = s.site(site)
        self.mbarriers.asks(site, column, int(g.lanes[-1]))
        world.copy(g, Footprint.plain(alike.reads), 0, first.access, np.full(g.n, column))
        self.races.shared_store(
            g, Footprint.plain(alike.writes), 0, first.access, False, agent=column
        )
        s.site_started(site, self.machine.now)
        self._remember(g.batch, first.target, alike.writes.ravel())
        for copy in copies:
            copy.started = self.machine.now
        self.machine.now += 1
        return True

    def _starts(self, g: Group, copy: BulkCopy) -> None:
        """A thread asks for a copy: its source must be ready, its target free."""
        copy.started = self.machine.now
        shift = self.races.facts.shift
        s = self.races.shadows[g.batch]
        self.grouped |= copy.site is None
        if copy.site is not None and (
            self.mbarriers.of(copy.site).made[1] % s.team != int(g.lanes[0]) % s.team
        ):
            self.mbarriers.touch(g, g.lanes, copy.site, itself=False)
        if copy.site is not None:
            self.mbarriers.asks(copy.site, s.site(copy.site), int(g.lanes[0]))
        words = _read_by(copy, shift)
        if len(words):
            if copy.source.space == "shared":
                self._read_shared(s, g, words, copy)
            else:
                read = Footprint.of_one(words)
                world = self.races.global_memory
                if copy.site is None:
                    world.load(g, read, 0, copy.access, False)
                else:
                    world.copy(g, read, 0, copy.access, np.full(g.n, s.site(copy.site)))
                self.world.touches(g, words, copy.access, "reads")
        words = copy.target.words(shift)
        if len(words) and copy.target.space == "shared":
            assert copy.site is not None
            column = s.site(copy.site)
            self._overwrites(s, g, words - s.base, copy.access)
            self.races.shared_store(
                g, Footprint.of_one(words), 0, copy.access, copy.reduces, agent=column
            )
            s.site_started(copy.site, self.machine.now)
            self._remember(g.batch, copy.target, words)
        elif len(words):
            self.world.touches(g, words, copy.access, "writes")
            self.races.global_memory.store(
                g, Footprint.of_one(words), 0, copy.access, copy.reduces
            )
            self.writing.append((words, copy))
            self._count(words, 1)
        self.machine.now += 1

    def _count(self, words: Array, more: int) -> None:
        """So many more copies may still write these words of global memory."""
        size = self.races.global_memory.shadow.size
        if size > len(self.written_by):
            self.written_by = np.append(
                self.written_by, np.zeros(size - len(self.written_by), np.uint16)
            )
        self.written_by[words] += np.uint16(more & 0xFFFF)

    def _remember(self, batch: Batch, target: Side, words: Array) -> None:
        """What the lines that a copy fills hold; plain copies bring what they bring."""
        if batch not in self.patterns:
            size = batch.count * batch.shared_stride // LINE + 1
            self.patterns[batch] = np.zeros(size, np.uint8)
            self.elements[batch] = np.zeros(size, np.uint8)
        lines = ((words << self.races.facts.shift) - batch.shared_base) // LINE
        known = 1 + SWIZZLES.index(target.mode) if isinstance(target, Box) else 0
        self.patterns[batch][lines] = known
        elements = target.elements if isinstance(target, Box) else ""
        self.elements[batch][lines] = ELEMENTS.index(elements)

    def _brought(self, batch: Batch, position: int) -> tuple[int, int] | None:
        """The word and the line of a byte, if a copy wrote it last."""
        s = self.races.shadows[batch]
        word = (position >> self.races.facts.shift) - s.base
        if batch not in self.patterns or not s.bulk <= s.writer[word] < s.bulk + SITES:
            return None
        return word, (position - batch.shared_base) // LINE

    def other_elements(self, batch: Batch, position: int, elements: str) -> Sentence | None:
        """A tile of small elements that lie otherwise than a product reads them; or nothing.

        ``elements``: the type of a tensor map that puts them where the product looks for them,
        nothing where they have a byte or more.  What ``b4x16`` brings has no gaps, so it may be
        bytes of anything, but for a product that wants gaps.
        """
        at = self._brought(batch, position)
        copied = ELEMENTS[self.elements[batch][at[1]]] if at else ""
        if at is None or copied in ("", elements) or (copied == "b4x16" and not elements):
            return None
        lies = {"": "as a byte or more each", "b4x16": "packed, two a byte"}
        reads = lies.get(elements, f"as {elements} has them, 16 in 16 bytes")
        return say(
            "the product reads its elements {}, but the tensor map by which the tile was copied is "
            "of {}, {}: {}",
            reads, copied, lies.get(copied, "which makes slots of 16 bytes"),
            self.findings.place(int(self.races.shadows[batch].write_access[at[0]])),
        )  # fmt: skip

    def otherwise(self, batch: Batch, position: int, swizzle: str) -> Sentence | None:
        """A tile whose descriptor names another swizzle than the copy that brought it; or nothing.

        ``position``: a byte of the buffer, in the tile's first row.
        """
        at = self._brought(batch, position)
        if at is None:
            return None
        s, word = self.races.shadows[batch], at[0]
        known = int(self.patterns[batch][at[1]])
        copied = MODES[SWIZZLES[known - 1]].name if known else swizzle
        if copied == swizzle:
            return None
        return say(
            "it says swizzle {}, but the tensor map by which the tile was copied says {}: {}",
            swizzle, copied, self.findings.place(int(s.write_access[word])),
        )  # fmt: skip

    def _read_shared(self, s: SharedShadow, g: Group, words: Array, copy: BulkCopy) -> None:
        self.look(s, g, words, copy.access, "a bulk copy")
        self.reading.setdefault(g.batch, {})[copy] = words

    def look(self, s: SharedShadow, g: Group, words: Array, access: int, what: str) -> None:
        """Something that a thread has started reads shared memory through the async proxy."""
        footprint = Footprint.of_one(words)
        self.races.shared_load(g, footprint, 0, access, False, note=False)
        x = footprint.at(-s.base)
        writers = s.writer[x]
        mine = writers < s.team
        if not mine.any():  # what copies have brought needs no fence: they use the same proxy
            return
        times = s.write_time[x]
        fenced = s.clock[g.lanes[0], s.proxy + np.where(mine, writers, 0)]
        late = mine & (times > fenced)
        if late.any():
            reads = say("{} of {} reads", what, g.batch.describe(g.lanes))
            self.unordered(s, g, words - s.base, late, "wrote", access, reads)

    def unordered(
        self, s: SharedShadow, g: Group, x: Array, late: Array, did: str, access: int, what: Said,
        *, role: str = "", unless: str = "no fence.proxy.async", key: str = "proxy",
    ) -> None:  # fmt: skip
        """Report the first of the words ``x`` at which ``late``, if any, through the async proxy.

        ``did``: "wrote", "has written" or "has read", through the generic proxy, and was not over;
        ``what`` comes, to which ``role`` of a multiplication; ``unless``: what would order them.
        """
        if not late.any():
            return
        i = int(np.argmax(late))
        reads = did == "has read"
        threads, accesses = (s.reader, s.read_access) if reads else (s.writer, s.write_access)
        team = int(g.lanes[0]) // s.team * s.team
        who = g.batch.describe(np.array([team + int(threads[x[i]])]))
        there = int(accesses[x[i]])
        self.findings.report(
            "missing-proxy-fence",
            say(
                "{} {}{} through the async proxy: {}; {} {} it through the generic proxy, and {} "
                "lies between: {}",
                what, self.races.shared_name(s, int(x[i])), role and f" as part of {role}",
                self.findings.place(access), who, did, unless, self.findings.place(there),
            ),
            access, (key, access, there),
        )  # fmt: skip

    def _overwrites(self, s: SharedShadow, g: Group, x: Array, access: int) -> None:
        """A copy writes what threads have used through the generic proxy: is that over?

        The ISA has a ``fence.proxy.async`` between the two, whatever else there is, and what they
        have written needs it.  But NVIDIA's own kernels let a slot be filled again after its
        readers' arrival at an mbarrier or at a barrier of threads, without one (CUTLASS,
        ``test/unit/cute/hopper``), and nobody has seen that fail: so these count as well.  A warp's
        own order and ``__syncwarp`` do not: there a read still under way was seen overtaken
        (DeepEP, pull request 642).  Of what threads have read, nothing is asked of compilers; what
        threads have written, they fence.

        An answer of cluster launch control is written so too, and there every source that was at
        hand has the fence (the CUDA programming guide, CUTLASS, tilus): it is asked.
        """
        times, writers = s.read_time[x], s.writer[x]
        threads = (writers < s.team) & (s.write_time[x] > 0)
        if not times.any() and not threads.any():
            return
        instruction = self.machine.executing()
        engine = instruction and self.machine.program.traits(instruction).engine
        if engine == REMOTE:
            return
        if threads.any():
            self._overwrites_written(s, g, x[threads], access)
        if not times.any() or (instruction is not None and instruction.generated):
            return
        if engine == ANSWERS:
            self._answers_again(s, g, x, access)
            return
        readers = s.reader[x]
        over = s.clock[g.lanes[0], s.overwrites + readers]
        late = times > np.maximum(over, s.floor[int(g.lanes[0]) // g.batch.threads])
        late &= times <= self._seen(s, g, readers)  # else it is a race, and found as one
        if late.any():  # what copies have read needs no fence: they use the same proxy
            late &= ~np.isin(s.read_access[x], [a for a in np.unique(s.read_access[x][late])
                                               if self.findings.is_copy(int(a))])  # fmt: skip
        if late.any():
            self.unordered(
                s, g, x, late, "has read", access,
                say("a bulk copy of {} writes", g.batch.describe(g.lanes)),
                unless="neither fence.proxy.async nor the reader's arrival at a barrier",
                key="overwrites",
            )  # fmt: skip

    def _answers_again(self, s: SharedShadow, g: Group, x: Array, access: int) -> None:
        """An answer comes where the one before it was: has each reader of that fenced?"""
        s.enter_reads()
        reads, words = s.readers[x], np.arange(len(x))
        reads[words, s.reader[x]] = s.read_time[x]  # the last is known whatever was dropped
        fenced = s.clock[g.lanes[0], s.proxy : s.proxy + s.team]
        late = (reads > fenced) & (reads <= self._seen(s, g, np.arange(s.team)))
        if not late.any():
            return
        who = int(np.argmax(late.any(axis=0)))
        word = int(x[int(np.argmax(late[:, who]))])
        there = int(s.read_access[word])
        self.findings.report(
            "missing-proxy-fence",
            say(
                "the answer of {} writes {} through the async proxy: {}; {} has read the one "
                "before it through the generic proxy, and no fence.proxy.async lies between: {}",
                g.batch.describe(g.lanes), self.races.shared_name(s, word),
                self.findings.place(access),
                g.batch.describe(np.array([int(g.lanes[0]) // s.team * s.team + who])),
                self.findings.place(there),
            ),
            access, ("answers", access, there),
        )  # fmt: skip

    def _overwrites_written(self, s: SharedShadow, g: Group, x: Array, access: int) -> None:
        times, writers = s.write_time[x], s.writer[x]
        late = times > s.clock[g.lanes[0], s.proxy + writers]
        late &= times <= self._seen(s, g, writers)  # else it is a race, and found as one
        if late.any():  # the address that tcgen05.alloc writes: Triton's kernels count on it
            late &= ~np.isin(s.write_access[x], [a for a in np.unique(s.write_access[x][late])
                                                if self._allocates(int(a))])  # fmt: skip
        if late.any():
            self.unordered(
                s, g, x, late, "has written", access,
                say("a bulk copy of {} writes", g.batch.describe(g.lanes)), key="overwrites",
            )  # fmt: skip

    def _allocates(self, access: int) -> bool:
        instruction = self.findings.instruction(access)
        return instruction is not None and self.machine.program.traits(instruction).allocates

    def _seen(self, s: SharedShadow, g: Group, columns: Array) -> Array:
        """Up to when these threads' doings are ordered before those of this one."""
        lane = int(g.lanes[0])
        known = np.maximum(s.clock[lane, : s.team], s.floor[lane // g.batch.threads])
        known[lane % s.team] = self.machine.now
        found: Array = known[columns]
        return found

    def fences_async(self, g: Group, space: str) -> None:
        """``fence.proxy.async``: what these threads know, copies that they start may see."""
        if not self.races.facts.bulk:
            return
        if space in ("", "global"):
            self.world.fence(g)
        if space == "global":
            return
        s = self.races.shadows[g.batch]
        known = np.maximum(s.clock[g.lanes, : s.team], s.floor[g.batch.slots(g.lanes)][:, None])
        known[np.arange(g.n), s.threads(g.lanes)] = self.machine.now
        for row in (s.proxy, s.overwrites):
            fenced = s.clock[g.lanes, row : row + s.team]
            s.clock[g.lanes, row : row + s.team] = np.maximum(fenced, known)
        s.version += 1

    # -- while it is under way ------------------------------------------------

    def against_readers(
        self, s: SharedShadow, g: Group, footprint: Footprint, start: int, access: int
    ) -> None:
        """Threads write to shared memory: does a copy still read there?"""
        copies = self.reading.get(g.batch)
        if not copies:
            return
        words = footprint.once + start
        if len(copies) > MANY:
            known = s.clock[g.batch.alive].min(axis=0)
            for copy in [
                c for c in copies if c.site is not None and known[s.site(c.site)] >= c.started
            ]:
                del copies[copy]
        low, high = int(words.min()), int(words.max())
        for copy, read in list(copies.items()):
            if high < read[0] or low > read[-1]:
                continue
            if copy.site and (s.clock[g.lanes, s.site(copy.site)] >= copy.started).all():
                continue
            both = words[among(words, read)]
            if not len(both):
                continue
            lanes, written = touching(g, footprint, start, both)
            if copy.site is not None:
                late = s.clock[lanes, s.site(copy.site)] < copy.started
                if not late.any():
                    continue
                lanes, written = lanes[late], written[late]
            name = self.races.shared_name(s, int(written[0]) - s.base)
            wait = (
                f"nobody has waited for mbarrier {copy.site.name}" if copy.site is not None
                else "it has not waited (cp.async.bulk.wait_group.read)"
            )  # fmt: skip
            self.findings.report(
                "bulk-source-overwritten",
                say(
                    "{} writes {}: {}; a bulk copy of {} may still read it, and {}: {}",
                    g.batch.describe(lanes[:1]), name, self.findings.place(access),
                    g.batch.describe(copy.lanes), wait, self.findings.place(copy.access),
                ),
                access, ("reading", access, copy.access),
            )  # fmt: skip

    def against_writers(
        self, g: Group, footprint: Footprint, start: int, access: int, verb: str, strong: bool
    ) -> None:
        """Threads touch global memory: does a copy still write there?

        Reductions are atomic, element by element: they may meet with each other (9.7.9.25.4.2).
        """
        if not self.writing:
            return
        words = footprint.once + start
        words = words[words < len(self.written_by)]
        words = words[self.written_by[words] > 0]
        if not len(words):
            return
        low, high = int(words.min()), int(words.max())
        for mine, copy in self.writing:
            if strong and copy.reduces:
                continue
            if high < mine[0] or low > mine[-1] or access == copy.access:
                continue
            both = among(words, mine)
            if both.any():
                name = self.races.global_memory.name(int(words[both][0]))
                lanes, _ = touching(g, footprint, start, words[both][:1])
                self.findings.report(
                    "missing-bulk-wait",
                    say(
                        "{} {} {}: {}; a bulk copy of {} may not have written it yet: it has not "
                        "waited (cp.async.bulk.wait_group): {}",
                        g.batch.describe(lanes[:1]), verb, name, self.findings.place(access),
                        copy.batch.describe(copy.lanes), self.findings.place(copy.access),
                    ),
                    access, ("writing", access, copy.access),
                )  # fmt: skip

    # -- it is over -----------------------------------------------------------

    def lands(self, copy: BulkCopy) -> None:
        """A copy's bytes have come: its barrier publishes that copy, and nothing else."""
        assert copy.site is not None
        s = self.races.shadows.get(copy.batch)
        if s is None:
            return
        known = np.zeros(s.clock.shape[1], np.int32)
        known[s.site(copy.site)] = copy.started
        self.mbarriers.publish(copy.site, known)

    def source_is_free(self, copy: BulkCopy) -> None:
        """The thread has waited until its copy has read: from now on as if it had read itself."""
        reads = self.reading.get(copy.batch, {}).pop(copy, None)
        if reads is None:
            return
        s = self.races.shadows[copy.batch]
        x = reads - s.base
        column = int(s.threads(copy.lanes)[0])
        s.read(x, column, self.machine.now)
        s.read_time[x] = self.machine.now
        s.read_access[x] = copy.access
        s.last_read[column] = self.machine.now

    def target_is_written(self, copy: BulkCopy) -> None:
        """The thread has waited until its copy has written: as if it had written itself, now."""
        for i, (words, one) in enumerate(self.writing):
            if one is copy:
                del self.writing[i]
                self._count(words, -1)
                self.races.global_memory.shadow.write_time[words] = self.machine.now
                return

    def ends(self, batch: Batch) -> None:
        """A batch has left the kernel."""
        self.reading.pop(batch, None)
        self.patterns.pop(batch, None)
        if self.races.over:
            self._never_used()

    def block_ends(self, batch: Batch, slot: int, known: Array) -> None:
        """All threads of a block have left; ``known``: what they knew.

        A store that still reads the block's shared memory then is reported, though an H200 keeps
        that memory (``tests/emulator/test_leaving.py``), and kernels of CUTLASS for sm_100 count
        on it: an executing block owns the memory (5.1.7), and the PTX ISA promises no more.
        """
        s = self.races.shadows[batch]
        for copy, words in self.reading.get(batch, {}).items():
            at = (int(words[0]) - s.base << self.races.facts.shift) // batch.shared_stride
            if at == slot and (
                copy.site is None or known[s.site(copy.site)] < copy.started
            ):  # fmt: skip
                self.findings.report(
                    "bulk-in-flight-at-exit",
                    say(
                        "block {} leaves the kernel while a bulk copy of {} may still read its "
                        "shared memory: {}; wait for it (cp.async.bulk.wait_group.read 0)",
                        int(batch.blocks[slot]), batch.describe(copy.lanes),
                        self.findings.place(copy.access),
                    ),
                    copy.access, ("left", copy.access),
                )  # fmt: skip
        for site in batch.of(BarrierSites).by_place.values():
            if site.slot == slot and site.barrier.live:
                self._bytes_left(site)

    def _bytes_left(self, site: BarrierSite) -> None:
        left = site.barrier.tx - sum(
            agent.size for agent in self.machine.agents
            if isinstance(agent, BulkCopy) and agent.site is site
        )  # fmt: skip
        if left:
            come = say("; the last to come: {}", self.findings.place(site.carrier))
            self.findings.report(
                "announced-bytes-missing" if left > 0 else "unannounced-bytes",
                say(
                    "mbarrier {} ends in phase {} with {}; each expect_tx must announce the bytes "
                    "of its copies{}{}",
                    site.name, site.barrier.phase, site.bytes_text(), site.announcers_text(),
                    come if site.carrier >= 0 else "",
                ),
                site.carrier, ("bytes", site.name),
            )  # fmt: skip

    # -- what was forgotten ---------------------------------------------------

    def announces_bytes(self, g: Group, site: BarrierSite) -> None:
        """``mbarrier.expect_tx``: is there still something that keeps the phase open?"""
        if site.barrier.pending or not site.barrier.live:
            return
        coming = sum(a.size for a in self.machine.agents
                     if isinstance(a, BulkCopy) and a.site is site)  # fmt: skip
        if site.barrier.tx <= coming:
            where = self.machine.where(g)
            self.findings.report(
                "late-expect-tx",
                say(
                    "{} announces bytes at mbarrier {}, of which no arrival is pending and all "
                    "bytes announced so far are on their way: its phase may be over before; let "
                    "expect_tx come before the last arrival: {}",
                    g.batch.describe(g.lanes), site.name, where,
                ),
                -1, ("late expect", where),
            )  # fmt: skip

    def acquires_map(self, g: Group, where: int, scope: str) -> None:
        """``fence.proxy.tensormap::generic.acquire`` of the tensor map there."""
        self.took_map |= _threads(g)

    def closes_group(self, g: Group) -> None:
        """A thread closes a bulk group; Triton closes an empty one after it has made a map."""
        closing = _threads(g)
        if not closing <= self.took_map:
            self.commits.add(self.machine.executing_access())
        self.took_map -= closing

    def _never_used(self) -> None:
        """The launch is over: was there ever a copy in the bulk groups?"""
        if self.grouped:
            return
        for access in sorted(self.commits):
            self.findings.report(
                "empty-bulk-group",
                say(
                    "a bulk group is closed and waited for, but no copy of this launch ever was "
                    "in one: {}; is a store to global memory left out?",
                    self.findings.place(access),
                ),
                access, ("empty group", access),
            )  # fmt: skip
        self.commits.clear()


def _threads(g: Group) -> set[tuple[int, int]]:
    return {(id(g.batch), lane) for lane in g.lanes.tolist()}


def _read_by(copy: BulkCopy, shift: int) -> Array:
    """The words that a copy reads; of a box that is stored those inside of the tensor.

    What lies outside never reaches memory, whatever it is: boxes may have columns for padding.
    """
    target = copy.target.side if isinstance(copy.target, Reduced) else copy.target
    if isinstance(copy.source, Box) and isinstance(target, Rows):
        return copy.source.words(shift, target.kept())
    return copy.source.words(shift)


__all__ = ["Engine"]
