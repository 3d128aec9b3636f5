"""A launch that has not run yet, for tests of the machine's own parts: no nvcc."""

from __future__ import annotations

from typing import Any

import numpy as np

from phasebit.emulator import Module, every_order
from phasebit.emulator.api.execution import Execution, Mode
from phasebit.emulator.api.together import Together
from phasebit.emulator.copy_engine.bulk_copies import Stretch
from phasebit.emulator.copy_engine.sub_byte_copy import problem
from phasebit.emulator.copy_engine.tensor_copy import Box
from phasebit.emulator.copy_engine.tensormap import TensorMap, decode
from phasebit.emulator.interleavings.searching import Stepped
from phasebit.emulator.machine.accesses import Access
from phasebit.emulator.machine.agents import Agent
from phasebit.emulator.machine.barrier_sites import BarrierSite
from phasebit.emulator.machine.cluster import cluster_barrier
from phasebit.emulator.machine.cluster_launch import asks
from phasebit.emulator.machine.company import Company
from phasebit.emulator.machine.counters import Counters
from phasebit.emulator.machine.gathering import Gathering
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.livelock import Watch
from phasebit.emulator.machine.multiprocessors import sharers
from phasebit.emulator.machine.named_barriers import NamedBarrier
from phasebit.emulator.machine.system import _written as written
from phasebit.emulator.machine.trace import Trace
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
    if "schedule" in mode:  # not the very string that the emulator compares it with
        mode["schedule"] = "".join(mode["schedule"])
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


def use_every_part() -> None:
    """Call something of every module: whoever looks for the tests of a module finds the caller."""
    made, (g, *_) = groups(2, kind=Stepped, stepwise=frozenset())
    every_order(kernel("ret;"), args=[0])
    Watch(made).renew()
    Company().next()
    Together()
    Gathering().bring(g, None)
    NamedBarrier(g.batch, 0, 0).needed()
    cluster_barrier(g.batch).left(g.lanes)
    BarrierSite(g.batch, 0, 0).bytes_text()
    Access("global", "load", 4, 0, 0, np.zeros(32), "x", None).lanes  # noqa: B018
    Trace().leaves(g)
    sharers(g.batch, 0)
    g.special("laneid")
    asks(made.program)
    Counters().add("x", 1)
    made.standing()
    Agent(g.batch, False)
    written("", 1, None, "d", 5)
    Stretch(made.memory, 0, 4, "shared").words(2)
    tensor = TensorMap(np.zeros((8, 64), np.uint8), (16, 2)).descriptor
    decode(tensor.encode())
    Box(made.memory, 1024, tensor).words(2)
    problem(tensor, 0, "load")
