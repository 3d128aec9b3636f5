"""What the pictures of order say, of kernels whose order is known."""

from __future__ import annotations

import pytest

from phasebit import files
from phasebit.chapters.one_thread_multiplies import blackwell, described, ordering

pytestmark = pytest.mark.nvcc
QUEUE = files.kernel("one_thread_multiplies/queue")
WAIT = slice(
    QUEUE.index("        ptx::tcgen05_commit(&first);"), QUEUE.index("        for (int quarter")
)


def arrows(text: str, barriers: list[str]) -> set[str]:
    drawn = ordering.drawn(lambda: described.queued(text, schedule="eager"), barriers, "title")
    return {line.split(": ", 1)[1] for line in drawn.alt.splitlines()[1:]}


def test_a_wait_takes_the_place_of_a_pair_that_is_not_listed() -> None:
    without = QUEUE[: WAIT.start] + QUEUE[WAIT.stop :]
    assert "cp → shift × 4: nothing" in arrows(without, ["done"])
    right = arrows(QUEUE, ["first", "done"])
    assert not any("nothing" in arrow for arrow in right)
    assert {"commit first → wait first: arrives", "wait first → shift × 4: then"} <= right


def test_products_into_one_sum_are_listed_and_those_of_two_sums_have_no_arrow() -> None:
    source = files.kernel(blackwell.ONE)
    drawn = ordering.drawn(
        lambda: blackwell.multiply(source, 128, 128, 128, schedule="eager"), ["done"], "title"
    )
    assert "mma × 4 → mma × 4: listed" in drawn.alt and "wait done → ld: then" in drawn.alt
    assert not any(arrow.startswith("mma → mma") for arrow in arrows(QUEUE, ["first", "done"]))


def test_more_barriers_than_names_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        arrows(QUEUE, ["first"])
