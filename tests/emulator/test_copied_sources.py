"""Who may write global memory that an asynchronous copy reads: who knows that the copy is done.

That comes by the mbarrier of a bulk copy, or by the wait of the thread whose ``cp.async`` it is
(PTX ISA 9.7.9.25.3, 9.7.9.25.4). To come after the thread that has started the copy is not enough,
nor needed.
"""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.launching.launch import Module

TEXT = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 data, .param .u64 out)
{
    .reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    .shared .align 16 .b32 tile[64]; .shared .align 8 .b64 full;
    ld.param.u64 %rd1, [data]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x;
    setp.eq.u32 %p1, %r1, 40; mul.wide.u32 %rd3, %r1, 4; add.u64 %rd4, %rd1, %rd3;
    add.u64 %rd2, %rd2, %rd3; mov.u32 %r2, tile; shl.b32 %r3, %r1, 2; add.u32 %r2, %r2, %r3;
    @%p1 mbarrier.init.shared::cta.b64 [full], COUNT; @%p1 fence.proxy.async; bar.sync 0;
    COPY
    BETWEEN
    st.global.u32 [%rd4], 7;
W:  mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], 0; @!%p3 bra W;
    bar.sync 0;
    ld.shared.u32 %r4, [%r2]; st.global.u32 [%rd2], %r4;
    ret;
}
"""
BULK = """
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 256;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 256,
        [full];
"""
THREADS = """
    xor.b32 %r5, %r1, 63; mul.wide.u32 %rd5, %r5, 4; add.u64 %rd5, %rd1, %rd5; mov.u32 %r6, tile;
    mad.lo.u32 %r6, %r5, 4, %r6;
    cp.async.ca.shared.global [%r6], [%rd5], 4;
    cp.async.mbarrier.arrive.noinc.shared::cta.b64 [full];
"""
WAIT = "V: mbarrier.try_wait.parity.shared::cta.b64 %p4, [full], 0; @!%p4 bra V;"


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize(("copy", "between", "ordered"), [
    (BULK, WAIT, True), (BULK, "bar.sync 0;", False), (BULK, "", False),
    (THREADS, WAIT, True), (THREADS, "bar.sync 0;", False),
    (THREADS, "cp.async.wait_all; bar.sync 0;", True),
])  # fmt: skip
def test_9_7_9_25_the_source_of_a_copy_is_written(
    copy: str, between: str, ordered: bool, schedule: str
) -> None:
    text = TEXT.replace("COPY", copy).replace("BETWEEN", between)
    text = text.replace("COUNT", "1" if copy is BULK else "64")
    data, out = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    run = Module(text)["k"].launch(1, 64, [data, out], schedule=schedule)
    rules = {each.rule for each in run.findings}
    assert rules == (set() if ordered else {"race"})
    if ordered:
        assert out.tolist() == list(range(64))
    elif schedule == "late":
        assert out.tolist() == [7] * 64, "the copy had time"


def test_of_two_copies_the_earlier_is_remembered() -> None:
    """Both read one word; the writer knows of the later one only."""
    more = """
    setp.lt.u32 %p5, %r1, 32; @!%p5 bra READ;
    xor.b32 %r5, %r1, 31; mul.wide.u32 %rd5, %r5, 4; add.u64 %rd5, %rd1, %rd5;
    cp.async.ca.shared.global [%r2+128], [%rd5], 4;
READ:
    """
    text = TEXT.replace("COPY", BULK.replace("256", "128") + more).replace("COUNT", "1")
    data, out = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    for between, found in ((WAIT, {"race"}), (WAIT + "cp.async.wait_all; bar.sync 0;", set())):
        run = Module(text.replace("BETWEEN", between))["k"].launch(1, 64, [data, out])
        rules = {each.rule for each in run.findings}
        assert rules - {"missing-copy-wait"} == found


FAR = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 data)
{
    .reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    .shared .align 16 .b32 tile[64]; .shared .align 8 .b64 full;
    ld.param.u64 %rd1, [data]; mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 1; @%p1 bra HEAR;
    mbarrier.init.shared::cta.b64 [full], 1; fence.proxy.async;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 16;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 16, [full];
    BEFORE
    st.release.gpu.global.u32 [%rd1+64], 1;
    AFTER
    bra LAST;
HEAR:
    ld.acquire.gpu.global.u32 %r2, [%rd1+64]; setp.eq.u32 %p2, %r2, 0; @%p2 bra HEAR;
    st.global.u32 [%rd1], 7;
LAST:
    ret;
}
"""


@pytest.mark.parametrize(("before", "after", "found"), [
    (WAIT, "", set()), ("", WAIT, {"race"}),
])  # fmt: skip
def test_another_block_writes_it(before: str, after: str, found: set[str]) -> None:
    run = Module(FAR.replace("BEFORE", before).replace("AFTER", after))["k"].launch(
        2, 1, [np.zeros(32, np.uint32)]
    )
    assert {each.rule for each in run.findings} == found


OVER = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 data)
{
    .reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .shared .align 16 .b32 tile[64];
    ld.param.u64 %rd1, [data]; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0;
    mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd1, %rd2; mov.u32 %r2, tile;
    mad.lo.u32 %r2, %r1, 4, %r2; st.shared.u32 [%r2], %r1; fence.proxy.async.shared::cta;
    STORE
    FENCE
    bar.sync 0;
    @%p1 COPY [%rd1], [tile], 128;
    @%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;
    ret;
}
"""
STORED = "st.global.u32 [%rd2], %r1;"
ADDS = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32"
WRITES = "cp.async.bulk.global.shared::cta.bulk_group"


@pytest.mark.parametrize(("store", "fence", "copy", "found"), [
    (STORED, "", WRITES, {"missing-proxy-fence"}), (STORED, "", ADDS, {"missing-proxy-fence"}),
    (STORED, "fence.proxy.async;", WRITES, set()),
    (STORED, "fence.proxy.async.global;", ADDS, set()),
    (STORED, "fence.proxy.async.shared::cta;", WRITES, {"missing-proxy-fence"}),
    ("", "", WRITES, set()),
])  # fmt: skip
def test_8_6_a_bulk_copy_writes_over_what_threads_have_stored(
    store: str, fence: str, copy: str, found: set[str]
) -> None:
    text = OVER.replace("STORE", store).replace("FENCE", fence).replace("COPY", copy)
    run = Module(text)["k"].launch(1, 64, [np.zeros(64, np.uint32)])
    assert {each.rule for each in run.findings} == found
