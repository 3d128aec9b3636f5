"""A matrix on a mesh of GPUs, counted number by number."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from phasebit.chapters.two_gpus.meshes import NOTHING, Along, brought, held

SHAPES = (8, 4), (7, 5), (1, 3)
MESHES = (2, 1), (2, 2), (4, 2), (1, 8)
WAYS: tuple[Along, ...] = ("rows", "columns", "copies", 0)
CASES = [*itertools.product(SHAPES, MESHES, itertools.product(WAYS, WAYS))]


def marked(shape: tuple[int, int], part) -> np.ndarray:
    there = np.zeros(shape, bool)
    there[part.rows.start : part.rows.stop, part.columns.start : part.columns.stop] = True
    return there


@pytest.mark.parametrize(("shape", "mesh", "along"), CASES)
def test_each_number_lies_on_as_many_gpus_as_there_are_copies(shape, mesh, along) -> None:
    parts = held(shape, mesh, along)
    assert [*parts] == [*itertools.product(*map(range, mesh))]
    copies = np.prod([many for many, does in zip(mesh, along, strict=True) if does == "copies"])
    assert np.all(sum(marked(shape, part).astype(int) for part in parts.values()) == copies)


@pytest.mark.parametrize(("shape", "mesh", "along"), CASES)
@pytest.mark.parametrize("axis", [0, 1])
def test_an_all_gather_brings_what_the_others_of_the_line_have(shape, mesh, along, axis) -> None:
    parts = held(shape, mesh, along)
    for place, many in brought(parts, axis).items():
        line = [part for other, part in parts.items() if other[1 - axis] == place[1 - axis]]
        union = np.any([marked(shape, part) for part in line], axis=0)
        assert many == np.count_nonzero(union & ~marked(shape, parts[place]))


def test_the_second_axis_divides_the_parts_of_the_first() -> None:
    parts = held((8, 1), (2, 2), ("rows", "rows"))
    assert [(part.rows.start, part.rows.stop) for part in parts.values()] == [
        (0, 2), (2, 4), (4, 6), (6, 8)
    ]  # fmt: skip


def test_an_offset_leaves_the_others_without_anything() -> None:
    parts = held((8, 4), (1, 4), ("copies", 2))
    assert [part is NOTHING for part in parts.values()] == [True, True, False, True]
    assert [*brought(parts, 1).values()] == [32, 32, 0, 32]
    assert not any(brought(parts, 0).values())


@pytest.mark.parametrize(
    ("shape", "mesh", "along", "says"),
    [
        ((8, 4), (2, 2), ("rows", 2), "offset 2 of an axis of 2 GPUs: give 0 to 1"),
        ((0, 4), (2, 2), ("rows", "copies"), "at least 1"),
    ],
)
def test_what_there_is_not_is_refused(shape, mesh, along, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        held(shape, mesh, along)
