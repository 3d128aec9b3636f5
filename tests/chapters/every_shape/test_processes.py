"""The fastest plans in several processes: which they are, and what is made of their times."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from phasebit import measure, toolchain
from phasebit.chapters.every_shape import processes
from phasebit.chapters.every_shape.shapes import SHAPES


def test_every_shape_has_the_plan_of_the_main_record() -> None:
    texts = processes.fastest(measure.read("every_shape"))
    assert list(texts) == list(SHAPES)
    assert all("__global__" in text for text in texts.values())


def test_a_plan_that_is_gone_is_named() -> None:
    found = {"shapes": [{"shape": list(SHAPES[0]), "fastest": "of yesterday"}]}
    with pytest.raises(toolchain.CudaError, match="'of yesterday' now: measure every_shape anew"):
        processes.fastest(found)


def row(ours: float, vendor: float) -> dict[str, Any]:
    return {"times": {"a plan": {"warm_us": [9.0, ours, 1.0]}, "cuBLAS": {"warm_us": [vendor]}}}


def test_the_mean_is_of_the_shapes_ratios() -> None:
    assert processes.ratio(row(2.0, 3.0), "warm_us") == 1.5
    assert processes.mean([row(2.0, 4.0), row(4.0, 2.0)], "warm_us") == pytest.approx(1.0)


def test_a_process_that_fails_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(toolchain.CudaError, match="a process failed: it said nothing"):
        processes._process()
