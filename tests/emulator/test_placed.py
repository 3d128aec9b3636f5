"""Arrays of a launch that share memory: what is written through one is read through the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phasebit as pb
from phasebit.emulator import Fault, LaunchError
from phasebit.emulator.api.placed import Placed

# Thread i writes i + 1 to to[i], then adds what from[i] is to sum[i].
PTX = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 to, .param .u64 from, .param .u64 sum)
{
    .reg .b32 %r<5>; .reg .b64 %rd<5>;
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd1, %r1, 4;
    add.u32 %r2, %r1, 1;
    ld.param.u64 %rd2, [to];
    add.s64 %rd2, %rd2, %rd1;
    st.global.u32 [%rd2], %r2;
    bar.sync 0;
    ld.param.u64 %rd2, [from];
    add.s64 %rd2, %rd2, %rd1;
    ld.global.u32 %r3, [%rd2];
    ld.param.u64 %rd2, [sum];
    add.s64 %rd2, %rd2, %rd1;
    ld.global.u32 %r4, [%rd2];
    add.u32 %r4, %r4, %r3;
    st.global.u32 [%rd2], %r4;
    ret;
}
"""


def launch(*args: Any) -> pb.DeviceRun:
    return pb.Module(PTX)["k"].launch(1, 4, list(args))


@pytest.mark.parametrize("shift", [0, 1, 2, 4, 5])
@pytest.mark.parametrize("backwards", [False, True])
def test_overlapping_arrays_are_one_memory(shift: int, backwards: bool) -> None:
    whole, sums = np.zeros(12, np.uint32), np.zeros(4, np.uint32)
    to, read = whole[:4], whole[shift : shift + 4]
    if backwards:
        to, read = read, to
    launch(to, read, sums)
    expected = np.zeros(12, np.uint32)
    start = shift if backwards else 0
    expected[start : start + 4] = range(1, 5)
    seen = expected[:4] if backwards else expected[shift : shift + 4]
    assert whole.tolist() == expected.tolist() and sums.tolist() == seen.tolist()


def test_three_in_a_chain_and_one_that_holds_them_all() -> None:
    whole = np.zeros(16, np.uint32)
    launch(whole[2:6], whole[4:8], whole[6:10])
    assert whole.tolist() == [0, 0, 1, 2, 3, 4, 3, 4, 0, 0, *[0] * 6]
    whole[:] = 0
    launch(whole[1:5], whole, whole[8:])
    assert whole.tolist() == [0, 1, 2, 3, 4, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0]


def test_other_types_and_shapes_of_one_memory() -> None:
    whole, sums = np.zeros(8, np.uint32), np.zeros(4, np.uint32)
    launch(whole, whole.reshape(2, 4).view(np.float32), sums)
    assert sums.tolist() == [1, 2, 3, 4]


def test_neighbours_stay_apart_and_their_ends_are_known() -> None:
    whole, sums = np.zeros(8, np.uint32), np.zeros(4, np.uint32)
    with pytest.raises(Fault, match="argument 1"):
        launch(whole[:4], whole[4:6], sums)


def test_a_read_only_view_of_what_may_be_written() -> None:
    both, sums = np.zeros(5, np.uint32), np.zeros(4, np.uint32)
    fixed = both[1:]
    fixed.setflags(write=False)
    launch(both, fixed, sums)
    assert both.tolist() == [1, 2, 3, 4, 0]
    both[:] = 7
    one, other = both[:4], both[1:]
    for each in (one, other):
        each.setflags(write=False)
    with pytest.raises(LaunchError, match="wrote arguments 0 and 1, an array that is read-only"):
        launch(one, other, sums)


def test_what_lies_below_a_masked_array_or_a_matrix() -> None:
    masked = np.ma.masked_array(np.zeros(4, np.uint32), mask=[1, 0, 0, 1])
    sums = np.ma.masked_array(np.zeros(4, np.uint32), mask=[0, 0, 1, 1])
    launch(masked, masked, sums)
    assert masked.data.tolist() == sums.data.tolist() == [1, 2, 3, 4]
    assert masked.mask.tolist() == [True, False, False, True]
    matrix = np.zeros((2, 2), np.uint32).view(np.matrix)
    launch(matrix, matrix, sums)
    assert matrix.tolist() == [[1, 2], [3, 4]]


def test_each_memory_is_brought_there_once() -> None:
    brought: list[tuple[int, str]] = []

    def place(array: Any, name: str) -> int:
        brought.append((array.nbytes, name))
        return 1000 * len(brought)

    whole = np.zeros(10, np.uint8)
    args = [whole[4:], 3, whole[:6], np.zeros(2, np.uint8), whole[4:], np.zeros(0)]
    placed = Placed(args, place)
    found = [placed.address(each, f"argument {i}") for i, each in enumerate(args) if i != 1]
    assert found == [1004, 1000, 2000, 1004, 3000]
    assert brought == [(10, "arguments 0 and 2 and 4"), (2, "argument 3"), (0, "argument 5")]
