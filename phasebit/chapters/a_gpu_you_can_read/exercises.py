"""Checks of the appendix *A GPU you can read*: each asks the emulator itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from phasebit.emulator import Deadlock, Defect, EmulatorError, Run
from phasebit.emulator.ptx.table import TABLE, value
from phasebit.exercises.judge import NotAnswered, Wrong, ask, judged, same, shown
from phasebit.launching.launch import Module

HEAD = """\
.version 8.0
.target sm_90a
.address_size 64
"""

MULTIPLY_ADD = """\
.version 8.0
.target sm_90a
.address_size 64

.visible .entry multiply_add(
    .param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .f32  %f<5>;
    .reg .b32  %r<6>;
    .reg .b64  %rd<11>;

    ld.param.u64        %rd1, [a];
    ld.param.u64        %rd2, [b];
    ld.param.u64        %rd3, [c];
    ld.param.u32        %r2, [n];
    mov.u32             %r3, %ctaid.x;
    mov.u32             %r4, %ntid.x;
    mov.u32             %r5, %tid.x;
    mad.lo.s32          %r1, %r3, %r4, %r5;
    setp.ge.s32         %p1, %r1, %r2;
    @%p1 bra            DONE;

    cvta.to.global.u64  %rd4, %rd1;
    mul.wide.s32        %rd5, %r1, 4;
    add.s64             %rd6, %rd4, %rd5;
    cvta.to.global.u64  %rd7, %rd2;
    add.s64             %rd8, %rd7, %rd5;
    ld.global.f32       %f1, [%rd8];
    ld.global.f32       %f2, [%rd6];
    cvta.to.global.u64  %rd9, %rd3;
    add.s64             %rd10, %rd9, %rd5;
    ld.global.f32       %f3, [%rd10];
    fma.rn.f32          %f4, %f2, %f1, %f3;
    st.global.f32       [%rd10], %f4;

DONE:
    ret;
}
"""
"""The chapter's kernel; a test compares it with the notebook's."""


@judged
def executed(answer: Callable[[int, int], int]) -> str:
    """``answer(n, block)``: ``smsp__inst_executed.sum`` of the chapter's kernel for n elements.

    ``block`` is a multiple of 32, the grid has as many blocks as n elements need.
    """
    kernel = Module(MULTIPLY_ADD)["multiply_add"]
    cases = [(n, block) for n in (1, 31, 32, 33, 50, 64, 100, 256, 1000) for block in (32, 64, 256)]
    for n, block in cases:
        grid = -(-n // block)
        x = np.zeros(n, np.float32)
        run = kernel.launch(grid, block, [x, x.copy(), x.copy(), n])
        right = run.counters["smsp__inst_executed.sum"]
        got = ask(answer, n, block)
        if not same(got, right):
            where = f"for n={n} and blocks of {block}"
            raise Wrong(f"{where} it gives {shown(got)}, the machine counts {right}")
    return f"{len(cases)} launches"


STRIDED = HEAD + """
.visible .entry strided(.param .u64 x, .param .u32 first, .param .u32 stride)
{
    .reg .b32 %r<8>;
    .reg .b64 %rd<4>;
    .shared .align 128 .b32 s[2304];
    ld.param.u64    %rd1, [x];
    ld.param.u32    %r1, [first];
    ld.param.u32    %r2, [stride];
    mov.u32         %r3, %laneid;
    mad.lo.u32      %r4, %r2, %r3, %r1;
    mul.wide.u32    %rd2, %r4, 4;
    add.s64         %rd3, %rd1, %rd2;
    ld.global.u32   %r5, [%rd3];
    mov.u32         %r6, s;
    shl.b32         %r4, %r4, 2;
    add.u32         %r6, %r6, %r4;
    ld.shared.u32   %r7, [%r6];
    ret;
}
"""
"""One warp reads ``x[first + stride * lane]``, in global and then in shared memory."""

SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"


@judged
def traffic(answer: Callable[[int, int], tuple[int, int]]) -> str:
    """``answer(first, stride)``: sectors and wavefronts of a warp's 4-byte loads."""
    kernel = Module(STRIDED)["strided"]
    x = np.zeros(2304, np.uint32)
    strides = (*range(13), 31, 32, 33, 64)
    cases = [(first, stride) for first in (0, 1, 5, 8, 31) for stride in strides]
    for case in cases:
        counters = kernel.launch(1, 32, [x, *case]).counters
        right = counters[SECTORS], counters[WAVEFRONTS]
        got = ask(answer, *case)
        if not same(got, right):
            where = f"first={case[0]} and stride={case[1]}"
            raise Wrong(f"for {where} it gives {shown(got)}, not {right}")
    return f"{len(cases)} patterns"


TURN_AROUND = HEAD + """
.visible .entry turn_around(.param .u64 x)
{
    .reg .b32 %r<9>;
    .reg .b64 %rd<4>;
    .shared .align 4 .b32 s[64];

    ld.param.u64    %rd1, [x];
    mov.u32         %r1, %tid.x;
    mul.wide.u32    %rd2, %r1, 4;
    add.s64         %rd3, %rd1, %rd2;
    ld.global.u32   %r2, [%rd3];
    mov.u32         %r3, s;
    shl.b32         %r4, %r1, 2;
    add.u32         %r5, %r3, %r4;
    st.shared.u32   [%r5], %r2;
    bar.sync        0;
    sub.u32         %r6, 63, %r1;
    shl.b32         %r6, %r6, 2;
    add.u32         %r6, %r3, %r6;
    ld.shared.u32   %r7, [%r6];
    add.u32         %r7, %r7, %r2;
    st.shared.u32   [%r5], %r7;
    bar.sync        0;
    xor.b32         %r8, %r4, 128;
    add.u32         %r8, %r3, %r8;
    ld.shared.u32   %r8, [%r8];
    add.u32         %r8, %r8, %r7;
    st.global.u32   [%rd3], %r8;
    ret;
}
"""
"""64 threads exchange numbers through shared memory, with one barrier too few."""


def turn_around(text: str) -> tuple[Run, bool]:
    """Run that kernel, or a repaired text of it; the run, and whether the numbers are right."""
    x = np.arange(64, dtype=np.uint32) ** 2
    sums = x + x[::-1]
    wanted = sums + np.roll(sums, 32)
    run = Module(text)["turn_around"].launch(1, 64, [x])
    return run, bool((x == wanted).all())


@judged
def missing_barrier(answer: int) -> str:
    """The line of ``TURN_AROUND``, from 1, after which a ``bar.sync 0`` makes it free of races."""
    lines = TURN_AROUND.splitlines()
    if not isinstance(answer, int) or not 1 <= answer < len(lines):
        raise Wrong(f"give the number of a line, 1 to {len(lines) - 1}")
    lines.insert(answer, "    bar.sync        0;")
    try:
        run, right = turn_around("\n".join(lines))
    except EmulatorError as error:
        raise Wrong(f"with a barrier after line {answer}: {error}") from error
    if run.findings:
        left = "a race is" if len(run.findings) == 1 else f"{len(run.findings)} races are"
        raise Wrong(f"with a barrier after line {answer}, {left} left")
    if not right:
        raise Wrong(f"with a barrier after line {answer} the numbers are wrong")
    return "no race, and the numbers are right"


@judged
def deadlock(answer: str) -> str:
    """The body of a kernel of 64 threads in which each warp waits for the other for ever.

    Warp 0 must wait at barrier 1, warp 1 at barrier 2, and no thread may have left.
    """
    if not isinstance(answer, str):
        raise Wrong("give PTX, as a string: what stands between the braces of the kernel")
    text = f"{HEAD}\n.visible .entry stuck()\n{{\n{answer}\n}}\n"
    try:
        Module(text)["stuck"].launch(1, 64, [], max_steps=10_000)
    except Deadlock as error:
        waits = {
            (str(wait.threads).removesuffix(" of block 0"), wait.what) for wait in error.waits
        }
    except EmulatorError as error:
        raise Wrong(f"it fails in another way: {error}") from error
    else:
        raise Wrong("it ends")
    if waits != {("warp 0", "barrier 1"), ("warp 1", "barrier 2")}:
        found = "; ".join(f"{who} at {what}" for who, what in sorted(waits))
        raise Wrong(f"it is a deadlock, but another one: {found}")
    return "a deadlock as ordered"


NEW = HEAD + """
.visible .entry new(.param .u64 x, .param .u64 y)
{{
    .reg .b32 %r<6>;
    .reg .b64 %rd<6>;
    ld.param.u64    %rd1, [x];
    ld.param.u64    %rd2, [y];
    mov.u32         %r1, %tid.x;
    mul.wide.u32    %rd3, %r1, 4;
    add.s64         %rd4, %rd1, %rd3;
    add.s64         %rd5, %rd2, %rd3;
    ld.global.{kind} %r2, [%rd4];
    ld.global.{kind} %r3, [%rd5];
    avg.{kind}      %r4, %r2, %r3;
    st.global.{kind} [%rd4], %r4;
    ret;
}}
"""


@judged
def new_instruction(answer: Callable[[Any, Any], Any]) -> str:
    """Enter ``answer`` into the table as ``avg.u32`` and ``avg.s32``, and run kernels with it.

    ``avg`` is (a + b) / 2 of the exact sum, rounded down.  The table is put back afterwards.
    """
    if not inspect.isfunction(answer):
        raise Wrong(f"the answer is {shown(answer)}, and should be a function")
    before = TABLE.get("avg")
    cases = 0
    try:
        TABLE["avg"] = []
        value("avg", "x x -> x", {"u32", "s32"}, section="none")(answer)
        for kind in ("u32", "s32"):
            cases += _average(kind)
    except EmulatorError as error:
        raise Wrong(str(error)) from error
    finally:
        del TABLE["avg"]
        if before is not None:
            TABLE["avg"] = before
    return f"{cases} pairs of numbers"


def _average(kind: str) -> int:
    form = np.dtype("u4" if kind == "u32" else "i4")
    least, most = np.iinfo(form).min, np.iinfo(form).max
    edges = [least, least + 1, 0, 1, 2, 3, most // 2, most - 1, most]
    if kind == "s32":
        edges += [-1, -2, -3]
    pairs = [(a, b) for a in edges for b in edges]
    draws = np.random.default_rng(5).integers(least, most, (200, 2), endpoint=True)
    pairs += [(int(a), int(b)) for a, b in draws]
    kernel = Module(NEW.format(kind=kind))["new"]
    for at in range(0, len(pairs), 64):
        part = pairs[at : at + 64]
        x, y = (np.array([pair[i] for pair in part], form) for i in (0, 1))
        wanted = [(a + b) // 2 for a, b in part]
        try:
            kernel.launch(1, len(part), [x, y])
        except Defect as defect:  # the answer's own error, raised while the emulator ran it
            if _blank(x, y):
                raise NotAnswered from defect
            error = defect.__cause__
            raise Wrong(f"for avg.{kind} it raises {type(error).__name__}: {error}") from error
        for (a, b), got, right in zip(part, x.tolist(), wanted, strict=True):
            if got != right:
                raise Wrong(f"avg.{kind} of {a} and {b} is {right}, not {got}")
    return len(pairs)


def _blank(x: Any, y: Any) -> bool:
    """Whether the function still returns nothing."""
    entry = TABLE["avg"][0]
    try:
        return entry.function(x, y) in (None, ...)
    except Exception:
        return False
