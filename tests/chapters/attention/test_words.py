"""What the page says in words of its controls: a new measurement must keep it."""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest

from phasebit import measure
from phasebit.chapters.attention import attention_controls as controls
from phasebit.chapters.attention import view


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    return measure.read(controls.NAME)


def us(seen: dict[str, Any], d: int, name: str, causal: bool = False) -> float:
    return median(view.contenders(seen, d, causal, controls.RANDOM)[name]["times_us"])


def test_two_blocks_at_once_are_two_groups(seen: dict[str, Any]) -> None:
    one, _, alone = seen["at_once"]
    assert [seen["at_once"][name]["64"] for name in seen["at_once"]] == [2, 2, 1]
    assert {each["128"] for each in seen["at_once"].values()} == {1}
    assert 1.55 < us(seen, 64, alone) / us(seen, 64, one) < 1.65
    assert abs(us(seen, 64, "ping-pong") / us(seen, 64, one) - 1) < 0.01
    assert abs(us(seen, 128, alone) / us(seen, 128, one) - 1) < 0.005
    assert us(seen, 128, "ping-pong") < 0.7 * us(seen, 128, one)


def test_products_alone_are_slower_and_it_is_not_power(seen: dict[str, Any]) -> None:
    cycles: dict[str, list[float]] = {}
    mhz: dict[str, list[float]] = {}
    for inputs in (controls.RANDOM, controls.ZEROS):
        found = view.contenders(seen, 128, False, inputs)
        for name in controls.ON_ZEROS:
            clock = median(found[name]["mhz"])
            mhz.setdefault(name, []).append(clock)
            cycles.setdefault(name, []).append(clock * median(found[name]["times_us"]))
    for name in controls.ON_ZEROS:
        assert abs(cycles[name][1] / cycles[name][0] - 1) < 0.01
        assert 0.045 < mhz[name][1] / mhz[name][0] - 1 < 0.065
    for alone, whole in zip(cycles[controls.PRODUCTS], cycles[controls.LAST], strict=True):
        assert round(100 * (alone / whole - 1)) == 14


def test_turns_are_worth_little(seen: dict[str, Any]) -> None:
    none = "ping-pong, no named barriers"
    for d, causal in controls.CASES:
        ratio = us(seen, d, "ping-pong", causal) / us(seen, d, none, causal)
        assert abs(ratio - 1) < 0.035
    assert us(seen, 64, none, True) < us(seen, 64, "ping-pong", True)
    assert us(seen, 64, none) > us(seen, 64, "ping-pong")


@pytest.mark.nvcc
@pytest.mark.parametrize("d", [64, 128])
def test_products_alone_are_spilled(d: int) -> None:
    assert view.spilled(controls.PRODUCTS, d) > 0
    assert view.spilled(controls.LAST, d) == view.spilled(controls.NO_EXPONENTIALS, d) == 0


LONG = [(False, 4096), (False, 16384)]


def test_what_was_wanted_is_reached_but_for_three_shapes_of_heads_of_64() -> None:
    record = measure.read("attention")
    missed = []
    for d in 128, 64:
        for causal in False, True:
            for length in view.SEQUENCES:
                found = view.row(record, d, causal, length)
                parts = view.wanted(causal, length)
                assert parts[view.CUDNN] == (1 if (causal, length) in LONG else 0.97)
                over = {rival: found[view.LAST] / part / found[rival]
                        for rival, part in parts.items()}  # fmt: skip
                assert over[view.CUDNN] >= 1
                if over[view.FLASH] < 1:
                    missed.append((d, causal, length, over[view.FLASH]))
    assert [each[:3] for each in missed] == [(64, False, 1024), (64, True, 1024), (64, True, 4096)]
    assert round(100 * (1 - min(each[3] for each in missed))) == 15
    assert "64, full, 1,024: cuDNN 1.02, FlashAttention-2 0.85" in view.reached(record).alt
