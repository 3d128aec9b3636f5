"""A launch whose next step somebody else chooses: each warp by itself, an instruction at a time.

The scheduler lets wide groups run far, and orders them itself.  Here a group has the threads of one
warp; it stops before each *step* (``ptx.noticed_steps``), and so does what the copy
engine and the tensor core have under way before it tells a barrier.  Who may step now is a
:class:`Move`; ``choose`` picks one of them, again and again, and hears of each what it was.

A wait is a step when its phase is complete, not before, and is looked at again when it is chosen:
whoever is slow to wake finds the phase that there is then.  A thread that has looked at memory and
found what it found before, with the same registers, is not asked again until somebody has written
there; one that goes round in a loop without a step, not until something has happened.  What ends a
kernel between two steps is a step by itself: others may go on before it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from phasebit.emulator.errors import EmulatorError, StepLimit
from phasebit.emulator.findings import Sentence, say
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.gathering import WARP_GROUP, Gathering
from phasebit.emulator.machine.group import Group, merge
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.machine.launch_state import WorkUnderWay
from phasebit.emulator.machine.livelock import Stood, Watch, livelock
from phasebit.emulator.machine.scheduler import Machine
from phasebit.emulator.machine.standing import deadlock
from phasebit.emulator.machine.waiting import Waiting
from phasebit.emulator.ptx.noticed_steps import is_own_step

Actor: TypeAlias = tuple[int, ...]
"""Who steps: batch and first thread; of work under way, also which of what that actor began."""

ROUNDS = 16
"""Turns of loops that a group takes before it is watched."""

ANSWERS = 2
"""How often a test of an mbarrier may say "not yet" when nobody can step, before a deadlock."""


@dataclass(eq=False)
class Move:
    """A step that can be taken now; ``group`` or ``work`` takes it."""

    actor: Actor
    who: str
    """``warp 0 of block 0``, ``copy 1 of warp 0 of block 0``."""
    row: str
    """``warp 0``, ``block 1, warp 0``, ``copy engine``, ``tensor core``."""
    what: Sentence
    """The instruction, and its place."""
    threads: tuple[tuple[int, int], ...]
    """Batch and lane of each thread that steps; empty for work under way."""
    group: Group | None = None
    work: WorkUnderWay | None = None
    begun: int = -1
    """Of work: the number of the step in which it was begun."""
    line: int = 0
    """The line of the instruction in the PTX."""
    error: EmulatorError | None = None
    """What the step ends the kernel with."""


Saying = tuple[Actor, str, str, Sentence, tuple[tuple[int, int], ...]]
"""The first five of these."""


@dataclass(eq=False)
class Blocked:
    """A wait whose phase is not complete."""

    move: Move
    passes: Callable[[], bool]
    sites: Sequence[Any]
    """The mbarriers that it waits for."""


class Abandoned(Exception):
    """``choose`` wants no more of this run."""


class _Circles(Exception):
    """A group stands where it stood, with the same registers, and has done nothing meanwhile."""


class _Stops:
    """The blocks of the program before which a group stops; ``everywhere``: before each."""

    def __init__(self, blocks: set[int]) -> None:
        self.blocks = blocks
        self.everywhere = False

    def __contains__(self, block: object) -> bool:
        return self.everywhere or block in self.blocks


class _Begun(list[WorkUnderWay]):
    """Work under way; notes who began it."""

    def __init__(self, machine: SteppedMachine) -> None:
        super().__init__()
        self.machine = machine

    def append(self, work: WorkUnderWay) -> None:
        super().append(work)
        self.machine.begins(work)


class _Gatherings:
    """Warps gather each by itself; warp groups too."""

    def __init__(self) -> None:
        self.of: dict[object, Gathering] = {}

    def bring(self, g: Group, membermask: Any) -> bool:
        batch = g.batch
        warp = int(batch.warp_of[g.lanes[0]])
        unit: object = (id(batch), warp)
        if membermask is WARP_GROUP:
            unit = (id(batch), warp // batch.warps, warp % batch.warps // 4)
        return self.of.setdefault(unit, Gathering()).bring(g, membermask)

    def let_go(self, batch: Batch) -> list[Group]:
        return [g for each in self.of.values() for g in each.let_go(batch)]


class SteppedMachine(Machine):
    """See the module's text."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.stepped = self.says_no_first = True
        self.choose: Callable[[list[Move]], Move] = lambda moves: moves[0]
        self.took: Callable[[], None] = lambda: None
        """Called when a step has been taken."""
        self.agents = _Begun(self)
        self.gathering = _Gatherings()  # type: ignore[assignment]
        self.stops = self.halts = _Stops({
            i for i, block in enumerate(self.program.blocks)
            if block.instructions and self._steps(block.instructions[0])
        })  # fmt: skip
        self.ended: list[Batch] = []
        """Blocks whose threads are done, and which have work under way that tells somebody."""
        self.faulty: list[Move] = []
        """What ends the kernel as soon as it is chosen."""
        self.happened = 0
        """Steps, and runs between them that led anywhere."""
        self.circles: dict[Group, tuple[int, Sentence]] = {}
        """Groups that go round and round: since when, and where they look."""
        self.rounds = 0
        """Turns of loops that the running group has taken between two steps."""
        self.round: Watch | None = None
        """What watches it."""
        self.sayings: dict[tuple[int, bytes, bytes], Saying] = {}
        """Instruction, blocks, threads -> what a move says of them: it is asked at every step."""
        self.held: dict[Group, Blocked] = {}
        self.allowed: Group | None = None
        self.taken = 0
        """Steps so far."""
        self.failing = False
        """Whether a step is under way: one that ends with an error stays so."""
        self.acting: Move | None = None
        """The step under way; None before the first."""
        self.begun: dict[int, tuple[WorkUnderWay, Move]] = {}
        """Work that tells barriers, by ``id``."""
        self.counts: dict[Actor, int] = {}
        self.looked: dict[Actor, dict[int, tuple[Stood, int]]] = {}
        """Actor -> where it stood before a look at memory, since it last changed something."""
        self.words: dict[Actor, set[Hashable]] = {}
        """What it has looked at since then."""
        self.written: dict[Hashable, int] = {}
        """The step that wrote something last."""
        self._stood: tuple[int, Stood] | None = None
        self.together = False
        """Whether warps of a warp group come together just now."""

    def _steps(self, instruction: Any) -> bool:
        chosen = self.program.selected(instruction)
        return chosen is not None and is_own_step(instruction, chosen, self.program.stepwise)

    # -- groups of one warp ---------------------------------------------------

    def make_ready(self, g: Group) -> None:
        """Put the warps of a group on the ready list, each by itself."""
        if g.pc in g.joins:
            g.meets(g.pc)
        batch = g.batch
        if batch.warp_of[g.lanes[0]] != batch.warp_of[g.lanes[-1]] and not self.together:
            warps = batch.warp_of[g.lanes]
            for warp in np.unique(warps):
                some = g.part(np.flatnonzero(warps == warp), g.pc)
                some.patient = g.patient
                self.make_ready(some)
            return
        warp = batch.warp_of[g.lanes[0]]
        for other in self.ready:
            if (
                other.batch is batch and other.pc == g.pc and other.stack == g.stack
                and batch.warp_of[other.lanes[0]] == warp
            ):  # fmt: skip
                for told in self.told[LaunchObserver.ran]:
                    told(other)
                    told(g)
                self.ready.remove(other)
                g = merge([other, g])
                break
        self.ready.append(g)

    def gather(self, g: Group, membermask: Any) -> bool:
        """See :class:`phasebit.emulator.machine.running_launch.RunningLaunch`."""
        self.together = membermask is WARP_GROUP
        try:
            return self.gathering.bring(g, membermask)
        finally:
            self.together = False

    def sleep(self, g: Group, duration: int) -> int:
        """``nanosleep``: time is nobody's order."""
        g.pc = g.resume
        self.make_ready(g)
        return -1

    def _look(self, g: Group) -> None:
        """Who goes round and does nothing waits until something happens, else to the limit."""
        if self.steps < 0:
            raise StepLimit(
                "the kernel has not ended after the allowed number of loop turns: {}",
                self.standing(g),
            )
        self.rounds += 1
        if self.rounds < ROUNDS:
            return
        if self.round is None:
            self.round = Watch(self)
            self.told.subscribe(self.round)
        self.round.turn(g)
        if self.round.came_back(g) == g.n:
            if self.round.renew():  # by what decided so far
                return
            if self.round.quiet(all_here=False):
                raise _Circles
            self._no_round()

    def _no_round(self) -> None:
        """Nobody is watched."""
        if self.round is not None:
            self.told.unsubscribe(self.round)
        self.round, self.rounds = None, 0

    def _under_way(self, batch: Batch) -> bool:
        """Whether work of its threads is under way that tells somebody."""
        return any(work.batch is batch and id(work) in self.begun for work in self.agents)

    def end_batch(self, batch: Batch) -> None:
        """What tells somebody is a step, after the end of the threads too."""
        if self._under_way(batch):
            batch.live_in_block[:] = 0
            self.ended.append(batch)
        else:
            super().end_batch(batch)

    # -- waiting for mbarriers ------------------------------------------------

    def may_wait(
        self, g: Group, passes: Callable[[], bool], sites: Sequence[Any], waiting: Waiting
    ) -> bool:
        """Whether threads may look now whether a phase is complete; else they will be asked."""
        if self.allowed is g:
            self.allowed = None
            return True
        self.parked[g] = waiting
        self.held[g] = Blocked(self._move(g), passes, sites)
        return False

    def _answer(self, patient: list[tuple[Group, Waiting]]) -> None:
        """These tests answer "not yet"."""
        for g, waiting in patient:
            self.held.pop(g, None)
            if g in self.parked:
                waiting.may_fail(g)

    # -- moves ----------------------------------------------------------------

    def begins(self, work: WorkUnderWay) -> None:
        """Asynchronous work has been begun by the step under way."""
        if not work.signals or self.running is None:
            return
        g = self.running
        owner = self._actor(g)
        number = self.counts[owner] = self.counts.get(owner, 0) + 1
        copies = not hasattr(work, "queue")
        who = f"{'copy' if copies else 'work'} {number} of {g.batch.describe(g.lanes)}"
        row = "copy engine" if copies else "tensor core"
        by = self.executing()
        move = Move(
            (*owner, number), who, row, self.where(g), (), work=work, begun=self.taken - 1,
            line=by.line if by else 0,
        )  # fmt: skip
        self.begun[id(work)] = work, move

    def _actor(self, g: Group) -> Actor:
        return (int(g.batch.blocks[0]), int(g.lanes[0]))

    def _row(self, g: Group) -> str:
        slot, thread = divmod(int(g.lanes[0]), g.batch.threads)
        block = f"block {int(g.batch.blocks[slot])}, " if self.blocks > 1 else ""
        return f"{block}warp {thread // 32}"

    def _move(self, g: Group) -> Move:
        instruction = self.program.blocks[g.pc].instructions[0]
        key = g.pc, g.batch.blocks.tobytes(), g.lanes.tobytes()
        told = self.sayings.get(key)
        if told is None:
            first = int(g.batch.blocks[0])
            told = self.sayings[key] = (
                self._actor(g), str(g.batch.describe(g.lanes)), self._row(g),
                say("`{}` at {}", instruction.text, instruction.where),
                tuple((first, int(lane)) for lane in g.lanes),
            )  # fmt: skip
        return Move(*told, group=g, line=instruction.line)

    def moves(self) -> list[Move]:
        """Who can step now: threads first, then what they have under way."""
        found = [
            self._move(g) for g in self.ready
            if g.pc in self.halts and not self._waits_for_mates(g) and not self._spins(g)
        ]  # fmt: skip
        found += self.faulty
        found += [each.move for each in self.held.values() if each.passes()]
        found.sort(key=lambda move: move.actor)
        queues: set[int] = set()
        for work in self.agents:
            queue = id(getattr(work, "queue", work))
            if id(work) in self.begun and queue not in queues:
                queues.add(queue)
                found.append(self.begun[id(work)][1])
        return found

    def blocked(self) -> list[Blocked]:
        """The waits whose phase is not complete."""
        return [each for each in self.held.values() if not each.passes()]

    def _spins(self, g: Group) -> bool:
        """Whether it stands where it stood, with the same registers, and nobody wrote since."""
        actor = self._actor(g)
        stood, step = self.looked.get(actor, {}).get(g.pc, (None, 0))
        if stood is None or any(self.written.get(word, 0) > step for word in self.words[actor]):
            return False
        return stood.same(Stood(g, self.program.live[g.pc], self.program.live))

    def noticed(self, looked: Iterable[Hashable], wrote: Iterable[Hashable]) -> None:
        """What the step that was taken looked at in memory, and what it changed anywhere."""
        assert self.acting is not None
        actor = self.acting.actor
        for thing in wrote:
            self.written[thing] = self.taken
        if self._stood is None or wrote:
            self.looked.pop(actor, None)
            self.words.pop(actor, None)
        else:
            pc, stood = self._stood
            self.looked.setdefault(actor, {})[pc] = (stood, self.taken)
            self.words.setdefault(actor, set()).update(looked)

    # -- running --------------------------------------------------------------

    def run(self) -> None:
        """Run the whole grid, a step at a time. Raises :class:`EmulatorError` when it fails."""
        try:
            with np.errstate(all="ignore"):
                self.start_batch()
                while self.start_batch():
                    pass
                self.look = self.steps + 1
                while self._settle() or self.batches or self.start_batch():
                    moves = self.moves()
                    if moves:
                        self._take(self.choose(moves))
                    elif not self._go_on():
                        raise self._stuck()
        finally:
            for batch in self.batches:
                batch.release()

    def _settle(self) -> bool:
        """Let all run who do not stand before a step; False."""
        while True:
            free = [g for g in self.ready if g.pc not in self.halts and not self._circles(g)]
            free = [g for g in free if not self._waits_for_mates(g)]
            if not free:
                return False
            g = min(free, key=lambda g: (-len(g.frames), g.pc, int(g.lanes[0])))
            self.ready.remove(g)
            self._run_between(g)

    def _run_between(self, g: Group) -> None:
        """Run a group to its next step."""
        if g in self.circles:
            self.rounds = ROUNDS
        try:
            self._run_group(g)
            self.happened += 1
        except _Circles:
            assert self.round is not None
            access = self.round.looks.get(int(g.lanes[0]), -1)
            where = self.place(access) if access >= 0 else self.where(g)
            self.circles[g] = self.happened, where
            self.make_ready(g)
        except StepLimit:
            raise
        except EmulatorError as error:
            self.happened += 1
            where = self.where(g)
            self.faulty.append(
                Move(self._actor(g), str(g.batch.describe(g.lanes)), self._row(g), where, (),
                     error=error)
            )  # fmt: skip
        finally:
            self._no_round()

    def _circles(self, g: Group) -> bool:
        """Whether it goes round and round, and nothing has happened since it was last let go."""
        return self.circles.get(g, (-1, None))[0] == self.happened

    def _waits_for_mates(self, g: Group) -> bool:
        """Whether other threads of its warp may still come to where a branch's ways meet again."""
        warp = g.batch.warp_of[g.lanes[0]]
        return g.patient and any(
            other is not g and other.batch is g.batch and not other.patient
            and g.batch.warp_of[other.lanes[0]] == warp
            for other in (*self.ready, *self.parked)
        )  # fmt: skip

    def _take(self, move: Move) -> None:
        self.acting = move
        self.taken += 1
        self.happened += 1
        self._stood = None
        self.failing = True
        if move.error is not None:
            raise move.error
        if move.work is not None:
            self.begun.pop(id(move.work))
            move.work.finish()
        else:
            assert move.group is not None
            self._go(move.group)
        self.failing = False
        self.took()
        for batch in self.ended.copy():
            if not self._under_way(batch):
                self.ended.remove(batch)
                super().end_batch(batch)

    def _go(self, g: Group) -> None:
        if self.held.pop(g, None) is not None:
            self.parked.pop(g, None)
            self.allowed = g
        else:
            self.ready.remove(g)
            self._stood = (g.pc, Stood(g, self.program.live[g.pc], self.program.live))
        self.halts.everywhere = True
        try:
            self._run_group(g)
        finally:
            self.halts.everywhere = False
            self._no_round()

    def _go_on(self) -> bool:
        """Nobody can step: find something that goes on all the same."""
        if self.start_batch():
            return True
        waits = [g for g in self.ready if g.patient]
        if waits:
            for g in waits:
                g.patient = False
            return True
        if self.progress > 0:
            self.progress = 0
            self.answers = 0
        patient = [(g, w) for g, w in self.parked.items() if w.may_fail is not None]
        if patient and self.answers < ANSWERS:
            self.answers += 1
            self._answer(patient)
            return True
        return False

    def _stuck(self) -> Exception:
        unstarted = self.blocks - self.next_block
        if not self.ready:
            return deadlock(self.parked, unstarted)
        watch = Watch(self)
        for g in self.ready:
            where = self.circles[g][1] if g in self.circles else self._move(g).what
            watch.who.setdefault(where, []).extend(g.batch.describe(g.lanes).blocks)
        return livelock(self, watch, unstarted)


__all__ = ["Abandoned", "Actor", "Blocked", "Move", "SteppedMachine"]
