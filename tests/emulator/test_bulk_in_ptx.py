"""Bulk copies in PTX: what arrives where, what is combined, and what the copy engine refuses.

In a cluster of two blocks each thread of the second warp may ask for a copy of its own. Source: PTX
ISA 9.7.9.25.4, 9.7.9.27.2, 9.7.13.7.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.errors import EmulatorError, Fault, MbarrierFault
from phasebit.emulator.ops import bulk
from phasebit.launching.launch import Module

KERNEL = """.version 8.7\n.target sm_90a\n.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{
    .shared .align 128 .b8 tile[1024]; .shared .align 8 .b64 full; .shared .align 8 .b64 other;
    .reg .b16 %h<4>; .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<9>; .reg .b64 %d<9>;
    ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank; mov.u32 %r3, tile; mov.u32 %r4, full;
    xor.b32 %r5, %r2, 1; setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r1, 37;
    setp.eq.u32 %p3, %r2, 0;
    mapa.shared::cluster.u32 %r6, %r3, %r5; mapa.shared::cluster.u32 %r7, %r4, %r5;
    shl.b32 %r8, %r1, 4; add.u32 %r9, %r3, %r8; cvt.u64.u32 %rd3, %r8;
    mul.wide.u32 %rd4, %r2, 1024; add.u64 %rd1, %rd1, %rd4; add.u64 %rd2, %rd2, %rd4;
    add.u64 %rd5, %rd1, %rd3; add.u64 %rd6, %rd2, %rd3;
    mov.b64 %rd7, 0; st.shared.v2.u64 [%r9], {%rd7, %rd7};
    @%p1 mbarrier.init.shared::cta.b64 [full], 1; @%p1 mbarrier.init.shared::cta.b64 [other], 1;
    @%p1 fence.mbarrier_init.release.cluster; fence.proxy.async;
    MEET
    BODY
    MEET
    ld.shared.v2.u64 {%rd8, %rd9}, [%r9]; AFTER
    ret;
}
"""
MEET = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
OUT = "st.global.v2.u64 [%rd6], {%rd8, %rd9};"
WAIT = "L: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p4, [full], 0; @!%p4 bra L;"
EXPECT = "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [full], {};"
GIVEN = np.arange(512, dtype=np.uint32)
"""What is in global memory: 1024 bytes of each of the two blocks."""


def run(
    body: str, given: np.ndarray = GIVEN, after: str = OUT, schedule: str = "late", **more: Any
) -> np.ndarray:
    """What each block has in its tile afterwards, or in the output."""
    text = KERNEL.replace("BODY", body).replace("AFTER", after).replace("MEET", MEET)
    out = np.zeros_like(given)
    found = Module(text)["k"].launch(2, 64, [given, out], cluster=2, schedule=schedule, **more)
    assert not found.findings, found.findings[0]
    return out.reshape(2, -1)


LOAD = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
SCHEDULES = ("eager", "late", "random")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_each_thread_that_asks_gets_its_bytes(schedule: str) -> None:
    """Threads 0 to 63 ask for 16 bytes each; one barrier counts all 1024."""
    body = EXPECT.format(1024) + f"{LOAD} [%r9], [%rd5], 16, [full];" + WAIT
    assert np.array_equal(run(body, schedule=schedule), GIVEN.reshape(2, -1))


def test_one_thread_asks_for_all() -> None:
    body = EXPECT.format(1008) + f"@%p2 {LOAD} [tile], [%rd1], 1008, [full];" + WAIT
    wanted = GIVEN.reshape(2, -1).copy()
    wanted[:, 252:] = 0
    assert np.array_equal(run(body), wanted)


def test_a_copy_to_each_block_of_a_mask() -> None:
    """Block 0 sends its 512 bytes to both; the barriers at the same place count them."""
    load = f"{LOAD}.multicast::cluster [tile+256], [%rd1], 512, [full], "
    body = EXPECT.format(512) + "setp.eq.and.u32 %p5, %r1, 37, %p3;"
    both = run(body + f"@%p5 {load} 3;" + WAIT)
    assert (both[:, 64:192] == GIVEN[:128]).all() and not both[:, :64].any()
    assert not both[:, 192:].any()
    body = "setp.eq.u32 %p6, %r2, 1; and.pred %p6, %p6, %p1; @%p6 mbarrier.arrive.expect_tx.shared."
    body += "b64 _, [full], 512; setp.eq.and.u32 %p5, %r1, 37, %p3;"
    body += f"@%p5 {load} 2; @%p3 bra M; {WAIT} M:"
    one = run(body)
    assert (one[1, 64:192] == GIVEN[:128]).all() and not one[0].any()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_from_block_to_block(schedule: str) -> None:
    """Each sends bytes 0 to 255 of its tile to bytes 512 to 767 of the other."""
    body = "ld.global.v2.u64 {%rd10, %rd11}, [%rd5]; st.shared.v2.u64 [%r9], {%rd10, %rd11};"
    body += f"fence.proxy.async; {MEET} add.u32 %r10, %r6, 512;" + EXPECT.format(256)
    body += "@%p2 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r10], "
    body += "[tile], 256, [%r7];" + WAIT
    wanted = GIVEN.reshape(2, -1).copy()
    wanted[:, 128:192] = wanted[::-1, :64].copy()
    assert np.array_equal(run(body, schedule=schedule), wanted)


FILL = "ld.global.v2.u64 {%rd10, %rd11}, [%rd5]; st.shared.v2.u64 [%r9], {%rd10, %rd11};"
FILL += "fence.proxy.async; bar.sync 0;"
STORE = "cp.async.bulk.global.shared::cta.bulk_group"
DONE = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_stores_of_each_thread(schedule: str) -> None:
    body = FILL + f"{STORE} [%rd6], [%r9], 16; {DONE}"
    assert np.array_equal(run(body, after="", schedule=schedule), GIVEN.reshape(2, -1))


def test_what_is_stored_twice_is_stored_once_by_a_warp_that_says_the_same() -> None:
    body = FILL + f"setp.lt.u32 %p5, %r1, 32; @%p5 {STORE} [%rd2], [tile], 1024; {DONE}"
    assert np.array_equal(run(body, after=""), GIVEN.reshape(2, -1))


REDUCE = "cp.reduce.async.bulk.global.shared::cta.bulk_group"
OPERATIONS = {
    ("add", "u32"): lambda a, b: a + b, ("min", "u32"): np.minimum, ("max", "s32"): np.maximum,
    ("and", "b32"): np.bitwise_and, ("or", "b32"): np.bitwise_or, ("xor", "b32"): np.bitwise_xor,
    ("inc", "u32"): lambda a, b: np.where(a >= b, 0, a + 1),
    ("dec", "u32"): lambda a, b: np.where((a == 0) | (a > b), b, a - 1),
    ("add", "u64"): lambda a, b: a + b, ("min", "s64"): np.minimum,
    ("add", "f32"): lambda a, b: a + b, ("add.noftz", "f16"): lambda a, b: a + b,
}  # fmt: skip
FORMS = {"u32": "u4", "s32": "i4", "b32": "u4", "u64": "u8", "s64": "i8", "f32": "f4", "f16": "f2"}


def numbers(kind: str) -> np.ndarray:
    rng = np.random.default_rng(7)
    form = np.dtype(FORMS[kind])
    many = 2048 // form.itemsize
    if form.kind == "f":
        return rng.integers(-9, 9, many).astype(form)
    return rng.integers(0, 9, many).astype(form) - form.type(4 if form.kind == "i" else 0)


@pytest.mark.parametrize(("op", "kind"), OPERATIONS)
def test_combined_with_what_is_there(op: str, kind: str) -> None:
    given = numbers(kind)
    reduce = f"{REDUCE}.{op}.{kind}"
    body = FILL + f"@%p2 {STORE} [%rd2], [tile+16], 1008; {DONE} @%p2 {reduce} [%rd2], [tile], 512;"
    found = run(body + DONE, given, after="")
    each = 16 // given.itemsize
    for block, row in enumerate(given.reshape(2, -1)):
        wanted = np.zeros_like(row)
        wanted[:-each] = row[each:]
        half = len(row) // 2
        wanted[:half] = OPERATIONS[op, kind](wanted[:half], row[:half])
        assert np.array_equal(found[block], wanted), block


def test_each_thread_of_a_warp_combines_by_itself() -> None:
    """Unlike a store: three threads that say the same add three times."""
    body = FILL + "setp.lt.u32 %p5, %r1, 3;"
    body += f"@%p5 {REDUCE}.add.u32 [%rd2], [tile], 32; {DONE}"
    found = run(body, after="")
    assert np.array_equal(found[:, :8], 3 * GIVEN.reshape(2, -1)[:, :8]) and not found[:, 8:].any()


def test_combined_in_the_other_block() -> None:
    body = (
        FILL + MEET + EXPECT.format(64) + "@%p2 cp.reduce.async.bulk.shared::cluster.shared::cta."
    )
    body += "mbarrier::complete_tx::bytes.add.u32 [%r6], [tile+512], 64, [%r7];" + WAIT
    found = run(body)
    wanted = GIVEN.reshape(2, -1).copy()
    wanted[:, :16] += wanted[::-1, 128:144].copy()
    assert np.array_equal(found, wanted)


SEND = "st.async.shared::cluster.mbarrier::complete_tx::bytes"


@pytest.mark.parametrize(("send", "each", "words"), [
    (f"{SEND}.b32 [%r10], %r1, [%r7]", 4, 1), (f"{SEND}.v2.b32 [%r10], {{%r1, %r2}}, [%r7]", 8, 2),
    (f"{SEND}.v4.b32 [%r10], {{%r1, %r2, %r1, %r2}}, [%r7]", 16, 4),
    (f"{SEND}.b64 [%r10], %rd12, [%r7]", 8, 2),
])  # fmt: skip
def test_values_sent_to_the_other_block(send: str, each: int, words: int) -> None:
    body = f"mov.b64 %rd12, {{%r1, %r2}}; mul.lo.u32 %r10, %r1, {each}; add.u32 %r10, %r6, %r10;"
    found = run(body + EXPECT.format(64 * each) + f"{send};" + WAIT)
    for block, row in enumerate(found):
        for tid in range(64):
            sent = [tid, 1 - block, tid, 1 - block][:words]
            assert row[tid * words : (tid + 1) * words].tolist() == sent
        assert not row[64 * words :].any()


@pytest.mark.parametrize(("op", "kind", "wanted"), [
    ("add", "u32", 64 * 7), ("max", "u32", 7), ("or", "b32", 7), ("inc", "u32", 0),
    ("add", "u64", 64 * 7), ("min", "s32", 0), ("xor", "b32", 0),
])  # fmt: skip
def test_values_combined_in_the_other_block(op: str, kind: str, wanted: int) -> None:
    size = int(kind[1:]) // 8
    value = "%r10" if size == 4 else "%rd12"
    body = f"mov.u32 %r10, 7; mov.u64 %rd12, 7; {EXPECT.format(64 * size)} "
    body += "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes."
    found = run(body + f"{op}.{kind} [%r6], {value}, [%r7];" + WAIT)
    assert found[:, 0].tolist() == [wanted, wanted] and not found[:, 1:].any()


WHO = r"cp\.async\.bulk by thread 37 of block [01]"
ONE = "@%p2 "
ELSEWHERE = r"mbarrier full of block [01] is not in the block that is copied to"
ODD = "the {} address 0x[0-9a-f]+ is no multiple of 16 bytes"
REFUSED = [
    (f"{LOAD} [%r9+8], [%rd5], 16, [full]", ODD.format("shared")),
    (f"{LOAD} [%r9], [%rd5+8], 16, [full]", ODD.format("global")),
    (f"{LOAD} [%r9], [%rd5], 24, [full]", "the size, 24 bytes, is no multiple of 16"),
    (f"{LOAD} [%r9], [%rd5], 16, [%r7]", ELSEWHERE),
    (f"{LOAD} [%r6], [%rd5], 16, [full]", ELSEWHERE),
    (f"{LOAD}.multicast::cluster [%r9], [%rd5], 16, [full], 4",
     "the mask 0b100 must name blocks of a cluster of 2"),
    (f"{LOAD}.multicast::cluster [%r9], [%rd5], 16, [full], 0",
     "the mask 0b0 must name blocks of a cluster of 2"),
    (f"{LOAD}.multicast::cluster [%r9], [%rd5], 8, [full], 1",
     "the size, 8 bytes, is no multiple of 16"),
    (f"{STORE} [%rd6+4], [%r9], 16", ODD.format("global")),
    (f"{STORE} [%rd6], [%r9+4], 16", ODD.format("shared")),
    (f"{STORE} [%rd6], [%r9], 20", "the size, 20 bytes, is no multiple of 16"),
    (f"{REDUCE}.add.u32 [%rd6], [%r9], 20", "the size, 20 bytes, is no multiple of 16"),
    ("cp.async.bulk.prefetch.L2.global [%rd5], 20", "the size, 20 bytes, is no multiple of 16"),
    ("cp.async.bulk.prefetch.L2.global [%rd5+8], 16",
     ODD.format("global")),
    ("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r6], [%r9], 16, "
     "[full]", ELSEWHERE),
    (f"{SEND}.v2.b32 [%r6+4], {{%r1, %r2}}, [%r7]",
     "the address 0x[0-9a-f]+ is no multiple of 8"),
    (f"{SEND}.b32 [%r6], %r1, [full]", ELSEWHERE),
]  # fmt: skip


@pytest.mark.parametrize(("call", "why"), REFUSED, ids=[each[0] for each in REFUSED])
def test_what_the_copy_engine_refuses(call: str, why: str) -> None:
    with pytest.raises(Fault) as refused:
        run(f"{ONE}{call};")
    assert re.match(f"{WHO}: {why}.*; .* at PTX line 20$", str(refused.value)), refused.value


def test_a_prefetch_changes_nothing() -> None:
    assert not run("cp.async.bulk.prefetch.L2.global [%rd5], 16;").any()
    with pytest.raises(EmulatorError, match="invalid global access by thread 37"):
        run("@%p2 cp.async.bulk.prefetch.L2.global [%rd5], 4096;")


# -- addresses and masks ---------------------------------------------------------------------


def test_addresses_in_other_blocks() -> None:
    assert bulk.at_rank(0x0200_0123, 0) == 0x123 and bulk.at_rank(0x123, 5) == 0x0500_0123
    assert [bulk.counting(0x0100_0000, rank, 1) for rank in range(4)] == [0, 1, 2, 3]
    assert [bulk.counting(0x0100_0000, rank, 2) for rank in range(4)] == [1, 1, 3, 3]
    assert [bulk.counting(0x0200_0000, rank, 2) for rank in range(4)] == [0, 0, 2, 2]


def test_a_block_waits_at_its_own_barriers_only() -> None:
    """Some threads have come to their own, the others to their neighbour's."""
    body = "setp.lt.u32 %p5, %r1, 3; selp.u32 %r10, %r4, %r7, %p5; "
    body += "L: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r10], 0; @!%p4 bra L;"
    with pytest.raises(MbarrierFault) as refused:
        run(body)
    said = r"^thread \d+ of block [01] waits at mbarrier full of block [01]: a block can wait at "
    assert re.match(said + "its own barriers only; .* at PTX line 20", str(refused.value))


def test_bytes_are_announced_by_each_thread() -> None:
    """Three expect 16 each before the copy of one brings 48; the phase waits for all of them."""
    body = (
        "setp.lt.u32 %p5, %r1, 3; @%p5 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [full], 16;"
    )
    body += " bar.sync 0; @%p1 mbarrier.arrive.shared.b64 _, [full]; "
    body += f"@%p2 {LOAD} [tile], [%rd1], 48, [full];" + WAIT
    wanted = GIVEN.reshape(2, -1).copy()
    wanted[:, 12:] = 0
    assert np.array_equal(run(body), wanted)
