"""From basic blocks to Python functions.

Each block becomes one function of the group that executes it.  The body is in
single-assignment form: a local variable for every result, read from the
register file ``R`` when it comes from an earlier block and written back when a
later block wants it.  For example

    setp.lt.s32 %p1, %r1, 32;
    @%p1 bra $L__BB0_2;

becomes

    def block_0(g):
        R = g.registers
        r1 = R[1]
        r1_i4 = r1.view(i4)
        p1 = setp_lt(r1_i4, k32_i4)    # 14: setp.lt.s32 %p1, %r1, 32
        return branch(g, p1, 2, 1)     # 15: @%p1 bra $L__BB0_2

All values are arrays over the group's threads, or scalars where the threads
agree.  Registers are untyped: a value has one NumPy form for each type it is
looked at through, made once.  Loads and stores that share a base register share
one index array: ``[%r5]``, ``[%r5+4]`` … differ only in where the view begins.
"""

from __future__ import annotations

from phasebit.emulator.codegen.accumulator_registers import multiplied_registers
from phasebit.emulator.codegen.block_function import BlockFunction
from phasebit.emulator.codegen.global_names import GlobalNames
from phasebit.emulator.codegen.register_forms import register_forms
from phasebit.emulator.codegen.translated_program import COMMON, TranslatedProgram
from phasebit.emulator.ptx.control_flow import build
from phasebit.emulator.ptx.noticed_steps import Stepwise
from phasebit.emulator.ptx.placement import Layout
from phasebit.emulator.ptx.syntax import Function, Module


def translate(
    module: Module, kernel: Function, layout: Layout, checked: bool, exact: bool = True,
    clustered: bool = False, stepwise: Stepwise = None,
) -> TranslatedProgram:  # fmt: skip
    """Translate a kernel and every function it can reach; ``stepwise`` as for ``build``.

    Raises :class:`PtxError` for an instruction or an operand that is not supported.
    """
    program = TranslatedProgram(module, kernel, layout, checked, exact, clustered, stepwise)
    for function in layout.functions:
        graph = build(function, stepwise)
        if checked:
            graph.multiplied = multiplied_registers(graph)
        program.add(graph, register_forms(graph))
    names = dict(COMMON)
    known = GlobalNames(names)
    text: list[str] = []
    for graph in program.graphs.values():
        for block in graph.blocks:
            text += [*BlockFunction(program, graph, block, known).write(), ""]
    program.write("\n".join(text), names)
    return program


__all__ = ["translate"]
