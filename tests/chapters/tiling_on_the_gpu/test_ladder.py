"""Every rung of *Tiling on the GPU* multiplies, and a mistake in one is found by the check."""

from __future__ import annotations

import re

import numpy as np
import pytest

from phasebit import measure, rounding
from phasebit.chapters.tiling_on_the_gpu import ladder
from phasebit.emulator import Fault
from tests.book.notebooks import CHAPTERS, code, source
from tests.kernels.emulated import emulate

pytestmark = pytest.mark.nvcc

RAGGED = {32: (37, 45, 33), 64: (70, 68, 12), 128: (133, 140, 20)}
"""Tile -> M, N, K with edges everywhere."""


def verdict(
    name: str, shape: tuple[int, int, int], code: str | None = None, schedule: str = "late"
) -> str:
    """``"OK"``, or what is wrong with a rung's product of fresh numbers."""
    m, n, k = shape
    rng = np.random.default_rng()
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    for alpha, beta in ((1.0, 0.0), (-0.5, 2.0))[m * n * k > 300_000 :]:
        before = rng.standard_normal((m, n), np.float32)
        c = before.copy() if beta else np.full((m, n), np.nan, np.float32)
        try:
            run = ladder.multiply(name, a, b, c, alpha, beta, code=code, schedule=schedule)
        except Fault as fault:
            return str(fault)
        if run.findings:
            return str(run.findings[0])
        exact, size = rounding.reference(a, b)
        exact, size = alpha * exact + beta * before, abs(alpha) * size + abs(beta * before)
        bad = rounding.wrong(c, exact, rounding.product_bound(k + 4) * size)
        if bad.any():
            return f"{bad.sum()} elements are wrong"
    return "OK"


@pytest.mark.parametrize(
    "name", [*ladder.RUNGS, "swizzled", "not_ahead", "small_tile", *ladder.SEPARATED]
)
def test_a_rung_multiplies_ragged_matrices(name: str) -> None:
    m, n, k = RAGGED[ladder.VARIANTS[name].tile]
    assert verdict(name, (m, n, k)) == "OK"
    if ladder.VARIANTS[name].asks:
        assert verdict(name, (m, n + 1, k + 1)) == "OK"  # rows that begin anywhere


@pytest.mark.parametrize("name", ladder.RUNGS)
def test_a_rung_multiplies_tiny_matrices(name: str) -> None:
    for shape in ((1, 1, 1), (1, 8, 4), (3, 130, 2), (129, 1, 31)):
        assert verdict(name, shape) == "OK", shape


@pytest.mark.parametrize("name", ladder.RUNGS)
def test_infinity_and_nan_go_where_they_belong(name: str) -> None:
    m, n, k = RAGGED[ladder.VARIANTS[name].tile]
    rng = np.random.default_rng()
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    a[2, 1], a[m - 1, k - 1], b[0, n - 1] = np.inf, np.nan, -np.inf
    c = np.zeros((m, n), np.float32)
    run = ladder.multiply(name, a, b, c)
    assert not run.findings
    with np.errstate(invalid="ignore"):
        exact = a.astype(np.float64) @ b.astype(np.float64)
    finite = np.isfinite(exact)
    assert (~finite).sum() == n + n + m - 2
    np.testing.assert_array_equal(c[~finite], exact[~finite].astype(np.float32))
    np.testing.assert_allclose(c[finite], exact[finite], atol=1e-4)


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("name", ["double_buffered", "through_registers", "tuned"])
def test_copies_may_arrive_whenever_they_like(name: str, schedule: str) -> None:
    assert verdict(name, (128, 128, 96), schedule=schedule) == "OK"


MISTAKES = (
    ("naive", "k < g.K", "k < g.K - 1"),
    ("coalesced", "row < g.M && col < g.N", "row < g.M"),
    ("shared_tile", "        __syncthreads();  // nobody needs them any more\n", ""),
    ("shared_tile", "g.K, g.N, g.ldb, k0 + y, col", "g.K, g.N, g.ldb, k0 + y, col + g.N % 2"),
    ("column", "a[y + i][k] * right", "a[y + i][k] * right * (k0 + k + 1 < g.K)"),
    ("square", "        __syncthreads();  // the tiles are there\n", ""),
    ("vectorised", "a[ak + 3][am] = left.w", "a[ak + 3][am] = left.z"),
    ("conflict_free", "m ^ (k / 4 * 16)", "m"),  # harmless where the tile is padded
    ("swizzled", "a[place(ak + 3, am)] = left.w", "a[place(ak + 2, am)] = left.w"),
    ("warp_tile", "y + i / 4 * (WM / 2) + i % 4", "y + i / 4 * WM + i % 4"),
    ("double_buffered", "ptx::cp_async_wait_group<0>()", "ptx::cp_async_wait_group<1>()"),
    ("through_registers", "put(slot ^ 1)", "put(slot)"),
    ("through_registers", "        __syncthreads();  // this slot is full", "        //"),
    ("through_registers", "load(k0 + BK);", "load(k0);"),
    ("tuned", "        __syncthreads();  // the first slot is full\n", ""),
    ("tuned", "slot : slot ^ 1, (k + 1) % BK", "slot : slot, (k + 1) % BK"),
    ("tuned", "lane >> 3 & 2", "lane >> 2 & 2"),
    ("tuned", "T - 1 - step : step", "T - 2 - step : step"),
)


@pytest.mark.parametrize(("name", "old", "new"), MISTAKES)
def test_a_planted_mistake_is_found(name: str, old: str, new: str) -> None:
    code = ladder.text(name)
    assert old in code
    m, n, k = RAGGED[ladder.VARIANTS[name].tile]
    said = verdict(name, (m, n, k + (32 if name == "tuned" else 0)), code.replace(old, new))
    assert (said == "OK") == (name == "conflict_free")


def test_the_emulator_predicts_what_nsight_compute_counted() -> None:
    counted = measure.read("tiling_on_the_gpu")["counters"]
    loads, wavefronts, *_ = ladder.METRICS
    for name in ("coalesced", "shared_tile", "column", "vectorised", "conflict_free", "tuned"):
        predicted = ladder.predict(name, 4096)
        assert predicted[loads] == counted[name][loads]
        assert predicted[wavefronts] == pytest.approx(counted[name][wavefronts], rel=1e-3)


def test_sectors_follow_the_tile_and_shared_loads_the_square() -> None:
    sectors, _, _, _, loads, _ = ladder.METRICS
    told = {which: ladder.predict(name, 4096) for which, name in ladder.SQUARES.items()}
    for tile in (32, 64, 128):
        assert {each[sectors] for which, each in told.items() if which[0] == tile} == {
            2 * 4096**3 // tile * 4 // 32
        }
    for square in (1, 2, 4, 8):
        assert len({each[loads] for which, each in told.items() if which[1] == square}) == 1
    deep, rung_c = ladder.predict("deep", 4096), ladder.predict("shared_tile", 4096)
    assert deep == rung_c
    for metric in ladder.METRICS:
        assert told[32, 1][metric] == rung_c[metric]


BESIDE = """
#define OWN_MAIN
#include "tiling_on_the_gpu/product.cuh"
namespace before {
#include "tiling_on_the_gpu/b_coalesced.cu"
}
namespace after {
@
}
#include "tiling_on_the_gpu/beside.cuh"
"""


def test_two_rungs_beside_each_other() -> None:
    code = ladder.text("shared_tile")
    done = emulate(BESIDE.replace("@", code))
    assert done.ok and done.stdout == "before and after: the same to the last bit\n"
    for old, new in (("k < SIDE", "k < SIDE - 1"), ("store(g, row", "if (row) store(g, row")):
        assert old in code
        done = emulate(BESIDE.replace("@", code.replace(old, new)), "--seed", "9")
        assert not done.ok and "before and after: DIFFERENT" in done.stdout
        assert re.search(r"C\[\d+\]\[\d+\] is .* before and .* after, for M=", done.stderr)


def test_the_cells_of_the_chapter_are_the_files() -> None:
    """The kernels that a reader edits in the chapter are those that everything else uses."""
    (path,) = (path for path in CHAPTERS if path.stem.startswith("09_"))
    cells = [source(cell).partition("\n")[2] for cell in code(path)]
    for name in ("naive", "coalesced", "shared_tile"):
        assert f'{ladder.text(name)}\n#include "gemm.cuh"' in cells


def test_the_record_has_what_the_chapter_says() -> None:
    record = measure.read("tiling_on_the_gpu")
    took = {
        size: {name: measure.summary(each).median for name, each in products.items()}
        for size, products in record["products"].items()
    }
    large, small = took["4096"], took["1024"]
    assert large["tuned"] <= large["cuBLAS"] / 0.95
    for before, after in (("conflict_free", "warp_tile"), ("warp_tile", "double_buffered")):
        assert large[after] > large[before]  # two known ideas that gain nothing
    assert small["double_buffered"] < small["warp_tile"]
    more = {name: large[name] / large["tuned"] - 1 for name in ladder.TUNED}
    assert max(more, key=more.__getitem__) == "one_resident"
    assert min(more["row_by_row"], more["depth_8"], more["always_ask"]) > 0.02
    assert max(map(abs, (more["lanes_in_rows"], more["row_order"]))) < 0.01
    assert small["small_tile"] < small["tuned"] and more["small_tile"] > 0
    assert 0 < large["warp_tile"] / large["reordered"] - 1 < 0.03


def test_bad_input_is_a_sentence() -> None:
    with pytest.raises(ValueError, match="has no rung 'fast': choose from naive"):
        ladder.text("fast")
    with pytest.raises(ValueError, match="naive makes tiles of 32: 100 is no multiple"):
        ladder.predict("naive", 100)
