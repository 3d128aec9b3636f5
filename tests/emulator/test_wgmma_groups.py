"""Registers of multiplications under way, when groups of threads meet and part.

Each warp group's multiplication writes one register of 128 threads; nobody runs a kernel.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.machine.events import Told
from phasebit.emulator.ptx.types import Array
from phasebit.emulator.tensor_core.warpgroups import SIZE, Multiplication, Queue


class Scene:
    """A batch of three warp groups, and multiplications whose result is a number for all."""

    def __init__(self) -> None:
        machine = SimpleNamespace(agents=[], now=1, changes=0, told=Told())
        self.batch: Any = SimpleNamespace(lanes=3 * SIZE, machine=machine, keepers=[])
        self.queue = Queue(self.batch)
        self.batch.of = {Queue: self.queue}.__getitem__

    def begin(self, group: int, result: int, before: Array | None = None) -> Multiplication:
        buffer = np.zeros((1, SIZE), np.uint32)

        def compute(buffer: Array) -> None:
            buffer[:] = buffer + result

        lanes = np.arange(SIZE) + SIZE * group
        given = [np.zeros(SIZE, np.uint32) if before is None else before]
        number = np.zeros(SIZE, np.int64)
        mma = Multiplication(self.batch, lanes, buffer, given, compute, number, None)
        self.queue.add(mma, ())
        return mma

    def join(self, *values: Array) -> Array:
        new = [np.concatenate(values)]
        self.queue.join([[v] for v in values], new, [0], [len(v) for v in values], None)
        return new[0]

    def part(self, value: Array, where: Array) -> Array:
        new: list[Any] = [value.take(where)]
        self.queue.divide([value], new, [0], where)
        return np.asarray(new[0])


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0)])
@pytest.mark.parametrize("early", [0, 1, 2, 3])
def test_groups_that_meet_one_after_the_other_get_every_result(
    order: tuple[int, int, int], early: int
) -> None:
    """Some results are there when the groups meet, the others come later, in any order."""
    scene = Scene()
    mmas = [scene.begin(i, 10 + i) for i in range(3)]
    for i in order[:early]:
        mmas[i].finish()
    first = scene.join(mmas[0].buffer[0], mmas[1].buffer[0])
    everyone = scene.join(first, mmas[2].buffer[0])
    for i in order[early:]:
        mmas[i].finish()
    assert np.array_equal(everyone, np.repeat(np.uint32([10, 11, 12]), SIZE))


def test_what_a_result_began_with_does_not_come_again() -> None:
    """Two groups meet and part; one multiplies again before the other's first result is there."""
    scene = Scene()
    one, two = scene.begin(0, 10), scene.begin(1, 20)
    both = scene.join(one.buffer[0], two.buffer[0])
    again = scene.begin(0, 5, scene.part(both, np.arange(SIZE)))
    again.finish()
    assert np.array_equal(again.buffer[0], np.full(SIZE, 15, np.uint32))
    two.finish()
    assert np.array_equal(again.buffer[0], np.full(SIZE, 15, np.uint32))


def test_nor_when_its_threads_have_waited() -> None:
    """The same, and the first group has waited for both before the other's result is there."""
    scene = Scene()
    one, two = scene.begin(0, 10), scene.begin(1, 20)
    both = scene.join(one.buffer[0], two.buffer[0])
    again = scene.begin(0, 5, scene.part(both, np.arange(SIZE)))
    scene.queue.settle(np.arange(SIZE), np.ones(SIZE, np.int64), 3 * SIZE)
    assert scene.queue.under_way == [two]
    two.finish()
    assert np.array_equal(again.buffer[0], np.full(SIZE, 15, np.uint32))
    assert np.array_equal(both, np.repeat(np.uint32([10, 20]), SIZE))
