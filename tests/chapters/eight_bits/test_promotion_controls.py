"""The kernel with block scales without its promotion: right on whole numbers, and nothing else."""

from __future__ import annotations

import re

import numpy as np
import pytest

from phasebit import measure, toolchain
from phasebit.chapters.eight_bits import contenders, product, promotion_controls, view
from phasebit.chapters.eight_bits.scaled import ROWS, SQUARES
from phasebit.instruments import disassembly

CHANGED = (promotion_controls.NONE, promotion_controls.UNDER_WAY)


def test_what_differs() -> None:
    whole = contenders.source(contenders.B)
    for name in CHANGED:
        text = promotion_controls.text(name)
        assert "promote(sums" in whole and "promote(sums" not in text
    assert promotion_controls.text(promotion_controls.BLOCKS) == whole


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["eager", "late"])
@pytest.mark.parametrize("name", CHANGED)
def test_right_on_whole_numbers_with_scales_of_1(name: str, schedule: str) -> None:
    a, b = product.plain(130, 656, 1, blocks=ROWS), product.plain(136, 656, 2, blocks=SQUARES)
    for each in (a, b):
        each.scales[...] = 1
    run, c = product.multiply(a, b, promotion_controls.text(name), schedule=schedule)
    assert np.array_equal(c, product.right(a, b))
    assert not run.findings, run.findings[0]


def test_what_the_page_says_of_the_price() -> None:
    """Cycles a step: all of the price goes with the promotion, part of it with the scales."""
    seen = measure.read(promotion_controls.NAME)
    for shape, price, scales in ((8192, 228, 88), (4096, 226, 97)):
        blocks, plain, none, under_way, halves = (
            round(view.step_cycles(seen, (shape,) * 3, name))
            for name in (promotion_controls.BLOCKS, promotion_controls.PLAIN,
                         promotion_controls.NONE, promotion_controls.UNDER_WAY,
                         promotion_controls.HALVES)
        )  # fmt: skip
        assert (blocks - none, blocks - plain) == (price, scales)
        assert abs(under_way - none) <= 2
        if shape == 8192:
            assert abs(none - halves) <= 2
    first = measure.read("eight_bits")
    blocks, half, one = (
        view.step_cycles(first, (8192,) * 3, name)
        for name in ("block scales", "half of the sums promoted", "one scale, halves of 128")
    )
    assert abs((blocks - half) / (blocks - one) - 1 / 3) < 0.03
    assert [round(blocks - half), round(blocks - one)] == [73, 220]
    three, shared, lanes, unrolled, both, deep = (
        round(view.step_cycles(first, (8192,) * 3, name))
        for name in ("three slots", "three slots, scales of B in shared memory",
                     "unrolled, descriptors by lane", "unrolled",
                     "unrolled, scales of B in shared memory", "DeepGEMM")
    )  # fmt: skip
    assert [three - lanes, lanes - unrolled, three - shared] == [125, 15, 84]
    assert abs(both - unrolled) <= 1 and unrolled - deep == 55 and unrolled - round(one) == 85
    for size, share in ((8192, "1.00"), (4096, "1.02")):
        rates = [view.rate(first, (size,) * 3, name) for name in ("unrolled", view.RIVAL)]
        assert f"{rates[0] / rates[1]:.2f}" == share


@pytest.mark.nvcc
def test_unrolled_the_next_step_is_asked_for_before_the_last_is_promoted() -> None:
    """In the machine code: loads of B's scales, and the multiply-adds behind the last product."""
    try:
        toolchain.tool("nvdisasm")
    except toolchain.ToolMissing as error:
        pytest.skip(str(error))
    folders = [f"-I{folder}" for folder in toolchain.include_folders()]
    behind = {}
    for kernel in (contenders.B, contenders.D):
        code, _ = disassembly.cubin(contenders.source(kernel), "sm_90a", folders)
        names = re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d )?(\w+)",
                           disassembly.listing(code), re.M)  # fmt: skip
        second = [n for n, name in enumerate(names) if name == "QGMMA"][7]  # of a step, the last
        behind[kernel] = [name for name in names[second:] if name in ("LDG", "FFMA")][:64]
    assert "LDG" not in behind[contenders.B]
    assert behind[contenders.D][:16].count("LDG") == 2  # after the first few multiply-adds
