"""Which cells of tensor memory the threads of a warp reach (PTX ISA 9.7.16.8)."""

from __future__ import annotations

import functools

import numpy as np

from phasebit.emulator.errors import Fault
from phasebit.emulator.findings import Sentence, say
from phasebit.emulator.machine.group import Group
from phasebit.emulator.ops.warp_matrices import whole_warps
from phasebit.emulator.ptx.types import Array, Value
from phasebit.emulator.tensor_core.regions import Region
from phasebit.emulator.tensor_core.tensor_memory import LANES, one, split, tensor_memory
from phasebit.emulator.tensor_core.tensor_observer import TensorObserver

REGISTERS = {"32x32b": 1, "16x64b": 1, "16x32bx2": 1, "16x128b": 2, "16x256b": 4}
"""Registers of a thread for .x1."""


def executing(g: Group) -> tuple[Sentence, int]:
    """The instruction that a group executes, in words, and its number."""
    machine = g.batch.machine
    return machine.where(g), machine.executing_access()


@functools.cache
def cells(shape: str, registers: int, apart: int, wide: int = 1) -> tuple[Array, Array]:
    """Row and column that register j of lane t holds, counted from the address: [32, registers].

    ``apart``: how many columns further the second half of 16x32bx2 begins. ``wide``: how many
    columns a register takes, from that one on; CUTLASS begins the second half of a
    16x32bx2.x1.pack::16b two columns further, so ``apart`` counts columns, not registers.
    """
    t, j = np.arange(32)[:, None], np.arange(registers)[None, :]
    zero = 0 * (t + j)
    if shape == "32x32b":
        return t + zero, wide * (j + zero)
    if shape == "16x64b":
        return (t >> 2) + 8 * (t & 1) + zero, wide * ((t >> 1 & 1) + 2 * j)
    if shape == "16x128b":
        return (t >> 2) + 8 * (j & 1), wide * ((t & 3) + 4 * (j >> 1))
    if shape == "16x256b":
        return (t >> 2) + 8 * (j >> 1 & 1), wide * (2 * (t & 3) + (j & 1) + 8 * (j >> 2))
    return (t & 15) + zero, wide * j + apart * (t >> 4)


def _starts(g: Group, address: Value, where: Sentence) -> Array:
    """The address of each thread, [warps, 32]; of a warp all name the same column."""
    given = g.spread(address).reshape(-1, 32)
    one(g, address & 0xFFFF, "addresses", where)
    return given


class Access:
    """Where the warps of a group reach in tensor memory: checked for each, one index for all.

    Where all warps give the address of the first quarter, each is given its own, and that is
    reported: the PTX ISA does not allow it (9.7.16.8.1), but DeepGEMM and TileLang count on it.
    Likewise a lane beyond the last: the second block of a pair that counts its lanes from 128 on
    reads its own on a B200 (learn-cuda, matmul_v5); and a lane for each thread, where the first
    thread's counts (CUTLASS, mixed_input_fmha_prefill_d512).
    """

    def __init__(
        self, g: Group, address: Value, shape: str, times: int, registers: int, apart: int,
        halved: bool, name: str,
    ) -> None:  # fmt: skip
        warps = whole_warps(g, name)
        self.where, _ = executing(g)
        needed = REGISTERS[shape] * times
        if needed != registers or registers > 128:
            raise Fault(
                "{}.{}.x{} has {} registers a thread (at most 128), not {}: {}",
                name, shape, times, needed, registers, self.where,
            )
        wide = 2 if halved else 1
        row, column = cells(shape, registers, apart, wide)
        self.regions: list[tuple[Array, Region]] = []
        memory = tensor_memory(g.batch)
        first_lane, first_column, slots = [], [], []
        height = 32 if shape == "32x32b" else 16
        spans = [(0, int(column.max()) + wide)]
        if shape == "16x32bx2":
            spans = [(0, wide * registers), (apart, apart + wide * registers)]
        told_of = g.batch.machine.told[TensorObserver.wrong_quarter]
        for w, start in enumerate(_starts(g, address, self.where)):
            lanes = g.lanes[32 * w : 32 * w + 32]
            lane, at = split(int(start[0]))
            if (start != start[0]).any():
                why = say(
                    "{} gives each thread another lane of tensor memory: {}; all of a warp must "
                    "give one address: the first thread's is taken, lane {}",
                    g.batch.describe(lanes), self.where, lane,
                )  # fmt: skip
                for told in told_of:
                    told(g, why, self.where)
            warp = int(lanes[0]) % g.batch.threads // 32
            quarter = 32 * (warp % 4)
            if lane >= LANES and quarter <= lane % LANES <= quarter + 31:
                why = say(
                    "{} reaches lanes {}-{} of tensor memory: {}; every block has lanes 0-127, "
                    "also the second of a pair: these are taken as {}-{}",
                    g.batch.describe(lanes), lane, lane + height - 1, self.where,
                    lane % LANES, lane % LANES + height - 1,
                )  # fmt: skip
                lane %= LANES
                for told in told_of:
                    told(g, why, self.where)
            elif not quarter <= lane <= quarter + 31:
                why = say(
                    "{} reaches lanes {}-{} of tensor memory: {}; warp w reaches only lanes "
                    "32 (w % 4) to 32 (w % 4) + 31, here {}-{}: add (w % 4) << 21 to the address",
                    g.batch.describe(lanes), lane, lane + height - 1, self.where,
                    quarter, quarter + 31,
                )  # fmt: skip
                if lane > 31:
                    raise Fault(why)
                lane += quarter
                for told in told_of:
                    told(g, why, self.where)
            if (lane - quarter) % height:
                raise Fault(
                    "{} begins at lane {} of tensor memory: {}; the shape {} begins at a multiple "
                    "of {}",
                    g.batch.describe(lanes), lane, self.where, shape, height,
                )
            slot = int(g.batch.slots(lanes[:1])[0])
            halves = slice(lane // 16, (lane + height) // 16)
            for low, high in spans:
                place = (lane, lane + height), (at + low, at + high)
                if not memory.there(slot, *place):
                    memory.reach(slot, *place, g.batch.describe(lanes), self.where)
                self.regions.append((lanes, Region(slot, halves, slice(at + low, at + high))))
            first_lane.append(lane)
            first_column.append(at)
            slots.append(slot)
        self.memory = memory.cells
        self.slots = np.array(slots)[:, None, None]
        self.rows = np.array(first_lane)[:, None, None] + row
        self.columns = np.array(first_column)[:, None, None] + column
        self.warps = warps
