"""What *Two GPUs* says of its record."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from phasebit import measure
from phasebit.chapters.two_gpus import link_law, view

RECORD = measure.read(view.BENCHMARK)


def cases(kind: str, whole: bool) -> list[dict[str, Any]]:
    return [c for c in RECORD["cases"] if c["kind"] == kind and c["whole"] is whole]


@pytest.mark.parametrize("kind", ["gather", "scatter"])
def test_ours_is_faster_than_torchs_operator_at_each_size(kind: str) -> None:
    for us in map(view.medians, cases(kind, whole=True)):
        assert us["ours"] < us["torch"] and us.get("ours, each warp waits", 0) < us["torch"]


def test_the_gather_hides_all_but_a_few_percent_and_more_than_warps_that_send() -> None:
    for us in map(view.medians, cases("gather", whole=True)):
        assert view.hidden(us, "ours") > 0.9
        assert view.hidden(us, "ours, warps send") < view.hidden(us, "ours") - 0.1


def test_the_carrier_is_faster_at_two_of_three_sizes_and_no_remedy() -> None:
    found = list(map(view.medians, cases("scatter", whole=True)))
    assert [us["ours"] < us["ours, each warp waits"] for us in found] == [True, False, True]
    for us in found:
        assert abs(us["ours"] - us["ours, each warp waits"]) < 0.2 * (us["ours"] - us["product"])
        assert view.hidden(us, "ours") < 0.8


def test_which_shares_reach_what_was_wanted() -> None:
    shares = {kind: [view.hidden(view.medians(case), "ours") for case in cases(kind, whole=True)]
              for kind in view.WANTED}  # fmt: skip
    reached = {kind: [a >= b for a, b in zip(shares[kind], view.WANTED[kind], strict=True)]
               for kind in view.WANTED}  # fmt: skip
    assert reached == {"gather": [True, True, True], "scatter": [False, False, True]}
    assert [round(100 * share) for share in shares["scatter"][:2]] == [79, 68]
    assert view.WANTED["scatter"][:2] == (0.85, 0.75)


def test_nccl_takes_longer_than_the_link_needs() -> None:
    first, *_ = cases("gather", whole=True)
    assert round(view.medians(first)["communication"]) == 293
    m, _, k = first["shape"]
    assert m // 2 * k * 2 == 64 * 2**20
    assert round(m // 2 * k * 2 / link_law.link_rate(RECORD["link"]) * 1e-3) == 175


def test_what_the_link_carries() -> None:
    link = RECORD["link"]
    assert link["stores of 32 blocks"] > 0.9 * link["stores of 132 blocks"]
    ratio = link["copy engine, 1024 KiB"] / link["copy engine, 65536 KiB"]
    assert ratio == pytest.approx(0.5, abs=0.05)


def test_the_law_of_whole_tiles_is_within_two_percent_and_the_law_alone_is_not() -> None:
    rows = [row for row in view.predicted().rows if row[0].startswith("all-gather")]
    for _, _, _, law, whole, measured in rows:
        assert float(whole) == pytest.approx(float(measured), rel=0.021)
        assert float(law) <= float(whole)
    assert any(float(row[3]) < 0.9 * float(row[5]) for row in rows)


def test_the_law_is_too_low_for_the_reduce_scatter() -> None:
    rows = [row for row in view.predicted().rows if row[0].endswith("scatter")]
    more = [round(float(row[5]) - float(row[3])) for row in rows]
    assert (min(more), max(more)) == (17, 96)


def test_the_link_is_not_what_binds_the_widest_reduce_scatter() -> None:
    narrow, *_, wide = map(view.medians, cases("scatter", whole=False))
    assert (round(narrow["ours"]), round(wide["our product"] / 2)) == (246, 353)
    rows = [row for row in view.predicted().rows if row[0].endswith("scatter")]
    assert [round(float(rows[i][5]) - float(rows[i][3])) for i in (0, -1)] == [17, 73]


def test_sixty_blocks_have_two_tiles_of_the_peers_at_1536_columns() -> None:
    half = 4096 // 128 * 1536 // 256
    peers = Counter(n % 132 for n in range(half, 2 * half))
    assert sum(count == 2 for count in peers.values()) == 60
    assert link_law.by_tiles(3, 2, half, 132) == 4
