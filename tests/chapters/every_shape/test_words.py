"""What the page says in words of its records: a new measurement must keep it."""

from __future__ import annotations

from statistics import quantiles
from typing import Any

import pytest

from phasebit import measure
from phasebit.chapters.every_shape import (
    narrower,
    open_kernels,
    plans,
    record,
    row_ends,
    tries,
    view,
    waves,
)
from phasebit.chapters.every_shape.choice import PAIRS_EVERYWHERE, choose
from phasebit.chapters.every_shape.plans import Plan
from phasebit.chapters.every_shape.shapes import Shape

SMALL, ODD, AWKWARD = (Shape(*[size] * 3) for size in (1024, 1000, 5000))
ALONE, LATE = Plan(plans.EARLY, 1, 128, 8), Plan(plans.SMALL, 1, 128, 8)


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    return measure.read(record.NAME)


@pytest.fixture(scope="module")
def ends() -> dict[str, Any]:
    return measure.read(row_ends.NAME)


def us(recorded: dict[str, Any], shape: Shape, plan: Plan, way: str = "warm") -> float:
    return view.median(view.row_of(recorded, shape)["times"][str(plan)], way)


def test_aims(recorded: dict[str, Any]) -> None:
    best, chosen = (view.summary(recorded, name) for name in (view.best, view.chosen))
    assert round(best["warm, geometric mean"], 3) == 1.039
    assert round(best["flushed, geometric mean"], 3) == 1.014
    assert round(chosen["warm, geometric mean"], 3) == 1.025
    assert round(chosen["warm, least"], 2) == 0.95
    pairs = view.summary(recorded, lambda row: str(PAIRS_EVERYWHERE))
    assert round(pairs["warm, geometric mean"], 2) == 0.74
    warm, flushed = (
        {Shape(*row["shape"]): view.ratio(row, view.best(row), way) for row in recorded["shapes"]}
        for way in view.WAYS
    )
    below = {str(shape): round(value, 3) for shape, value in warm.items() if value < 1}
    assert below == {"5000³": 0.973, "64 × 10240 × 8192": 0.997, "1024 × 28672 × 8192": 0.982}
    assert {str(shape) for shape, value in flushed.items() if value < 0.97} == {
        "1000³", "5000³", "64 × 10240 × 8192"
    }  # fmt: skip


def test_where_open_kernels_are_ahead() -> None:
    beside = measure.read(open_kernels.NAME)
    ahead: dict[str, list[str]] = {}
    means: dict[str, list[float]] = {}
    for row in beside["shapes"]:
        shares = view.by_maker(row, "warm")
        for who, share in shares.items():
            means.setdefault(who, []).append(share)
        fastest = max(shares.keys() - {view.VENDOR}, key=lambda who: shares[who])
        ahead.setdefault(fastest, []).append(str(Shape(*row["shape"])))
        assert shares["ours"] > shares.get("fast.cu", 0)
    assert ahead.pop("ours") and ahead == {
        "CUTLASS": ["16384 × 4096 × 4096", "4096 × 14336 × 4096", "256 × 4096 × 14336",
                    "2048 × 6144 × 4096"],
        "DeepGEMM": ["8192³", "1024 × 28672 × 8192"],
    }  # fmt: skip
    assert round(view.geomean(means["ours"]), 3) == 1.023
    assert all(view.geomean(means[who]) < 1 for who in view.MAKERS[1:])


def test_which_are_decided(recorded: dict[str, Any]) -> None:
    """By the middle halves of the times."""
    found: dict[str, list[str]] = {}
    for row in recorded["shapes"]:
        for way, field in view.WAYS.items():
            times = row["times"]
            ours, vendor = (quantiles(times[name][field], n=4)
                            for name in (view.best(row), view.VENDOR))  # fmt: skip
            if ours[2] < vendor[0] or vendor[2] < ours[0]:
                who = "ours" if ours[2] < vendor[0] else view.VENDOR
                found.setdefault(f"{way}, {who}", []).append(str(Shape(*row["shape"])))
    assert {who: len(shapes) for who, shapes in found.items()} == {
        "warm, ours": 6, f"warm, {view.VENDOR}": 1,
        "flushed, ours": 2, f"flushed, {view.VENDOR}": 3,
    }  # fmt: skip
    assert found[f"warm, {view.VENDOR}"] == ["5000³"]


def test_early_launch(recorded: dict[str, Any]) -> None:
    def more(*shape: int) -> float:
        return us(recorded, Shape(*shape), ALONE) / us(recorded, Shape(*shape), LATE) - 1

    assert abs(more(256, 4096, 14336) - 1 / 12) < 0.01
    assert 0.3 < more(64, 10240, 8192) < 1 / 3
    assert round(more(16, 14336, 4096), 2) == 0.04 and round(more(128, 14336, 4096), 2) == 0.08
    vendor = view.median(view.row_of(recorded, SMALL)["times"][view.VENDOR], "warm")
    assert round(vendor / us(recorded, SMALL, LATE), 2) == 1.02


def test_the_model_chooses_well_at_fourteen(recorded: dict[str, Any]) -> None:
    lost = {
        Shape(*row["shape"]): view.median(row["times"][view.chosen(row)], "warm")
        / view.median(row["times"][view.best(row)], "warm") - 1
        for row in recorded["shapes"]
    }  # fmt: skip
    assert sum(each < 0.03 for each in lost.values()) == 14
    assert max(lost, key=lost.__getitem__) == (256, 4096, 14336)


def test_the_models_times_are_too_short_where_products_bind(recorded: dict[str, Any]) -> None:
    found = {}
    for row in recorded["shapes"]:
        shape = Shape(*row["shape"])
        said = waves.estimate(choose(shape), shape)
        assert str(choose(shape)) == view.chosen(row)
        found[shape] = said.binds, said.us / view.median(row["times"][view.chosen(row)], "warm")
    for binds, ratio in found.values():
        assert ratio < 1 if binds == "products" else abs(ratio - 1) < 1 / 6
    largest = sorted(found, key=lambda shape: shape.flop)[-4:]
    assert all(0.76 < found[shape][1] < 0.81 for shape in largest)
    drawn = view.modelled(recorded).alt
    assert "8192³: products bind 0.77" in drawn and "1024³: copies bind 1.16" in drawn


def test_tries(recorded: dict[str, Any]) -> None:
    row = recorded["tries"]
    more = {
        name: [view.median(row["times"][name], way) / view.median(row["times"][tries.BASE], way) - 1
               for way in view.WAYS]
        for name in tries.TRIES
    }  # fmt: skip
    rounded = {name: [round(100 * each) for each in both] for name, both in more.items()}
    assert rounded["4 slots"] == [4, 10]
    assert 0.3 < more["no product in flight while a slot is given back"][0] < 1 / 3
    assert 0.2 < more["C from registers"][0] < 0.25
    helpless = [name for name, each in tries.TRIES.items() if each.expected.startswith("faster")]
    assert len(helpless) == 3 and all(min(more[name]) > 0.05 for name in helpless)


def test_cuts(recorded: dict[str, Any]) -> None:
    for shape, low, high in (
        (AWKWARD, 1.1, 1.2), (Shape(2048, 6144, 4096), 0.95, 1),
        (Shape(2048, 2048, 2048), 0.75, 0.82),
    ):  # fmt: skip
        row = view.row_of(recorded, shape)
        cut, whole = (view.ratio(row, name, "warm") for name in view.stream_and_whole(row))
        assert low < cut / whole < high


def test_rows(ends: dict[str, Any]) -> None:
    for row, ours, vendor, behind in zip(
        ends["rows"], (0.11, 0.07), (0.23, 0.1), (0.09, 0.06), strict=True
    ):
        base, padded = row_ends.AS_THEY_ARE, row_ends.PADDED
        times = {name: view.median(each, "warm") for name, each in row["times"].items()}
        assert abs(1 - times[padded] / times[base] - ours) < 0.011
        theirs = times[f"{view.VENDOR}, {padded}"]
        assert abs(1 - theirs / times[f"{view.VENDOR}, {base}"] - vendor) < 0.011
        assert abs(times[padded] / theirs - 1 - behind) < 0.011


def test_promotion(ends: dict[str, Any]) -> None:
    for row in ends["promotion"]:
        for way in view.WAYS:
            none, some, most = (view.median(row["times"][each], way)
                                for each in row_ends.PROMOTIONS)  # fmt: skip
            assert abs(some / none - 1) < 0.03
            if tuple(row["shape"]) in (ODD, AWKWARD):
                assert 0.025 < most / none - 1 < 0.065
            else:
                assert abs(most / none - 1) < 0.0305


def test_narrower() -> None:
    seen = measure.read(narrower.NAME)
    for way in view.WAYS:
        slow, wide = (view.ratio(seen, f"{plan} NONE", way)
                      for plan in (narrower.NARROWER, narrower.WIDE))  # fmt: skip
        assert 0.015 < 1 - slow / wide < 0.035
        for plan in (narrower.NARROWER, narrower.WIDE):
            names = (f"{plan} L2_256B", f"{plan} NONE")
            assert view.ratio(seen, names[0], way) < view.ratio(seen, names[1], way)
