"""What accesses cost the memory system: sectors and wavefronts.

*Global*: a request is one instruction of one warp; it touches so many 32-byte
sectors.  An atomic visits a sector once more for each further thread that names
the same word; one on a vector is one request too, as it is one machine instruction
(its sectors are counted by the same rule, which for vectors is not measured).

*Shared*: 32 banks of 4 bytes; in one wavefront each bank delivers one word, to any
number of lanes.  A request takes as many wavefronts as the fullest bank has
different words.  Requests of 8 and 16 bytes a thread are served in halves and
quarters of the warp.  A load serves two neighbouring parts at once when lanes in
pairs ask for the same (see :func:`merges`).  Wavefronts beyond one for each part
are bank conflicts.  Atomics take a wavefront for each thread of the fullest bank,
compare-and-swap two.

The compiler's last step, from PTX to machine code, joins accesses to adjacent shared
words through one register into accesses of 8 and 16 bytes where it knows their
alignment; so does the count here, or it would be another program's.  Here alignment
is looked up in the addresses: what only a run can know is taken as known.

Adding a constant to all addresses of a request only renumbers its banks, and
moves its sectors when the constant is no multiple of 32: so patterns repeat,
and each is counted once and remembered.

Sources: Nsight Compute documentation, metrics reference (l1tex); the rules of parts
and pairs were read from its counters on an H200 (``records/counters_h200.json``),
which ``tests/emulator/test_counters.py`` compares with these, kernel by kernel.
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import numpy as np

from phasebit.emulator.machine.accesses import ABSENT, Access
from phasebit.emulator.machine.counters import Counters
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.program import Program
from phasebit.emulator.ptx.control_flow import reads_and_writes, registers_in
from phasebit.emulator.ptx.syntax import Instruction
from phasebit.emulator.ptx.types import Array, Value

SECTOR = 32
BANKS = 32
Cost = tuple[tuple[str, int], ...]
"""Names of counters, and what to add to each."""

SHORT = {"load": "ld", "store": "st"}


class Traffic:
    """Counts requests, sectors and wavefronts."""

    def __init__(self, program: Program, counters: Counters) -> None:
        self.counters = counters
        self.program = program
        self.known: dict[tuple[Any, ...], tuple[int, int]] = {}
        self.plans: dict[tuple[int, int, int], tuple[Any, dict[tuple[int, int], int]]] = {}

    def warps(self, g: Group, position: Value) -> Array:
        """Byte positions as a table with one row a warp; absent lanes hold ``ABSENT``."""
        position = g.spread(position)
        threads = g.batch.threads
        if g.whole and threads % 32 == 0 and g.n == 32 * len(np.unique(g.lanes // 32)):
            table: Array = position.reshape(-1, 32)
            return table
        rows, row = np.unique(g.batch.warp_of[g.lanes], return_inverse=True)
        table = np.full((len(rows), 32), ABSENT, np.int64)
        table[row, (g.lanes % threads) % 32] = position
        return table

    # -- loads and stores -----------------------------------------------------

    def cost(self, g: Group, position: Array, accesses: Any, space: str, op: str) -> Cost:
        """What a segment's requests add to the counters, by name.

        ``position`` is where each thread's first one begins, in bytes.
        """
        cost: Counter[str] = Counter()
        table = self.warps(g, position)
        if space != "shared":
            for (start, size), times in self._plan(accesses, 0, 0).items():
                self._global(cost, g, table, start, size, op, times)
            return tuple(cost.items())
        by = self._instruction(accesses)
        matrix = by is not None and self.program.traits(by).matrix
        base, unit = self._aligned(position, accesses, space)
        short = SHORT[op]
        name = {"ld": "ldsm", "st": "stsm"}[short] if matrix else f"shared_{short}"
        for (_, size), times in self._plan(accesses, base, unit).items():
            units, lost = self._wavefronts(table, size, "matrix" if matrix else op)
            _shared(cost, name, short, times * len(table), times * units, times * lost)
            cost[f"bytes.shared.{op}"] += times * size * g.n
        return tuple(cost.items())

    def _global(
        self, cost: Counter[str], g: Group, table: Array, start: int, size: int, op: str,
        times: int,
    ) -> None:  # fmt: skip
        """Count requests of ``size`` bytes a thread that begin ``start`` after the table's."""
        short = SHORT[op]
        sectors = self._sectors(np.where(table == ABSENT, ABSENT, table + start), size)
        cost[f"smsp__sass_inst_executed_op_global_{short}.sum"] += times * len(table)
        cost[f"l1tex__t_requests_pipe_lsu_mem_global_op_{short}.sum"] += times * len(table)
        cost[f"l1tex__t_sectors_pipe_lsu_mem_global_op_{short}.sum"] += times * sectors
        cost[f"bytes.global.{op}"] += times * size * g.n

    def copy(self, g: Group, position: Array, size: int) -> None:
        """cp.async: its reads of global memory count as loads there; the instruction is its own."""
        table = self.warps(g, position)
        add = self.counters.add
        add("smsp__sass_inst_executed_op_ldgsts.sum", len(table))
        add("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", len(table))
        add("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", self._sectors(table, size))
        add("bytes.global.load", size * g.n)

    def atomic(
        self, g: Group, position: Array, space: str, instruction: Instruction | None, width: int,
        count: int,
    ) -> None:  # fmt: skip
        """Count the requests of one atomic instruction on ``count`` neighbours a thread.

        An ``atom`` whose result nobody reads becomes a ``red``, except an exchange.
        """
        table = self.warps(g, position)
        opcode = (instruction.mnemonic, *instruction.modifiers) if instruction else ("atom",)
        swap = "cas" in opcode
        name = opcode[0]
        if instruction and name == "atom" and not swap and "exch" not in opcode:
            result = registers_in(instruction.operands[0])
            if not any(register.index in self.read for register in result):
                name = "red"
        total = 0
        for row in table:
            here = row[row != ABSENT]
            if space == "shared":
                total += int(np.bincount(here // 4 % BANKS).max()) << swap
                continue
            every = here[:, None] + width * np.arange(count)
            words, threads = np.unique(every, return_counts=True)
            sectors, where = np.unique(words // SECTOR, return_inverse=True)
            most = np.zeros(len(sectors), np.int64)
            np.maximum.at(most, where, threads)
            total += int(most.sum())
        requests = len(table)
        if space == "shared":
            _shared(
                self.counters.totals, "shared_atom", "atom", requests, total,
                total - (requests << swap),
            )  # fmt: skip
            return
        add = self.counters.add
        add(f"smsp__sass_inst_executed_op_global_{name}.sum", requests)
        add(f"l1tex__t_requests_pipe_lsu_mem_global_op_{name}.sum", requests)
        add(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{name}.sum", total)

    @functools.cached_property
    def read(self) -> set[int]:
        """The registers that some instruction of the program reads.

        A guarded one also keeps what its own result held before: that is no use of it.
        """
        found: set[int] = set()
        for graph in self.program.graphs.values():
            for instruction, chosen in graph.selected.items():
                reads, writes = reads_and_writes(instruction, chosen)
                kept = len(writes) if instruction.guard is not None else 0
                found.update(r.index for r in reads[: len(reads) - kept])
        return found

    def accesses(
        self, g: Group, position: Array, accesses: Any, space: str, op: str
    ) -> list[Access]:
        """The same requests one by one, with their addresses."""
        by = self._instruction(accesses)
        line = by.location.own.line if by and by.location else None
        parts = _requests(accesses, *self._aligned(position, accesses, space))
        return requests(g, self.warps(g, position), space, op, parts, line)

    def _instruction(self, accesses: Any) -> Instruction | None:
        return self.program.instructions[accesses.identity] if accesses.identity >= 0 else None

    def _aligned(self, position: Array, accesses: Any, space: str) -> tuple[int, int]:
        """What the assembler may use to join neighbouring accesses; (0, 0): it joins none."""
        by = self._instruction(accesses)
        if space != "shared" or accesses.sem != "weak" or (by and self.program.traits(by).matrix):
            return 0, 0
        return _alignment(position)

    # -- patterns -------------------------------------------------------------

    def _plan(self, accesses: Any, base: int, unit: int) -> dict[tuple[int, int], int]:
        """The different requests of a segment, (start modulo a sector, bytes), and their number."""
        key = (id(accesses), base, unit)
        if key not in self.plans:
            plan: dict[tuple[int, int], int] = {}
            for start, size in _requests(accesses, base, unit):
                one = (0 if unit else start % SECTOR, size)
                plan[one] = plan.get(one, 0) + 1
            self.plans[key] = (accesses, plan)
        return self.plans[key][1]

    def _pattern(self, table: Array, period: int) -> Array:
        """The table moved down by a multiple of ``period`` so that equal patterns are equal."""
        first = table[:, :1] - table[:, :1] % period
        return np.where(table == ABSENT, ABSENT, table - first)

    def _sectors(self, table: Array, size: int) -> int:
        pattern = self._pattern(table, SECTOR)
        key = ("sectors", size, pattern.tobytes())
        if key not in self.known:
            total = 0
            for row in pattern:
                here = row[row != ABSENT]
                sectors = [(here + k) // SECTOR for k in range(0, size, min(size, 4))]
                total += len(np.unique(np.concatenate(sectors)))
            self.known[key] = (total, 0)
        return self.known[key][0]

    def _wavefronts(self, table: Array, size: int, op: str) -> tuple[int, int]:
        """Wavefronts of a request of each warp, and how many of them conflicts cost."""
        pattern = self._pattern(table, 4 * BANKS)
        key = ("wavefronts", op, size, pattern.tobytes())
        if key not in self.known:
            passes = [bank_passes(row, size, op == "load") for row in pattern]
            self.known[key] = (sum(p for p, _ in passes), sum(c for _, c in passes))
        return self.known[key]


def requests(
    g: Group, table: Array, space: str, op: str, parts: list[tuple[int, int]], line: int | None
) -> list[Access]:
    """The accesses of one instruction of a group, or of several through one register.

    ``table``: bytes of the emulator's memory, a row for each warp of the group; ``parts``: how
    far from there each request begins, and its bytes a lane.
    """
    batch = g.batch
    made = []
    for start, size in parts:
        for row, warp_of_batch in zip(table, np.unique(batch.warp_of[g.lanes]), strict=True):
            here = row != ABSENT
            slot, warp = divmod(int(warp_of_batch), batch.warps)
            if space == "shared":
                base, name = batch.shared_base + slot * batch.shared_stride, "shared memory"
            else:
                owner = batch.machine.memory.find(int(row[here][0]) + start)
                base, name = (owner.start, owner.name) if owner else (0, "memory")
            addresses = np.where(here, row + start - base, ABSENT)
            made.append(
                Access(space, op, size, int(batch.blocks[slot]), warp, addresses, name, line)
            )
    return made


def _shared(
    cost: Counter[str], name: str, short: str, requests: int, units: int, lost: int
) -> None:
    cost[f"smsp__sass_inst_executed_op_{name}.sum"] += requests
    cost[f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{short}.sum"] += units
    cost[f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{short}.sum"] += lost


def _requests(accesses: Any, base: int, unit: int) -> list[tuple[int, int]]:
    """The requests of a segment: (first byte, bytes a lane), joined where ``unit`` allows."""
    parts = [(start * accesses.width, size) for start, size in accesses.requests]
    return merged(parts, base, unit) if unit and len(parts) > 1 else parts


def _alignment(position: Array) -> tuple[int, int]:
    """The largest power of two, up to 16, modulo which all positions agree; and their remainder."""
    low = position & 15
    differ = int(np.bitwise_or.reduce(low ^ low[0]))
    unit = next(u for u in (16, 8, 4, 1) if not differ & (u - 1))
    return int(low[0]) % unit, unit


def merged(
    requests: list[tuple[int, int]], base: int = 0, unit: int = 16
) -> list[tuple[int, int]]:
    """Accesses (first byte, bytes) joined into some of up to 16 bytes, as the assembler does.

    The address of byte 0 is known to be ``base`` modulo ``unit``.  Words named twice, and
    accesses narrower than a word, stay as they are.

    >>> merged([(0, 4), (4, 4), (8, 4), (12, 4), (16, 4), (20, 4), (28, 4)])
    [(0, 16), (16, 8), (28, 4)]
    >>> merged([(0, 4), (4, 4), (8, 4)], 4, 8)
    [(0, 4), (4, 8)]
    """
    words = sorted(start + k for start, size in requests for k in range(0, size, 4))
    present = set(words)
    if len(present) < len(words) or any(size % 4 for _, size in requests):
        return requests
    joined: list[tuple[int, int]] = []
    end = words[0]
    for start in words:
        if start < end:
            continue
        size = next(
            size
            for size in (16, 8, 4)
            if size == 4
            or (size <= unit and (base + start) % size == 0
                and all(start + k in present for k in range(0, size, 4)))
        )  # fmt: skip
        joined.append((start, size))
        end = start + size
    return joined


def bank_passes(addresses: Array, size: int, load: bool = True) -> tuple[int, int]:
    """Wavefronts of one warp's request, and how many of them bank conflicts cost.

    ``addresses``: one for each of 32 lanes, or ``ABSENT``.

    >>> lane = np.arange(32)
    >>> [bank_passes(4 * lane, 4), bank_passes(8 * lane, 4), bank_passes(16 * lane, 16)]
    [(1, 0), (2, 1), (4, 0)]
    >>> [bank_passes(0 * lane, 16), bank_passes(0 * lane, 16, load=False)]
    [(2, 0), (4, 0)]
    """
    total = served = 0
    for first, last in parts_of(addresses, size, load):
        part = addresses[first:last]
        here = part[part != ABSENT]
        if not len(here):
            continue
        words = np.unique(np.concatenate([(here + k) // 4 for k in range(0, size, min(size, 4))]))
        total += int(np.bincount(words % BANKS).max())
        served += 1
    return total, total - served


def parts_of(addresses: Array, size: int, load: bool = True) -> list[tuple[int, int]]:
    """The parts of a warp that are served one after the other: first lane, last lane + 1."""
    lanes = 32 * 4 // max(size, 4)
    parts = [(start, start + lanes) for start in range(0, 32, lanes)]
    if not load or len(parts) == 1:
        return parts
    joined: list[tuple[int, int]] = []
    for (first, middle), (_, last) in zip(parts[::2], parts[1::2], strict=True):
        whole = merges(addresses[first:last])
        joined += [(first, last)] if whole else [(first, middle), (middle, last)]
    return joined


def merges(lanes: Array) -> bool:
    """Whether a load serves these lanes, two parts of a warp, in one go.

    So it is when each lane's neighbour (its number with the last bit flipped), or each
    lane's neighbour but one (the second bit), asks for the same address or for nothing.
    """
    number = np.arange(len(lanes))
    here = lanes != ABSENT
    for flip in (1, 2):
        other = lanes[number ^ flip]
        if ((other == lanes) | (other == ABSENT) | ~here).all():
            return True
    return False
