"""The barriers of a block: counts, kinds and misuse, each with its sentence (PTX ISA 9.7.13.1)."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.emulator.errors import EmulatorError
from phasebit.launching.launch import Module

TEXT = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<9>; .reg .b64 %d<4>; .reg .pred %p<6>;
    ld.param.u64 %d1, [out];
    mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; and.b32 %r3, %r1, 31;
    setp.eq.u32 %p1, %r2, 0; setp.lt.u32 %p2, %r3, 5; mov.u32 %r5, 0;
    BODY
    mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2; st.global.u32 [%d1], %r5;
    ret;
}
"""


def ran(body: str, threads: int = 64) -> tuple[list[int], list[str], str]:
    """What threads store, what is found, and how a launch that failed ended."""
    out = np.zeros(threads, np.uint32)
    run = Module(TEXT.replace("BODY", body))["k"].launch(1, threads, [out], on_fault="report",
                                                       raises=False)  # fmt: skip
    return out.tolist(), [f"{each.rule}: {each.message}" for each in run.findings], str(run)


@pytest.mark.parametrize(("body", "value"), [
    ("bar.sync 0; mov.u32 %r5, 1;", 1), ("bar.sync 15, 64; mov.u32 %r5, 1;", 1),
    ("bar.red.popc.u32 %r5, 0, %p2;", 10), ("bar.red.popc.u32 %r5, 0, !%p2;", 54),
    ("bar.red.and.pred %p3, 0, %p2; selp.u32 %r5, 1, 2, %p3;", 2),
    ("bar.red.or.pred %p3, 0, %p2; selp.u32 %r5, 1, 2, %p3;", 1),
    ("setp.ge.u32 %p4, %r3, 0; bar.red.and.pred %p3, 1, 64, %p4; selp.u32 %r5, 1, 2, %p3;", 1),
    ("@%p1 bar.sync 1, 32; @!%p1 bar.sync 2, 32; mov.u32 %r5, 1;", 1),
    ("@%p1 bra A; bar.sync 1, 64; bra B; A: bar.arrive 1, 64; B: mov.u32 %r5, 1;", 1),
])  # fmt: skip
def test_what_barriers_give(body: str, value: int) -> None:
    values, found, _ = ran(body)
    assert values == [value] * 64 and found == []


@pytest.mark.parametrize(("body", "says"), [
    ("bar.sync 0, 33;", "barrier 0 is told to wait for 33 threads by warp 0 of block 0: the "
     "number must be a multiple of 32; at "),
    ("mov.u32 %r6, 0; bar.sync 3, %r6;", "barrier 3 is told to wait for 0 threads by "),
    ("@%p1 bra A; bar.sync 0, 64; bra B; A: bar.red.popc.u32 %r5, 0, 64, %p2; B:",
     "barrier 0 is used by "),
    ("bar.sync 16;", "barrier 16 is named by all threads of block 0, and a block has barriers 0 to "
     "15; at bar.sync 16 at PTX line "),
    ("bar.sync 99, 64;", "barrier 99 is named by "), ("bar.arrive 16, 128;", "barrier 16 is named"),
    ("bar.red.popc.u32 %r5, 16, %p2;", "barrier 16 is named by "),
    ("add.u32 %r6, %r2, 15; bar.sync %r6, 32;", "barrier 16 is named by warp 1 of block 0, and"),
])  # fmt: skip
def test_what_barriers_do_not_take(body: str, says: str) -> None:
    with pytest.raises(EmulatorError) as raised:
        Module(TEXT.replace("BODY", body))["k"].launch(1, 64, [np.zeros(64, np.uint32)])
    assert says in str(raised.value)


def deadlock(body: str, threads: int = 64) -> str:
    with pytest.raises(EmulatorError) as raised:
        Module(TEXT.replace("BODY", body))["k"].launch(1, threads, [np.zeros(threads, np.uint32)])
    return str(raised.value)


def test_a_barrier_that_waits_for_somebody_says_for_whom() -> None:
    said = deadlock("@%p1 bar.sync 1, 64; @!%p1 bar.sync 2, 64;").splitlines()
    assert said[0] == "deadlock: every thread waits and nothing is left that could wake one"
    assert said[1].startswith("  warp 0 of block 0 wait for barrier 1: ")
    assert said[2] == (
        "    32 of 64 threads have arrived: warp 0 of block 0; not here: warp 1 of block 0"
    )
    assert said[3].startswith("  warp 1 of block 0 wait for barrier 2: ")


def test_a_barrier_waits_for_all_that_live() -> None:
    values, found, _ = ran("@%p1 exit; bar.sync 0; mov.u32 %r5, 7;")
    assert values == [0] * 32 + [7] * 32 and found == []


def test_a_warp_that_needs_no_other_is_not_taken_for_one() -> None:
    """Both warps use one barrier, each by itself; with a count of two warps that would be odd."""
    again = "bar.sync 1, 32; bar.sync 1, 32; mov.u32 %r5, 1;"
    values, found, _ = ran(again)
    assert values == [1] * 64 and found == []


FLAG = "st.relaxed.gpu.global.u32 [%d1+512], 1; "
SPIN = ("A: ld.relaxed.gpu.global.u32 %r7, [%d1+512]; setp.eq.u32 %p5, %r7, 0; "
        "@%p5 bra A; ")  # fmt: skip


@pytest.mark.parametrize(("told", "right"), [
    ("fence.acq_rel.gpu; " + FLAG, True), (FLAG, False),
])  # fmt: skip
def test_another_warp_uses_a_barrier_once_it_knows_that_it_is_free(told: str, right: bool) -> None:
    """Warps 0 and 1 meet; the third has seen a flag of the first one, and meets it there again."""
    body = (
        "setp.eq.u32 %p3, %r2, 1; setp.eq.u32 %p4, %r2, 2; @%p4 bra THIRD; bar.sync 1, 64; "
        f"@%p3 bra END; {told} bar.sync 1, 64; bra END; THIRD: {SPIN} bar.sync 1, 64; END:"
    )
    out = np.zeros(192, np.uint32)
    text = TEXT.replace("BODY", body)
    rules = {each.rule for each in Module(text)["k"].launch(1, 96, [out]).findings}
    assert rules == (set() if right else {"barrier-misuse"})


@pytest.mark.parametrize("body", [
    "add.u32 %r6, %r2, 1; shl.b32 %r6, %r6, 5; bar.sync 1, %r6;",
    "sub.u32 %r6, 2, %r2; shl.b32 %r6, %r6, 5; bar.sync 1, %r6;",
    "add.u32 %r6, %r2, 1; shl.b32 %r6, %r6, 5; bar.red.popc.u32 %r5, 1, %r6, %p2;",
    "add.u32 %r6, %r2, 1; shl.b32 %r6, %r6, 5; bar.arrive 1, %r6;",
])  # fmt: skip
def test_threads_that_name_two_counts_of_one_barrier(body: str) -> None:
    _, found, _ = ran(body)
    assert len(found) == 1 and found[0].startswith("barrier-misuse: "), found
    assert "is told to wait for 32 threads here and for 64 elsewhere" in found[0]


def test_warps_with_barriers_and_counts_of_their_own() -> None:
    body = """setp.lt.u32 %p3, %r2, 2; selp.u32 %r6, 64, 32, %p3; selp.u32 %r7, 1, %r2, %p3;
        bar.sync %r7, %r6; mov.u32 %r5, 1;"""
    values, found, _ = ran(body, 128)
    assert values == [1] * 128 and found == []


def test_warps_that_are_more_than_each_of_their_barriers_lacks() -> None:
    body = """shr.u32 %r6, %r2, 1; add.u32 %r6, %r6, 1; bar.sync %r6, 32; mov.u32 %r5, 1;"""
    values, found, _ = ran(body, 128)
    assert values == [1] * 128 and found == []
