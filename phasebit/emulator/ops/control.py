"""Control flow (PTX ISA 9.7.12): branches, calls, the end of a thread, traps.

These functions stand at the end of a generated block.  Each returns the next
block of the whole group, or -1 when the group was divided, parked or finished;
then the scheduler has what became of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phasebit.emulator.errors import Fault, Trap
from phasebit.emulator.findings import Place
from phasebit.emulator.machine.gathering import WARP_GROUP
from phasebit.emulator.machine.group import Frame, Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.ptx.mangling import readable
from phasebit.emulator.ptx.placement import FUNCTION_BASE
from phasebit.emulator.ptx.types import Array, Value

__all__ = [
    "WARP_GROUP", "branch", "branch_index", "call", "call_external", "call_indirect", "leave",
    "ret", "together", "trap",
]  # fmt: skip

ndarray = np.ndarray


def select(p: Value, a: Value, b: Value) -> Value:
    """``a`` where ``p`` holds, else ``b``: how a guarded computation keeps the old value."""
    if p.__class__ is ndarray:
        return np.where(p, a, b)
    return a if p else b


def branch(g: Group, p: Value, taken: int, fall: int) -> int:
    """``@p bra target`` (PTX ISA 9.7.12.3): go there together, or divide the group."""
    if p.__class__ is not ndarray:
        return taken if p else fall
    count = np.count_nonzero(p)
    if count == g.n:
        return taken
    if count == 0:
        return fall
    return divide(g, p, taken, fall)


def divide(g: Group, p: Array, taken: int, fall: int) -> int:
    """Two groups from one: where ``p`` holds and where it does not."""
    machine = g.batch.machine
    join = machine.program.joins[g.pc]
    if join >= 0 and g.rejoin[-1:] != (join,):
        g.rejoin = (*g.rejoin, join)
    for told in machine.told[LaunchObserver.divides]:
        told(g, p, join)
    for where, pc in ((p, taken), (~p, fall)):
        some = g.part(np.flatnonzero(where), pc)
        if pc == join:
            some.rejoin = some.rejoin[:-1]
            some.patient = True
        machine.make_ready(some)
    return -1


def branch_index(g: Group, index: Value, targets: tuple[int, ...]) -> int:
    """``brx.idx`` (PTX ISA 9.7.12.4): a jump through a table."""
    values = np.unique(index)
    if int(values[-1]) >= len(targets):
        raise Fault(
            "brx.idx with index {}, but its table has {} labels",
            int(values[-1]),
            len(targets),
        )
    if len(values) == 1:
        return targets[int(values[0])]
    machine = g.batch.machine
    for one in values:
        machine.make_ready(g.part(np.flatnonzero(index == one), targets[int(one)]))
    return -1


def call(
    g: Group,
    name: str,
    arguments: list[tuple[int, int]],
    results: list[tuple[int, int]],
    resume: int,
) -> int:
    """``call`` (PTX ISA 9.7.12.5): copy the arguments down, go to the function."""
    machine = g.batch.machine
    program = machine.program
    function = next(f for f in program.layout.functions if f.name == name)
    given, takes = (len(arguments), len(results)), (len(function.parameters), len(function.results))
    if given != takes:
        raise Fault(
            "{} takes {} arguments and gives {} results, and a call of it has {} and {}: {}",
            readable(name), *takes, *given, program.blocks[g.pc].instructions[-1].where,
        )  # fmt: skip
    frames = program.layout.frames
    caller, base = program.functions[g.pc].name, g.base
    new = base + program.layout.step(caller, name)
    if new > base:
        g.batch.need_stack(new + program.layout.local_size, g.lanes, len(g.frames) + 1)
    for i, (start, size) in enumerate(arguments):
        copy_local(g, base + start, new + frames[name, function.parameters[i].name], size)
    back = tuple(
        (new + frames[name, function.results[i].name], base + to, size)
        for i, (to, size) in enumerate(results)
    )
    g.frames.append(Frame(g.registers, resume, back, base))
    g.base = new
    g.registers = program.fresh_registers(function)
    g.stack = machine.stacks.number(g.stack, resume)
    return program.entry(name)


def call_indirect(
    g: Group,
    pointer: Value,
    arguments: list[tuple[int, int]],
    results: list[tuple[int, int]],
    resume: int,
) -> int:
    """``call`` through a register: each thread may go to another function."""
    machine = g.batch.machine
    names = list(machine.program.module.functions)
    values = np.unique(pointer)
    if len(values) == 1:
        return call(g, _target(g, int(values[0]), names), arguments, results, resume)
    for one in values:
        some = g.part(np.flatnonzero(pointer == one), resume)
        some.pc = call(some, _target(g, int(one), names), arguments, results, resume)
        machine.make_ready(some)
    return -1


def _target(g: Group, pointer: int, names: list[str]) -> str:
    """The function at an address."""
    number = (pointer - FUNCTION_BASE) // 16
    if not 0 <= number < len(names) or names[number] not in g.batch.machine.program.first_block:
        raise Fault("a call through {:#x}, which is the address of no function", pointer)
    return names[number]


def call_external(
    g: Group,
    function: Any,
    arguments: list[tuple[int, int]],
    results: list[tuple[int, int]],
    resume: int,
) -> int:
    """``call`` of a function that the system provides, such as ``vprintf``."""
    frame = g.base
    function(g, [frame + start for start, _ in arguments], [frame + start for start, _ in results])
    return resume


def copy_local(g: Group, source: int, target: int, size: int) -> None:
    """Copy bytes between two places of each thread's local memory."""
    batch = g.batch
    base = g.lanes * batch.local_stride + batch.local_base
    width = 4 if size % 4 == 0 else 1
    view = g.memory.u4 if width == 4 else g.memory.u1
    base = base // width
    for k in range(size // width):
        view[base + (target // width + k)] = view[base + (source // width + k)]


def ret(g: Group) -> int:
    """``ret`` (PTX ISA 9.7.12.6): copy the results up, go on in the caller."""
    if not g.frames:
        return leave(g)
    if len(g.frames) in g.batch.asked_for:
        g.batch.set_stack_top(g.lanes, len(g.frames), 0)
    frame = g.frames.pop()
    for source, target, size in frame.results:
        copy_local(g, source, target, size)
    g.registers = frame.registers
    g.base = frame.base
    g.stack = g.batch.machine.stacks.parent(g.stack)
    return frame.resume


def leave(g: Group) -> int:
    """``exit`` (PTX ISA 9.7.12.7), and ``ret`` of a kernel: these threads are done."""
    g.batch.machine.exit_threads(g)
    return -1


def trap(g: Group, where: Place) -> int:
    """``trap`` (PTX ISA 9.7.19.5): the kernel ends with an error."""
    raise Trap("trap executed by {} at {}", g.batch.describe(g.lanes[:1]), where)


def together(g: Group, membermask: Value | None) -> bool:
    """Gather the threads of a ``.sync`` instruction's member mask; False parks the group."""
    machine = g.batch.machine
    if membermask is WARP_GROUP:
        all_here = g.n == g.batch.lanes
    else:
        all_here = g.whole and (membermask is None or _is_full(membermask))
    if not all_here and not machine.gather(g, membermask):
        return False
    for told in machine.told[LaunchObserver.gathered]:
        told(g, None if membermask is WARP_GROUP else membermask, all_here)
    return True


def _is_full(mask: Value) -> bool:
    if mask.__class__ is ndarray:
        return bool((mask == 0xFFFFFFFF).all())
    return bool(mask == 0xFFFFFFFF)
