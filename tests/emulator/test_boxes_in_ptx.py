"""Boxes of tensors in PTX: load, store, reduce, four rows, several blocks; and what is refused.

PTX ISA 9.7.9.27.1. The tensor is 16 × 32 numbers of 32 bits, the box 4 rows of 8.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import phasebit as pb
from phasebit.emulator import observing
from phasebit.emulator.errors import Fault
from phasebit.launching.launch import Module

KERNEL = """.version 8.7\n.target sm_100a\n.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out)
{
    .reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<20>; .reg .b64 %rd<9>;
    .shared .align 128 .b8 tile[256]; .shared .align 8 .b64 full; .local .align 64 .b8 own[128];
    mov.u64 %rd1, map; cvta.param.u64 %rd1, %rd1; ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank; setp.eq.u32 %p1, %r1, 0;
    setp.eq.u32 %p2, %r1, 5; mov.u32 %r3, tile; shl.b32 %r4, %r1, 2; add.u32 %r5, %r3, %r4;
    mul.wide.u32 %rd3, %r1, 4; mul.wide.u32 %rd4, %r2, 256; add.u64 %rd3, %rd3, %rd4;
    add.u64 %rd3, %rd2, %rd3; add.u32 %r6, %r1, 1; st.shared.u32 [%r5], %r6;
    mov.u32 %r7, full; xor.b32 %r8, %r2, 1; mapa.shared::cluster.u32 %r9, %r7, %r8;
    st.shared.u32 [%r5+128], %r6;
    @%p1 mbarrier.init.shared::cta.b64 [full], 1;
    @%p1 fence.mbarrier_init.release.cluster; fence.proxy.async;
    MEET
    BODY
    MEET
    ld.shared.u32 %r10, [%r5]; AFTER
    ret;
}
"""
MEET = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
OUT = "st.global.u32 [%rd3], %r10;"
WAIT = "L: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p4, [full], 0; @!%p4 bra L;"
EXPECT = "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [full], {};"
LOAD = "cp.async.bulk.tensor.{}.shared::cluster.global{}.mbarrier::complete_tx::bytes{} [tile], "
STORE = "cp.async.bulk.tensor.{}.global.shared::cta{}.bulk_group "
REDUCE = "cp.reduce.async.bulk.tensor.{}.global.shared::cta.{}.tile.bulk_group "
DONE = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
ROWS, COLUMNS = 16, 32


def tensor() -> np.ndarray:
    return np.arange(ROWS * COLUMNS, dtype=np.uint32).reshape(ROWS, COLUMNS) + 1000


def run(
    body: str, given: Any, after: str = OUT, blocks: int = 1, schedule: str = "late"
) -> np.ndarray:
    """The first 32 words of each block's tile."""
    out = np.zeros(64 * blocks, np.uint32)
    text = KERNEL.replace("BODY", body).replace("AFTER", after).replace("MEET", MEET)
    found = Module(text)["k"].launch(blocks, 32, [given, out], cluster=blocks, schedule=schedule)
    assert not found.findings, found.findings[0]
    return out.reshape(blocks, 64)[:, :32]


def box(data: np.ndarray, x: int, y: int, rows: int = 4, columns: int = 8) -> np.ndarray:
    """What lies outside is zero."""
    wide = np.zeros((ROWS + 64, COLUMNS + 64), data.dtype)
    wide[32 : 32 + ROWS, 32 : 32 + COLUMNS] = data
    return wide[32 + y : 32 + y + rows, 32 + x : 32 + x + columns]


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize(("x", "y"), [(4, 3), (28, 14), (-4, -1)])
def test_a_box_comes_to_shared_memory(x: int, y: int, schedule: str) -> None:
    """One thread asks; where all of a warp do, each brings it, and the barrier counts all."""
    data = tensor()
    load = LOAD.format("2d", ".tile", "") + f"[%rd1, {{{x}, {y}}}], [full];"
    found = run(EXPECT.format(128) + f"@%p2 {load}" + WAIT, pb.TensorMap(data, (8, 4)),
                schedule=schedule)  # fmt: skip
    assert np.array_equal(found.reshape(4, 8), box(data, x, y))


def test_four_rows_that_lie_anywhere() -> None:
    data = tensor()
    load = LOAD.format("2d", ".tile::gather4", "") + "[%rd1, {8, 9, 3, 15, 0}], [full];"
    found = run(EXPECT.format(128) + f"@%p2 {load}" + WAIT, pb.TensorMap(data, (8, 1)))
    assert np.array_equal(found.reshape(4, 8), data[[9, 3, 15, 0], 8:16])
    store = STORE.format("2d", ".tile::scatter4") + "[%rd1, {8, 9, 3, 15, 0}], [tile];"
    wanted = data.copy()
    wanted[[9, 3, 15, 0], 8:16] = np.arange(1, 33).reshape(4, 8)
    run(f"bar.sync 0; @%p2 {store} {DONE}", pb.TensorMap(data, (8, 1)), after="")
    assert np.array_equal(data, wanted)


@pytest.mark.parametrize("mask", [1, 2, 3])
def test_a_box_for_the_blocks_of_a_mask(mask: int) -> None:
    data = tensor()
    load = LOAD.format("2d", ".tile", ".multicast::cluster") + f"[%rd1, {{0, 2}}], [full], {mask};"
    expect = f"mov.u32 %r11, {mask}; shr.u32 %r11, %r11, %r2; and.b32 %r11, %r11, 1; "
    expect += "setp.eq.u32 %p5, %r11, 1; and.pred %p6, %p5, %p1; @%p6 mbarrier.arrive.expect_tx."
    expect += "shared.b64 _, [full], 128; setp.eq.and.u32 %p3, %r2, 0, %p2; "
    found = run(
        f"{expect} @%p3 {load} @!%p5 bra M; {WAIT} M:", pb.TensorMap(data, (8, 4)), blocks=2
    )
    for block in (0, 1):
        here = mask >> block & 1
        wanted = box(data, 0, 2).ravel() if here else np.arange(1, 33)
        assert np.array_equal(found[block], wanted), block


@pytest.mark.parametrize(("x", "y"), [(4, 3), (28, 14)])
def test_a_box_goes_to_the_tensor(x: int, y: int) -> None:
    data = tensor()
    wanted = data.copy()
    tile = np.arange(1, 33, dtype=np.uint32).reshape(4, 8)
    part = wanted[y : y + 4, x : x + 8]
    part[:] = tile[: part.shape[0], : part.shape[1]]
    store = STORE.format("2d", ".tile") + f"[%rd1, {{{x}, {y}}}], [tile];"
    run(f"bar.sync 0; @%p2 {store} {DONE}", pb.TensorMap(data, (8, 4)), after="")
    assert np.array_equal(data, wanted)


def test_what_a_warp_stores_together_is_stored_once_and_added_by_each() -> None:
    data = tensor()
    before = data.copy()
    store = STORE.format("2d", ".tile") + "[%rd1, {0, 0}], [tile];"
    run(f"bar.sync 0; {store} {DONE}", pb.TensorMap(data, (8, 4)), after="")
    assert np.array_equal(data[:4, :8].ravel(), np.arange(1, 33))
    add = REDUCE.format("2d", "add") + "[%rd1, {8, 4}], [tile];"
    run(f"bar.sync 0; setp.lt.u32 %p3, %r1, 3; @%p3 {add} {DONE}", pb.TensorMap(data, (8, 4)),
        after="")  # fmt: skip
    added = before[4:8, 8:16] + 3 * np.arange(1, 33, dtype=np.uint32).reshape(4, 8)
    assert np.array_equal(data[4:8, 8:16], added)
    assert np.array_equal(data[4:], np.where(data[4:] != before[4:], data[4:], before[4:]))


@pytest.mark.parametrize(("op", "apply"), [
    ("min", np.minimum), ("max", np.maximum), ("xor", np.bitwise_xor), ("and", np.bitwise_and),
    ("or", np.bitwise_or), ("inc", lambda a, b: np.where(a >= b, 0, a + 1)),
    ("dec", lambda a, b: np.where((a == 0) | (a > b), b, a - 1)),
])  # fmt: skip
def test_a_box_is_combined_with_the_tensor(op: str, apply: Any) -> None:
    data = (tensor() % 23).astype(np.uint32)
    wanted = data.copy()
    tile = np.arange(1, 33, dtype=np.uint32).reshape(4, 8)
    wanted[1:5, 4:12] = apply(wanted[1:5, 4:12], tile)
    reduce = REDUCE.format("2d", op) + "[%rd1, {4, 1}], [tile];"
    run(f"bar.sync 0; @%p2 {reduce} {DONE}", pb.TensorMap(data, (8, 4)), after="")
    assert np.array_equal(data, wanted)


WHO = "cp.async.bulk by thread 5 of block 0: "
TAKE = LOAD.format("2d", ".tile", "")
AT = "[%rd1, {0, 0}], [full]"
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("mov.u64 %rd1, tile; cvta.shared.u64 %rd1, %rd1; @%p2 " + TAKE + AT, {},
     "the tensor map lies in shared memory; it must be a parameter, or in global or constant "
     "memory"),
    ("mov.u64 %rd1, own; cvta.local.u64 %rd1, %rd1; @%p2 " + TAKE + AT, {},
     "the tensor map lies in local memory, a copy of the thread's own, which the copy engine "
     "cannot read: declare the parameter const __grid_constant__ CUtensorMap"),
    ("add.u64 %rd1, %rd1, 32; @%p2 " + TAKE + AT, {},
     "the tensor map at 0x[0-9a-f]+ is no multiple of 64"),
    ("mov.u64 %rd1, %rd2; @%p2 " + TAKE + AT, {},
     r"there is no tensor map at 0x[0-9a-f]+: pass a pb\.TensorMap, or the result of "
     "cuTensorMapEncodeTiled, as a const __grid_constant__ parameter"),
    ("@%p2 " + LOAD.format("3d", ".tile", "") + "[%rd1, {0, 0, 0}], [full]", {},
     "the tensor map has 2 dimensions, not 3"),
    ("@%p2 " + LOAD.format("1d", ".tile", "") + "[%rd1, {0}], [full]", {},
     "the tensor map has 2 dimensions, not 1"),
    ("@%p2 " + TAKE + "[%rd1, {3, 0}], [full]", {},
     "the box begins at element 3 of the innermost dimension, byte 12; this must be a multiple of "
     "16 bytes"),
    ("@%p2 " + TAKE.replace("[tile]", "[tile+64]") + AT, {},
     "the shared address 0x[0-9a-f]+ is no multiple of 128 bytes"),
    ("@%p2 " + LOAD.format("2d", ".tile::gather4", "") + "[%rd1, {0, 1, 2, 3, 4}], [full]", {},
     r"\.tile::gather4 copies four rows, each a box of its own, so the tensor map's box has 1 row, "
     "not 4"),
    ("@%p2 " + STORE.format("2d", ".tile") + "[%rd1, {-4, 0}], [tile]", {},
     "a store's box may reach over the end of the tensor, but it begins at .-4, 0.: no coordinate "
     "may be negative"),
    ("@%p2 " + REDUCE.format("2d", "add") + "[%rd1, {0, -1}], [tile]", {},
     "a store's box may reach over the end of the tensor, but it begins at .0, -1.: no coordinate "
     "may be negative"),
    ("@%p2 " + REDUCE.format("2d", "add") + "[%rd1, {0, 0}], [tile]", {"form": np.int64},
     r"the copy engine has no \.add of s64"),
    ("@%p2 " + REDUCE.format("2d", "inc") + "[%rd1, {0, 0}], [tile]", {"form": np.int32},
     r"the copy engine has no \.inc of s32"),
    ("@%p2 " + REDUCE.format("2d", "xor") + "[%rd1, {0, 0}], [tile]", {"form": np.float32},
     r"the copy engine has no \.xor of f32"),
    ("@%p2 " + TAKE + AT, {"dims": (32, 64)},
     "the box at .0, 0. reaches .*"),
    ("@%p2 " + TAKE + "[%rd1, {0, 0}], [%r9]", {"blocks": 2},
     "mbarrier full of block 1 is not in the block that is copied to"),
    ("@%p2 " + LOAD.format("4d", ".im2col", "") + "[%rd1, {0, 0, 0, 0}], [full], {%h1, %h1}", {},
     "the tensor map has 2 dimensions, not 4"),
    ("@%p2 cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd1, {2, 0}]", {},
     "the box begins at element 2 of the innermost dimension, byte 8; this must be a multiple of "
     "16 bytes"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "how", "why"), REFUSED, ids=[why for _, _, why in REFUSED])
def test_what_is_refused(body: str, how: dict[str, Any], why: str) -> None:
    data = tensor().astype(how.get("form", np.uint32))
    each = 4 if data.itemsize == 8 else 8
    more = {"dims": how["dims"]} if "dims" in how else {}
    if more:
        body = body.replace("{0, 0}", "{0, 30}")
        why = "the box at .0, 30. reaches outside of the tensor's memory: do dims .32, 64. and "
        why += "strides .128.* of the tensor map fit the allocation"
    with pytest.raises(Fault) as refused:
        run(f"{body};", pb.TensorMap(data, (each, 4), **more), blocks=how.get("blocks", 1))
    assert re.match(f"{WHO}{why}", str(refused.value)) or (
        "block 1 is not" in why and "is not in the block that is copied to" in str(refused.value)
    ), refused.value
    assert str(refused.value).endswith("at PTX line 18")


def test_a_prefetch_changes_nothing() -> None:
    data = tensor()
    body = "@%p2 cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd1, {4, 0}];"
    assert np.array_equal(run(body, pb.TensorMap(data, (8, 4)))[0], np.arange(1, 33))


def test_who_reads_a_map_is_told() -> None:
    """Once for each copy, with the place of the map, which is the kernel's parameter."""
    told: list[int] = []

    class Maps:
        def reads_map(self, g: Any, where: int, access: int) -> None:
            told.append(where)

    body = EXPECT.format(128) + f"@%p2 {TAKE} {AT}; "
    body += "@%p2 cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd1, {4, 0}]; " + WAIT
    with observing(Maps()):
        run(body, pb.TensorMap(tensor(), (8, 4)))
    assert len(told) == 2 and told[0] == told[1]
