"""Quantised numbers of *Low precision, block by block*: against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.chapters.low_precision import nvfp4, quantise, view
from phasebit.emulator import block_scales


@pytest.mark.parametrize("form", quantise.ALL, ids=lambda form: form.name)
def test_numbers_of_the_format_stay_as_they_are(form: quantise.Format) -> None:
    draw = np.random.default_rng(1)
    from phasebit.emulator import formats

    codes = draw.integers(0, 1 << form.bits, (4, 64))
    x = formats.decode(form.element, codes).astype(np.float64)
    x = np.where(np.isfinite(x), x, 1.0)
    x[:, :: form.block or 64] = form.largest  # each block has the largest, so its scale is 1
    assert np.array_equal(quantise.quantise(x, form).values(), x)


@pytest.mark.parametrize("form", quantise.ALL, ids=lambda form: form.name)
def test_no_number_moves_further_than_half_a_step_or_saturates(form: quantise.Format) -> None:
    x = quantise.activations(8, 128, 2)
    q = quantise.quantise(x, form)
    by = quantise.factors(q) * q.whole if form.block else np.full((8, 1), q.whole)
    half = {"e2m1": 1.0, "e2m3": 0.25, "e4m3": 16.0}[form.element]  # of the widest step
    # A power of two may leave the largest number just below the next power: it saturates.
    over = 2.0 ** (np.floor(np.log2(form.largest)) + 1) - form.largest
    limit = max(half, over) if form.scale == "ue8m0" else 1.1 * half
    assert (np.abs(q.values() - x) <= limit * np.repeat(by, form.block or 128, axis=1)).all()


def test_smaller_blocks_lose_less_to_outliers() -> None:
    x = quantise.activations(64, 1024, 8)
    plain = np.abs(x).mean(axis=0) < 2
    lost = [
        np.linalg.norm((quantise.quantise(x, form).values() - x)[:, plain])
        for form in (quantise.FP4, quantise.MXFP4, quantise.NVFP4)
    ]
    assert lost[0] > lost[1] > lost[2]


def test_a_row_without_whole_blocks_is_refused() -> None:
    with pytest.raises(ValueError, match="no whole blocks of 16"):
        quantise.quantise(np.ones((2, 24)), quantise.NVFP4)


def test_zeros_stay_zeros() -> None:
    for form in quantise.ALL:
        assert not quantise.quantise(np.zeros((2, 64)), form).values().any()


@pytest.mark.parametrize(("rows", "count"), [(128, 4), (1, 1), (130, 20)])
def test_atoms_are_the_emulators(rows: int, count: int) -> None:
    scales = np.random.default_rng(rows).integers(0, 256, (rows, count)).astype(np.uint8)
    found = nvfp4.atoms(scales)
    high, wide = -(-rows // 128), -(-count // 16) * 4
    whole = np.zeros((high * 128, wide * 4), np.uint8)
    whole[:rows, :count] = scales
    right = [block_scales.atoms(whole[128 * i : 128 * i + 128, 4 * j : 4 * j + 4])[0]
             for i in range(high) for j in range(wide)]  # fmt: skip
    assert np.array_equal(found, right)


def test_two_numbers_are_in_a_byte() -> None:
    assert nvfp4.packed(np.array([[1, 2, 15, 0]], np.uint8)).tolist() == [[0x21, 0x0F]]


def test_smaller_blocks_help_against_outliers_and_finer_scales_without() -> None:
    both, smaller, finer, neither = (
        [float(error) for error in row[2:]]
        for row in (view.one_of_two().rows[i] for i in (3, 1, 2, 0))
    )
    assert smaller[2] < 0.75 * neither[2] and finer[2] > 0.95 * neither[2]
    assert finer[0] < 0.9 * neither[0] and smaller[0] > 0.9 * neither[0]
    assert both[2] <= smaller[2]
