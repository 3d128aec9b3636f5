"""What accesses cost the memory system: sectors and wavefronts.

*Global*: a request is one instruction of one warp; it touches so many 32-byte
sectors.  *Shared*: 32 banks of 4 bytes; in one wavefront each bank delivers one
word, to any number of lanes.  A request with words in the same bank takes as
many wavefronts as the fullest bank has different words.

Adding a constant to all addresses of a request only renumbers its banks, and
moves its sectors when the constant is no multiple of 32: so patterns repeat,
and each is counted once and remembered.

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
        self.known: dict[tuple[str, int, bytes], int] = {}

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
                units = repeat * warps * -(-size // (SECTOR if space == "global" else 4 * BANKS))
                self._add(add, space, op, repeat * warps, units, repeat * size * g.n)
            return
        table = self.warps(g, position)
        for start, size, repeat in requests:
            if space == "global":
                total = self._sectors(table + start, size)
            else:
                total = self._wavefronts(table, size)
            self._add(add, space, op, repeat * len(table), repeat * total, repeat * size * g.n)

    @staticmethod
    def _add(add: Any, space: str, op: str, requests: int, units: int, nbytes: int) -> None:
        short = {"load": "ld", "store": "st"}[op]
        if space == "global":
            add(f"l1tex__t_requests_pipe_lsu_mem_global_op_{short}.sum", requests)
            add(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{short}.sum", units)
        else:
            add(f"smsp__inst_executed_op_shared_{short}.sum", requests)
            add(f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{short}.sum", units)
            add(f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{short}.sum", units - requests)
        add(f"bytes.{space}.{op}", nbytes)

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
            self.known[key] = total
        return self.known[key]

    def _wavefronts(self, table: Array, size: int) -> int:
        pattern = self._pattern(table, 4 * BANKS)
        key = ("wavefronts", size, pattern.tobytes())
        if key not in self.known:
            self.known[key] = sum(bank_passes(row[row != ABSENT], size) for row in pattern)
        return self.known[key]


def bank_passes(addresses: Array, size: int) -> int:
    """Wavefronts of one warp's request: 64-bit by half warps, 128-bit by quarter warps.

    >>> bank_passes(np.arange(32) * 4, 4), bank_passes(np.arange(32) * 8, 4)
    (1, 2)
    """
    lanes = max(1, 32 * 4 // max(size, 4))
    total = 0
    for start in range(0, len(addresses), lanes):
        part = addresses[start : start + lanes]
        words = np.unique(np.concatenate([(part + k) // 4 for k in range(0, size, min(size, 4))]))
        total += int(np.bincount(words % BANKS).max())
    return total
