"""Matrix multiplication by a warp group (PTX ISA 9.7.15): wgmma.

Four warps multiply 64 rows of A by 8 to 256 columns of B.  B, and mostly A, lie in shared memory
as a descriptor says (``tensor_core.wgmma_tiles``); the accumulators are registers.  The
instruction only begins the work (``tensor_core.warpgroups``): operands in shared memory
are read, and accumulators written, some time before ``wgmma.wait_group`` lets the threads go on.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phasebit.emulator.errors import Fault
from phasebit.emulator.machine.group import Group
from phasebit.emulator.numbers.fragments import accumulator, operand_a
from phasebit.emulator.numbers.sparse import expand, met
from phasebit.emulator.ops.matrix import SATFINITE
from phasebit.emulator.ops.warp_matrices import PER_REGISTER, fragments, matrix
from phasebit.emulator.ptx.operands import items_of, misfit
from phasebit.emulator.ptx.syntax import Immediate, Instruction, Vector
from phasebit.emulator.ptx.table import Option, Selected, Traits, collective
from phasebit.emulator.ptx.types import SIZE as BYTES
from phasebit.emulator.ptx.types import Array, Value
from phasebit.emulator.tensor_core import arithmetic as tensor_core
from phasebit.emulator.tensor_core.warpgroups import (
    SIZE,
    Multiplication,
    WarpGroupObserver,
    queue_of,
)
from phasebit.emulator.tensor_core.wgmma_tiles import DEPTH, Tile

SHAPES: dict[str, Option] = {
    f"m64n{n}k{k}": ("shape", (n, k)) for k in (8, 16, 32, 64) for n in range(8, 257, 8)
}

COLUMNS = 64
"""Columns of B multiplied at once: their products, 65,536 of f16, should stay in cache."""


def check_multiplication(
    instruction: Instruction, chosen: Selected, depth: int = DEPTH, more: int = 0
) -> None:
    """``wgmma.mma_async`` (PTX ISA 9.7.15.2, 9.7.15.3, 9.7.15.5.2).

    ``depth``: bytes of B along k; ``more``: operands between the matrices and scale-d.
    """
    if len(chosen.types) != 3 or "shape" not in chosen.options:
        raise misfit(instruction, "wgmma.mma_async names a shape and the types of D, A and B")
    of_d, of_a, of_b = chosen.types
    n, k = chosen.options["shape"]
    if k * BYTES[of_a] != depth:
        raise misfit(instruction, f"wgmma of {of_a} has a k of {depth // BYTES[of_a]}, not {k}")
    if of_d == "s32" and n > 32 and n % 16:
        raise misfit(instruction, "wgmma of integers has an n of 8, 24 or a multiple of 16")
    if of_a != of_b and {of_a, of_b} not in ({"e4m3", "e5m2"}, {"s8", "u8"}):
        raise misfit(instruction, f"wgmma cannot multiply {of_a} by {of_b}")
    if of_d == "f16" and of_a in ("bf16", "tf32"):
        raise misfit(instruction, f"wgmma of {of_a} has a D of f32")
    d, a = instruction.operands[:2]
    count = n // (4 if of_d == "f16" else 2)
    if len(items_of(d)) != count:
        raise misfit(instruction, f"D of {of_d} with n = {n} is {count} registers")
    if isinstance(a, Vector) and len(a.items) != 4:
        raise misfit(instruction, "A in registers is 4 of them")
    numbers = 0 if of_d == "s32" else 2
    if BYTES[of_a] == 2 and of_d != "s32":
        numbers += 1 if isinstance(a, Vector) else 2
    first = 4 + more
    if len(instruction.operands) != first + numbers:
        raise misfit(
            instruction, f"this wgmma takes {numbers} numbers (signs, transposes) after scale-d"
        )
    for place, operand in enumerate(instruction.operands[first:]):
        allowed = (1, -1) if place < 2 else (0, 1)
        if not isinstance(operand, Immediate) or operand.value not in allowed:
            raise misfit(instruction, f"operand {1 + first + place} of wgmma is one of {allowed}")


WARP_GROUP = Traits(warp_group=True)
MULTIPLICATION = Traits(warp_group=True, multiplies=True, check=check_multiplication)


@collective("wgmma.fence.sync", "", section="9.7.15.7.1", traits=WARP_GROUP)
def fence(g: Group) -> None:
    """wgmma.fence: what the warp group did to its registers comes before its multiplications."""
    for told in g.batch.machine.told[WarpGroupObserver.fences_registers]:
        told(g)


@collective("wgmma.commit_group.sync", "", section="9.7.15.7.2", traits=WARP_GROUP)
def commit_group(g: Group) -> None:
    """wgmma.commit_group: close the group of multiplications begun since the last one."""
    queue_of(g).closed[g.lanes] += 1


@collective("wgmma.wait_group.sync", "u32", section="9.7.15.7.3", traits=WARP_GROUP)
def wait_group(g: Group, pending: Value) -> None:
    """wgmma.wait_group N: all but the newest N groups of this warp group are done."""
    queue = queue_of(g)
    queue.settle(g.lanes, queue.closed[g.lanes] - int(pending), g.batch.lanes)


@collective(
    "wgmma.mma_async.sync", "u64|*b32 u64 pred s32 s32 s32 s32 -> +*b32",
    {"f32", "f16"}, {"f16", "bf16", "tf32", "e4m3", "e5m2"},
    section="9.7.15.5.2", options=[SHAPES], optional=2, traits=MULTIPLICATION,
)  # fmt: skip
@collective(
    "wgmma.mma_async.sync", "u64|*b32 u64 pred -> +*b32", {"s32"}, {"s8", "u8"},
    section="9.7.15.5.2", options=[SHAPES, SATFINITE], traits=MULTIPLICATION,
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
    return begin(g, d, a, b, keep, (int(negate_a), int(negate_b)), trans, shape, types, satfinite)


def begin(
    g: Group, d: Sequence[Value], a: Value | Sequence[Value], b: Value, keep: Value,
    signs: tuple[int, int], trans: Sequence[Value], shape: tuple[int, int],
    types: tuple[str, ...], satfinite: bool, along: Array | None = None,
) -> tuple[Array, ...]:  # fmt: skip
    """Begin one multiplication of each warp group.

    ``along``: of a sparse A the columns that are stored, [groups, 64, k / 2].
    """
    of_d, of_a, of_b = types
    n, k = shape
    depth, stored = k * BYTES[of_b], k if along is None else k // 2
    groups = whole_groups(g)
    machine, queue = g.batch.machine, queue_of(g)
    from_registers = isinstance(a, tuple)
    flags = [bool(int(t)) for t in trans]
    a_along_m = flags[0] if flags and not from_registers else False
    b_along_n = flags[-1] if flags else False
    tiles_b = [Tile(g, i, b, n, of_b, not b_along_n, "B", depth) for i in range(groups)]
    tiles_a = (
        [] if from_registers
        else [Tile(g, i, a, 64, of_a, not a_along_m, "A") for i in range(groups)]
    )  # fmt: skip
    kept = g.spread(keep)[::SIZE]
    sign_a, sign_b = signs
    lanes, access = g.lanes, machine.executing_access()

    def compute(buffer: Array) -> None:
        if before is not None:  # else they are the sums of the multiplication before it
            for adds in machine.told[WarpGroupObserver.adds_to]:
                adds(g.batch, lanes, buffer, np.repeat(kept, SIZE), access)
        part = accumulator(16, n)
        registers = buffer.T.reshape(4 * groups, 32, -1)
        c = matrix(registers, part, of_d).reshape(groups, 64, n)
        memory = machine.memory.c16
        if from_registers:
            held = np.stack([g.spread(r) for r in a], axis=1).reshape(4 * groups, 32, -1)
            part_a = operand_a(16, stored, PER_REGISTER[of_a])
            rows = matrix(held, part_a, of_a).reshape(groups, 64, stored)
        result = np.empty_like(c)
        for i in range(groups):
            left = rows[i] if from_registers else tiles_a[i].read(memory)
            right = tiles_b[i].read(memory).T
            result[i] = multiply(
                sign_a * left, sign_b * right, c[i] if kept[i] else None, (of_a, of_b), of_d,
                satfinite, None if along is None else along[i],
            )  # fmt: skip
        done = fragments(result.reshape(4 * groups, 16, n), part, of_d)
        buffer[:] = done.reshape(len(g.lanes), -1).T

    buffer = queue.reusable(d, lanes)
    before: Sequence[Value] | None = None
    if buffer is None:
        before = d
        buffer = np.empty((len(d), g.n), np.uint32)
        for row, value in zip(buffer, d, strict=True):
            row[:] = value
    instruction = machine.executing()
    mma = Multiplication(
        g.batch, lanes, buffer, before, compute, queue.closed[g.lanes].copy(), instruction
    )
    for starts in machine.told[WarpGroupObserver.starts_product]:
        starts(g, mma, tiles_a + tiles_b)
    queue.add(mma, a if isinstance(a, tuple) else ())
    mma.start()
    return tuple(buffer)


def multiply(
    a: Array, b: Array, c: Array | None, kinds: tuple[str, str], result: str, satfinite: bool,
    along: Array | None = None,
) -> Array:  # fmt: skip
    """D = A·B + C of one warp group: [64, k], [k, n], [64, n] or nothing.

    ``along``: of a sparse A the columns that are stored, as many as A then has.
    """
    if result == "s32":
        if along is not None:
            a = expand(a[None], along[None], len(b))[0]
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
        right = b[None, :, part]
        if along is not None:
            right = met(right, along[None])
        done.append(tensor_core.accumulate(a[None], right, addend, kinds, result, model)[0])
    return np.concatenate(done, axis=1)


def whole_groups(g: Group) -> int:
    """How many warp groups there are.  Raises :class:`Fault` when one is not complete."""
    first = g.lanes[::SIZE] % g.batch.threads
    together = g.n % SIZE == 0 and (g.lanes[::SIZE] + SIZE - 1 == g.lanes[SIZE - 1 :: SIZE]).all()
    if not together or (first % SIZE).any():
        raise Fault(
            "wgmma needs all 128 threads of the warp group, but here are {}: {}; make the roles "
            "of a block multiples of 128 threads and let none of them return before",
            g.batch.describe(g.lanes), g.batch.machine.where(g),
        )
    return g.n // SIZE

