"""A model of who comes before whom, for programs whose every step is known.

A program is a list of steps, each of some lanes of one warp.  The model executes them in their
order, as far as no barrier holds a warp up, and keeps for each thread a vector clock.  It knows
nothing of the emulator's checker, and is asked the same questions: does something order two
accesses to one word, and has each proxy been told?  It also computes what every thread ends with.

Four clocks: what a thread knows (0), what of that a ``fence.proxy.async`` has made visible to
copies that it starts (1), and what threads have read that its bulk copies may overwrite (2), for a
fence or the reader's arrival at a barrier lies between.  All three spread together.  The fourth
is mere causality: who has heard, by whatever operation, that a thread has come so far.  It says in
which phase an arrival counts, and nothing of memory.

PTX ISA 8 (memory consistency), 9.7.13 (barriers), 9.7.9.25 (asynchronous copies).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
ALL = 0xFFFFFFFF
CAUSE = 3
"""The clock of causality."""
OWN = 1 << 40
"""Later than anything: what a thread knows of itself."""
TILE = 32
"""Words of a tile: one for each lane."""
FACTOR, BLEND = 69069, 31
"""How a thread's number changes before it is stored, and when a loaded one is blended in."""


@dataclass(frozen=True)
class Step:
    """What some lanes of a warp do: an operation, its numbers, and its modifiers.

    ``warp`` counts through the cluster.
    """

    op: str
    warp: int
    at: tuple[int, ...] = ()
    how: str = ""
    lanes: int = ALL


@dataclass(frozen=True)
class Shape:
    """The blocks of a program and their memory: tiles of 32 words."""

    blocks: int
    warps: int
    tiles: int
    """In the shared memory of each block."""
    far: int
    """In global memory."""
    mbarriers: tuple[tuple[int, int], ...] = ()
    """Of each: its block, and how many arrivals it expects."""

    @property
    def threads(self) -> int:
        """Of all blocks."""
        return 32 * self.warps * self.blocks

    def first(self, step: Step, tile: int) -> int:
        """The first word of a tile: those of one block after those of the other, then global."""
        if "global" in step.how:
            return TILE * (self.blocks * self.tiles + tile)
        block = step.warp // self.warps ^ ("remote" in step.how)
        return TILE * (block * self.tiles + tile)


@dataclass
class Phased:
    """An mbarrier."""

    block: int
    expected: int
    pending: int = 0
    bytes: int = 0
    phase: int = 0
    said: Ints | None = None
    """What this phase's arrivals have published."""
    published: Ints | None = None
    arrived: Ints | None = None
    """When each column arrived in this phase: nothing where it did not."""
    ended: list[Ints] = field(default_factory=list)
    """The same of each completed phase."""
    waited: dict[int, Ints] = field(default_factory=dict)
    """Phase -> when each thread has seen it complete."""


@dataclass
class Named:
    """A named barrier of a block."""

    arrived: int = 0
    said: Ints | None = None
    threads: list[Ints] = field(default_factory=list)
    waiting: list[tuple[int, Step]] = field(default_factory=list)
    votes: int = 0
    before: tuple[Ints, Ints] | None = None
    """Who completed the generation before, and when each had come."""


class Model:
    """Executes steps; ``problems`` are what it finds, ``doubts`` what it cannot decide."""

    def __init__(self, shape: Shape, inputs: NDArray[np.uint32] | None = None) -> None:
        self.shape = shape
        n = self.n = shape.threads
        self.copies, self.sites = n, 2 * n
        """Columns: each thread's cp.async, then what each mbarrier counts, then bulk groups."""
        self.reads_out = self.sites + 96
        self.writes_out = self.reads_out + n
        columns = self.writes_out + n
        self.clock = np.zeros((n, 4, columns), np.int64)
        for row in (0, CAUSE):
            self.clock[np.arange(n), row, np.arange(n)] = OWN
        words = TILE * (shape.blocks * shape.tiles + shape.far)
        self.write_time = np.zeros(words, np.int64)
        self.writer = np.zeros(words, np.int64)
        self.write_time[TILE * shape.blocks * shape.tiles :] = 1
        self.writer[TILE * shape.blocks * shape.tiles :] = -1
        self.read_time = np.zeros((words, columns), np.int64)
        self.atomic_time = np.zeros((words, n), np.int64)
        """When each thread last added to each word: any number of them may, in any order."""
        self.now = 2
        self.mbarriers = [Phased(block, count, count) for block, count in shape.mbarriers]
        self.named: dict[tuple[int, int], Named] = {}
        self.flags: dict[int, list[tuple[int, Ints]]] = {}
        self.fenced: dict[int, Ints] = {}
        """What each thread knew at its last fence."""
        self.fences: dict[int, list[tuple[int, str]]] = {}
        """When each thread has fenced, and with what scope."""
        self.pending_reads: dict[int, Ints] = {}
        """What relaxed reads of each thread have seen, until its next fence."""
        self.groups = [[[]] for _ in range(n)]  # type: list[list[list[int]]]
        """Of each thread: its groups of cp.async, the last one open."""
        self.bulk = [[[]] for _ in range(n)]  # type: list[list[list[int]]]
        self.cluster: Ints | None = None
        self.cluster_arrived: set[int] = set()
        self.cluster_open = 0
        self.cluster_seen = [0] * (shape.blocks * shape.warps)
        self.cluster_said: list[Ints] = []
        self.blocked: dict[int, Step] = {}
        self.problems: list[str] = []
        self.doubts: list[str] = []
        self.certain = False
        """Whether the first problem came before the first doubt."""
        self.inputs = np.zeros(8 * n, np.uint32) if inputs is None else inputs
        self.memory = np.zeros(words, np.uint32)
        self.x = self.inputs[: 2 * n : 2].copy()

    def _problem(self, text: str) -> None:
        self.certain = self.certain or not self.doubts
        self.problems.append(text)

    def _doubt(self, text: str) -> None:
        self.doubts.append(text)

    # -- clocks -----------------------------------------------------------------------

    def threads(self, step: Step) -> Ints:
        """The threads that execute a step."""
        lanes = np.array([i for i in range(32) if step.lanes >> i & 1])
        return np.asarray(32 * step.warp + lanes, np.int64)

    def frontier(self, t: Ints, barrier: bool = False) -> Ints:
        """What these threads publish; at a ``barrier``, that their reads are over as well.

        What a relaxed read or wait has seen counts from then on: beyond the letter, as in the
        checker (a thread that looks at a flag, and then ``bar.sync``).
        """
        for thread in t.tolist():
            if thread in self.pending_reads:
                self.learn(np.array([thread]), self.pending_reads.pop(thread))
        known: Ints = self.clock[t].max(axis=0)
        known[0, t] = known[CAUSE, t] = self.now
        if barrier:
            known[2] = np.maximum(known[2], known[0])
        return known

    def caused(self, t: Ints, fenced: bool = True, barrier: bool = False) -> Ints:
        """What is known by a relaxed operation of these threads: what they have fenced before."""
        known: Ints = self.clock[t].max(axis=0)
        known[CAUSE, t] = self.now
        known[:CAUSE] = 0
        for thread in t.tolist() if fenced else ():
            if thread in self.fenced:
                known[:CAUSE] = np.maximum(known[:CAUSE], self.fenced[thread][:CAUSE])
        # all fence, then a barrier, then one of them tells: beyond the letter, as in the checker
        for other, fences in self.fences.items() if fenced else ():
            before = [one for one in fences if one[0] <= self.clock[t, 0, other].max()]
            if before and before[-1][0] > known[0, other]:
                known[0, other] = before[-1][0]
                if self.shape.blocks > 1:
                    self._doubt("somebody else's fence")
        if barrier:
            known[2] = np.maximum(known[2], known[0])
        return known

    def learn(self, t: Ints, said: Ints | None) -> None:
        """These threads know what was said."""
        if said is not None:
            self.clock[t] = np.maximum(self.clock[t], said)
            for row in (0, CAUSE):
                self.clock[t, row, t] = OWN

    # -- accesses ---------------------------------------------------------------------

    def conflicts(
        self, t: Ints, x: Ints, write: bool, strong: bool = False, engine: bool = False,
        over: bool = False,
    ) -> dict[str, set[int]]:  # fmt: skip
        """What is not ordered before an access of threads ``t`` to words ``x``, by kind.

        ``race``: columns of the clocks whose accesses conflict; ``proxy``: those that no
        fence.proxy.async has made visible to a bulk copy (``engine``); ``nobody``: words that
        nobody has written.  ``t`` and ``x``: one each, in pairs.
        """
        found: dict[str, set[int]] = {}
        writer, time = self.writer[x], self.write_time[x]
        if (strong or not write) and (time == 0).any():
            found["nobody"] = set(x[time == 0].tolist())
        valid = (time > 0) & (writer >= 0)
        who = np.where(valid, writer, 0)
        late = valid & (time > self.clock[t, 0, who])
        race = set(who[late].tolist())
        if not strong:
            adds = self.atomic_time[x]
            race |= set(np.nonzero(adds > self.clock[t, 0, : self.n])[1].tolist())
        if engine:
            generic = valid & ~late & (who < self.n)
            unseen = generic & (time > self.clock[t, 1, np.minimum(who, self.n - 1)])
            proxy = set(who[unseen].tolist())
            proxy |= set(np.nonzero(self.atomic_time[x] > self.clock[t, 1, : self.n])[1].tolist())
            if proxy:
                found["proxy"] = proxy
        if write:
            reads = self.read_time[x]
            unordered = reads > self.clock[t, 0]
            race |= set(np.nonzero(unordered)[1].tolist())
            if engine and over:
                known = reads[:, : self.n] <= self.clock[t, 0, : self.n]
                still = known & (reads[:, : self.n] > self.clock[t, 2, : self.n])
                if still.any():
                    found.setdefault("proxy", set()).update(np.nonzero(still)[1].tolist())
        if race:
            found["race"] = race
        return found

    def _access(
        self, step: Step, t: Ints, x: Ints, write: bool, column: Ints | None = None,
        engine: bool = False, over: bool = False,
    ) -> None:  # fmt: skip
        found = self.conflicts(t, x, write, False, engine, over)
        for kind, columns in found.items():
            self._problem(f"{kind} at {step}: {sorted(columns)[:4]}")
        own = t if column is None else column
        if write:
            self.writer[x], self.write_time[x] = own, self.now
        else:
            np.maximum.at(self.read_time, (x, own), self.now)

    def words(self, step: Step) -> tuple[Ints, Ints]:
        """The threads and the words of a step that touches a tile, in pairs."""
        t = self.threads(step)
        lane = t % 32
        first = self.shape.first(step, step.at[0])
        if step.op == "copy":  # lane l copies some words that follow each other
            size = step.at[2]
            x = first + lane[:, None] * size + np.arange(size)
            return np.repeat(t, size), x.ravel()
        if step.op == "push":
            return np.repeat(t, step.at[2]), self._beside(step) + np.arange(step.at[2])
        if step.op in ("bulk_load", "bulk_store"):
            return np.repeat(t, step.at[2]), first + np.arange(step.at[2])
        if step.how.endswith("wide"):  # two words a lane
            x = first + 2 * (lane ^ step.at[1])
            return np.repeat(t, 2), (x[:, None] + np.arange(2)).ravel()
        if step.how.endswith("all"):
            return t, np.full(len(t), first + step.at[1], np.int64)
        return t, first + (lane ^ step.at[1])

    def _beside(self, step: Step) -> int:
        """The first word of the tile of the other block that a bulk copy writes."""
        block = step.warp // self.shape.warps ^ 1
        return TILE * (block * self.shape.tiles + step.at[1])

    def _source_of_push(self, step: Step) -> tuple[Ints, Ints]:
        count, block = step.at[2], step.warp // self.shape.warps
        first = TILE * (block * self.shape.tiles + step.at[0])
        return np.repeat(self.threads(step), count), first + np.arange(count)

    def ask(self, step: Step) -> dict[str, set[int]]:
        """The conflicts that a step of the program would have."""
        if step.op in ("store", "load"):
            return self.conflicts(*self.words(step), write=step.op == "store")
        if step.op == "add":
            return self.conflicts(*self.words(step), write=True, strong=True)
        if step.op == "copy":
            found = self.conflicts(*self.words(step), write=True)
            if step.at[1] < 0:
                found = _both(found, self.conflicts(*self._far(step), write=False))
            return found
        if step.op == "bulk_load":
            found = self.conflicts(*self.words(step), write=True, engine=True, over=True)
            if step.at[1] < 0:
                found = _both(found, self.conflicts(*self._far(step), write=False, engine=True))
            return found
        if step.op == "send":
            return self.conflicts(*self.words(step), write=True)
        if step.op == "push":
            found = self.conflicts(*self.words(step), write=True, engine=True, over=True)
            source = self._source_of_push(step)
            return _both(found, self.conflicts(*source, write=False, engine=True))
        if step.op == "bulk_store":
            found = self.conflicts(*self.words(step), write=False, engine=True)
            return _both(found, self.conflicts(*self._far(step), write=True, engine=True))
        return {}

    def _far(self, step: Step) -> tuple[Ints, Ints]:
        """The words of global memory that a copy touches."""
        tile = step.at[1] if step.op == "bulk_store" else -1 - step.at[1]
        first = TILE * (self.shape.blocks * self.shape.tiles + tile)
        count = step.at[2]
        if step.op == "copy":
            t = self.threads(step)
            x = first + (t % 32)[:, None] * count + np.arange(count)
            return np.repeat(t, count), x.ravel()
        return np.repeat(self.threads(step), count), first + np.arange(count)

    # -- steps ------------------------------------------------------------------------

    def execute(self, step: Step) -> bool:
        """Execute a step; False: its warp must wait, and nothing has been done."""
        self.now += 1
        done: bool = getattr(self, "_" + step.op)(step, self.threads(step)) is not False
        self.now += 1
        return done

    def _store(self, step: Step, t: Ints) -> None:
        self.x[t] = self.x[t] * np.uint32(FACTOR) + np.uint32(step.at[1])
        who, x = self.words(step)
        self._access(step, who, x, True)
        self.memory[x] = self.x[who]

    def _load(self, step: Step, t: Ints) -> None:
        who, x = self.words(step)
        self._access(step, who, x, False)
        got = self.memory[x].reshape(len(t), -1)
        self._blend(t, got.sum(axis=1, dtype=np.uint32))

    def _blend(self, t: Ints, got: NDArray[np.uint32] | np.uint32) -> None:
        self.x[t] = self.x[t] * np.uint32(BLEND) + got

    def _add(self, step: Step, t: Ints) -> None:
        _, x = self.words(step)
        found = self.conflicts(t, x, True, True)
        for kind, columns in found.items():
            self._problem(f"{kind} at {step}: {sorted(columns)[:4]}")
        np.maximum.at(self.atomic_time, (x, t), self.now)
        np.add.at(self.memory, x, self.x[t])

    def _shuffle(self, step: Step, t: Ints) -> None:
        kind, number = step.how, step.at[0]
        mine = self.x[t]
        if kind == "bfly":
            self._blend(t, self.x[t - t % 32 + (t % 32 ^ number)])
        elif kind == "idx":
            self._blend(t, self.x[t[0] - t[0] % 32 + number])
        elif kind == "ballot":
            odd = t[(mine & np.uint32(1)) == 1] % 32
            self._blend(t, np.uint32(sum(1 << int(lane) for lane in odd)))
        else:
            self._blend(t, np.uint32(int(mine.astype(np.uint64).sum()) & ALL))

    def _warpsync(self, step: Step, t: Ints) -> None:
        self.learn(t, self.frontier(t))

    def _bar(self, step: Step, t: Ints) -> bool | None:
        number, count = step.at
        named = self.named.setdefault((step.warp // self.shape.warps, number), Named())
        if not self.generation_over(named, t):
            self._doubt(f"{step}: the generation before may not be complete")
        said = self.frontier(t, barrier=True)
        named.said = said if named.said is None else np.maximum(named.said, said)
        named.arrived += len(t)
        named.threads.append(t)
        named.votes += int((self.x[t] & np.uint32(1)).sum())
        if "arrive" not in step.how:
            named.waiting.append((step.warp, step))
            self.blocked[step.warp] = step
        if named.arrived >= count:
            if named.arrived > count:
                self._doubt(f"{step}: too many arrive")
            everyone = np.concatenate(named.threads)
            for warp, waiting in named.waiting:
                who = self.threads(waiting)
                self.learn(who, named.said)
                del self.blocked[warp]
                if waiting.how == "red":
                    self._blend(who, np.uint32(named.votes))
            before = (everyone, named.said[0, everyone])
            self.named[step.warp // self.shape.warps, number] = Named(before=before)
        return None

    def generation_over(self, named: Named, t: Ints) -> bool:
        """Whether threads know that the generation before is complete."""
        if named.before is None:
            return True
        who, times = named.before
        if len(who) <= 32:
            return True
        return bool((self.clock[t][:, 0, who] >= times).all())

    # -- mbarriers --------------------------------------------------------------------

    def phase_known(self, site: Phased, t: Ints, phase: int | None = None) -> bool:
        """Whether threads know that the phase before is complete.

        Else they may arrive in that one, or take the one before it for the one they wait for.
        """
        phase = site.phase if phase is None else phase
        if phase <= 0:
            return True
        ended = site.ended[phase - 1]
        who = np.flatnonzero(ended)
        return bool((self.clock[t][:, CAUSE, who] >= ended[who]).all())

    def _come(
        self, site: Phased, step: Step, t: Ints, count: int, said: Ints,
        by: Ints | None = None,
    ) -> None:  # fmt: skip
        """Arrivals that threads ask for; ``by``: columns of who arrives, if not they."""
        if site.phase and site.phase - 1 not in site.waited:
            self._doubt(f"{step}: nobody has seen the phase before complete")
        if not self.phase_known(site, t):
            self._doubt(f"{step}: the phase before may not be complete")
        if site.arrived is None:
            site.arrived = np.zeros(self.clock.shape[2], np.int64)
        site.arrived[t if by is None else by] = self.now
        site.said = said if site.said is None else np.maximum(site.said, said)
        site.pending -= count
        if site.pending < 0:
            self._doubt(f"{step}: too many arrive")
        self._settle(site, step)

    def _settle(self, site: Phased, step: Step) -> None:
        if site.pending > 0 or site.bytes:
            return
        said = site.said
        assert said is not None
        seen = site.waited.get(site.phase - 1)
        if seen is not None and (said[CAUSE, : self.n] < seen).any():
            self._doubt(f"{step}: a wait for the phase before may come too late")
        site.published = said if site.published is None else np.maximum(site.published, said)
        assert site.arrived is not None
        site.ended.append(site.arrived)
        site.arrived = site.said = None
        site.phase, site.pending = site.phase + 1, site.expected

    def _arrive(self, step: Step, t: Ints) -> None:
        site = self.mbarriers[step.at[0]]
        count = step.at[1]
        near = "cta" not in step.how or site.block == step.warp // self.shape.warps
        said = self.frontier(t, barrier=True) if "relaxed" not in step.how and near else (
            self.caused(t, fenced=near, barrier=True)
        )
        self._come(site, step, t, count * len(t), said)

    def _expect(self, step: Step, t: Ints) -> None:
        """An arrival that also announces bytes."""
        site = self.mbarriers[step.at[0]]
        site.bytes += step.at[1]
        said = self.frontier(t, barrier=True) if "relaxed" not in step.how else (
            self.caused(t, barrier=True)
        )
        self._come(site, step, t, 1, said)

    def _wait(self, step: Step, t: Ints) -> bool:
        site = self.mbarriers[step.at[0]]
        phase = step.at[1]
        # a parity says "complete" of each phase of the other parity than the present one
        if (site.phase ^ phase) & 1 == 0:
            if site.phase > phase:
                self._doubt(f"{step}: waits for a phase to come")
            return False
        if site.phase != phase + 1:
            self._doubt(f"{step}: not the phase that it means")
        elif not self.phase_known(site, t, phase):
            self._doubt(f"{step}: the phase before may not be complete")
        if site.published is not None:
            if "relaxed" in step.how:
                self._later(t, site.published)
            else:
                self.learn(t, site.published)
        seen = site.waited.setdefault(site.phase - 1, np.zeros(self.n, np.int64))
        seen[t] = self.now
        return True

    # -- asynchronous copies ----------------------------------------------------------

    def _source(self, step: Step) -> NDArray[np.uint32]:
        """The numbers that a copy reads: of the inputs, or of global memory."""
        if step.at[1] < 0:
            found: NDArray[np.uint32] = self.memory[self._far(step)[1]]
            return found
        if step.op == "copy":
            start = step.at[1]
            lanes = self.threads(step) % 32
            at = start + lanes[:, None] * step.at[2] + np.arange(step.at[2])
        else:
            at = step.at[1] + np.arange(step.at[2])
        given: NDArray[np.uint32] = self.inputs[at.ravel()]
        return given

    def _copy(self, step: Step, t: Ints) -> None:
        who, x = self.words(step)
        if step.at[1] < 0:
            self._access(step, *self._far(step), False, column=self.copies + who)
        self._access(step, who, x, True, column=self.copies + who)
        self.memory[x] = self._source(step)
        for thread in t.tolist():
            self.groups[thread][-1].append(self.now)

    def _commit(self, step: Step, t: Ints) -> None:
        for thread in t.tolist():
            self.groups[thread].append([])

    def _copywait(self, step: Step, t: Ints) -> None:
        for thread in t.tolist():
            closed = self.groups[thread][:-1]
            done = [time for group in closed[: len(closed) - step.at[0]] for time in group]
            if done:
                self.clock[thread, 0, self.copies + thread] = max(
                    self.clock[thread, 0, self.copies + thread], *done
                )

    def _copyarrive(self, step: Step, t: Ints) -> None:
        """The threads' copies arrive: they publish themselves, and nothing else."""
        said = self.caused(t, fenced=False)
        said[0, self.copies + t] = said[CAUSE, self.copies + t] = self.now
        self._come(self.mbarriers[step.at[0]], step, t, len(t), said, self.copies + t)

    def _bulk_load(self, step: Step, t: Ints) -> None:
        who, x = self.words(step)
        number = step.at[3]
        column = np.full(len(x), self.sites + number)
        if step.at[1] < 0:
            self._access(step, *self._far(step), False, column=column, engine=True)
        self._access(step, who, x, True, column=column, engine=True, over=True)
        self.memory[x] = self._source(step)
        self._bring(step, t, number, 4 * step.at[2])

    def _send(self, step: Step, t: Ints) -> None:
        """``st.async``: each lane's number, and its bytes, to the other block."""
        who, x = self.words(step)
        number = step.at[2]
        self._access(step, who, x, True, column=np.full(len(x), self.sites + number))
        self.memory[x] = self.x[who]
        self._bring(step, t, number, 4 * len(t))

    def _push(self, step: Step, t: Ints) -> None:
        """A bulk copy into the shared memory of the other block."""
        number = step.at[3]
        column = np.full(step.at[2], self.sites + number)
        source = self._source_of_push(step)
        self._access(step, *source, False, column=column, engine=True)
        who, x = self.words(step)
        self._access(step, who, x, True, column=column, engine=True, over=True)
        self.memory[x] = self.memory[source[1]]
        self._bring(step, t, number, 4 * step.at[2])

    def _bring(self, step: Step, t: Ints, number: int, size: int) -> None:
        """Bytes come to an mbarrier."""
        site = self.mbarriers[number]
        if not self.phase_known(site, t):
            self._doubt(f"{step}: the phase before may not be complete")
        said = self.caused(t, fenced=False)
        said[0, self.sites + number] = said[CAUSE, self.sites + number] = self.now
        site.said = said if site.said is None else np.maximum(site.said, said)
        if site.arrived is None:
            site.arrived = np.zeros(self.clock.shape[2], np.int64)
        site.arrived[self.sites + number] = self.now
        site.bytes -= size
        self._settle(site, step)

    def _bulk_store(self, step: Step, t: Ints) -> None:
        who, x = self.words(step)
        _, far = self._far(step)
        self._access(step, who, x, False, column=self.reads_out + who, engine=True)
        self._access(step, who, far, True, column=self.writes_out + who, engine=True)
        self.memory[far] = self.memory[x]
        for thread in t.tolist():
            self.bulk[thread][-1].append(self.now)

    def _bulk_commit(self, step: Step, t: Ints) -> None:
        for thread in t.tolist():
            self.bulk[thread].append([])

    def _bulk_wait(self, step: Step, t: Ints) -> None:
        for thread in t.tolist():
            closed = self.bulk[thread][:-1]
            done = [time for group in closed[: len(closed) - step.at[0]] for time in group]
            for column in (self.reads_out, self.writes_out)[: 1 if step.how == "read" else 2]:
                known = self.clock[thread, 0, column + thread]
                self.clock[thread, 0, column + thread] = max([known, *done])

    def _proxy(self, step: Step, t: Ints) -> None:
        known = np.where(self.clock[t, 0] == OWN, self.now, self.clock[t, 0])
        for row in (1, 2):
            self.clock[t, row] = np.maximum(self.clock[t, row], known)

    # -- flags ------------------------------------------------------------------------

    def _flag(self, step: Step, t: Ints) -> None:
        flag, value = step.at
        said = self.frontier(t) if "release" in step.how else self.caused(t)
        self.flags.setdefault(flag, []).append((value, said))

    def _count(self, step: Step, t: Ints) -> None:
        """Counters go up one by one: who reads a number has heard of all who made it."""
        flag = step.at[0]
        said = self.frontier(t) if "release" in step.how else self.caused(t)
        told = self.flags.setdefault(flag, [])
        if told:
            said = np.maximum(said, told[-1][1])
        told.append((len(told) + 1, said))

    def _spin(self, step: Step, t: Ints) -> bool:
        flag, value = step.at
        seen = [said for number, said in self.flags.get(flag, []) if number >= value]
        if not seen:
            return False
        # flags count up and one thread writes each: the first that is enough may be what was read
        if "acquire" in step.how:
            self.learn(t, seen[0])
        else:
            self._later(t, seen[0])
        return True

    def _later(self, t: Ints, said: Ints) -> None:
        """A relaxed read: what it has seen counts behind a fence; causality at once."""
        self.learn(t, said * (np.arange(CAUSE + 1) == CAUSE)[:, None])
        for thread in t.tolist():
            before = self.pending_reads.get(thread)
            self.pending_reads[thread] = said if before is None else np.maximum(before, said)

    def _fence(self, step: Step, t: Ints) -> None:
        for thread in t.tolist():
            said = self.pending_reads.pop(thread, None)
            one = np.array([thread])
            self.learn(one, said)
            self.fenced[thread] = self.frontier(one)
            self.fences.setdefault(thread, []).append((self.now, step.how))

    # -- the cluster ------------------------------------------------------------------

    def _cluster_arrive(self, step: Step, t: Ints) -> None:
        said = (
            self.caused(t, barrier=True) if "relaxed" in step.how
            else self.frontier(t, barrier=True)
        )  # fmt: skip
        self.cluster = said if self.cluster is None else np.maximum(self.cluster, said)
        self.cluster_arrived.add(step.warp)
        if len(self.cluster_arrived) == self.shape.blocks * self.shape.warps:
            self.cluster_said.append(self.cluster)
            self.cluster, self.cluster_arrived = None, set()
            self.cluster_open += 1

    def _cluster_wait(self, step: Step, t: Ints) -> bool:
        turn = self.cluster_seen[step.warp]
        if self.cluster_open <= turn:
            return False
        self.learn(t, self.cluster_said[turn])
        self.cluster_seen[step.warp] += 1
        return True

    # -- the whole program ------------------------------------------------------------

    def run(self, steps: Sequence[Step]) -> None:
        """Execute a program: always the first step whose warp need not wait."""
        queues: dict[int, list[tuple[int, Step]]] = {}
        for i, step in enumerate(steps):
            queues.setdefault(step.warp, []).append((i, step))
        for queue in queues.values():
            queue.reverse()
        while any(queues.values()):
            ready = [
                (queue[-1][0], warp) for warp, queue in queues.items()
                if queue and warp not in self.blocked
            ]  # fmt: skip
            for _, warp in sorted(ready):
                if self.execute(queues[warp][-1][1]):
                    queues[warp].pop()
                    break
            else:
                self._doubt("nothing can go on")
                return
        if self.blocked:
            self._doubt("nothing can go on")
        for thread in range(self.n):
            for column in (self.reads_out + thread,):
                if any(self.bulk[thread]) and self.clock[thread, 0, column] < max(
                    time for group in self.bulk[thread] for time in group
                ):
                    self._doubt("a bulk copy is under way at the end")
        for block in range(self.shape.blocks):
            self._leaves(block)
        if any(site.bytes for site in self.mbarriers):
            self._doubt("bytes are missing at the end")

    def _leaves(self, block: int) -> None:
        """A block ends: do its threads know of all that others and copies did to its memory?"""
        own = slice(32 * self.shape.warps * block, 32 * self.shape.warps * (block + 1))
        known = self.clock[own, 0].max(axis=0)
        known[own] = known[self.copies : self.sites] = OWN
        size = TILE * self.shape.tiles
        words = slice(size * block, size * (block + 1))
        late = self.write_time[words] > known[np.maximum(self.writer[words], 0)]
        late |= (self.atomic_time[words] > known[: self.n]).any(axis=1)
        late |= (self.read_time[words] > known).any(axis=1)
        if late.any():
            self._doubt("a block leaves while its memory is in use")


def _both(a: dict[str, set[int]], b: dict[str, set[int]]) -> dict[str, set[int]]:
    return {kind: a.get(kind, set()) | b.get(kind, set()) for kind in {*a, *b}}
