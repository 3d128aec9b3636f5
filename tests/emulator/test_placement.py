"""Where a kernel's parameters lie, and what is aligned to what."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from phasebit.emulator.ptx.placement import align_up, parameter_offsets


@pytest.mark.parametrize(("value", "alignment", "up"), [
    (0, 4, 0), (1, 4, 4), (4, 4, 4), (5, 4, 8), (7, 1, 7), (255, 256, 256), (257, 256, 512),
])  # fmt: skip
def test_the_next_multiple(value: int, alignment: int, up: int) -> None:
    assert align_up(value, alignment) == up


@pytest.mark.parametrize(("parameters", "offsets", "size"), [
    ([], [], 0), ([(1, 1), (1, 1), (1, 1)], [0, 1, 2], 3), ([(1, 1), (2, 2), (1, 1)], [0, 2, 4], 5),
    ([(1, 1), (8, 8)], [0, 8], 16), ([(4, 4), (8, 8), (4, 4), (1, 1)], [0, 8, 16, 20], 21),
    ([(3, 0), (3, 0)], [0, 3], 6), ([(4, 4), (128, 64), (8, 8)], [0, 64, 192], 200),
])  # fmt: skip
def test_parameters_lie_one_behind_the_other_each_aligned_to_its_own(
    parameters: list[tuple[int, int]], offsets: list[int], size: int
) -> None:
    given: list[Any] = [SimpleNamespace(name=f"p{i}", size=bytes_, align=align)
                        for i, (bytes_, align) in enumerate(parameters)]  # fmt: skip
    assert parameter_offsets(given) == ({f"p{i}": at for i, at in enumerate(offsets)}, size)
