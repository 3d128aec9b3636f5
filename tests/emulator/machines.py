"""A launch that has not run yet, for tests of the machine's own parts: no nvcc."""

from __future__ import annotations

from typing import Any

import numpy as np

from phasebit.emulator import Module
from phasebit.emulator.api.execution import Execution, Mode
from phasebit.emulator.machine.group import Group
from phasebit.emulator.ptx.noticed_steps import Stepwise

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
    cluster: int | None = None, cooperative: bool = False, stepwise: Stepwise = None, **mode: Any,
) -> Any:  # fmt: skip
    """The machine of a launch of such a kernel, whose pointer is 0, before it runs."""
    made = kernel(body)
    extents = made.extents(grid, block, cluster, cooperative)
    parameters = bytes(8)
    return made.prepare(extents, parameters, Mode(**mode), kind=kind, stepwise=stepwise).machine


def groups(count: int = 1, **how: Any) -> tuple[Any, list[Group]]:
    """The machine of a launch, and groups of one warp each of its first batch; none is ready."""
    made = machine(block=32 * count, **how)
    made.start_batch()
    ready = list(made.ready)
    made.ready.clear()
    made.index.clear()
    return made, [
        g.part(np.flatnonzero(g.batch.warp_of[g.lanes] == warp), g.pc)
        for g in ready for warp in np.unique(g.batch.warp_of[g.lanes])
    ]
