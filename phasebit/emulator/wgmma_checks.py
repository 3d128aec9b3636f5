"""``wgmma`` in the checker: what tensor cores read and write while threads go on.

*Registers.*  From ``wgmma.mma_async`` until the wait its accumulators, and the registers that
hold A, belong to the tensor core: nobody may look at the former, or change either.  Before, a
``wgmma.fence`` must follow what threads computed there.  Which registers these are is known when
the program is translated: those that the instruction names, and those that a ``mov`` connects
with them (:func:`classes`).  The writer of blocks puts a question before each use of one.

*Shared memory.*  Tiles are read through the async proxy, as the copy engine reads
(:mod:`~phasebit.emulator.proxies`).  Until the wait they may not be overwritten: each warp group
has a column in the clocks, for the multiplications that are known to be over; a wait sets it, and
barriers spread it.

Source: PTX ISA 9.7.15.4 (async proxy), 9.7.15.5.2, 9.7.15.7.1 (``wgmma.fence``), 9.7.15.7.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from phasebit.emulator.footprint import Footprint
from phasebit.emulator.group import Group
from phasebit.emulator.memory import POISON
from phasebit.emulator.syntax import Instruction, Register, Vector
from phasebit.emulator.types import SIZE as BYTES
from phasebit.emulator.types import Array, Value
from phasebit.emulator.warpgroups import SIZE, Multiplication, owner

if TYPE_CHECKING:
    from phasebit.emulator.cfg import Graph
    from phasebit.emulator.hazards import Checker
    from phasebit.emulator.machine import Batch
    from phasebit.emulator.wgmma_tiles import Tile


def is_multiplication(instruction: Instruction) -> bool:
    return instruction.mnemonic == "wgmma" and "mma_async" in instruction.modifiers


def is_copy(instruction: Instruction) -> bool:
    """Whether it only gives a register another name, or a constant."""
    return instruction.mnemonic == "mov" and instruction.guard is None and not any(
        isinstance(operand, Vector) for operand in instruction.operands
    )  # fmt: skip


def classes(graph: Graph) -> dict[int, int]:
    """Registers that hold accumulators or A, by number; those that ``mov`` connects are one."""
    parent: dict[int, int] = {}

    def root(index: int) -> int:
        while parent.get(index, index) != index:
            index = parent[index]
        return index

    seeds: set[int] = set()
    for instruction in graph.selected:
        if is_multiplication(instruction):
            for operand in instruction.operands[:2]:
                if isinstance(operand, Vector):
                    seeds |= {r.index for r in operand.items if isinstance(r, Register)}
    if not seeds:
        return {}
    for instruction in graph.selected:
        if is_copy(instruction):
            to, source = instruction.operands
            if isinstance(to, Register) and isinstance(source, Register) and (
                BYTES[to.type] == BYTES[source.type]
            ):  # fmt: skip
                parent[root(to.index)] = root(source.index)
    hot = {root(index) for index in seeds}
    every = {r for r in range(len(graph.function.registers)) if root(r) in hot}
    return {index: root(index) for index in every}


class Reads:
    """Words that the multiplications of one warp group read, from one descriptor."""

    def __init__(self, words: Array, access: int, lanes: Array) -> None:
        self.words = words
        self.access = access
        self.lanes = lanes
        self.started = 0


class WarpGroupChecks:
    """What the checker does about ``wgmma``."""

    def __init__(self, checker: Checker) -> None:
        self.machine = checker.machine
        self.findings = checker.findings
        self.races = checker.races
        self.engine = checker.engine
        self.reads: dict[Batch, dict[tuple[int, ...], Reads]] = {}
        self.races.wgmma = self

    # -- registers ------------------------------------------------------------

    def looks_at(self, g: Group, values: tuple[Value, ...], access: int) -> None:
        """Threads read registers: is one of them an accumulator that is not ready?"""
        queue = g.batch.multiplications
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
        queue = g.batch.multiplications
        if queue is None:
            return
        for number in classes:
            times = queue.changed.setdefault(number, np.zeros(g.batch.lanes, np.int64))
            times[g.lanes] = queue.moment
            queue.changer[number] = access
        if not queue.under_way:
            return
        for index, value in before.items():
            for table, what in ((queue.owners, "an accumulator"), (queue.inputs, "part of A")):
                for known in _of(table, value):
                    # its value may also have come to the multiplication under another name
                    if index in _registers(known) and known.pending_in(g.lanes):
                        self._report_register(g, known, access, f"change {what}")
                        return

    def adds_to(self, g: Group, registers: Array, kept: Array) -> None:
        """A multiplication takes accumulators [register, thread], and adds to those ``kept``."""
        unwritten = (registers == POISON).any(axis=0) & kept
        if unwritten.any():
            access = self.machine.program.executing_access()
            self.findings.report(
                "uninitialised",
                f"a multiplication of {g.batch.describe(g.lanes[unwritten])} adds to registers "
                "that nobody has written; the first one of a sum needs scale-d = 0, or zeros: "
                f"{self.findings.place(access)}",
                access, ("unwritten", access),
            )  # fmt: skip

    def _report_register(self, g: Group, mma: Multiplication, access: int, what: str) -> None:
        self.findings.report(
            "async",
            f"{g.batch.describe(g.lanes)} {what} of a multiplication that is under way: "
            f"{self.findings.place(access)}; no wgmma.wait_group since: {_place(mma)}",
            access, ("register", access, mma.instruction),
        )  # fmt: skip

    def begins(self, g: Group, registers: tuple[int, ...], access: int) -> None:
        """A multiplication takes these registers: are they fenced?"""
        queue = g.batch.multiplications
        fenced = np.zeros(g.n, np.int64) if queue is None else queue.fenced[g.lanes]
        if queue is None or (fenced == 0).any():
            self.findings.report(
                "async",
                f"the first multiplication of {g.batch.describe(g.lanes[fenced == 0])} has no "
                f"wgmma.fence before it: {self.findings.place(access)}",
                access, ("first", access),
            )  # fmt: skip
            return
        for number in registers:
            changed = queue.changed.get(number)
            if changed is not None and (changed[g.lanes] >= fenced).any():
                late = g.lanes[changed[g.lanes] >= fenced]
                self.findings.report(
                    "async",
                    f"{g.batch.describe(late)} changed a register of a multiplication after the "
                    f"last wgmma.fence: {self.findings.place(queue.changer[number])}; "
                    f"the multiplication may take the old value: {self.findings.place(access)}",
                    access, ("fence", access, queue.changer[number]),
                )  # fmt: skip
                return

    # -- shared memory --------------------------------------------------------

    def started(self, g: Group, mma: Multiplication, tiles: list[Tile], access: int) -> None:
        """Warp groups begin to read tiles, a whole number of tiles for each."""
        mma.started = self.machine.now
        shift = self.races.shift
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
                    "descriptor",
                    f"the descriptor of {tile.role} is wrong: {wrong}; "
                    f"{self.findings.place(access)}",
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

    def against(self, g: Group, words: Array, access: int) -> None:
        """Threads write to shared memory: does a multiplication still read there?"""
        s = self.races.shadows[g.batch]
        low, high = int(words.min()), int(words.max())
        for key, reads in self.reads[g.batch].items():
            if high < reads.words[0] or low > reads.words[-1]:
                continue
            if (s.clock[g.lanes, key[0]] >= reads.started).all():
                continue
            both = words[np.isin(words, reads.words)]
            if not len(both):
                continue
            lanes = self.races.writers_at(g, int(both[0]))
            if (s.clock[lanes, key[0]] < reads.started).any():
                name = self.races._shared_name(s, int(both[0]) - s.base)
                self.findings.report(
                    "async",
                    f"{g.batch.describe(lanes[:1])} writes {name}: "
                    f"{self.findings.place(access)}; a multiplication of "
                    f"{g.batch.describe(reads.lanes)} may still read it, and no "
                    f"wgmma.wait_group lies between: {self.findings.place(reads.access)}",
                    access, ("reading", access, reads.access),
                )  # fmt: skip

    def waited(self, batch: Batch, lanes: Array, started: int) -> None:
        """These threads know that what they began up to a time is over."""
        s = self.races.shadows[batch]
        column = s.warp_groups + lanes % s.team // SIZE
        s.clock[lanes, column] = np.maximum(s.clock[lanes, column], started)
        s.version += 1

    def finish(self, batch: Batch) -> None:
        """A batch has left the kernel."""
        self.reads.pop(batch, None)


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


def _place(mma: Multiplication) -> str:
    i: Any = mma.instruction
    return f"`{i.text}` at {i.where}" if i else "?"


__all__ = ["WarpGroupChecks", "classes", "is_copy", "is_multiplication"]
