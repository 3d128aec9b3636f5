"""``wgmma`` in the checker: what tensor cores read and write while threads go on.

*Registers.*  From ``wgmma.mma_async`` until the wait its accumulators, and the registers that
hold A, belong to the tensor core: nobody may look at the former, or change either.  Before, a
``wgmma.fence`` must follow what threads computed there.  Which registers these are is known when
the program is translated (``codegen.accumulator_registers``).  The writer of blocks puts a question
before each use of one.

*Shared memory.*  Tiles are read through the async proxy, as the copy engine reads
(``checker.proxies``).  Until the wait they may not be overwritten: each warp group
has a column in the clocks, for the multiplications that are known to be over; a wait sets it, and
barriers spread it.

Source: PTX ISA 9.7.15.4 (async proxy), 9.7.15.5.2, 9.7.15.7.1 (``wgmma.fence``), 9.7.15.7.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phasebit.emulator.checker.footprint import Footprint, touching
from phasebit.emulator.checker.proxies import Engine
from phasebit.emulator.checker.races import Races
from phasebit.emulator.checker.reports import Findings
from phasebit.emulator.checker.shared_shadow import SharedShadow
from phasebit.emulator.findings import Sentence, say
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.device_memory import POISON
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.numbers.words import among
from phasebit.emulator.ptx.syntax import Register, Vector
from phasebit.emulator.ptx.types import Array, Value
from phasebit.emulator.tensor_core.warpgroups import (
    SIZE,
    Multiplication,
    Queue,
    WarpGroupObserver,
    owner,
)
from phasebit.emulator.tensor_core.wgmma_tiles import Tile


class Reads:
    """Words that the multiplications of one warp group read, from one descriptor."""

    def __init__(self, words: Array, access: int, lanes: Array) -> None:
        self.words = words
        self.access = access
        self.lanes = lanes
        self.started = 0


class Registers:
    """When the registers that ``wgmma`` takes were computed and fenced, in one batch."""

    def __init__(self, batch: Batch) -> None:
        self.moment = 1
        """Counts fences."""
        self.fenced = np.zeros(batch.lanes, np.int64)
        """When each thread last executed ``wgmma.fence``."""
        self.changed: dict[int, Array] = {}
        """Class of registers -> when each thread last computed one of them."""
        self.changer: dict[int, int] = {}
        """Class of registers -> the instruction that did so last."""


class WarpGroupChecks(WarpGroupObserver, LaunchObserver):
    """What the checker does about ``wgmma``."""

    def __init__(self, races: Races, findings: Findings, engine: Engine) -> None:
        self.machine = races.machine
        self.findings = findings
        self.races = races
        self.engine = engine
        self.reads: dict[Batch, dict[tuple[int, ...], Reads]] = {}
        self.registers: dict[Batch, Registers] = {}

    # -- registers ------------------------------------------------------------

    def looks_at(self, g: Group, values: tuple[Value, ...], access: int) -> None:
        """Threads read registers: is one of them an accumulator that is not ready?"""
        queue = g.batch.known(Queue)
        if queue is None or not queue.owners:
            return
        for value in values:
            for known in _of(queue.owners, value):
                if known.pending_in(g.lanes):
                    self._report_register(g, known, access, "look at an accumulator")
                    return

    def changes(
        self, g: Group, before: dict[int, Value], classes: tuple[int, ...], access: int
    ) -> None:
        """Threads compute registers, by number with what they held ``before``."""
        registers = self.registers.get(g.batch)
        if registers is not None:
            for number in classes:
                times = registers.changed.setdefault(number, np.zeros(g.batch.lanes, np.int64))
                times[g.lanes] = registers.moment
                registers.changer[number] = access
        queue = g.batch.known(Queue)
        if queue is None or not queue.under_way:
            return
        for index, value in before.items():
            for table, what in ((queue.owners, "an accumulator"), (queue.inputs, "part of A")):
                for known in _of(table, value):
                    # its value may also have come to the multiplication under another name
                    if index in _registers(known) and known.pending_in(g.lanes):
                        self._report_register(g, known, access, f"change {what}")
                        return

    def adds_to(
        self, batch: Batch, lanes: Array, registers: Array, kept: Array, access: int
    ) -> None:
        """The tensor core takes accumulators [register, thread], and adds to those ``kept``."""
        unwritten = (registers == POISON).any(axis=0) & kept
        if unwritten.any():
            self.findings.report(
                "uninitialised-accumulator",
                say(
                    "a multiplication of {} adds to registers that nobody has written; the first "
                    "one of a sum needs scale-d = 0, or zeros: {}",
                    batch.describe(lanes[unwritten]), self.findings.place(access),
                ),
                access, ("unwritten", access),
            )  # fmt: skip

    def _report_register(self, g: Group, mma: Multiplication, access: int, what: str) -> None:
        self.findings.report(
            "missing-wgmma-wait",
            say(
                "{} {} of a multiplication that is under way: {}; no wgmma.wait_group since: {}",
                g.batch.describe(g.lanes), what, self.findings.place(access), _place(mma),
            ),
            access, ("register", access, mma.instruction),
        )  # fmt: skip

    def fences_registers(self, g: Group) -> None:
        """``wgmma.fence``: a new moment begins."""
        if g.batch not in self.registers:
            self.registers[g.batch] = Registers(g.batch)
        registers = self.registers[g.batch]
        registers.moment += 1
        registers.fenced[g.lanes] = registers.moment

    def begins_product(self, g: Group, classes: tuple[int, ...], access: int) -> None:
        """A multiplication takes registers of these classes: are they fenced?"""
        registers = self.registers.get(g.batch)
        fenced = np.zeros(g.n, np.int64) if registers is None else registers.fenced[g.lanes]
        if registers is None or (fenced == 0).any():
            self.findings.report(
                "missing-wgmma-fence",
                say(
                    "the first multiplication of {} has no wgmma.fence before it: {}",
                    g.batch.describe(g.lanes[fenced == 0]), self.findings.place(access),
                ),
                access, ("first", access),
            )  # fmt: skip
            return
        for number in classes:
            changed = registers.changed.get(number)
            if changed is not None and (changed[g.lanes] >= fenced).any():
                late = g.lanes[changed[g.lanes] >= fenced]
                self.findings.report(
                    "missing-wgmma-fence",
                    say(
                        "{} changed a register of a multiplication after the last wgmma.fence: "
                        "{}; the multiplication may take the old value: {}",
                        g.batch.describe(late), self.findings.place(registers.changer[number]),
                        self.findings.place(access),
                    ),
                    access, ("fence", access, registers.changer[number]),
                )  # fmt: skip
                return

    # -- shared memory --------------------------------------------------------

    def starts_product(self, g: Group, mma: Multiplication, tiles: Sequence[Tile]) -> None:
        """Warp groups begin to read tiles, a whole number of tiles for each."""
        access = self.machine.executing_access()
        shift = self.races.facts.shift
        each = 16 >> shift
        s = self.races.shadows[g.batch]
        kept = self.reads.setdefault(g.batch, {})
        groups = g.n // SIZE
        for number, tile in enumerate(tiles):
            i = number % groups
            lanes = g.lanes[i * SIZE : (i + 1) * SIZE]
            words = ((tile.pieces + tile.start).reshape(-1, 1) * each + np.arange(each)).ravel()
            leaders = Group(g.batch, lanes[::32], g.pc, [], g.time)
            every = np.broadcast_to(words[:, None], (len(words), leaders.n))
            self.races.shared_load(leaders, Footprint.plain(every), 0, access, False, note=False)
            self._fenced(leaders, words, access, tile)
            begin = int(tile.pieces.flat[0]) + tile.start << 4
            wrong = tile.wrong or self.engine.otherwise(g.batch, begin, tile.swizzle)
            if tile.crooked and (tile.base_offset or self.races.threads_wrote(g, begin)):
                wrong = tile.crooked  # tensor copies swizzle by the address, as wgmma does
            if wrong:
                self.findings.report(
                    "wrong-descriptor",
                    say(
                        "the descriptor of {} is wrong: {}; {}",
                        tile.role, wrong, self.findings.place(access),
                    ),
                    access, ("descriptor", access, tile.role),
                )  # fmt: skip
            column = s.warp_groups + int(lanes[0]) % s.team // SIZE
            key = (column, int(lanes[0]), int(words[0]), int(words[-1]), len(words), tile.start)
            reads = kept.setdefault(key, Reads(np.sort(words), access, lanes))
            reads.access, reads.started = access, mma.started
        self.machine.now += 1

    def _fenced(self, leaders: Group, words: Array, access: int, tile: Tile) -> None:
        s = self.races.shadows[leaders.batch]
        x = words - s.base
        times, writers = s.write_time[x], s.writer[x]
        mine = writers < s.team
        known = s.clock[leaders.lanes[:, None], s.proxy + np.where(mine, writers, 0)]
        late = mine & (times > known.min(axis=0))
        self.engine.unordered(
            s, leaders, x, late, "wrote", access, "a multiplication reads", role=tile.role
        )

    def against_readers(
        self, s: SharedShadow, g: Group, footprint: Footprint, start: int, access: int
    ) -> None:
        """Threads write to shared memory: does a multiplication still read there?"""
        if not self.reads.get(g.batch):
            return
        words = footprint.once + start
        low, high = int(words.min()), int(words.max())
        for key, reads in self.reads[g.batch].items():
            if high < reads.words[0] or low > reads.words[-1]:
                continue
            if (s.clock[g.lanes, key[0]] >= reads.started).all():
                continue
            both = words[among(words, reads.words)]
            if not len(both):
                continue
            lanes, written = touching(g, footprint, start, both)
            late = s.clock[lanes, key[0]] < reads.started
            if late.any():
                i = int(np.argmax(late))
                self.findings.report(
                    "wgmma-source-overwritten",
                    say(
                        "{} writes {}: {}; a multiplication of {} may still read it, and no "
                        "wgmma.wait_group lies between: {}",
                        g.batch.describe(lanes[i : i + 1]),
                        self.races.shared_name(s, int(written[i]) - s.base),
                        self.findings.place(access), g.batch.describe(reads.lanes),
                        self.findings.place(reads.access),
                    ),
                    access, ("reading", access, reads.access),
                )  # fmt: skip

    def waited_for_product(self, mma: Multiplication, lanes: Array) -> None:
        """These threads know that what they began up to then is over."""
        s, started = self.races.shadows[mma.batch], mma.started
        column = s.warp_groups + lanes % s.team // SIZE
        s.clock[lanes, column] = np.maximum(s.clock[lanes, column], started)
        s.version += 1

    def ends(self, batch: Batch) -> None:
        """A batch has left the kernel."""
        self.reads.pop(batch, None)
        self.registers.pop(batch, None)


def _of(
    table: dict[int, tuple[Array, tuple[Multiplication, ...]]], value: Value
) -> tuple[Multiplication, ...]:
    if not isinstance(value, np.ndarray):
        return ()
    return table.get(id(owner(value)), (value, ()))[1]


def _registers(mma: Multiplication) -> set[int]:
    """The registers that a multiplication names."""
    if mma.instruction is None:
        return set()
    operands = [o for o in mma.instruction.operands[:2] if isinstance(o, Vector)]
    return {r.index for o in operands for r in o.items if isinstance(r, Register)}


def _place(mma: Multiplication) -> Sentence:
    i: Any = mma.instruction
    return say("`{}` at {}", i.text, i.where) if i else say("?")


__all__ = ["WarpGroupChecks"]
