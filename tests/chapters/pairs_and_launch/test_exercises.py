"""The checks of *Pairs, and who hands out the tiles*: what they accept, and what they refuse.

Those that run its kernels stand beside them, in the folder of the chapter that it goes on from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from phasebit.chapters.chain import exercises as check_kernel
from phasebit.chapters.pairs_and_launch import exercises as check
from phasebit.chapters.pairs_and_launch import hand_outs
from phasebit.edits import replace_once
from tests.book.notebooks import ROOT
from tests.chapters.answers import solved

CHAPTER = ROOT / "book/part6_blackwell/pairs_and_launch.ipynb"


def test_no_answer_yet() -> None:
    assert check_kernel.scheduler.verdict("// yours").endswith("not answered yet")
    assert check_kernel.arrivals.verdict(lambda *a: ...).endswith("not answered yet")
    assert check.done.verdict(lambda *a: ...).endswith("not answered yet")


def test_the_solution_of_tiles_in_hand_is_right() -> None:
    assert check.done.verdict(solved(CHAPTER)["done"]).startswith("done: OK")


Work = Sequence[int]


def last(lengths: Work, free: Work, ahead: int) -> int:
    return hand_outs.last(hand_outs.on_demand(lengths, free, ahead))


def taken_when_they_end(lengths: Work, free: Work, ahead: int) -> int:
    """Takes more when a tile has ended, not when it begins."""
    ready, held, left = list(free), [list[int]() for _ in free], [*range(len(lengths))]
    while left or any(held):
        p = min((p for p in range(len(free)) if left or held[p]), key=lambda p: (ready[p], p))
        while left and len(held[p]) < max(ahead, 1):
            held[p].append(left.pop(0))
        ready[p] += lengths[held[p].pop(0)]
    return max(ready)


DONE: dict[str, Callable[[Work, Work, int], Any]] = {
    "static": lambda lengths, free, ahead: hand_outs.last(hand_outs.static(lengths, free)),
    "nobody asks ahead": lambda lengths, free, ahead: last(lengths, free, 0),
    "one more ahead": lambda lengths, free, ahead: last(lengths, free, ahead + 1),
    "its own counts": lambda lengths, free, ahead: last(lengths, free, max(ahead - 1, 0)),
    "all are free at once": lambda lengths, free, ahead: last(lengths, [0] * len(free), ahead),
    "the work divided evenly": lambda lengths, free, ahead: sum(lengths) / len(free),
    "more is taken at the end of a tile": taken_when_they_end,
    "the longest first": lambda lengths, free, ahead: last(sorted(lengths)[::-1], free, ahead),
    "those that have no tile count": lambda lengths, free, ahead: max(
        last(lengths, free, ahead), *free, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", DONE)
def test_done_refuses(name: str) -> None:
    assert "not right yet" in check.done.verdict(DONE[name])


WAIT = "        ptx::mbarrier_wait(&s.answer_empty[at.slot], at.phase ^ 1);\n"
ANNOUNCE = ("        ptx::mbarrier_arrive_expect_tx(&s.answer_full[at.slot], "
            "sizeof s.answers[0]);\n")  # fmt: skip
ASK = "        ptx::try_cancel(&s.answers[at.slot], &s.answer_full[at.slot]);\n"
COME = "        ptx::mbarrier_wait(&s.answer_full[at.slot], at.phase);\n"
READ = "        tile = ptx::cancelled(&s.answers[at.slot]);\n"
PROXY = "        ptx::fence_proxy_async_shared();\n"
TOLD = "        ptx::mbarrier_arrive(&s.answer_empty[at.slot]);\n"
SCHEDULES = {
    "asks into a slot that is still read": ((WAIT, ""),),
    "waits for the other phase of empty": ((WAIT, WAIT.replace(" ^ 1", "")),),
    "announces nothing": ((ANNOUNCE, ""),),
    "arrives without bytes": ((ANNOUNCE, ANNOUNCE.replace("_expect_tx", "")
                               .replace(", sizeof s.answers[0]", "")),),
    "announces half of the answer": ((ANNOUNCE, ANNOUNCE.replace("s.answers[0]", "(long)")),),
    "does not ask": ((ASK, ""),),
    "asks twice": ((ASK, ASK + ASK),),
    "reads before the answer has come": ((COME, ""),),
    "waits for the other phase of full": ((COME, COME.replace("at.phase", "at.phase ^ 1")),),
    "does not read": ((READ, "        tile = -1;\n"),),
    "asks on after a no": (("tile >= 0", "tile >= -1"),),
    "asks once": (("tile >= 0", "tile > 0"), ("int tile = 0", "int tile = 1"),
                  (READ, "        tile = 0;\n")),
    "does not fence behind its reading": ((PROXY, ""),),
    "does not say that it has read": ((TOLD, ""),),
    "says so twice": ((TOLD, TOLD + TOLD),),
    "stays in one slot": (("at.advance()", ""),),
    "another head": (("schedule(Shared& s)", "schedule(Shared& s, int m)"),),
}  # fmt: skip


@pytest.mark.nvcc
def test_the_solution_of_launch_control_runs() -> None:
    said = check_kernel.scheduler.verdict(solved(CHAPTER)["asker"])
    assert said == "scheduler: OK (9 runs, no finding)"


@pytest.mark.nvcc
@pytest.mark.parametrize("name", SCHEDULES)
def test_scheduler_refuses(name: str) -> None:
    role = str(solved(CHAPTER)["asker"])
    for old, new in SCHEDULES[name]:
        role = replace_once(role, old, new)
    assert check_kernel.scheduler.verdict(role).startswith("scheduler: not right yet: ")


@pytest.mark.nvcc
def test_the_solution_of_arrivals_is_right() -> None:
    said = check_kernel.arrivals.verdict(solved(CHAPTER)["arrivals"])
    assert said == "arrivals: OK (3 runs on the emulator)"


Kinds = dict[str, int]


def pair(full: int, empty: int, made: int, given: int) -> Kinds:
    return dict(zip(check_kernel.BARRIERS, (full, empty, made, given), strict=True))


def counts(m: int, n: int, k: int) -> tuple[int, int]:
    tiles = -(-m // 256) * -(-n // 256)
    return tiles, tiles * -(-k // 64)


@pytest.mark.nvcc
@pytest.mark.parametrize(
    "wrong",
    [
        lambda t, s: [pair(s, s, t, 8 * t)] * 2,  # the second block's full and sum empty, too
        lambda t, s: [pair(s, s, t, 4 * t), pair(0, s, t, 4 * t)],  # each block's warps at home
        lambda t, s: [pair(2 * s, s, t, 8 * t), pair(0, s, t, 0)],  # both loaders announce
        lambda t, s: [pair(s, s, t, 8 * t), pair(0, 0, 0, 0)],  # commits to one block
        lambda t, s: [pair(5 * s, s, t, 8 * t), pair(0, s, t, 0)],  # copies counted as arrivals
        lambda t, s: [pair(s, 4 * s, t, 8 * t), pair(0, 4 * s, t, 0)],  # a commit for a product
        lambda t, s: [pair(s, s, t, 256 * t), pair(0, s, t, 0)],  # threads for warps
        lambda t, s: [pair(s, s, s, 8 * t), pair(0, s, s, 0)],  # a sum full after each slice
        lambda t, s: [pair(0, s, t, 0), pair(s, s, t, 8 * t)],  # the blocks exchanged
        lambda t, s: [pair(1, 1, 1, 8), pair(0, 1, 1, 0)],  # of a phase
    ],
)  # fmt: skip
def test_arrivals_refuses(wrong: Callable[[int, int], list[Kinds]]) -> None:
    said = check_kernel.arrivals.verdict(lambda m, n, k: wrong(*counts(m, n, k)))
    assert "not right yet" in said
