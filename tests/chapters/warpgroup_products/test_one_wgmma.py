"""One wgmma with every choice: majors, sign, A from registers; and what its record says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from phasebit import files, measure
from phasebit.chapters.warpgroup_products import left_out, one_wgmma, view
from phasebit.emulator import formats
from tests.book.notebooks import ROOT
from tests.chapters.answers import solved

RECORD = measure.read("warpgroup_products")
CHAPTER = next(ROOT.glob("book/*/??_warpgroup_products.ipynb"))


@pytest.fixture
def matrices() -> tuple[Any, Any]:
    draw = np.random.default_rng(16)
    a, b = (draw.integers(-4, 5, (64, 64)).astype(float) for _ in range(2))
    return a, b


@pytest.mark.nvcc
def test_every_choice_gives_the_product(matrices: tuple[Any, Any]) -> None:
    a, b = matrices
    right, tile = a @ b.T, one_wgmma.tile(b)
    in_rows = np.asarray(formats.encode("bf16", a)).astype(np.uint16).reshape(-1).view(np.uint32)
    choices = {
        "described": (one_wgmma.tile(a), right),
        "m_major": (one_wgmma.tile(a, mn_major=True), right),
        "negated": (one_wgmma.tile(a), -right),
        "from_registers": (one_wgmma.Tile(in_rows, 0), right),
    }
    for kernel, (mine, wanted) in choices.items():
        out, run = one_wgmma.product(mine, tile, kernel=kernel)
        assert np.array_equal(out, wanted) and not run.findings, kernel


@pytest.mark.nvcc
def test_a_wrong_step_is_silent(matrices: tuple[Any, Any]) -> None:
    a, b = matrices
    out, run = one_wgmma.product(one_wgmma.tile(a), one_wgmma.tile(b), step=1)
    assert not run.findings and not np.array_equal(out, a @ b.T)
    text = files.kernel("warpgroup_products/described").replace(
        "multiply<1, 1, 128>", "multiply<1, 1, 2>"
    )
    m_major = one_wgmma.tile(a, mn_major=True)
    out, run = one_wgmma.product(m_major, one_wgmma.tile(b), kernel="m_major", text=text)
    assert not run.findings and not np.array_equal(out, a @ b.T)


@pytest.mark.nvcc
@pytest.mark.parametrize("span", [32, 64, 128])
def test_the_exercise_along_m_says_where_the_tile_lies(
    span: int, matrices: tuple[Any, Any]
) -> None:
    a, b = matrices
    along_m = solved(CHAPTER)["along_m"]
    tile = one_wgmma.tile(a, f"{span}B", mn_major=True)
    assert along_m(0, span, 0) == tile.descriptor
    text = files.kernel("warpgroup_products/described").replace(
        "multiply<1, 1, 128>", f"multiply<1, 1, {along_m(0, span, 1) - along_m(0, span, 0)}>"
    )
    out, run = one_wgmma.product(tile, one_wgmma.tile(b), kernel="m_major", text=text)
    assert not run.findings and np.array_equal(out, a @ b.T)


@pytest.mark.nvcc
def test_what_is_left_out_is_told() -> None:
    said = left_out.told()
    assert said.pop("as it is") == "right: True, no finding"
    assert all("wgmma" in each or "proxy" in each for each in said.values())


def test_the_rate_is_what_shared_memory_allows() -> None:
    for n in view.WIDTHS:
        allowed = min(view.NOMINAL, view.NOMINAL * 128 / view.bytes_a_cycle(n, "shared"))
        assert 0.99 < view.rate(RECORD, n, "shared") / allowed <= 1
    assert view.rate(RECORD, 32, "registers") > 0.99 * view.NOMINAL, "the cause switched off"
    for n in (8, 16):
        cycles = 2 * 64 * n * 16 / view.rate(RECORD, n, "registers")
        assert 12.9 < cycles < 13.2, "13 cycles"


def test_waits() -> None:
    def lost(n: int, groups: int, pending: int) -> float:
        return 1 - view.rate(RECORD, n, "shared", groups, pending) / view.NOMINAL

    assert 0.08 < lost(64, 1, 0) < 0.12 and 0.025 < lost(256, 1, 0) < 0.04
    assert all(lost(n, 2, 0) < 0.005 and lost(n, 1, 1) < 0.005 for n in (64, 256))
    assert round(view.rate(RECORD, 256, "shared", 2, 0)) == 4094
    for n, cycles in ((64, 58), (256, 68)):
        assert (
            round(16 * n / 2 * (view.NOMINAL / view.rate(RECORD, n, "shared", 1, 0) - 1)) == cycles
        )


def test_only_the_widest_leaves_the_copy_engine_its_bytes() -> None:
    said = [line.rpartition("together ")[2] for line in str(view.budget()).splitlines()[1:]]
    assert said == ["176 of 128", "144 of 128", "128 of 128"]
