"""Atomics against the same steps one thread after the other: PTX ISA 9.7.13.5, 9.7.13.7.

Threads that name one address take turns in the order of their lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.errors import EmulatorError
from phasebit.launching.launch import Module

THREADS = 64
KERNEL = """.version 9.0\n.target sm_90a\n.address_size 64
.visible .entry k(.param .u64 in, .param .u64 memory, .param .u64 out)
{
    .reg .pred %p<4>; .reg .b16 %h<9>; .reg .b32 %r<16>; .reg .f32 %f<4>; .reg .b64 %rd<16>;
    .reg .f64 %d<4>; .shared .align 16 .b8 box[1024];
    ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [memory]; ld.param.u64 %rd3, [out];
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd4, %r1, 24; add.u64 %rd1, %rd1, %rd4;
    ld.global.u64 %rd5, [%rd1]; ld.global.u64 %rd6, [%rd1+8]; ld.global.u64 %rd7, [%rd1+16];
    mul.wide.u32 %rd8, %r1, 8; add.u64 %rd3, %rd3, %rd8; mov.u64 %rd9, 0;
    add.u64 %rd10, %rd2, %rd5; cvt.u32.u64 %r5, %rd5; mov.u32 %r6, box; add.u32 %r6, %r6, %r5;
    cvt.u64.u32 %rd11, %r6; cvta.shared.u64 %rd11, %rd11;
    add.u64 %rd12, %rd2, %rd8; shl.b32 %r7, %r1, 3; mov.u32 %r8, box; add.u32 %r8, %r8, %r7;
    ld.global.u64 %rd13, [%rd12]; st.shared.u64 [%r8], %rd13; bar.sync 0;
    BODY
    bar.sync 0; AFTER
    st.global.u64 [%rd3], %rd9;
    ret;
}
"""
PLACES = {"global": "[%rd10]", "shared": "[%r6]", "generic": "[%rd10]", "of shared": "[%rd11]"}
BACK = "ld.shared.u64 %rd13, [%r8]; st.global.u64 [%rd12], %rd13;"
SIZE = {"b16": 2, "f16": 2, "bf16": 2, "u32": 4, "s32": 4, "b32": 4, "f32": 4, "f16x2": 4,
        "u64": 8, "s64": 8, "b64": 8, "f64": 8}  # fmt: skip
FORM = {"u32": "u4", "s32": "i4", "b32": "u4", "f32": "f4", "u64": "u8", "s64": "i8", "b64": "u8",
        "f64": "f8", "b16": "u2", "f16": "f2", "f16x2": "u4"}  # fmt: skip


def run(
    op: str, kind: str, where: str, offsets: Any, b: np.ndarray, c: np.ndarray, memory: np.ndarray,
    count: int = 1, result: bool = True,
) -> np.ndarray:  # fmt: skip
    """The words that the threads got; ``memory``, 64 words of 64 bits, is changed."""
    given = np.zeros((THREADS, 3), np.uint64)
    given[:, 0] = offsets
    size = SIZE[kind]
    for column, value in ((1, b), (2, c)):
        held = np.zeros((THREADS, 8), np.uint8)
        held[:, :size] = np.ascontiguousarray(value).view(np.uint8).reshape(THREADS, size)
        given[:, column] = held.view(np.uint64)[:, 0]
    space = "" if where in ("generic", "of shared") else f".{where}"
    registers = {2: "%h", 4: "%r1", 8: "%rd1"}[size]
    x, y, z = (f"{registers}{i}" for i in ((1, 2, 3) if size == 2 else (3, 4, 5)))
    cut = f"cvt.u{8 * size}.u64" if size < 8 else "mov.u64"
    back = f"cvt.u64.u{8 * size} %rd9, {z};" if size < 8 else f"mov.u64 %rd9, {z};"
    body = f"{cut} {x}, %rd6; {cut} {y}, %rd7;"
    operands = x if count == 1 else f"{x}, {y}"
    word = "atom" if result else "red"
    target = f"{z}, " if result else ""
    body += f"{word}{space}.{op}.{kind} {target}{PLACES[where]}, {operands};"
    body += back if result else ""
    text = KERNEL.replace("BODY", body).replace("AFTER", BACK if "shared" in where else "")
    text = text.replace(".reg .b32 %r<16>", ".reg .b32 %r<20>").replace(
        ".reg .b64 %rd<16>", ".reg .b64 %rd<20>")  # fmt: skip
    out = np.zeros(THREADS, np.uint64)
    assert not Module(text)["k"].launch(1, THREADS, [given, memory, out]).findings
    if not result:
        return out
    return out.view(np.uint8).reshape(THREADS, 8)[:, :size].copy().view(FORM[kind])[:, 0]


Step = Callable[[Any, Any, Any], Any]
STEPS: dict[str, tuple[tuple[str, ...], Step]] = {
    "add": (("u32", "s32", "u64", "f32", "f64"), lambda old, b, c: old + b),
    "min": (("u32", "s32", "u64", "s64"), lambda old, b, c: min(old, b)),
    "max": (("u32", "s32", "u64", "s64"), lambda old, b, c: max(old, b)),
    "inc": (("u32",), lambda old, b, c: old * 0 if old >= b else old + old.dtype.type(1)),
    "dec": (("u32",), lambda old, b, c: b if old == 0 or old > b else old - old.dtype.type(1)),
    "and": (("b32", "b64"), lambda old, b, c: old & b),
    "or": (("b32", "b64"), lambda old, b, c: old | b),
    "xor": (("b32", "b64"), lambda old, b, c: old ^ b),
    "exch": (("b32", "b64"), lambda old, b, c: b),
    "cas": (("b16", "b32", "b64"), lambda old, b, c: c if old == b else old),
}
RNG = np.random.default_rng(9)
SPREADS = {
    "each its own": np.arange(THREADS) * 8, "one for all": np.full(THREADS, 40),
    "few": RNG.integers(0, 3, THREADS) * 8 + 16, "many": RNG.integers(0, 40, THREADS) * 8,
    "backwards": np.arange(THREADS)[::-1] // 2 * 8,
}  # fmt: skip


def numbers(kind: str, op: str) -> np.ndarray:
    form = np.dtype(FORM[kind])
    if form.kind == "f":
        return (RNG.integers(-40, 40, THREADS) / 4).astype(form)
    if op in ("inc", "dec", "cas"):
        return RNG.integers(0, 4, THREADS).astype(form)
    bits = RNG.integers(0, 1 << 64, THREADS, np.uint64)
    return bits.astype(f"u{form.itemsize}").view(form)


ALL = [(op, kind) for op, (kinds, _) in STEPS.items() for kind in kinds]


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize(("op", "kind"), ALL)
def test_threads_take_turns(op: str, kind: str, where: str) -> None:
    form = np.dtype(FORM[kind])
    for spread in SPREADS if where == "global" else ("few",):
        offsets, b, c = SPREADS[spread], numbers(kind, op), numbers(kind, op)
        memory = np.zeros(THREADS, np.uint64)
        held = memory.view(form)
        held[:] = np.resize(numbers(kind, op), len(held))
        wanted, got = held.copy(), []
        with np.errstate(over="ignore"):
            for i in range(THREADS):
                at = int(offsets[i]) // form.itemsize
                got.append(wanted[at])
                wanted[at] = STEPS[op][1](wanted[at], b[i], c[i])
        found = run(op, kind, where, offsets, b, c, memory, 2 if op == "cas" else 1)
        assert np.array_equal(found, np.array(got)), spread
        assert np.array_equal(memory.view(form), wanted), spread


@pytest.mark.parametrize(("op", "kind"), [each for each in ALL if each[0] not in ("exch", "cas")])
def test_without_a_result(op: str, kind: str) -> None:
    form, offsets, b = np.dtype(FORM[kind]), SPREADS["many"], numbers(kind, op)
    memory = np.zeros(THREADS, np.uint64)
    memory.view(form)[:] = np.resize(numbers(kind, op), len(memory.view(form)))
    wanted = memory.view(form).copy()
    with np.errstate(over="ignore"):
        for i in range(THREADS):
            at = int(offsets[i]) // form.itemsize
            wanted[at] = STEPS[op][1](wanted[at], b[i], None)
    run(op, kind, "global", offsets, b, b, memory, result=False)
    assert np.array_equal(memory.view(form), wanted)


@pytest.mark.parametrize(("kind", "where", "flushes"), [
    ("f32", "global", True), ("f32", "shared", False), ("f32", "generic", True),
    ("f32", "of shared", False), ("f64", "global", False),
])  # fmt: skip
def test_subnormal_sums_are_flushed_in_global_memory(kind: str, where: str, flushes: bool) -> None:
    """Of f32: operands and results; [an H200's L2 does it, its shared memory does not]."""
    form = np.dtype(FORM[kind])
    tiny, normal = (2.0**-140, 2.0**-126) if kind == "f32" else (2.0**-1060, 2.0**-1022)
    memory = np.zeros(THREADS, np.uint64)
    memory.view(form)[0], memory.view(form)[8 // form.itemsize] = tiny, normal
    offsets = np.full(THREADS, 64)
    offsets[0], offsets[1] = 0, 8
    b = np.zeros(THREADS, form)
    b[0], b[1] = tiny, -1.5 * normal
    found = run("add", kind, where, offsets, b, b, memory)
    assert found[0] == form.type(tiny), "what is found is what was there"
    got = memory.view(form)
    assert got[0] == (0 if flushes else 2 * tiny)
    assert got[8 // form.itemsize] == (0 if flushes else -normal / 2)


def test_nans_of_sums() -> None:
    """f32 has one pattern; f64 in global memory that of the operand, else of memory."""
    memory = np.zeros(THREADS, np.uint64)
    memory.view(np.float32)[0] = np.nan
    b = np.zeros(THREADS, np.float32)
    run("add", "f32", "shared", np.arange(THREADS) * 8, b, b, memory)
    assert memory.view(np.uint32)[0] == 0x7FFFFFFF
    memory[:] = 0
    memory[0], memory[1], memory[2] = 0x7FF8000000000123, 0x7FF8000000000123, 5
    b = np.zeros(THREADS, np.uint64)
    b[1] = b[2] = 0xFFF8000000000456
    run("add", "f64", "global", np.arange(THREADS) * 8, b.view(np.float64), b.view(np.float64),
        memory)  # fmt: skip
    assert memory[:3].tolist() == [0x7FF8000000000123, 0xFFF8000000000456, 0xFFF8000000000456]


@pytest.mark.parametrize("kind", ["f16", "f16x2"])
def test_sums_of_halves(kind: str) -> None:
    memory = np.zeros(THREADS, np.uint64)
    halves = memory.view(np.float16)
    halves[:] = RNG.integers(-8, 8, len(halves))
    wanted = halves.copy()
    offsets = SPREADS["few"]
    b = RNG.integers(-8, 8, (THREADS, 2)).astype(np.float16)
    for i in range(THREADS):
        at = int(offsets[i]) // 2
        wanted[at] += b[i, 0]
        if kind == "f16x2":
            wanted[at + 1] += b[i, 1]
    given = b[:, 0] if kind == "f16" else b.view(np.uint32)[:, 0]
    run("add.noftz", kind, "global", offsets, given, given, memory)
    assert np.array_equal(halves, wanted)


VECTOR = """.version 9.0\n.target sm_90a\n.address_size 64
.visible .entry k(.param .u64 memory)
{{
    .reg .b32 %r<16>; .reg .b64 %rd<5>; .reg .f32 %f<9>; .reg .b16 %h<9>;
    ld.param.u64 %rd1, [memory]; mov.u32 %r1, %tid.x; cvt.rn.f32.u32 %f1, %r1;
    add.f32 %f2, %f1, %f1; mov.f32 %f3, 1.0; mov.f32 %f4, 0f00000001;
    mov.b16 %h1, 0x3C00; cvt.rn.f16.u32 %h2, %r1; mov.b32 %r2, {{%h1, %h2}};
    {}
    ret;
}}
"""


def test_vectors_are_element_by_element() -> None:
    memory = np.full(8, 0.5, np.float32)
    body = "red.global.add.v4.f32 [%rd1+16], {%f1, %f2, %f3, %f4};"
    Module(VECTOR.format(body))["k"].launch(1, 32, [memory])
    assert memory.tolist() == [0.5] * 4 + [496.5, 992.5, 32.5, 0.5]
    halves = np.full(8, 2, np.float16)
    body = "red.global.max.noftz.v2.f16x2 [%rd1+8], {%r2, %r2}; "
    body += "red.global.min.noftz.v2.f16 [%rd1], {%h1, %h2};"
    Module(VECTOR.format(body))["k"].launch(1, 32, [halves])
    assert halves.tolist() == [1, 0, 2, 2, 2, 31, 2, 31]
    body = "red.global.add.noftz.v2.f16 [%rd1], {%h1, %h2};"
    Module(VECTOR.format(body))["k"].launch(1, 4, [halves])
    assert halves.tolist() == [5, 6, 2, 2, 2, 31, 2, 31]
    with pytest.raises(EmulatorError, match="red needs 4 registers"):
        Module(VECTOR.format("red.global.add.v4.f32 [%rd1], {%f1, %f2};"))["k"].launch(
            1, 32, [memory])  # fmt: skip
    with pytest.raises(EmulatorError, match="misaligned"):
        Module(VECTOR.format("red.global.add.v4.f32 [%rd1+8], {%f1, %f2, %f3, %f4};"))["k"].launch(
            1, 32, [memory])  # fmt: skip


WIDE = """.version 9.0\n.target sm_90a\n.address_size 64
.visible .entry k(.param .u64 memory)
{{
    .reg .b32 %r<16>; .reg .b64 %rd<9>; .reg .b128 %q<5>;
    ld.param.u64 %rd1, [memory]; mov.u32 %r1, %tid.x; cvt.u64.u32 %rd2, %r1;
    mov.u64 %rd3, 7; mov.b128 %q1, {{%rd2, %rd3}}; mov.u64 %rd4, 3; mov.b128 %q2, {{%rd4, {high}}};
    {body}
    mov.b128 {{%rd5, %rd6}}, %q3; mul.wide.u32 %rd7, %r1, 16; add.u64 %rd1, %rd1, %rd7;
    st.global.v2.u64 [%rd1+16], {{%rd5, %rd6}};
    ret;
}}
"""


@pytest.mark.parametrize(("high", "changes"), [("%rd3", True), ("%rd4", False)])
def test_128_bits_are_equal_in_both_halves(high: str, changes: bool) -> None:
    memory = np.zeros((5, 2), np.uint64)
    memory[0] = 3, 7
    text = WIDE.format(high=high, body="atom.global.cas.b128 %q3, [%rd1], %q2, %q1;")
    Module(text)["k"].launch(1, 4, [memory])
    assert memory[0].tolist() == ([0, 7] if changes else [3, 7])
    assert memory[1:].tolist() == [[3, 7], *[[0, 7] if changes else [3, 7]] * 3]
    memory[0] = 3, 9
    text = WIDE.format(high=high, body="atom.global.exch.b128 %q3, [%rd1], %q1;")
    Module(text)["k"].launch(1, 4, [memory])
    assert memory.tolist() == [[3, 7], [3, 9], [0, 7], [1, 7], [2, 7]]
