"""A row of rings, after Part I: what each role and each ring allows, and what a run of it does.

A role begins a job when it is free and its slots are ready. For two roles and one ring that is
Part I's simulator, clock by clock, which a test compares. The roles of a block may share a memory:
then a job ends when its clocks are over and its bytes have moved. The law counts, for each role,
for each ring and for that memory, the clocks that it needs for a tile: the greatest is the least
that a tile can take. A longer circuit, through several rings, can take longer still (``Chain.law``
says when), so the run decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from phasebit.timeline import Span, Timeline


@dataclass(frozen=True)
class Role:
    """Who consumes from the ring on its left and produces into the one on its right."""

    name: str
    jobs: int
    """For a tile."""
    clocks: int
    """That a job keeps it."""
    after: int = 0
    """Clocks from there until its work can be seen: the role is free, and the slot is not."""
    shared: int = 0
    """Bytes that a job moves to or from the memory which all roles share."""


@dataclass(frozen=True)
class Ring:
    """Slots between two roles. A tile takes ``per_tile`` of them in turn."""

    name: str
    slots: int
    per_tile: int


class Work(NamedTuple):
    """A job of a role in a run."""

    role: str
    number: int
    begin: int
    end: int


@dataclass(frozen=True)
class Chain:
    """Roles in a row, and a ring between each two.

    Raises ``ValueError`` where a role's jobs do not make a whole number of jobs for each slot, and
    where they share a memory that moves no bytes.
    """

    roles: Sequence[Role]
    rings: Sequence[Ring]
    shared_a_clock: int = 0
    """Bytes that the shared memory moves in a clock, for all roles together."""

    def __post_init__(self) -> None:
        if len(self.roles) != len(self.rings) + 1:
            raise ValueError(
                f"{len(self.roles)} roles and {len(self.rings)} rings: "
                "give a ring between each two roles"
            )
        if any(role.shared for role in self.roles) and self.shared_a_clock < 1:
            raise ValueError("the roles share a memory: say how many bytes it moves in a clock")
        for left, ring, right in zip(self.roles, self.rings, self.roles[1:], strict=False):
            for role in (left, right):
                if role.jobs % ring.per_tile:
                    raise ValueError(
                        f"{role.name} has {role.jobs} jobs a tile for {ring.per_tile} slots of "
                        f"{ring.name}: give a multiple"
                    )

    def law(self) -> dict[str, Fraction]:
        """Clocks of a tile that each role, each ring and the shared memory needs at least.

        A role: its jobs. A ring: a slot is filled, seen, drained and seen again, and each of its
        slots does that for its share of the tile. The memory: the bytes of all roles. The greatest
        of them is the rate where no role between two rings waits within a slot, and none for the
        memory; else a tile can take longer.
        """
        needs = {r.name: Fraction(r.jobs * r.clocks) for r in self.roles}
        for left, ring, right in zip(self.roles, self.rings, self.roles[1:], strict=False):
            turn = (
                left.jobs * left.clocks // ring.per_tile
                + left.after
                + right.jobs * right.clocks // ring.per_tile
                + right.after
            )
            needs[ring.name] = Fraction(turn * ring.per_tile, ring.slots)
        if self.shared_a_clock:
            moved = sum(role.jobs * role.shared for role in self.roles)
            needs["shared memory"] = Fraction(moved, self.shared_a_clock)
        return needs

    def binds(self) -> str:
        """The role, ring or memory that needs most; of equals the first."""
        needs = self.law()
        return max(needs, key=lambda name: needs[name])

    def run(self, tiles: int) -> list[Work]:
        """Every job of so many tiles, by role and then by number.

        Jobs begin in the order of their clocks. The shared memory serves them in that order, one
        after another.
        """
        done: list[list[tuple[int, int]]] = [[] for _ in self.roles]
        memory = Fraction(0)  # when it has moved what was asked for so far
        for _ in range(tiles * sum(role.jobs for role in self.roles)):
            begin, at = min(
                (max(ready, done[at][-1][1] if done[at] else 0), at)
                for at, role in enumerate(self.roles)
                if len(done[at]) < tiles * role.jobs
                and (ready := self._ready(at, done)) is not None
            )
            role = self.roles[at]
            end = begin + role.clocks
            if role.shared:
                memory = max(memory, Fraction(begin)) + Fraction(role.shared, self.shared_a_clock)
                end = max(end, -(-memory.numerator // memory.denominator))
            done[at].append((begin, end))
        return [
            Work(role.name, number, begin, end)
            for role, jobs in zip(self.roles, done, strict=True)
            for number, (begin, end) in enumerate(jobs)
        ]

    def _ready(self, at: int, done: list[list[tuple[int, int]]]) -> int | None:
        """When a role's next job finds its slots ready; ``None`` while that is not known."""
        ready = 0
        for other, last in self._before(at, len(done[at])):
            if last >= len(done[other]):
                return None
            ready = max(ready, done[other][last][1] + self.roles[other].after)
        return ready

    def _before(self, at: int, job: int) -> Iterator[tuple[int, int]]:
        """The jobs, role and number, that make the slots of a job ready."""
        role = self.roles[at]
        if at < len(self.rings):  # the slot on the right is empty
            ring, right = self.rings[at], self.roles[at + 1]
            mine, theirs = role.jobs // ring.per_tile, right.jobs // ring.per_tile
            turn = job // mine - ring.slots
            if job % mine == 0 and turn >= 0:
                yield at + 1, (turn + 1) * theirs - 1
        if at:  # the slot on the left is full
            ring, left = self.rings[at - 1], self.roles[at - 1]
            mine, theirs = role.jobs // ring.per_tile, left.jobs // ring.per_tile
            if job % mine == 0:
                yield at - 1, (job // mine + 1) * theirs - 1

    def circuit(self, tiles: int = 60) -> list[Work]:
        """The slowest circuit of a run: each job begins when the one before it lets it.

        The last of them lets the first begin again, one tile or several later. It begins with the
        leftmost role that it has. Where the roles share a memory it has no meaning, and
        ``ValueError`` is raised.
        """
        if any(role.shared for role in self.roles):
            raise ValueError("jobs wait for the shared memory, too: switch it off")
        names = [role.name for role in self.roles]
        done: list[list[Work]] = [[] for _ in names]
        for work in self.run(tiles):
            done[names.index(work.role)].append(work)
        way = [(len(names) - 1, len(done[-1]) - 1)]  # from the last job back to the first
        while (cause := self._cause(*way[-1], done)) is not None:
            way.append(cause)
        slowest, circuit, span = Fraction(0), way, 0
        last: dict[tuple[int, int], int] = {}  # a role's job of whichever tile -> its last place
        for place, (at, job) in enumerate(way):
            key = at, job % self.roles[at].jobs
            if key in last:
                _, later = way[last[key]]
                clocks = done[at][later].begin - done[at][job].begin
                rate = Fraction(clocks * self.roles[at].jobs, later - job)
                if rate >= slowest:
                    slowest, circuit = rate, way[last[key] + 1 : place + 1][::-1]
                    span = (later - job) // self.roles[at].jobs
            last[key] = place
        left = min(at for at, _ in circuit)
        first = next(i for i, (at, _) in enumerate(circuit)
                     if at == left and (i == 0 or circuit[i - 1][0] != left))  # fmt: skip
        again = [(at, job + span * self.roles[at].jobs) for at, job in circuit[:first]]
        return [done[at][job] for at, job in [*circuit[first:], *again]]

    def _cause(self, at: int, job: int, done: list[list[Work]]) -> tuple[int, int] | None:
        """The job whose end let this one begin; ``None`` at the beginning of a run."""
        begin = done[at][job].begin
        for other, number in [*self._before(at, job), (at, job - 1)]:
            seen = self.roles[other].after if other != at else 0
            if number >= 0 and done[other][number].end + seen == begin:
                return other, number
        return None

    def per_tile(self, tiles: int = 60) -> Fraction:
        """Clocks from one finished tile to the next, once a run repeats itself.

        Raises ``ValueError`` where the second half of the run does not: give more tiles.
        """
        last = self.roles[-1]
        run = self.run(tiles + 8)  # the last ones have the memory to themselves
        ends = [w.end for w in run if w.role == last.name][last.jobs - 1 :: last.jobs]
        for period in range(1, tiles // 4):
            turns = {ends[i] - ends[i - period] for i in range(tiles // 2, tiles)}
            if len(turns) == 1:
                return Fraction(turns.pop(), period)
        raise ValueError(f"{tiles} tiles do not repeat: give more")


def draw(chain: Chain, tiles: int, title: str, unit: str = "clock") -> Timeline:
    """A run of the model, a row a role; a job bears its number."""
    from phasebit.timeline import Timeline

    kind_of = {r.name: KINDS[i % len(KINDS)] for i, r in enumerate(chain.roles)}
    spans = [_span(w, kind_of[w.role]) for w in chain.run(tiles) if w.end > w.begin]
    legend = {kind: name for name, kind in kind_of.items()}
    return Timeline([r.name for r in chain.roles], spans, unit=unit, title=title, legend=legend)


def draw_circuit(chain: Chain, title: str, unit: str = "clock") -> Timeline:
    """The slowest circuit of a run, and what else the roles do meanwhile, in grey."""
    from phasebit.timeline import Timeline

    tiles = 20
    circuit = chain.circuit(tiles)
    begin, end = circuit[0].begin, circuit[-1].end
    jobs = {role.name: role.jobs for role in chain.roles}
    spans = [_span(Work(w.role, w.number % jobs[w.role], w.begin - begin, w.end - begin),
                   "hand-off" if w in circuit else "beside")
             for w in chain.run(tiles) if begin <= w.begin and w.end <= end]  # fmt: skip
    legend = {"hand-off": "in the slowest circuit", "beside": "not in it"}
    return Timeline([r.name for r in chain.roles], spans, unit=unit, title=title, legend=legend)


KINDS = ("produce", "consume", "store", "copy")


def _span(work: Work, kind: str) -> Span:
    from phasebit.timeline import Span

    return Span(work.role, work.begin, work.end, kind, str(work.number))
