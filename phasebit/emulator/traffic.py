"""What accesses cost the memory system: sectors and wavefronts.

*Global*: a request is one instruction of one warp; it touches so many 32-byte
sectors.  *Shared*: 32 banks of 4 bytes; in one wavefront each bank delivers one
word, to any number of lanes.  A request with words in the same bank takes as
many wavefronts as the fullest bank has different words.

Adding a constant to all addresses of a request only renumbers its banks, and
moves its sectors when the constant is no multiple of 32: so patterns repeat,
and each is counted once and remembered.

ptxas joins neighbouring shared loads of 4 bytes into one of 8 or 16 where it can
tell that the address is aligned; the counters do the same where the addresses
are, so that they count what hardware executes rather than what PTX says.

Source: Nsight Compute documentation, metrics reference (l1tex).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from phasebit.emulator.types import Array, Value

if TYPE_CHECKING:
    from phasebit.emulator.group import Group
    from phasebit.emulator.machine import Machine

SECTOR = 32
BANKS = 32
ABSENT = -1


class Traffic:
    """Counts requests, sectors and wavefronts."""

    def __init__(self, machine: Machine) -> None:
        self.counters = machine.counters
        self.known: dict[tuple[str, int, bytes], tuple[int, int]] = {}

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

    def count(self, g: Group, position: Value, requests: Any, space: str, op: str) -> None:
        """Count the requests of some instructions; ``position`` is where the first begins."""
        add = self.counters.add
        if not isinstance(position, np.ndarray):
            warps = len(np.unique(g.batch.warp_of[g.lanes]))
            for _, size, repeat in requests:
                each = (-(-size // SECTOR), 0)
                if space == "shared":
                    each = bank_passes(np.zeros(32, np.int64), size, op == "load")
                self._add(add, space, op, repeat * warps, repeat * warps, each,
                          repeat * size * g.n)  # fmt: skip
            return
        table = self.warps(g, position)
        for start, size, repeat in requests:
            if space == "global":
                total = self._sectors(table + start, size)
            else:
                total = self._wavefronts(table, size, op)
            self._add(add, space, op, repeat * len(table), repeat, total, repeat * size * g.n)

    @staticmethod
    def _add(
        add: Any, space: str, op: str, requests: int, repeat: int, units: tuple[int, int],
        nbytes: int,
    ) -> None:  # fmt: skip
        short = {"load": "ld", "store": "st"}[op]
        if space == "global":
            add(f"l1tex__t_requests_pipe_lsu_mem_global_op_{short}.sum", requests)
            add(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{short}.sum", repeat * units[0])
        else:
            add(f"smsp__inst_executed_op_shared_{short}.sum", requests)
            add(f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{short}.sum", repeat * units[0])
            add(f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{short}.sum", repeat * units[1])
        add(f"bytes.{space}.{op}", nbytes)

    def _pattern(self, table: Array, period: int) -> Array:
        """The table moved down by a multiple of ``period`` so that equal patterns are equal."""
        first = table[:, :1] - table[:, :1] % period
        return np.where(table == ABSENT, ABSENT, table - first)

    def _sectors(self, table: Array, size: int) -> tuple[int, int]:
        pattern = self._pattern(table, SECTOR)
        key = ("sectors", size, pattern.tobytes())
        if key not in self.known:
            total = 0
            for row in pattern:
                here = row[row != ABSENT]
                sectors = [(here + k) // SECTOR for k in range(0, size, min(size, 4))]
                total += len(np.unique(np.concatenate(sectors)))
            self.known[key] = (total, 0)
        return self.known[key]

    def _wavefronts(self, table: Array, size: int, op: str) -> tuple[int, int]:
        pattern = self._pattern(table, 4 * BANKS)
        key = (f"wavefronts {op}", size, pattern.tobytes())
        if key not in self.known:
            passes = [bank_passes(row, size, op == "load") for row in pattern]
            self.known[key] = (sum(p for p, _ in passes), sum(c for _, c in passes))
        return self.known[key]


def bank_passes(addresses: Array, size: int, load: bool = True) -> tuple[int, int]:
    """Wavefronts of one warp's request, and how many of them bank conflicts cost.

    ``addresses`` has 32 entries, absent lanes ``ABSENT``.

    8-byte accesses go by half warps, 16-byte accesses by quarter warps.  A load
    takes twice as many lanes at once when all lanes k and k^1, or all lanes k and
    k^2, ask for the same (measured on an H200: ``tests/emulator/cuda/traffic.cu``).

    >>> lane = np.arange(32)
    >>> [bank_passes(4 * lane, 4), bank_passes(8 * lane, 4), bank_passes(16 * lane, 16)]
    [(1, 0), (2, 1), (4, 0)]
    >>> [bank_passes(0 * lane, 16), bank_passes(0 * lane, 16, load=False)]
    [(2, 0), (4, 0)]
    """
    lanes = max(1, 32 * 4 // max(size, 4))
    if load and size > 4:
        k = np.arange(32)
        for step in (1, 2):
            other = addresses[k ^ step]
            if ((addresses == other) | (addresses == ABSENT) | (other == ABSENT)).all():
                lanes *= 2
                break
    total = parts = 0
    for start in range(0, 32, lanes):
        part = addresses[start : start + lanes]
        part = part[part != ABSENT]
        if len(part):
            words = np.unique(
                np.concatenate([(part + k) // 4 for k in range(0, size, min(size, 4))])
            )
            total += int(np.bincount(words % BANKS).max())
            parts += 1
    return total, total - parts


def merged(requests: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Neighbouring shared loads as ptxas joins them when the base is aligned.

    >>> merged([(0, 4), (4, 4), (8, 4), (12, 4), (16, 4), (20, 4), (28, 4)])
    [(0, 16), (16, 8), (28, 4)]
    """
    small = [(start, size) for start, size in requests if size in (4, 8)]
    left = sorted({start + k for start, size in small for k in range(0, size, 4)})
    result = [request for request in requests if request not in small]
    while left:
        start = left[0]
        for size in (16, 8, 4):
            parts = [start + k for k in range(0, size, 4)]
            if start % size == 0 and all(part in left for part in parts):
                break
        for part in parts:
            left.remove(part)
        result.append((start, size))
    return sorted(result)
