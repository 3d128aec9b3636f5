"""A launch that has not run yet, for tests of the machine's own parts: no nvcc."""

from __future__ import annotations

from typing import Any

import numpy as np

from phasebit.emulator import Module
from phasebit.emulator.api.execution import Execution, Mode
from phasebit.emulator.machine.group import Group

HEAD = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    .shared .align 8 .b64 bar; .shared .align 8 .b64 more;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
"""


def kernel(body: str) -> Any:
    """A kernel of one pointer, %rd1; %r1 is the thread, %r2 the block."""
    return Module(f"{HEAD}{body}\n}}")["k"]


def machine(
    body: str = "ret;", grid: int = 1, block: int = 64, *, kind: type[Execution] = Execution,
    cluster: int | None = None, cooperative: bool = False, **mode: Any,
) -> Any:  # fmt: skip
    """The machine of a launch of such a kernel, whose pointer is 0, before it runs."""
    made = kernel(body)
    extents = made.extents(grid, block, cluster, cooperative)
    return made.prepare(extents, bytes(8), Mode(**mode), kind=kind).machine


def groups(count: int = 1, **how: Any) -> tuple[Any, list[Group]]:
    """The machine of a launch, and groups of one warp each of its first batch; none is ready."""
    made = machine(block=32 * count, **how)
    made.start_batch()
    (whole,) = made.ready
    made.ready.clear()
    made.index.clear()
    warps = whole.batch.warp_of
    return made, [whole.part(np.flatnonzero(warps == n), whole.pc) for n in np.unique(warps)]
