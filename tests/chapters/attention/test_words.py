"""What the page says in words of its records: a new measurement must keep it."""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest

from phasebit import measure
from phasebit.chapters.attention import rungs, view

LONG = [(False, 4096), (False, 16384)]
CASES = [(128, False, 4096), (128, True, 4096), (64, False, 4096), (128, False, 1024)]


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    return measure.read("attention")


def part(record: dict[str, Any], name: str, base: str, case: tuple[int, bool, int]) -> float:
    found = view.row(record, *case, part="variants")
    return found[name] / found[base]


def test_what_was_wanted_is_reached_but_for_two_shapes(record: dict[str, Any]) -> None:
    missed, beside = {}, {}
    for d in 128, 64:
        for causal in False, True:
            for length in view.SEQUENCES:
                found = view.row(record, d, causal, length)
                parts = view.wanted(causal, length)
                assert parts[view.CUDNN] == (1 if (causal, length) in LONG else 0.97)
                assert found[view.LAST] > found[view.CUDNN]
                if found[view.LAST] < parts[view.FLASH] * found[view.FLASH]:
                    part = found[view.LAST] / found[view.FLASH] / parts[view.FLASH]
                    missed[d, causal, length] = f"{part:.2f}"
                beside[d, causal, length] = found[view.LAST] / found[rungs.FLASH_3]
    assert list(missed) == [(64, False, 1024), (64, True, 1024)]
    assert list(missed.values()) == ["1.00", "0.97"]
    *level, ahead = sorted(beside.values())[1:7]
    assert min(beside, key=beside.__getitem__) == (128, True, 1024)
    assert f"{beside[128, True, 1024]:.2f}" == "0.97"
    assert max(abs(each - 1) for each in level) < 0.03 < ahead - 1 and max(beside.values()) < 1.34


def test_the_last_two_kernels_in_full_attention(record: dict[str, Any]) -> None:
    for d, least, most in (128, 1.045, 1.07), (64, 0.965, 0.99):
        for length in view.SEQUENCES:
            found = view.row(record, d, False, length)
            assert least < found["dynamic"] / found["lean softmax"] < most


def test_packed(record: dict[str, Any]) -> None:
    for case in record["packed"]:
        us = {name: median(each["times_us"]) for name, each in case["contenders"].items()}
        assert us[view.ALONE] > 2 * us[view.PACKED]
        assert 1.08 < us[rungs.FLASH_3] / us[view.PACKED] < 1.12


def test_two_groups_for_heads_of_64(record: dict[str, Any]) -> None:
    full, causal = (view.row(record, 64, kind, 4096) for kind in (False, True))
    assert abs(full["ping-pong"] / full["one group"] - 1) < 0.01
    assert f"{causal['ping-pong'] / causal['one group']:.2f}" == "0.96"


def test_more_groups_need_the_lean_softmax(record: dict[str, Any]) -> None:
    lean = [part(record, "lean softmax", "persistent", case) for case in CASES]
    before = [part(record, "more groups, the softmax of before", "persistent", case)
              for case in CASES]  # fmt: skip
    assert max(before) < 1 and lean[1] < 1 and min(lean[0], lean[2]) > 1.01
    assert abs(lean[3] - 1) < 0.01


def test_the_counter_is_worth_what_arithmetic_says(record: dict[str, Any]) -> None:
    found = view.row(record, 128, True, 16384)
    assert f"{found['dynamic'] / found['lean softmax']:.2f}" == "1.17"


def test_the_third_kernel_over_the_second(record: dict[str, Any]) -> None:
    found = view.row(record, 128, False, 4096)
    assert round(100 * (found["overlapped"] / found["ping-pong"] - 1)) == 4
