"""The checks of *Four producers, four consumers* accept what is right, refuse what people write."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import pytest

from phasebit.chapters.chain import exercises as check
from phasebit.chapters.chain import rates
from phasebit.edits import replace_once
from tests.book.notebooks import ROOT
from tests.chapters.answers import solved

CHAPTER = next(ROOT.glob("book/*/??_chain.ipynb"))


def test_no_answer_yet() -> None:
    for each in (check.saves_most, check.slots_for, check.newest):
        assert each.verdict(lambda *a: ...).endswith("not answered yet")
    assert check.multiplier.verdict(...).endswith("not answered yet")
    assert check.multiplier.verdict("// yours").endswith("not answered yet")


def test_the_solutions_of_arithmetic_are_right() -> None:
    for name in ("saves_most", "slots_for", "newest"):
        assert f"{name}: OK" in getattr(check, name).verdict(solved(CHAPTER)[name])


@pytest.mark.parametrize(
    "wrong",
    [
        min,
        max,
        lambda depths: sorted(depths)[len(depths) // 2],
        lambda depths: max(depths, key=_clocks),
        lambda depths: min(depths, key=lambda k: abs(k - 512)),
    ],
)
def test_saves_most_refuses(wrong: Callable[..., int]) -> None:
    assert "not right yet" in check.saves_most.verdict(wrong)


@lru_cache
def _clocks(k: int) -> float:
    """What a second sum saves, in clocks: as many from k = 640 on."""
    one, two = (float(rates.gemm(k, sums=sums).per_tile()) for sums in (1, 2))
    return one - two


def test_a_second_sum_saves_the_largest_share_at_640() -> None:
    depths = [128, 512, 576, 640, 704, 2048]
    shares = {k: _clocks(k) / float(rates.gemm(k, sums=1).per_tile()) for k in depths}
    assert max(depths, key=lambda k: shares[k]) == 640 and round(shares[640], 2) == 0.15
    assert shares[128] == 0 and _clocks(2048) == _clocks(640) == 1024


@pytest.mark.parametrize(
    "wrong",
    [
        lambda copy, latency, product: 2,
        lambda copy, latency, product: -(-latency // product),
        lambda copy, latency, product: -(-(copy + latency) // product),
        lambda copy, latency, product: (copy + latency + product) // product,
        lambda copy, latency, product: 1 + -(-(copy + latency + product) // product),
        lambda copy, latency, product: -(-(copy + latency + product) // copy),
    ],
)
def test_slots_for_refuses(wrong: Callable[..., int]) -> None:
    assert "not right yet" in check.slots_for.verdict(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda boxes, meetings: 0,
        lambda boxes, meetings: meetings - 1,
        lambda boxes, meetings: boxes - 1,
        lambda boxes, meetings: boxes - meetings,
        lambda boxes, meetings: boxes - 3 + 2 * (meetings - 1),
    ],
)
def test_newest_refuses(wrong: Callable[..., int]) -> None:
    assert "not right yet" in check.newest.verdict(wrong)


EMPTY = "        ptx::mbarrier_wait(&s.sum_empty[to.slot], to.phase ^ 1);\n"
FENCE = "        ptx::tcgen05_fence_after_thread_sync();\n"
FULL = "            ptx::mbarrier_wait(&s.full[from.slot], from.phase);\n"
FREED = "            ptx::tcgen05_commit(&s.empty[from.slot]);\n"
MADE = "        ptx::tcgen05_commit(&s.sum_full[to.slot]);\n"
WRONG = {
    "no wait for an empty sum": ((EMPTY, ""),),
    "waits for a full sum": ((EMPTY, EMPTY.replace("to.phase ^ 1", "to.phase")),),
    "no fence behind that wait": ((FENCE, ""),),
    "no wait for the slice": ((FULL, ""),),
    "waits for an empty slice": ((FULL, FULL.replace("from.phase", "from.phase ^ 1")),),
    "never frees a slot": ((FREED, ""),),
    "frees a slot before its products": ((FREED, ""), (FULL, FULL + FREED)),
    "never says that a sum is full": ((MADE, ""),),
    "says so after each slice": ((MADE, ""), (FREED, FREED + "    " + MADE)),
    "adds to what was there": (("slice + step > 0", "true"),),
    "begins anew with each slice": (("slice + step > 0", "step > 0"),),
    "never adds": (("slice + step > 0", "false"),),
    "the same 16 of k four times": (("a + 2 * step, b + 2 * step", "a, b"),),
    "steps in bytes": (("a + 2 * step, b + 2 * step", "a + 32 * step, b + 32 * step"),),
    "the slot of slices does not go on": (("            from.advance();\n", ""),),
    "the slot of sums does not go on": (("        to.advance();\n", ""),),
    "both sums in one place": ((" + to.slot * TILE_N", ""),),
    "half as wide": (("tcgen05_bf16_f32(TILE_M, TILE_N)", "tcgen05_bf16_f32(TILE_M, 128)"),),
    "another head": (("int m, int n, int k", "int m, int n"),),
}


@pytest.mark.nvcc
def test_the_solution_runs() -> None:
    said = check.multiplier.verdict(solved(CHAPTER)["role"])
    assert said == "multiplier: OK (6 runs, no finding)"


@pytest.mark.nvcc
@pytest.mark.parametrize("name", WRONG)
def test_multiplier_refuses(name: str) -> None:
    role = str(solved(CHAPTER)["role"])
    for old, new in WRONG[name]:
        role = replace_once(role, old, new)
    assert check.multiplier.verdict(role).startswith("multiplier: not right yet: ")


@pytest.mark.parametrize("wrong", [1, lambda: None, ["role"]])
def test_multiplier_wants_text(wrong: object) -> None:
    assert "give the text of the role" in check.multiplier.verdict(wrong)
