"""The machine: blocks of threads made resident, groups of threads run one after another.

The scheduler keeps a list of *ready* groups.  It runs the one that is furthest
behind in the program (deepest call, lowest block); a group that reaches the
block where the ways of a branch meet again lets the others go first, so that
they arrive and become one group again.  After ``PATIENCE`` blocks it takes the
one that has waited longest, so that no spinning loop can starve the rest.  A
group that must wait is *parked* with the reason, and whoever makes the reason go
away wakes it.  When nothing is ready the machine looks, in this order, for
asynchronous work to finish, a sleeper to wake, a block to start, a test that may
answer "not yet"; if there is none, that is a deadlock, and it says who waits for
what.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

import numpy as np

from phasebit.emulator.errors import OutOfBounds, StepLimit
from phasebit.emulator.findings import Sentence, say
from phasebit.emulator.machine import room
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.cluster_launch import RESIDENT, steals
from phasebit.emulator.machine.deciding import Deciding
from phasebit.emulator.machine.gathering import Gathering
from phasebit.emulator.machine.group import Group, merge, place
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.machine.livelock import GLANCE, PAUSE, TURNS_EACH, WATCHED, Watch, livelock
from phasebit.emulator.machine.running_launch import RunningLaunch
from phasebit.emulator.machine.standing import deadlock, standing
from phasebit.emulator.machine.waiting import Waiting
from phasebit.emulator.ptx.syntax import Instruction

PATIENCE = 64
"""Blocks a group may run while others are ready, and picks between two oldest-first picks."""

POLLS = 256
"""Fruitless looks at memory or at a clock after which more blocks are started."""

MOST_POLLS = 1024
"""Fruitless looks after which time passes for others, although some group could always run: a copy
is done, sleepers wake, more blocks start unless something happens.  A loop that counts its turns
is never where it was before, so no :class:`.livelock.Watch` sees that it asks in vain."""

FALSE_ANSWERS = 512
"""How often a waiting test may answer "not yet" while nothing else moves, before a deadlock."""

LONGEST = 4096
"""In company: turns of loops between two watches, at most."""

STACKED_BYTES = 32 << 20
"""Bytes of shared memory, and of local memory, that blocks which are stacked together have."""


class Machine(RunningLaunch):
    """One launch."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.last_block = 0
        self.answers = 0
        self.ready: list[Group] = []
        self.index: dict[tuple[int, int, int], Group] = {}
        self.parked: dict[Group, Waiting] = {}
        self.gathering = Gathering()
        self.sleeping: list[tuple[int, Group]] = []
        self.running: Group | None = None
        """The group that runs, or ran last."""
        self.after_block: list[Callable[[], None]] = []
        """What an observer wants to look at when the block that runs is done."""
        self.batches: list[Batch] = []
        self.watch: Watch | None = None
        self.pause = PAUSE
        self.poll_limit = MOST_POLLS
        """Looks after which time passes for others: see :data:`MOST_POLLS`."""
        self.progressed = 0
        """The progress when it last did."""
        self.deciding: dict[Any, Deciding] = {}
        """What decides where threads go, by the blocks that run: see :class:`.livelock.Watch`."""
        self.look = self.steps - PAUSE
        """Below so many steps left a turn is looked at."""
        self.spins: Watch | None = None
        """In company: every thread spins or waits, as this watch saw, so others have their turn."""
        self.picks = 0
        self.stops: Container[int] = ()
        """Blocks of the program before which a group always lets others go first."""
        self.stealing = steals(self.program)
        blocks = len(self.program.blocks)
        self.block_runs, self.block_threads = [0] * blocks, [0] * blocks
        self.block_warps = [0] * blocks
        """How often each block of the program ran, for how many threads and warps."""

    # -- blocks ---------------------------------------------------------------

    def batch_size(self) -> int:
        """How many blocks to stack."""
        if self.cooperative:
            return self.blocks
        size = max(1, self.stacked // self.threads)
        local = self.threads * self.program.layout.local_size
        size = min(size, max(1, STACKED_BYTES // max(self.shared_size, local, 1)))
        if self.stealing:
            size = min(size, RESIDENT * self.cluster_size)
        together = self.cluster_size * self.resident
        return max(together, size - size % together)

    def start_batch(self) -> bool:
        """Make the next blocks resident; False when there are none left, or no room for them."""
        count = min(self.batch_size(), self.blocks - self.next_block)
        if not count or (self.batches and self.resident_blocks() + count > self.most_resident):
            return False
        room.ask()
        blocks = self.order.blocks(self.next_block, count)
        self.next_block += count
        batch = Batch(self, blocks)
        self.batches.append(batch)
        for told in self.told[LaunchObserver.starts]:
            told(batch)
        function = self.program.kernel
        group = Group(
            batch, np.arange(batch.lanes), self.program.entry(function.name),
            self.program.fresh_registers(function), self.clock if self.keep_apart else 0,
        )  # fmt: skip
        self.make_ready(group)
        return True

    def resident_blocks(self) -> int:
        """Blocks that have started and have threads left."""
        return sum(int(np.count_nonzero(batch.live_in_block)) for batch in self.batches)

    def exit_threads(self, g: Group) -> None:
        """These threads are done; barriers and warps no longer count them."""
        batch = g.batch
        batch.alive[g.lanes] = False
        batch.live -= g.n
        self.progress += 1
        self.clock = max(self.clock, g.time)
        for told in self.told[LaunchObserver.leaves]:
            told(g)
        if batch.live == 0:
            self.end_batch(batch)
            return
        batch.live_in_block -= np.bincount(batch.slots(g.lanes), minlength=batch.count)
        batch.live_in_warp -= np.bincount(batch.warp_of[g.lanes], minlength=len(batch.live_in_warp))
        np.bitwise_and.at(batch.alive_mask, batch.warp_of[g.lanes], ~batch.lane_bit[g.lanes])
        for look in batch.when_threads_leave:
            look(g.lanes)
        for waiting in self.gathering.let_go(batch):
            self.wake(waiting, waiting.pc)

    def end_batch(self, batch: Batch) -> None:
        """All threads of some blocks are done."""
        self.batches.remove(batch)
        for agent in [a for a in self.agents if a.batch is batch]:
            agent.finish()
        for ended in self.told[LaunchObserver.ends]:
            ended(batch)
        batch.release()

    # -- the ready list -------------------------------------------------------

    def make_ready(self, g: Group) -> None:
        """Put a group on the ready list, merged with one that stands at the same place."""
        if g.pc in g.joins:
            g.meets(g.pc)
        key = (id(g.batch), g.stack, g.pc)
        other = self.index.get(key)
        if other is not None and not self._may_join(other, g):
            g.since = self.picks
            self.ready.append(g)
            return
        if other is not None:
            for told in self.told[LaunchObserver.ran]:
                told(other)
                told(g)
            self.ready.remove(other)
            since = other.since
            g = merge([other, g])
            g.since = since
        else:
            g.since = self.picks
        self.index[key] = g
        self.ready.append(g)

    def _may_join(self, a: Group, b: Group) -> bool:
        """Whether two groups at one place may become one.

        With ``keep_apart`` not those of whole warps that stand there at different times.
        """
        return not self.keep_apart or a.time == b.time or not (a.whole and b.whole)

    def _pick(self) -> Group:
        ready = self.ready
        if len(ready) == 1:
            g = ready.pop()
        else:
            self.picks += 1
            if self.picks % PATIENCE == 0:
                g = min(ready, key=_since)
            elif self.schedule == "random" and self.picks % 7 == 0:
                g = self.random.choice(ready)
            elif self.watch is not None and self.watch.again:  # who may still do something first
                g = min(ready, key=self.watch.order)
            else:
                g = min(ready, key=place)
            ready.remove(g)
        key = (id(g.batch), g.stack, g.pc)
        if self.index.get(key) is g:
            del self.index[key]
        return g

    # -- waiting --------------------------------------------------------------

    def park(self, g: Group, waiting: Waiting) -> int:
        """Take a group off the machine until someone wakes it; the -1 a block returns."""
        for told in self.told[LaunchObserver.ran]:
            told(g)
        self.parked[g] = waiting
        return -1

    def wake(self, g: Group, pc: int, time: int | None = None) -> None:
        """A parked group goes on at ``pc``, not before ``time``."""
        waiting = self.parked.pop(g, None)
        if time is not None and time > g.time:
            if waiting is not None:
                for told in self.told[LaunchObserver.waited]:
                    told(g, g.time, time, waiting.what)
            g.time = time
        g.started = g.time
        g.pc = pc
        self.make_ready(g)

    def sleep(self, g: Group, duration: int) -> int:
        """``nanosleep``: others first; time passes when nobody else can run."""
        for told in self.told[LaunchObserver.ran]:
            told(g)
        self.sleeping.append((max(self.clock, g.time) + max(1, duration), g))
        g.pc = g.resume
        self.polls += 1
        return -1

    def catch_up(self, g: Group, moment: int, what: str) -> None:
        """What the group waited for happened later than the group's own time: it waited.

        The machine runs groups one after another, so the event may be over before the group
        comes to look.
        """
        if moment > g.time:
            for ran in self.told[LaunchObserver.ran]:
                ran(g)
            for waited in self.told[LaunchObserver.waited]:
                waited(g, g.time, moment, what)
            g.time = moment

    def gather(self, g: Group, membermask: Any) -> bool:
        """Bring the threads of the member masks together; True when all are here already."""
        return self.gathering.bring(g, membermask)

    def where(self, g: Group) -> Sentence:
        """The instruction that :meth:`_now_at` finds, and its place."""
        instruction = self._now_at(g)
        return Sentence((f"{instruction.text} at ", instruction.where) if instruction else ("?",))

    def place(self, access: int) -> Sentence:
        """An instruction by its number, and where it comes from."""
        instruction = self.program.instructions[access]
        return say("`{}` at {}", instruction.text, instruction.where)

    def source_line(self, g: Group) -> str:
        """``kernel.cu:7``, the same whatever compiles it; the PTX line where no source is known."""
        instruction = self._now_at(g)
        return str(instruction.location or instruction.where) if instruction else "?"

    def executing_access(self) -> int:
        """The number of the instruction that is being executed; -1 between two blocks."""
        return self.running.at if self.running is not None else -1

    def executing(self) -> Instruction | None:
        """The instruction that is being executed; None between two blocks.

        The generated text leaves its number with the group before each call that may ask: one
        assignment, so that nobody need look through Python's frames for the line that runs.
        """
        at = self.executing_access()
        return self.program.instructions[at] if at >= 0 else None

    def _now_at(self, g: Group) -> Instruction | None:
        """The instruction being executed, else one that the block of a group ends with."""
        instruction = self.executing()
        if instruction is None:
            block = self.program.blocks[g.pc]
            instruction = block.collective or block.end or (block.body[-1] if block.body else None)
        return instruction

    def standing(self, running: Group | None = None) -> Sentence:
        """Where the threads are: those that run now, and what the others wait for."""
        running = running or self.running
        return standing(running, self.where(running) if running else None, self.parked)

    # -- running --------------------------------------------------------------

    def run(self) -> None:
        """Run the whole grid.  Raises :class:`EmulatorError` when the kernel fails."""
        try:
            self.start_batch()
            while self.advance():
                pass
        finally:
            self.close()

    def advance(self) -> bool:
        """Run until no group is ready, in company one turn of one group; False: it has ended."""
        with np.errstate(all="ignore"):
            while self.ready:
                self._run_group(self._pick())
                if self.seat is not None:
                    return bool(self.batches) or self.next_block < self.blocks
            if not self.batches and not self.start_batch():
                return False
            if not self.ready and not self._unstick():
                raise deadlock(self.parked, self.blocks - self.next_block)
            return True

    def close(self) -> None:
        """Give back what the blocks have that are still there."""
        for batch in self.batches:
            batch.release()

    def look_again(self) -> None:
        """Others have had their turn: whoever spins looks whether something has changed."""
        if self.spins is not None:
            self.told.unsubscribe(self.spins)
            self.spins = None
            self._watch()

    def _run_group(self, g: Group) -> None:
        """Run a group until it parks, divides, ends, or should let others go first."""
        code, sizes = self.program.code, self.program.sizes
        counts, threads, warps = self.block_runs, self.block_threads, self.block_warps
        entered = self.told[LaunchObserver.enters]
        budget = PATIENCE
        polls = self.polls
        self.running = g
        g.patient = False
        while True:
            pc = self.last_block = g.pc
            for told in entered:
                told(g)
            g.time += sizes[pc]
            counts[pc] += 1
            threads[pc] += g.n
            warps[pc] += g.warps
            try:
                following = code[pc](g)
            except IndexError as error:
                g.at = -1  # it may be a load or a store after that: these leave no number
                raise OutOfBounds(
                    "{} reached outside of all memory near {}; launch with check=True to learn "
                    "which access",
                    g.batch.describe(g.lanes), self.where(g),
                ) from error
            finally:
                g.at = -1
            if self.after_block:
                for look in self.after_block:
                    look()
                self.after_block.clear()
            if following < 0:
                return
            g.pc = following
            if following in g.joins:
                g.meets(following)
            if following <= pc:
                self.steps -= 1
                if self.steps < self.look:
                    self._look(g)
            if self.spins is not None:
                self.make_ready(g)
                return
            if g.rejoin and g.rejoin[-1] == following:
                g.rejoin = g.rejoin[:-1]
                if self.ready or self.stops:
                    g.patient = True
                    self.make_ready(g)
                    return
            if self.stops and following in self.stops:
                self.make_ready(g)
                return
            if following <= pc:
                budget -= 1
                if self.steps < 0:
                    raise StepLimit(
                        "the kernel has not ended after the allowed number of loop turns: {}; if "
                        "it is right and merely long, launch with a larger max_steps",
                        self.standing(g),
                    )
                if self.polls >= self.poll_limit and not self.stepped:
                    self._let_time_pass(g)
                looked = self.polls != polls and not self.stops
                if looked and (self.ready or self.seat is not None):
                    g.patient = True
                    self.make_ready(g)
                    return
                if self.polls > POLLS and budget < PATIENCE - 8:
                    self.polls, self.poll_limit = 0, MOST_POLLS
                    if not self.ready and not self.start_batch() and not self.sleeping:
                        self._poke()
            if budget <= 0 and self.seat is not None:
                self.make_ready(g)
                return
            if self.ready and (
                budget <= 0
                or (id(g.batch), g.stack, following) in self.index
                or any(place(other) < (False, -len(g.frames), following) for other in self.ready)
            ):
                self.make_ready(g)
                return
            if budget <= 0:
                budget = PATIENCE
                if self.sleeping or self.agents:
                    self.clock = max(self.clock, g.time)
                    self._wake_sleepers(self.clock)
                    if self.schedule == "random":
                        self._poke()

    def _look(self, g: Group) -> None:
        """A group takes a loop's turn: is this a livelock?"""
        watch = self.watch
        if watch is None:
            self._watch()
        elif watch.turn(g):
            self._judge(watch)
        elif watch.turns > self._watched() or (watch.turns == GLANCE and not watch.quiet()):
            self._end_watch(watch)

    def _watched(self) -> int:
        """Turns that a watch may last: enough for each group to come back."""
        return max(self.pause // WATCHED, TURNS_EACH * (1 + len(self.ready)))

    def _watch(self) -> None:
        self.watch = Watch(self)
        self.told.subscribe(self.watch)
        self.look = self.steps

    def _end_watch(self, watch: Watch) -> None:
        self.told.unsubscribe(watch)
        self.watch = None
        self.pause *= 2
        if self.seat is not None:  # who gives turns away must be found again and again
            self.pause = min(self.pause, LONGEST)
        self.look = self.steps - self.pause

    def _judge(self, watch: Watch) -> None:
        """Every thread that does not wait has come back to where it was."""
        if watch.renew():  # by what decided so far
            return
        if not watch.quiet():
            self._end_watch(watch)
            return
        asleep = [at for at, g in self.sleeping if watch.came_back(g) < g.n]
        if asleep:  # for whom nobody need turn round and round until it is time
            self.clock = max(self.clock, min(asleep))
            self._wake_sleepers(self.clock)
            return
        patient = [(g, w) for g, w in self.parked.items() if w.may_fail is not None]
        if self.agents:
            self._poke()
        elif patient and self.answers < FALSE_ANSWERS:
            self.answers += 1
            self._answer(patient)
        elif watch.only_waits():
            self._end_watch(watch)  # they will all wait soon, and nobody will be ready
            return
        elif not self.start_batch():
            if self.seat is None:
                raise livelock(self, watch, self.blocks - self.next_block)
            self.spins = watch  # another launch may still change something
            return
        else:  # as many more as are there, so that who waits for the last one waits not long
            for _ in self.batches[1:]:
                self.start_batch()
        self.told.unsubscribe(watch)
        self._watch()

    def _answer(self, patient: list[tuple[Group, Waiting]]) -> None:
        """These tests answer "not yet"."""
        for g, waiting in patient:
            if g in self.parked:
                if self.watch is not None:
                    self.watch.answered(g)
                waiting.may_fail(g)

    def _let_time_pass(self, g: Group) -> None:
        """Groups look and look, and one of them is always ready: the others get on as well."""
        self.poll_limit = self.polls + MOST_POLLS
        self.clock = max(self.clock, g.time)
        self._wake_sleepers(self.clock)
        self._poke()
        if self.progress == self.progressed:
            self.start_batch()
        self.progressed = self.progress

    def _poke(self) -> None:
        """Let asynchronous work go on while a group spins on its result."""
        if self.agents:
            self.agents[0].finish()

    def _wake_sleepers(self, clock: int) -> bool:
        awake = [item for item in self.sleeping if item[0] <= clock]
        for item in awake:
            self.sleeping.remove(item)
            self.wake(item[1], item[1].pc, item[0])
        return bool(awake)

    def _unstick(self) -> bool:
        """Nothing is ready: find something that may go on."""
        for agent in self.agents:
            if agent.signals:
                agent.finish()
                return True
        if self.sleeping:
            self.clock = max(self.clock, min(at for at, _ in self.sleeping))
            return self._wake_sleepers(self.clock)
        if self.start_batch():
            return True
        if self.progress > 0:
            self.progress = 0
            self.answers = 0
        patient = [(g, w) for g, w in self.parked.items() if w.may_fail is not None]
        if patient and self.answers < FALSE_ANSWERS:
            self.answers += 1
            self._answer(patient)
            return True
        return False


def _since(g: Group) -> int:
    return g.since


__all__ = ["Machine"]
