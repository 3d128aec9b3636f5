"""The clock that events read: order and overlap of streams, kernels and copies."""

from __future__ import annotations

from phasebit.runtime.clock import COPY_BYTES, COPY_START, LAUNCH_START, LEGACY, Clock

KERNEL = 1000 + LAUNCH_START
COPY = COPY_START + 1600 // COPY_BYTES


def clock():
    made = Clock()
    made.open(16, blocking=True)
    made.open(17, blocking=True)
    made.open(18, blocking=False)
    return made


def test_one_stream_runs_in_order():
    c = clock()
    c.record(1, 16)
    c.copy(16, 1600, to_device=True, to_host=False)
    c.launch(16, 1000)
    c.copy(16, 1600, to_device=False, to_host=True)
    c.record(2, 16)
    assert c.elapsed(1, 2) == 2 * COPY + KERNEL


def test_copies_overlap_with_kernels_and_with_the_other_direction():
    c = clock()
    for stream in (16, 17):
        c.copy(stream, 1600, to_device=True, to_host=False)
        c.launch(stream, 1000)
        c.copy(stream, 1600, to_device=False, to_host=True)
    c.synchronize()
    # copy in, two kernels one after the other, copy out: the rest is hidden
    assert c.now == 2 * COPY + 2 * KERNEL


def test_legacy_stream_waits_for_blocking_streams_and_they_for_it():
    c = clock()
    c.copy(16, 1600, to_device=True, to_host=False)
    c.copy(LEGACY, 1600, to_device=False, to_host=True)
    c.copy(17, 1600, to_device=True, to_host=False)
    c.record(1, 17)
    c.record(2, LEGACY)
    c.synchronize()
    assert c.now == 3 * COPY


def test_non_blocking_stream_does_not_wait():
    c = clock()
    c.launch(LEGACY, 100_000)
    c.copy(18, 1600, to_device=True, to_host=False)
    c.synchronize(18)
    assert c.now == COPY


def test_waiting_for_an_event_orders_streams():
    c = clock()
    c.launch(16, 1000)
    c.record(1, 16)
    c.wait(18, 1)
    c.copy(18, 1600, to_device=True, to_host=False)
    c.synchronize(18)
    assert c.now == KERNEL + COPY


def test_work_starts_after_the_host_asked_for_it():
    c = clock()
    c.launch(16, 1000)
    c.synchronize(16)
    c.record(1, 18)
    c.copy(18, 1600, to_device=True, to_host=False)
    c.record(2, 18)
    assert (c.now, c.elapsed(1, 2)) == (KERNEL, COPY)


def test_stream_from_before_a_reset():
    c = Clock()
    c.launch(99, 1000)
    c.synchronize(99)
    assert c.now == KERNEL
