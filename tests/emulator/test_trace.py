"""The trace: each warp's row is covered, waits are named, nobody is in two places at once."""

from __future__ import annotations

import itertools

import numpy as np

from phasebit.emulator import Run
from phasebit.launching.launch import Module

# Two warps and a barrier; warp 0 first counts to its loop's end, so warp 1 waits for it.
PTX = """
.version 9.0
.target sm_80
.address_size 64
.visible .entry meet(.param .u64 out)
{
    .reg .pred %p<3>; .reg .b32 %r<6>; .reg .b64 %rd<4>;
    mov.u32 %r1, %tid.x; mov.u32 %r2, 0;
    setp.ge.u32 %p1, %r1, 32;
    @%p1 bra MEET;
LOOP:
    add.s32 %r2, %r2, 1; setp.lt.s32 %p2, %r2, 50;
    @%p2 bra LOOP;
MEET:
    bar.sync 0;
    ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2;
    st.global.u32 [%rd1], %r2;
    ret;
}
"""


def run() -> Run:
    out = np.zeros(64, np.uint32)
    result = Module(PTX)["meet"].launch(1, 64, [out])
    assert np.array_equal(out, np.where(np.arange(64) < 32, 50, 0))
    return result


def test_the_warp_that_waits_is_seen_waiting() -> None:
    timeline = run().timeline
    waits = [s for s in timeline.spans if s.kind == "wait"]
    assert [(s.row, s.label) for s in waits] == [("warp 1", "barrier 0")]
    assert waits[0].end - waits[0].start > 100, "fifty turns of three instructions"
    assert "warp 1" in str(timeline) and timeline.svg().startswith("<svg")


def test_spans_of_a_row_do_not_overlap() -> None:
    timeline = run().timeline
    for row in timeline.rows:
        spans = sorted(s[1:3] for s in timeline.spans if s.row == row)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans)), row


def test_no_trace_without_checks() -> None:
    out = np.zeros(64, np.uint32)
    result = Module(PTX)["meet"].launch(1, 64, [out], check=False)
    assert not result.timeline.spans
