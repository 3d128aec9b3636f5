"""``tcgen05.mma`` with a sparse A (PTX ISA 9.7.16.10.9.2, 9.7.16.10.9.4): twice the k.

The stored half of A lies where a dense A of half the columns does, B has all of its rows.  The
metadata lie in tensor memory, see ``tensor_core.tensor_metadata``.  All else is as without ``.sp``:
see :mod:`~phasebit.emulator.ops.tcgen05` and its neighbours for block scales and ``.ws``.
"""

from __future__ import annotations

from typing import Any

from phasebit.emulator.machine.group import Group
from phasebit.emulator.ops import tcgen05, tcgen05_scaled, tcgen05_ws
from phasebit.emulator.ops.tcgen05 import GROUPS, ONE_BLOCK, issue_products
from phasebit.emulator.ops.tcgen05_scaled import SIZES, issue_scaled
from phasebit.emulator.ops.tcgen05_ws import issue_stationary
from phasebit.emulator.ptx.table import effect
from phasebit.emulator.ptx.types import Value


@effect("tcgen05.mma.sp", "a any b64 a u32 any any any", None, section="9.7.16.10.9.2",
        options=[GROUPS, tcgen05.KINDS, tcgen05.ASHIFT, tcgen05.COLLECTOR], optional=2)  # fmt: skip
def mma(
    g: Group, target: Value, a: tuple[str, Value], b: Value, metadata: Value, descriptor: Value,
    *rest: Any, form: str, group: int = 1, shifted: bool = False, collector: str = "",
) -> None:  # fmt: skip
    """tcgen05.mma.sp: D = A·B + D, or A·B, where half of A is zero and left out.

    How it rounds is an assumption: as many stored products are summed at once as dense ones.
    """
    issue_products(g, target, a, b, descriptor, rest, form, group, metadata, shifted)


@effect("tcgen05.mma.sp.block_scale", "a any b64 a u32 a a any", None, section="9.7.16.10.9.2",
        options=[GROUPS, tcgen05_scaled.KINDS, SIZES, tcgen05.COLLECTOR])  # fmt: skip
def mma_scaled(
    g: Group, target: Value, a: tuple[str, Value], b: Value, metadata: Value, descriptor: Value,
    a_scales: Value, b_scales: Value, accumulate: tuple[str, Value], *, form: str,
    vector: str = "", group: int = 1, collector: str = "",
) -> None:  # fmt: skip
    """tcgen05.mma.sp.block_scale: the same with block scales, each for 32 or 64 columns of A."""
    operands = [target, a[1], b, descriptor, a_scales, b_scales, accumulate[1]]
    issue_scaled(g, operands, a[0] == "a", form, vector, group, metadata)


@effect("tcgen05.mma.ws.sp", "a any b64 a u32 any b64", None, section="9.7.16.10.9.4",
        options=[ONE_BLOCK, tcgen05.KINDS, tcgen05_ws.COLLECTOR], optional=1)  # fmt: skip
def mma_stationary(
    g: Group, target: Value, a: tuple[str, Value], b: Value, metadata: Value, descriptor: Value,
    accumulate: tuple[str, Value], mask: Value = None, *, form: str, group: int = 1,
    collector: str = "",
) -> None:  # fmt: skip
    """tcgen05.mma.ws.sp: the same with B that stays; each bank of lanes has the metadata."""
    operands = [target, a[1], b, descriptor, accumulate[1], 0 if mask is None else mask]
    issue_stationary(g, operands, a[0] == "a", form, metadata)
