"""One meeting a piece, and two: what orders the boxes, and how many copies may be unread."""

from __future__ import annotations

from itertools import pairwise

import pytest

from phasebit.chapters.chain import kernels, way_out

pytestmark = pytest.mark.nvcc

ONCE = kernels.source(kernels.ONE_BOX)
WAYS = {1: ONCE, 2: way_out.twice(ONCE)}


@pytest.mark.parametrize("meetings", WAYS)
def test_a_box_is_filled_after_it_has_been_read(meetings: int) -> None:
    found = way_out.seen(WAYS[meetings])
    assert len(found.pieces) == 8 and len(found.meetings) == 8 * meetings
    for before, piece in zip(found.pieces, found.pieces[2:], strict=False):
        assert before.read <= piece.fills < piece.met < piece.asked
    reads = [b.asked < a.read for a, b in pairwise(found.pieces)]
    assert reads == [meetings == 2] * 7  # whether a copy is asked for while another reads


def test_once_a_box_is_filled_while_the_other_is_read() -> None:
    pieces = way_out.seen(ONCE).pieces
    assert all(b.fills <= a.asked < a.read <= b.met for a, b in pairwise(pieces))


def test_the_picture_says_so() -> None:
    title, once, twice = way_out.picture().alt.splitlines()
    assert title.startswith("Two boxes") and once.endswith(": no") and twice.endswith(": yes")
    assert once.startswith("once: 8 meetings") and twice.startswith("twice: 16 meetings")


@pytest.mark.parametrize("meetings", WAYS)
def test_meeting_twice_is_right_too(meetings: int) -> None:
    assert kernels.verdict(WAYS[meetings], 257, 232, 200).count("exact, 0 findings") == 3


@pytest.mark.parametrize("boxes", [2, 3])
@pytest.mark.parametrize("meetings", WAYS)
def test_how_many_copies_may_be_unread(boxes: int, meetings: int) -> None:
    """The chapter's exercise: its answer is right, and one more is found."""
    most = boxes + meetings - 3
    for unread in most, most + 1:
        changed = way_out.with_boxes(WAYS[meetings], boxes, unread)
        run, exact = kernels.multiply(changed, 128, 256, 64)
        assert (exact and not run.findings) == (unread == most)
        assert unread == most or "may still read it" in str(run.findings[0])
