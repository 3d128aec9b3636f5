"""The record of *Eight bits*, and the programs that made it."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit import measure
from phasebit.chapters.eight_bits import contenders as variants
from phasebit.chapters.eight_bits import lead, sums, view
from phasebit.chapters.eight_bits import record as eight_bits
from phasebit.chapters.eight_bits import scaled as quantise
from phasebit.chapters.eight_bits import sum_errors as errors


def test_every_variant_fits_its_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, (kernel, _) in variants.VARIANTS.items():
        assert variants.variant(name) != variants.source(kernel)
    assert variants.stamped().count("stamp(") == 6 and variants.stamped().count("_both(") == 2
    monkeypatch.setattr(variants, "source", lambda kernel: "nothing")
    with pytest.raises(ValueError, match="once to be changed there"):
        variants.variant("three slots")


def test_the_gpu_keeps_what_the_emulator_keeps() -> None:
    recorded = measure.read(eight_bits.NAME)["sums"]
    kept = {element: said.index(False) - 1 for element, said in recorded["survivors"].items()}
    assert kept == {"e4m3": 13, "bf16": 23}
    for terms, said in recorded["stalled"].items():
        assert said["e4m3"] == errors.growing(0.75, int(terms), int(terms))[-1]
        assert said["every 128"] == said["bf16"] == 0.75 * int(terms)


@pytest.mark.nvcc
def test_random_sums_have_the_same_bits() -> None:
    for case in measure.read(eight_bits.NAME)["sums"]["random"]:
        if case["products"] <= 16:
            how = case["element"], case["products"], case["every"], case["seed"]
            assert sums.random_sums(*how).ravel().tolist() == case["bits"], how


def test_errors_on_the_gpu_are_those_of_the_model() -> None:
    """Without signs, where they are large; the result's rounding to bf16 is in them."""
    (case,) = [
        each for each in measure.read(eight_bits.NAME)["errors"]
        if each["k"] == 1024 and not each["signs"]
    ]  # fmt: skip
    model = errors.of_sums(1024, positive=True, size=8)
    assert case["relative"]["one scale"] == pytest.approx(model["no promotion"], rel=0.1)
    assert case["relative"]["block scales"] < 2.0**-9 + model["every 128"]


def test_the_kernels_hold_their_place_beside_the_vendor() -> None:
    record = measure.read(eight_bits.NAME)
    for shape in view.shapes(record):
        assert view.rate(record, shape, "one scale") > view.rate(record, shape, view.RIVAL)
        vendor = view.rate(record, shape, "cuBLASLt, block scales")
        assert view.rate(record, shape, "block scales") > 0.95 * vendor
    for row in record["products"]:
        for each in row["contenders"].values():
            assert 1000 < min(each["mhz"]) <= max(each["mhz"]) < 2050  # an H200's


def test_what_was_tried_against_the_lead() -> None:
    recorded = measure.read(lead.NAME)
    share = {
        name: [view.rate(recorded, shape, name) / view.rate(recorded, shape, lead.DEEP)
               for shape in view.shapes(recorded)]
        for name in (lead.UNROLLED, *lead.TRIED, lead.E5M2, lead.ALONE, lead.IN_SLOT, *lead.BACK)
    }  # fmt: skip
    ours = share[lead.UNROLLED]
    assert set(view.LEAD) == set(lead.TRIED) and all(0.96 < each < 0.985 for each in ours)

    def more(name: str, than: list[float]) -> list[float]:
        return [100 * (a / b - 1) for a, b in zip(share[name], than, strict=True)]

    for name in ("unrolled by 8", "descriptors by adding", "all boxes of a tile"):
        assert all(abs(each) < 1 for each in more(name, ours))
    assert all(-1.2 < each < 0 for each in more("one block, said to ptxas", ours))
    assert round(min(more("scales of B in shared memory", ours))) == -4
    assert round(min(more("scales of B in lanes", ours))) == -2
    assert all(-2.5 < each < -1 for each in more("pairs of blocks", ours))
    assert all(round(each) == 1 for each in more(lead.E5M2, ours))
    assert all(0.99 < each < 1 for each in share[lead.ALONE])
    fewest = [lead.SHAPES.index(shape) for shape in lead.SHAPES if shape[2] == 2048]
    assert [ours.index(min(ours))] == fewest and all(each > 0.978 for each in ours if each > 0.97)

    best = share[lead.IN_SLOT]
    assert len(view.BACK) == len(lead.BACK)
    assert min(best) > 1.003 and max(best) < 1.01
    memory, warps, *others = (more(name, best) for name in lead.BACK)
    assert all(-1.25 < each < -0.15 for each in memory) and all(-3 < each < -0.6 for each in warps)
    assert warps.index(min(warps)) == fewest[0]
    assert all(abs(each) < 0.75 for several in others for each in several)
    cycles = [round(view.step_cycles(recorded, lead.SHAPES[0], name))
              for name in (lead.UNROLLED, lead.IN_SLOT, lead.DEEP)]  # fmt: skip
    assert cycles == [1224, 1168, 1170]


@pytest.mark.parametrize("shape", [(5, 16), (128, 128), (130, 272)])
@pytest.mark.parametrize("blocks", [None, quantise.ROWS, quantise.SQUARES])
def test_no_number_moves_further_than_half_a_step(
    shape: tuple[int, int], blocks: tuple[int, int] | None
) -> None:
    x = np.random.default_rng(3).standard_normal(shape)
    q = quantise.quantise(x, blocks)
    scales = quantise.spread(q.scales, blocks, *shape)
    step = np.maximum(2.0 ** (np.floor(np.log2(np.abs(x / scales))) - 3), 2.0**-9)
    assert (np.abs(q.values() - x) <= 0.5001 * step * scales).all()
    assert np.abs(q.codes & 0x7F).max() == 0x7E  # the largest number of a block is the format's


def test_zeros_stay_zeros() -> None:
    assert not quantise.quantise(np.zeros((2, 256)), quantise.ROWS).values().any()
