"""Matrix multiplication by a warp group (PTX ISA 9.7.15): wgmma.

Four warps multiply 64 rows of A by 8 to 256 columns of B.  B, and mostly A, lie in shared memory
as a descriptor says (:mod:`phasebit.emulator.wgmma_tiles`); the accumulators are registers.  The
instruction only begins the work (:mod:`phasebit.emulator.warpgroups`): operands in shared memory
are read, and accumulators written, some time before ``wgmma.wait_group`` lets the threads go on.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phasebit.emulator import tensor_core
from phasebit.emulator.agents import start
from phasebit.emulator.errors import Fault
from phasebit.emulator.fragments import accumulator, operand_a
from phasebit.emulator.group import Group
from phasebit.emulator.ops.matrix import PER_REGISTER, SATFINITE, fragments, matrix
from phasebit.emulator.table import Option, collective
from phasebit.emulator.types import Array, Value
from phasebit.emulator.warpgroups import SIZE, Multiplication, queue_of
from phasebit.emulator.wgmma_tiles import Tile

SHAPES: dict[str, Option] = {
    f"m64n{n}k{k}": ("shape", (n, k)) for k in (8, 16, 32) for n in range(8, 257, 8)
}

COLUMNS = 64
"""Columns of B multiplied at once: their products, 65,536 of f16, should stay in cache."""


@collective("wgmma.fence.sync", "", section="9.7.15.7.1")
def fence(g: Group) -> None:
    """wgmma.fence: what the warp group did to its registers comes before its multiplications."""
    queue = queue_of(g)
    queue.moment += 1
    queue.fenced[g.lanes] = queue.moment


@collective("wgmma.commit_group.sync", "", section="9.7.15.7.2")
def commit_group(g: Group) -> None:
    """wgmma.commit_group: close the group of multiplications begun since the last one."""
    queue_of(g).closed[g.lanes] += 1


@collective("wgmma.wait_group.sync", "u32", section="9.7.15.7.3")
def wait_group(g: Group, pending: Value) -> None:
    """wgmma.wait_group N: all but the newest N groups of this warp group are done."""
    queue = queue_of(g)
    queue.settle(g.lanes, queue.closed[g.lanes] - int(pending), g.batch.lanes)


@collective(
    "wgmma.mma_async.sync", "u64|*b32 u64 pred s32 s32 s32 s32 -> +*b32",
    {"f32", "f16"}, {"f16", "bf16", "tf32", "e4m3", "e5m2"},
    section="9.7.15.5.2", options=[SHAPES], optional=2,
)  # fmt: skip
@collective(
    "wgmma.mma_async.sync", "u64|*b32 u64 pred -> +*b32", {"s32"}, {"s8", "u8"},
    section="9.7.15.5.2", options=[SHAPES, SATFINITE],
)  # fmt: skip
def mma_async(
    g: Group,
    d: Sequence[Value],
    a: Value | Sequence[Value],
    b: Value,
    keep: Value,
    negate_a: Value = 1,
    negate_b: Value = 1,
    *trans: Value,
    shape: tuple[int, int],
    types: tuple[str, ...],
    satfinite: bool = False,
) -> tuple[Array, ...]:
    """wgmma.mma_async: begin D = A·B + D, or D = A·B where the predicate is false.

    A is 64 × k, B k × n, D 64 × n.  In B, and in A from shared memory, elements of 16 bits may
    lie along M and N instead of K (the last two numbers).  -1 negates A or B.
    """
    of_d, of_a, of_b = types
    n, k = shape
    groups = whole_groups(g)
    machine, queue = g.batch.machine, queue_of(g)
    from_registers = isinstance(a, tuple)
    flags = [bool(int(t)) for t in trans]
    a_along_m = flags[0] if flags and not from_registers else False
    b_along_n = flags[-1] if flags else False
    tiles_b = [Tile(g, i, b, n, of_b, not b_along_n, "B") for i in range(groups)]
    tiles_a = (
        [] if from_registers
        else [Tile(g, i, a, 64, of_a, not a_along_m, "A") for i in range(groups)]
    )  # fmt: skip
    kept = g.spread(keep)[::SIZE]
    sign_a, sign_b = int(negate_a), int(negate_b)

    def compute(buffer: Array) -> None:
        part = accumulator(16, n)
        registers = buffer.T.reshape(4 * groups, 32, -1)
        c = matrix(registers, part, of_d).reshape(groups, 64, n)
        memory = machine.memory.c16
        if from_registers:
            held = np.stack([g.spread(r) for r in a], axis=1).reshape(4 * groups, 32, -1)
            rows = matrix(held, operand_a(16, k, PER_REGISTER[of_a]), of_a).reshape(groups, 64, k)
        result = np.empty_like(c)
        for i in range(groups):
            left = rows[i] if from_registers else tiles_a[i].read(memory)
            right = tiles_b[i].read(memory).T
            result[i] = multiply(
                sign_a * left, sign_b * right, c[i] if kept[i] else None, (of_a, of_b), of_d,
                satfinite,
            )  # fmt: skip
        done = fragments(result.reshape(4 * groups, 16, n), part, of_d)
        buffer[:] = done.reshape(len(g.lanes), -1).T

    buffer = queue.reusable(d, g.lanes)
    before: Sequence[Value] | None = None
    if buffer is None:
        before = d
        buffer = np.empty((len(d), g.n), np.uint32)
        for row, value in zip(buffer, d, strict=True):
            row[:] = value
        if machine.checked:
            machine.checker.wgmma.adds_to(g, buffer, np.repeat(kept, SIZE))
    instruction = machine.program.blocks[g.pc].collective
    mma = Multiplication(
        g.batch, g.lanes, buffer, before, compute, queue.closed[g.lanes].copy(), instruction
    )
    if machine.checked:
        access = machine.program.executing_access()
        machine.checker.wgmma.started(g, mma, tiles_a + tiles_b, access)
    queue.add(mma, a if isinstance(a, tuple) else ())
    machine.counters.add("wgmma.multiplications", groups)
    start(machine, mma)
    return tuple(buffer)


def multiply(
    a: Array, b: Array, c: Array | None, kinds: tuple[str, str], result: str, satfinite: bool
) -> Array:
    """D = A·B + C of one warp group: [64, k], [k, n], [64, n] or nothing."""
    if result == "s32":
        zero = np.zeros((a.shape[0], b.shape[1]), np.int32)
        whole: Array = tensor_core.accumulate_s32(
            a[None], b[None], zero[None] if c is None else c[None], satfinite
        )[0]
        return whole
    model = tensor_core.WGMMA[kinds[0]]
    done = []
    for first in range(0, b.shape[1], COLUMNS):
        part = slice(first, first + COLUMNS)
        addend = None if c is None else c[None, :, part]
        done.append(
            tensor_core.accumulate(a[None], b[None, :, part], addend, kinds, result, model)[0]
        )
    return np.concatenate(done, axis=1)


def whole_groups(g: Group) -> int:
    """How many warp groups there are.  Raises :class:`Fault` when one is not complete."""
    first = g.lanes[::SIZE] % g.batch.threads
    together = g.n % SIZE == 0 and (g.lanes[::SIZE] + SIZE - 1 == g.lanes[SIZE - 1 :: SIZE]).all()
    if not together or (first % SIZE).any():
        raise Fault(
            f"wgmma needs all 128 threads of the warp group, but here are "
            f"{g.batch.describe(g.lanes)}: {g.batch.machine.where(g)}; make the roles of a block "
            "multiples of 128 threads and let none of them return before"
        )
    return g.n // SIZE

