"""The picture of the named barriers: what its run does, and that a wrong one is not drawn."""

from __future__ import annotations

import pytest

from phasebit import contents, files
from phasebit.chapters.warp_specialisation import who_comes
from phasebit.edits import replace_once
from tests.book.notebooks import code, source

pytestmark = pytest.mark.nvcc


@pytest.fixture(scope="module")
def text() -> str:
    """The kernel of the page."""
    chapter = contents.notebook(files.book(), "warp_specialisation")
    (cell,) = (source(one) for one in code(chapter) if "HAND_OVER = " in source(one))
    return cell.partition('r"""')[2].partition('"""')[0]


NAMES = {1: "full", 2: "empty"}


def test_each_barrier_opens_when_both_roles_have_come(text: str) -> None:
    drawn = who_comes.picture(text, "hand_over", 128, 192, NAMES)
    said = [(each.row, each.label) for each in drawn.spans if each.label]
    fill, read = "warps 0 and 1", "warps 2 and 3"
    assert drawn.rows == (fill, "barrier 1, full", "barrier 2, empty", read)
    assert said.count((fill, "arrive 1")) == said.count((read, "sync 1")) == 3
    assert said.count((read, "arrive 2")) == said.count((fill, "sync 2")) == 2
    opened = [row for row, label in said if label == "128: opens"]
    assert opened == [drawn.rows[1], drawn.rows[2]] * 2 + [drawn.rows[1]]
    (why,) = {each.waits_for for each in drawn.spans if each.kind == "wait"}
    assert why == "barrier 2, empty to open"


def test_a_wait_ends_with_the_step_that_opens_its_barrier(text: str) -> None:
    drawn = who_comes.picture(text, "hand_over", 128, 192, NAMES)
    opens = {(each.row, each.end) for each in drawn.spans if each.label == "128: opens"}
    for wait in (each for each in drawn.spans if each.kind == "wait"):
        assert (wait.waits_for.removesuffix(" to open"), wait.end) in opens


STORE, ARRIVE = "slot[i] = 64 * tile + i;", "arrive(FULL, 128);"


@pytest.mark.parametrize(
    ("old", "new"), [(STORE, f"{ARRIVE} {STORE}"), ("out[64 * tile + i] = slot[i]", "out[i] = 0")]
)
def test_a_wrong_run_is_not_drawn(text: str, old: str, new: str) -> None:
    changed = replace_once(text, old, new)
    if ARRIVE in new:  # before the store, and not after it
        changed = changed.replace(f"            {ARRIVE}\n", "")
    with pytest.raises(ValueError, match="the run is not right"):
        who_comes.picture(changed, "hand_over", 128, 192, NAMES)
