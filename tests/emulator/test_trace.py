"""The trace: each warp's row is covered, waits are named, nobody is in two places at once."""

from __future__ import annotations

import itertools

import numpy as np

from phasebit.emulator import Run
from phasebit.emulator.machine.trace import Event, Signal, Trace, warps_of
from phasebit.launching.launch import Module
from tests.emulator.machines import groups

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


# -- what is kept ---------------------------------------------------------------------------------


def test_threads_are_told_as_warps_of_their_blocks() -> None:
    assert warps_of(2, np.array([0, 0, 1, 2, 5, 5])) == {0: (0, 1), 1: (0,), 2: (1,)}
    assert warps_of(4, np.array([7])) == {1: (3,)}


def test_a_group_is_noted_from_where_it_was_noted_last() -> None:
    _, (_a, b, c, d) = groups(2, grid=2, check=False)
    trace = Trace()
    d.time = d.started = 3
    trace.ran(d)
    assert trace.events == [] and trace.accesses is None and trace.limit == 200_000
    d.time = 7
    trace.ran(d)
    trace.ran(d)
    assert trace.events == [Event(1, (1,), 3, 7, "run", "")] and d.started == 7
    d.time = 8
    trace.leaves(d)
    trace.waited(b, 2, 9, "barrier 0")
    assert trace.events[1:] == [
        Event(1, (1,), 7, 8, "run", ""), Event(0, (1,), 2, 9, "wait", "barrier 0"),
    ]  # fmt: skip
    assert b.started == 9
    c.time = 4
    trace.arrives_at(c, "full")
    assert trace.signals == [Signal(1, (0,), 4, "full")]


def test_a_trace_has_an_end() -> None:
    _, (a,) = groups(check=False)
    trace = Trace(limit=2)
    for end in range(1, 5):
        trace.waited(a, 0, end, "x")
        trace.arrives_at(a, "full")
    assert len(trace.events) == len(trace.signals) == 2
