"""Descriptors that the instruction takes and that are wrong: what is said of them, and by whom.

Some no checker can see: the bytes are there, were written, and are only not those that were meant.
They stand here too, as silent, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import phasebit as pb
from phasebit.emulator import Run
from phasebit.emulator.errors import Fault, OutOfBounds
from phasebit.emulator.numbers import swizzle
from phasebit.emulator.tensor_core import instruction_descriptors, scaled_descriptors
from phasebit.emulator.tensor_core.matrix_descriptors import decode, encode
from tests.emulator.tensor_kernels import Gemm
from tests.emulator.tensor_ptx import frame, run

Change = Callable[[Gemm], None]


def matrix(which: int, **fields: Any) -> Change:
    """Other fields in the matrix descriptor of A (0) or B (1)."""

    def change(gemm: Gemm) -> None:
        new = replace(decode(gemm.descriptors[which], "tcgen05"), **fields)
        gemm.descriptors[which] = encode(
            new.start, new.leading, new.stride, new.swizzle, "tcgen05", new.base_offset
        )

    return change


def instruction(low: int, width: int, value: int) -> Change:
    """Another number in the instruction descriptor."""

    def change(gemm: Gemm) -> None:
        gemm.idesc = gemm.idesc & ~((1 << width) - 1 << low) | value << low

    return change


def step(which: int, units: int) -> Change:
    """Another step along k, in units of 16 bytes."""

    def change(gemm: Gemm) -> None:
        gemm.step[which] = units

    return change


def product(change: Change | None, **more: Any) -> tuple[Run, bool]:
    """A product of f16, 128 × 64, two steps along k; the run, and whether its result is right."""
    gemm = Gemm("f16", 128, 64, "f16", "f16", "f32", steps=2, width=2, **more)
    if change is not None:
        change(gemm)
    random = np.random.default_rng(1)
    a, b = (random.integers(-3, 4, (rows, 32)).astype(np.float16) for rows in (128, 64))
    out, run = gemm.run(a.view(np.uint16), b.view(np.uint16))
    wanted = a.astype(np.float32) @ b.astype(np.float32).T
    return run, np.array_equal(out.view(np.float32)[:, :64], wanted)


B64 = {"pattern": swizzle.B64}

FOUND: dict[str, tuple[Change, dict[str, Any], str]] = {
    "another swizzle, rows too close": (matrix(0, swizzle=swizzle.NONE), B64, "wrong-descriptor"),
    "half the stride": (matrix(1, stride=256), B64, "wrong-descriptor"),
    "no leading distance": (matrix(0, leading=0), {}, "wrong-descriptor"),
    "a base offset": (matrix(0, base_offset=1), B64, "misaligned-tile"),
}

STOPPED: dict[str, tuple[Change, dict[str, Any], str]] = {
    "twice the stride": (matrix(1, stride=1024), B64, "up to byte"),
    "leading and stride exchanged": (matrix(0, leading=128, stride=2048), {}, "up to byte"),
    "twice N": (instruction(17, 6, 16), B64, "up to byte"),
    "N of another kind": (instruction(17, 6, 33), B64, "N = 264"),
    "M of another kind": (instruction(24, 5, 2), B64, "M = 32"),
    "a type of another kind": (instruction(7, 3, 2), B64, "type 2 of A"),
}

SILENT: dict[str, tuple[Change, dict[str, Any]]] = {
    # threads stored the tile, and what they meant by it they did not say
    "another swizzle, what threads stored": (matrix(0, swizzle=swizzle.B32), B64),
    # the same bytes, in another order
    "A along M": (instruction(15, 1, 1), B64),
    "B along N": (instruction(16, 1, 1), B64),
    # the same bytes, as other numbers; cells have no type
    "bf16 for f16": (instruction(7, 3, 1), B64),
    "D of f16": (instruction(4, 2, 0), B64),
    # a part of what was written: here D was filled before, else the rest would be uninitialised
    "half of M": (instruction(24, 5, 4), B64),
    "half of N": (instruction(17, 6, 4), B64),
    # another part of the same tile
    "k not advanced": (step(0, 0), B64),
    "k advanced in elements": (step(0, 1), B64),
}


def test_the_right_product() -> None:
    for more in ({}, B64):
        run, right = product(None, **more)
        assert right and not run.findings


@pytest.mark.parametrize("name", FOUND)
def test_9_7_16_4_1_what_cannot_be_meant_is_found(name: str) -> None:
    change, more, rule = FOUND[name]
    run, right = product(change, **more)
    assert [finding.rule for finding in run.findings] == [rule]
    assert not right


@pytest.mark.parametrize("name", STOPPED)
def test_9_7_16_4_what_cannot_be_done_ends_the_launch(name: str) -> None:
    change, more, says = STOPPED[name]
    with pytest.raises((Fault, OutOfBounds), match=says):
        product(change, **more)


@pytest.mark.parametrize("name", SILENT)
def test_only_a_test_of_results_sees(name: str) -> None:
    change, more = SILENT[name]
    run, right = product(change, **more)
    assert not run.findings and not right


# -- against the tensor map that brought the tile -----------------------------------------------

BROUGHT = frame("""
    .shared .align 1024 .b8 tile[32768]; .shared .align 8 .b64 full;
    .param_b
    @!%p2 bra FILL;
    mbarrier.init.shared::cta.b64 [full], 1; mbarrier.init.shared::cta.b64 [done], 1;
    fence.mbarrier_init.release.cluster;
FILL:
    mov.u32 %r6, 0x7f7f7f7f; add.u32 %r7, %r5, 128;
    tcgen05.st.sync.aligned.32x32b.x8.b32 [%r7], {%r6, %r6, %r6, %r6, %r6, %r6, %r6, %r6};
    tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    @!%p2 bra WAIT;
    mov.u32 %r8, tile; ld.param.u32 %r9, [bytes]; mov.u32 %r10, 0;
    mov.b64 %rd5, map; cvta.param.u64 %rd3, %rd5;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], %r9;
    cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes
        [%r8], [%rd3, {%r10, %r10}], [full];
LOOP:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], 0; @!%p3 bra LOOP;
    add.u32 %r11, %r4, 128; add.u32 %r12, %r4, 132; ld.param.u32 %r13, [idesc];
    ld.param.u64 %rd4, [desc]; shr.u32 %r14, %r8, 4; cvt.u64.u32 %rd6, %r14;
    add.u64 %rd4, %rd4, %rd6; setp.ne.u32 %p4, %r1, %r1;
    USE;
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [done], 0; @!%p3 bra WAIT;
    tcgen05.fence::after_thread_sync;
""", 256).replace(
    "kernel(.param .u64 input, .param .u64 out)",
    "kernel(.param .align 64 .b8 map[128], .param .u64 desc, .param .u32 idesc, .param .u32 bytes)",
).replace("ld.param.u64 %rd1, [input]; ld.param.u64 %rd2, [out];", "").replace(".param_b", "")
"""One tile comes by a tensor map, and is both A (128 rows) and B (its first 64)."""

MMA = "tcgen05.mma.cta_group::1.kind::{} [%r4], %rd4, %rd4, %r13, {} %p4"
PLAIN = {kind: MMA.format(kind, "") for kind in ("f16", "f8f6f4")}
SCALED = {
    kind: MMA.format(f"{kind}.block_scale.scale_vec::{size}", "[%r11], [%r12],")
    for kind, size in (("mxf8f6f4", "1X"), ("mxf4", "2X"))
}
COPY = "tcgen05.cp.cta_group::1.128x256b [%r4], %rd4"


def brought(
    use: str, idesc: int, data_type: str, elements: int, named: swizzle.Swizzle,
    mapped: str = "128B",
) -> list[str]:  # fmt: skip
    """The rules that are broken; a row of the tile has ``elements``, and 128 bytes in the end."""
    width = {"b4x16": 4, "b4x16_p64": 4, "b6x16_p32": 6, "f16": 16, "u8": 8}[data_type]
    pitch = elements * width // 8
    data = np.zeros((128, pitch), np.uint8)
    made = pb.TensorMap(
        data, data_type=data_type, box=(elements, 128), dims=(elements, 128), strides=(pitch,),
        swizzle=mapped,
    )  # fmt: skip
    descriptor = encode(0, 16, 1024, named, "tcgen05")
    text = BROUGHT.replace("USE", use)
    done = run(text, made, np.uint64(descriptor), np.uint32(idesc), np.uint32(made.nbytes))
    return [finding.rule for finding in done.findings]


F16 = instruction_descriptors.encode("f16", 128, 64, "f16", "f16", "f32")


@pytest.mark.parametrize(("use", "idesc"), [(PLAIN["f16"], F16), (COPY, 0)], ids=["mma", "cp"])
def test_9_7_16_4_1_the_map_says_another_swizzle(use: str, idesc: int) -> None:
    right = brought(use, idesc, "f16", 64, swizzle.B128)
    wrong = brought(use, idesc, "f16", 64, swizzle.B64)
    assert (right, wrong) == ([], ["wrong-descriptor"] * (2 if use != COPY else 1))


FP4, FP6, FP8 = (
    instruction_descriptors.encode("f8f6f4", 128, 64, kind, kind, "f32")
    for kind in ("e2m1", "e2m3", "e4m3")
)
MX4 = scaled_descriptors.encode("mxf4", 64, "e2m1", "e2m1")
MX8 = scaled_descriptors.encode("mxf8f6f4", 64, "e2m1", "e2m1")
LIE = {"b4x16": 256, "b4x16_p64": 128, "b6x16_p32": 128, "u8": 128}
"""Elements of a row of 128 bytes in shared memory."""


@pytest.mark.parametrize(("use", "idesc", "fitting"), [
    (PLAIN["f8f6f4"], FP4, {"b4x16_p64", "u8"}),
    (PLAIN["f8f6f4"], FP6, {"b6x16_p32", "u8"}),
    (PLAIN["f8f6f4"], FP8, {"b4x16", "u8"}),
    (SCALED["mxf8f6f4"], MX8, {"b4x16_p64", "u8"}),
    (SCALED["mxf4"], MX4, {"b4x16", "u8"}),
], ids=["fp4", "fp6", "fp8", "mxf8f6f4", "mxf4"])  # fmt: skip
def test_9_7_16_10_4_small_elements_lie_as_the_kind_reads_them(
    use: str, idesc: int, fitting: set[str]
) -> None:
    """``mxf4`` reads elements packed, the other kinds in slots of 16 bytes: so the map has to make
    them.  Of plain bytes nothing is known, and packed ones may be any.
    """
    found = {kind: brought(use, idesc, kind, LIE[kind], swizzle.B128) for kind in LIE}
    assert {kind for kind in LIE if not found[kind]} == fitting
    assert {rule for rules in found.values() for rule in rules} == {"wrong-descriptor"}
