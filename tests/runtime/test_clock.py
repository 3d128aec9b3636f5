"""The clock that events read: order and overlap of streams, kernels and copies."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize(("to_device", "to_host", "size", "clocks"), [
    (True, False, 0, 1000), (True, False, 1599, 1099), (True, False, 1600, 1100),
    (False, True, 1600, 1100), (False, False, 1023, 1000), (False, False, 2048, 1002),
])  # fmt: skip
def test_what_a_copy_costs(to_device: bool, to_host: bool, size: int, clocks: int):
    c = clock()
    c.copy(16, size, to_device, to_host)
    c.synchronize(16)
    assert c.now == clocks


def test_what_a_launch_costs_from_the_programs_first_moment():
    c = Clock()
    assert c.now == c.ready(LEGACY) == c.ready(99) == 0
    c.launch(LEGACY, 0)
    c.synchronize()
    assert c.now == 2000


def test_copies_inside_the_device_wait_for_kernels_and_copies_of_one_direction_for_each_other():
    c = clock()
    c.launch(16, 1000)
    c.copy(18, 1024, to_device=False, to_host=False)
    c.copy(17, 1600, to_device=True, to_host=False)
    c.copy(16, 1600, to_device=True, to_host=False)
    c.record(1, 18)
    c.record(2, 17)
    c.record(3, 16)
    c.synchronize()
    assert (c.elapsed(2, 1), c.elapsed(2, 3)) == (KERNEL + 1001 - COPY, KERNEL)


def test_each_device_has_its_own_engines_and_default_streams():
    c = Clock()
    c.open(16, True, 1)
    c.open(17, False, 1)
    assert [c.device_of(stream) for stream in (0, 1, 2, 3, 15, 16, 17, 99)] == [
        0, 0, 1, 1, 7, 1, 1, 0
    ]  # fmt: skip
    assert (c.streams_of(0), c.streams_of(1), c.streams_of(7)) == ([0, 1, 99], [16, 17, 2, 3], [15])
    assert c.tied(16) == [16, 2] and c.tied(17) == [17]
    assert sorted(c.tied(2)) == [2, 3, 16] and c.tied(2)[0] == 2
    c.launch(16, 1000)
    c.launch(LEGACY, 1000)
    c.synchronize()
    assert c.now == KERNEL  # side by side


def test_an_event_that_nobody_recorded_holds_nothing_up_and_has_no_time():
    c = clock()
    c.wait(16, 7)
    c.record(1, 16)
    assert c.elapsed(1, 1) == c.now == 0
    with pytest.raises(KeyError, match="7"):
        c.elapsed(7, 1)
    with pytest.raises(KeyError, match="7"):
        c.elapsed(1, 7)


def test_an_event_holds_back_only_what_comes_after_it():
    c = clock()
    c.launch(18, 1000)
    c.copy(16, 1600, to_device=True, to_host=False)
    c.record(1, 16)
    c.wait(18, 1)  # long over when the kernel is
    c.record(2, 18)
    assert c.elapsed(1, 2) == KERNEL - COPY


def test_a_stream_begins_when_it_is_made():
    c = clock()
    c.launch(16, 1000)
    c.synchronize(16)
    c.open(19, False)
    assert c.ready(19) == KERNEL and c.ready(18) == 0
