"""Where the arrays of a launch lie on the device.

Arrays that share memory here share it there: what overlaps is brought there as one piece, so that
what a kernel writes through one of them it reads through the others, and neither is lost.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from phasebit.emulator.copy_engine.tensormap import TensorMap

Memory = tuple[int, int]
"""Where an array's memory begins, and its bytes."""


class Placed:
    """The device's addresses of arrays; ``args`` are all arguments of the launch.

    ``place`` brings an array there, of a name, and gives its address.
    """

    def __init__(self, args: Sequence[Any], place: Callable[[Any, str], int]) -> None:
        self._place = place
        self._addresses: dict[Memory, int] = {}
        self._pieces: dict[Memory, tuple[Any, str]] = {}
        for numbers, arrays in _overlapping(args):
            if len({_memory(array) for array in arrays}) > 1:
                piece = _all_of(arrays), f"arguments {' and '.join(map(str, numbers))}"
                self._pieces |= {_memory(array): piece for array in arrays}

    def address(self, array: Any, name: str) -> int:
        """Where an array lies, which is brought there if it is not there yet."""
        memory = _memory(array)
        if memory not in self._addresses:
            piece = self._pieces.get(memory)
            if piece is None:
                self._addresses[memory] = self._place(array, name)
            else:
                whole = _memory(piece[0])
                if whole not in self._addresses:
                    self._addresses[whole] = self._place(*piece)
                self._addresses[memory] = self._addresses[whole] + memory[0] - whole[0]
        return self._addresses[memory]


def _memory(array: Any) -> Memory:
    return array.__array_interface__["data"][0], array.nbytes


def _overlapping(args: Sequence[Any]) -> Iterator[tuple[list[int], list[Any]]]:
    """Arrays whose memory overlaps, each group with the numbers of their arguments."""
    given = [(number, getattr(arg, "tensor", None) if isinstance(arg, TensorMap) else arg)
             for number, arg in enumerate(args)]  # fmt: skip
    arrays = [
        (_memory(array), number, array) for number, array in given
        if isinstance(array, np.ndarray) and array.nbytes and array.flags.c_contiguous
    ]  # fmt: skip
    numbers: list[int] = []
    group: list[Any] = []
    end = 0
    for (start, size), number, array in sorted(arrays, key=lambda each: each[:2]):
        if group and start >= end:
            yield sorted(numbers), group
            numbers, group = [], []
        numbers.append(number)
        group.append(array)
        end = max(end, start + size)
    if group:
        yield sorted(numbers), group


def _all_of(arrays: Sequence[Any]) -> Any:
    """The bytes of arrays that overlap, in place; they may be written if any of them may."""
    places = [_memory(array) for array in arrays]
    start = min(begin for begin, _ in places)
    size = max(begin + bytes_ for begin, bytes_ in places) - start
    there = (ctypes.c_uint8 * size).from_address(start)
    made = np.frombuffer(memoryview(there).cast("B"), np.uint8)
    made.setflags(write=any(array.flags.writeable for array in arrays))
    return made
