"""Batches made together: the launch of kernel g with other numbers, and what the page shows."""

from __future__ import annotations

import statistics

import numpy as np
import pytest

from phasebit import measure
from phasebit.chapters.attention import attend, together, together_view
from phasebit.chapters.attention.rungs import CUDNN, FLASH, NEXT, TOKENS

RECORDED = measure.read(together.NAME)


def test_the_kernel_is_that_of_g() -> None:
    g, ours = attend.flat(attend.NEXT), together.fitting()
    launch = "template <int D, bool CAUSAL> void launch("
    assert ours.partition("// Causal: so many batches'")[0] == g.partition(launch)[0]
    assert together.program(64, 1024).startswith(g.partition(launch)[0])
    assert together.settable().count("set_together ?") == 1


@pytest.mark.nvcc
def test_it_does_not_matter_of_how_many_batches_the_heads_are() -> None:
    programs = attend.Programs({"kernel": attend.source(attend.NEXT)}, (64, True))
    h = attend.heads(64, 300, 300, layers=4, sharing=2)
    made = [programs.attend("kernel", h, True, batches=n, blocks=3) for n in (1, 2, 4)]
    for each in made:
        assert not each.run.findings and each.error <= 1
        np.testing.assert_array_equal(each.o, made[0].o)


def test_counts_divide_the_batches() -> None:
    assert together.counts(1024) == [1, 2, 4, 8, 16] and together.counts(4096) == [1, 2, 4]
    for case, fit in RECORDED["fit"].items():
        assert TOKENS // int(case.split(", ")[1]) % fit == 0


def test_blocks_are_as_busy_and_the_last_is_done_earlier() -> None:
    """What the page says of heads of 64 and 1,024 tokens, while keys and values fit in L2."""
    ends = together_view.of_case(RECORDED["done"], 64, 1024)["blocks"]
    read = together_view.of_case(RECORDED["bytes"], 64, 1024)["read"]
    alone, eight = ends[NEXT], ends[together.contender(8)]
    assert abs(statistics.mean(eight) / statistics.mean(alone) - 1) < 0.01
    assert eight[-1] < 0.92 * alone[-1]
    assert read[together.contender(8)] < 1.05 * read[NEXT]


def test_beyond_l2_bytes_and_busy_blocks_grow() -> None:
    ends = together_view.of_case(RECORDED["done"], 128, 1024)["blocks"]
    read = together_view.of_case(RECORDED["bytes"], 128, 1024)["read"]
    four, sixteen = (together.contender(n) for n in (4, 16))
    assert statistics.mean(ends[sixteen]) > 1.15 * statistics.mean(ends[four])
    assert read[sixteen] > 2.5 * read[four]


def test_views_say_what_the_record_says() -> None:
    times = together_view.us(together_view.of_case(RECORDED["times"], 64, 1024))
    rows = {row[0]: row for row in together_view.rates(RECORDED).rows}
    row = rows["d = 64, causal, 1,024"]
    assert row[1] == "8" and row[2] == f"{times[NEXT]:.1f}"
    assert row[4:] == tuple(
        f"{times[rival] / times[together.FITTING]:.2f}" for rival in (CUDNN, FLASH)
    )
    assert rows["d = 64, full, 1,024"][1] == "1"
    costs = together_view.costs(RECORDED, (64, 1024), (128, 1024)).rows
    assert len(costs) == 10 and costs[0][0] == "d = 64, 1,024: 1 batch (g)"
    with pytest.raises(ValueError):
        together_view.of_case(RECORDED["times"], 64, 2048)


def test_the_picture_has_a_curve_for_each_count() -> None:
    picture = together_view.done(RECORDED, 64, 1024, (1, 2, 8))
    said = picture._repr_mimebundle_()["text/plain"]
    ends = together_view.of_case(RECORDED["done"], 64, 1024)["blocks"]
    assert "8 batches: " in said and f"{ends[NEXT][-1]:.1f}" in said
