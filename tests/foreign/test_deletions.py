"""Each synchronisation instruction of an attention kernel is left out: is it missed?

All deletions are tried by ``python -m tests.foreign.deleted``; here, some of them.
"""

from __future__ import annotations

import functools

import pytest

from phasebit.runtime.deletions import Deletion
from tests.foreign.deleted import SCHEDULES, TARGETS, Attention

SOME = 9
"""One in so many is tried."""


@functools.cache
def attention(target: str) -> Attention:
    return Attention(target)


NOTICED = [
    (target, each) for target in TARGETS
    for each in [d for d in attention(target).deletions
                 if d.line not in attention(target).redundant][::SOME]
]  # fmt: skip
SILENT = [
    (target, line) for target in TARGETS for line in [*attention(target).redundant][:: SOME // 2]
]


@pytest.mark.drawn
@pytest.mark.parametrize("how", SCHEDULES, ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_the_kernel_as_it_is(target: str, how: tuple[str, int]) -> None:
    assert attention(target).noticed(attention(target).about["ptx"], how) == ""


@pytest.mark.drawn
@pytest.mark.parametrize(
    ("target", "deletion"), NOTICED, ids=[f"{target}-{each.line}" for target, each in NOTICED]
)
def test_what_is_left_out_is_missed(target: str, deletion: Deletion) -> None:
    assert attention(target).without(deletion)


@pytest.mark.drawn
@pytest.mark.parametrize(("target", "line"), SILENT, ids=lambda value: str(value))
def test_what_is_redundant_is_not_missed(target: str, line: int) -> None:
    (deletion,) = (each for each in attention(target).deletions if each.line == line)
    assert attention(target).without(deletion) == ""


@pytest.mark.parametrize("target", TARGETS)
def test_the_table_speaks_of_this_text(target: str) -> None:
    lines = {each.line for each in attention(target).deletions}
    assert lines >= attention(target).redundant.keys()
    assert len(lines) >= 30 and all(attention(target).redundant.values())
