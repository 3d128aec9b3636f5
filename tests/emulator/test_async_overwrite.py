"""What a bulk copy overwrites must have been read (PTX ISA 8.6, 9.7.13.4: proxies, their fence).

Also swizzled tiles that are misaligned (9.7.16.4.1), and registers that the warps of a warp group
do not agree on (9.7.19.5).
"""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.emulator import Run
from phasebit.emulator.numbers import swizzle
from tests.emulator.pair_kernels import PairGemm
from tests.emulator.tensor_ptx import HEAD, run

SCHEDULES = ("eager", "late", "random")
LOAD = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
TWICE = (
    HEAD
    + """
.visible .entry kernel(.param .u64 data, .param .u64 out)
{
    .reg .pred %p<4>; .reg .b32 %r<19>; .reg .b64 %rd<9>;
    .shared .align 128 .b8 tile[512]; .shared .align 8 .b64 full; .shared .align 8 .b64 empty;
    ld.param.u64 %rd1, [data]; ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.u32 %r2, tile;
    shl.b32 %r3, %r1, 2; add.u32 %r4, %r2, %r3; cvt.u64.u32 %rd3, %r3; add.u64 %rd2, %rd2, %rd3;
    @%p1 mbarrier.init.shared::cta.b64 [full], 1;
    @%p1 mbarrier.init.shared::cta.b64 [empty], 128;
    bar.sync 0;
    mov.u32 %r5, 0; mov.u32 %r6, 0;
ROUND:
    @!%p1 bra WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 512;
    LOAD [tile], [%rd1], 512, [full];
    add.u64 %rd1, %rd1, 512;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], %r5; @!%p2 bra WAIT;
    ld.shared.u32 %r7, [%r4]; add.u32 %r6, %r6, %r7;
    BETWEEN
    xor.b32 %r5, %r5, 1; setp.eq.u32 %p3, %r5, 1; @%p3 bra ROUND;
    st.global.u32 [%rd2], %r6;
    ret;
}
""".replace("LOAD", LOAD)
)
"""Two tiles through one slot; all threads read them."""

FENCE = "fence.proxy.async.shared::cta;"
WARP = "bar.warp.sync 0xffffffff;"
MBARRIER = (
    "mbarrier.arrive.shared::cta.b64 _, [empty];\nEMPTY: "
    "mbarrier.try_wait.parity.shared::cta.b64 %p2, [empty], %r5; @!%p2 bra EMPTY;"
)


def twice(between: str, schedule: str, threads: int = 128) -> Run:
    data, out = np.arange(256, dtype=np.uint32), np.zeros(128, np.uint32)
    text = TWICE.replace("BETWEEN", between)
    found = run(text, data, out, threads=threads, schedule=schedule)
    assert np.array_equal(out[:threads], (data[:128] + data[128:])[:threads])
    return found


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("between", [WARP, WARP + WARP])
def test_8_6_a_warp_does_not_order_the_proxies_by_itself(between: str, schedule: str) -> None:
    (finding,) = twice(between, schedule, threads=32).findings
    assert finding.kind == "proxy" and finding.line
    assert "has read it through the generic proxy" in finding.message
    assert "`ld.shared.u32 %r7" in finding.message and f"`{LOAD}" in finding.message


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("between", [f"{FENCE} {WARP}", f"{WARP} {FENCE}", f"{WARP} bar.sync 0;"])
def test_8_6_a_fence_of_the_warp_does(between: str, schedule: str) -> None:
    assert not twice(between, schedule, threads=32).findings


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    "between",
    [f"{FENCE} bar.sync 0;", f"bar.sync 0; {FENCE}", "bar.sync 0;", "bar.sync 1, 128;",
     "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;", MBARRIER],
)  # fmt: skip
def test_8_6_a_fence_or_a_barrier_does(between: str, schedule: str) -> None:
    assert not twice(between, schedule).findings


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_8_6_what_threads_have_written_needs_the_fence(schedule: str) -> None:
    """A barrier of threads is enough for what they have read, not for what they have written."""
    write = "st.shared.u32 [%r4], %r6;"
    (finding,) = twice(f"{write} bar.sync 0;", schedule).findings
    assert finding.kind == "proxy" and finding.line
    assert "has written it through the generic proxy" in finding.message
    assert f"`{write[:-1]}" in finding.message and f"`{LOAD}" in finding.message
    assert not twice(f"{write} {FENCE} bar.sync 0;", schedule).findings
    assert not twice(f"{write} bar.sync 0; {FENCE}", schedule).findings


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_9_7_13_15_9_one_thread_initialises_a_barrier(schedule: str) -> None:
    data, out = np.arange(256, dtype=np.uint32), np.zeros(128, np.uint32)
    one = "@%p1 mbarrier.init.shared::cta.b64 [full], 1;"
    text = TWICE.replace("BETWEEN", f"{FENCE} {WARP}")
    (finding,) = run(text.replace(one, one[5:]), data, out, threads=32, schedule=schedule).findings
    assert finding.kind == "barrier" and finding.line
    assert "all threads of block 0 initialise mbarrier full, each of them once" in finding.message
    assert f"{one[5:-1]} at PTX line" in finding.message
    assert not run(text, data, out, threads=32, schedule=schedule).findings


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_race_is_called_a_race(schedule: str) -> None:
    """Nothing at all between: not the fence is missing, but the barrier.

    Without it, too, a slow thread may miss the first phase and wait for ever.
    """
    data, out = np.arange(256, dtype=np.uint32), np.zeros(128, np.uint32)
    found = run(TWICE.replace("BETWEEN", FENCE), data, out, schedule=schedule)
    assert {h.kind for h in found.findings} == {"race", "barrier"}
    assert {h.rule for h in found.findings if h.kind == "barrier"} == {"phase-may-be-missed"}


SWIZZLED = {"f16": (swizzle.B128, swizzle.B64, swizzle.B32)}


@pytest.mark.parametrize("pattern", SWIZZLED["f16"], ids=lambda p: p.name)
def test_9_7_16_4_1_a_misaligned_swizzled_tile_is_found(pattern: swizzle.Swizzle) -> None:
    """The tile begins 128 bytes into the pattern, and the descriptor says nothing of it."""
    one = np.full((256, 16), 0x3C00, np.uint16)
    old = np.zeros((2, 128, 256), np.uint32)
    line = "ld.param.u64 %rd5, [bdesc];"
    made = PairGemm("f16", 256, 32, "f16", "f16", "f32", width=2, pattern=pattern,
                    changes={line: line + "add.u64 %rd5, %rd5, 8;"})  # fmt: skip
    _, found = made.run(one, one[:32], old)
    messages = [h for h in found.findings if h.kind == "tensor"]
    assert messages and messages[0].line
    assert f"in row 1 of the {pattern.name} swizzle's pattern" in messages[0].message
    told = line + f"add.u64 %rd5, %rd5, {8 + (1 << 49)};"
    made = PairGemm("f16", 256, 32, "f16", "f16", "f32", width=2, pattern=pattern,
                    changes={line: told})  # fmt: skip
    _, found = made.run(one, one[:32], old)
    assert not [h for h in found.findings if "pattern" in h.message]


REGISTERS = (
    HEAD
    + """
.visible .entry kernel()
{
    .reg .pred %p<4>; .reg .b32 %r<4>;
    mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5;
    setp.ge.u32 %p1, %r2, FIRST; @%p1 bra MORE;
    setmaxnreg.dec.sync.aligned.u32 40;
    bra END;
MORE:
    setmaxnreg.inc.sync.aligned.u32 232;
END:
    ret;
}
"""
)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_9_7_19_5_the_warps_of_a_warp_group_must_agree(schedule: str) -> None:
    text = REGISTERS.replace("FIRST", "3")
    (finding,) = run(text, threads=256, schedule=schedule).findings
    assert finding.kind == "barrier" and finding.line
    assert "setmaxnreg.inc 232" in finding.message and "setmaxnreg.dec 40" in finding.message
    assert not run(REGISTERS.replace("FIRST", "4"), threads=256, schedule=schedule).findings


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("who", ["setp.ge.u32 %p1, %r2, 1", "setp.ne.u32 %p1, %r1, 0"])
def test_9_7_19_5_all_threads_of_a_warp_group_must_execute_it(who: str, schedule: str) -> None:
    """One warp alone, one thread alone."""
    text = REGISTERS.replace("setp.ge.u32 %p1, %r2, FIRST", who)
    text = text.replace("setmaxnreg.inc.sync.aligned.u32 232;", "")
    (finding,) = run(text, threads=128, schedule=schedule).findings
    assert finding.kind == "barrier" and finding.line == 1 + text[: text.index("setmaxnreg")].count(
        "\n"
    )
    assert "of the same warp group did not; all its threads must" in finding.message
    repaired = text.replace(who, "setp.ge.u32 %p1, %r2, 4")
    assert not run(repaired, threads=128, schedule=schedule).findings


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_9_7_19_5_more_registers_than_there_are(schedule: str) -> None:
    """Three warp groups with 232 each; the producer should have given its own back."""
    text = REGISTERS.replace("FIRST", "0")
    (finding,) = run(text, threads=384, schedule=schedule).findings
    assert finding.kind == "barrier" and finding.line
    assert "232 + 232 + 232 registers a thread, 89088 in all" in finding.message
    assert not run(REGISTERS.replace("FIRST", "4"), threads=384, schedule=schedule).findings
