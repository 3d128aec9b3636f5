"""``wgmma`` with a sparse A (PTX ISA 9.7.15.6): twice the k for the same bytes of A.

The stored half of A is a tile, or fragments, of a dense A with half the columns; B has all rows.
Metadata are registers: warp w gives those of its rows 16 w to 16 w + 15 as for ``mma.sp``, whose
figures the section repeats.

It rounds as ``mma.sp`` does: as many stored products are summed at once as dense ones, and a zero
that is left out is not multiplied.  An H200 gave the same bits (``proof.sparse``).
"""

from __future__ import annotations

from collections.abc import Sequence

from phasebit.emulator.machine.group import Group
from phasebit.emulator.numbers import sparse
from phasebit.emulator.ops.matrix import SATFINITE
from phasebit.emulator.ops.wgmma import SHAPES, begin, check_multiplication
from phasebit.emulator.ptx.operands import misfit
from phasebit.emulator.ptx.syntax import Immediate, Instruction
from phasebit.emulator.ptx.table import Selected, Traits, collective
from phasebit.emulator.ptx.types import Array, Value
from phasebit.emulator.tensor_core.wgmma_tiles import BYTES, DEPTH, SIZE


def check_sparse(instruction: Instruction, chosen: Selected) -> None:
    """``wgmma.mma_async.sp`` (PTX ISA 9.7.15.6.3)."""
    check_multiplication(instruction, chosen, 2 * DEPTH, 2)
    if not isinstance(instruction.operands[4], Immediate):
        raise misfit(instruction, "the sparsity selector of wgmma is a constant")


MULTIPLICATION = Traits(warp_group=True, multiplies=True, check=check_sparse)


@collective(
    "wgmma.mma_async.sp.sync", "u64|*b32 u64 b32 u32 pred s32 s32 s32 s32 -> +*b32",
    {"f32", "f16"}, {"f16", "bf16", "tf32", "e4m3", "e5m2"},
    section="9.7.15.6.3", options=[SHAPES], optional=2, traits=MULTIPLICATION,
)  # fmt: skip
@collective(
    "wgmma.mma_async.sp.sync", "u64|*b32 u64 b32 u32 pred -> +*b32", {"s32"}, {"s8", "u8"},
    section="9.7.15.6.3", options=[SHAPES, SATFINITE], traits=MULTIPLICATION,
)  # fmt: skip
def mma_async_sparse(
    g: Group,
    d: Sequence[Value],
    a: Value | Sequence[Value],
    b: Value,
    metadata: Value,
    selector: Value,
    keep: Value,
    negate_a: Value = 1,
    negate_b: Value = 1,
    *trans: Value,
    shape: tuple[int, int],
    types: tuple[str, ...],
    satfinite: bool = False,
) -> tuple[Array, ...]:
    """wgmma.mma_async.sp: begin D = A·B + D, where half of A is zero and left out.

    The metadata are taken when it begins.  All four bits that put two elements at different places
    are legal, in any order.
    """
    name, (_, of_a, _), k = "wgmma.mma_async.sp", types, shape[1]
    chunk, wide = sparse.CHUNK[of_a], BYTES[of_a] > 1
    words = g.spread(metadata).reshape(-1, 32)
    bits = sparse.places(words, int(g.spread(selector)[0]), k // chunk, wide, name)
    whole = bits.reshape(g.n // SIZE, 64, k // chunk)
    along = sparse.columns(whole, chunk, name)
    return begin(
        g, d, a, b, keep, (int(negate_a), int(negate_b)), trans, shape, types, satfinite, along
    )
