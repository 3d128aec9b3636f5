"""*The anatomy of a fast GEMM* is right on every rung, and a wrong product is found."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from phasebit import caches, files, hardware, native, openblas, toolchain
from phasebit.chapters.gemm import cpu_ladder as gemm
from phasebit.edits import replace_once

pytestmark = pytest.mark.nvcc

SMALL = gemm.Block(28, 64, 64)
"""Several blocks in every direction of the larger shapes."""


@pytest.mark.parametrize("name", gemm.RUNGS)
@pytest.mark.parametrize("block", [None, SMALL, gemm.Block(1, 1, 1)], ids=["model", "small", "one"])
def test_a_rung_is_right(name: str, block: gemm.Block | None) -> None:
    shapes = gemm.SHAPES if block != gemm.Block(1, 1, 1) else gemm.SHAPES[:6]
    assert gemm.verify(gemm.rung(name, block), shapes) == "OK"


def test_openblas_is_right() -> None:
    assert gemm.verify(openblas.sgemm()) == "OK"
    assert openblas.version().startswith("OpenBLAS 0.")


def planted(name: str, old: str, new: str) -> openblas.Product:
    """A rung with a mistake in it."""
    source = (files.kernels() / "gemm" / f"{gemm.RUNGS[name]}.cpp").read_text(encoding="utf-8")
    return gemm.rung(name, SMALL, native.compile(replace_once(source, old, new)))


MISTAKES: dict[str, tuple[str, str, str]] = {
    "the last row of a tile": (
        "registers",
        "i < MR; i++) {\n            sum",
        "i < MR - 1; i++) {\n            sum",
    ),
    "alpha forgotten": ("registers", "+= alpha * sum[i][1]", "+= sum[i][1]"),
    "one step too few": ("registers", "p < kc; p++, a", "p < kc - 1; p++, a"),
    "one column too many": ("naive", "j < n; j++", "j < n + 1; j++"),
    "beta twice": (
        "packed",
        "    static thread_local Buffer",
        "    scale(m, n, beta, c, ldc);\n    static thread_local Buffer",
    ),
    "stale packing": (
        "packed",
        "p < p1; p++)\n                std",
        "p < p1 * !j0; p++)\n                std",
    ),
    "zeros skipped": ("naive", "sum += a", "if (b[p * ldb + j] != 0) sum += a"),
    "leading dimension": ("tiled", "b[p * ldb + j]", "b[p * n + j]"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_planted_mistake_is_found(what: str) -> None:
    name, old, new = MISTAKES[what]
    assert gemm.verify(planted(name, old, new)).startswith("WRONG")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda c, a: c.fill(0), "elements, the first at"),
        (lambda c, a: np.nan_to_num(c, copy=False), "elements|NaN or infinity is lost"),
    ],
)
def test_a_spoiled_product_is_found(
    spoil: Callable[[openblas.Matrix, openblas.Matrix], object], said: str
) -> None:
    right = gemm.rung("interchanged")

    def wrong(a: openblas.Matrix, b: openblas.Matrix, c: openblas.Matrix, *factors: float) -> None:
        right(a, b, c, *factors)
        spoil(c, a)

    answer = gemm.verify(wrong)
    assert answer.startswith("WRONG") and re.search(said, answer)


def test_blocks_follow_the_caches() -> None:
    cpu = hardware.Cpu(
        "some",
        tuple(
            hardware.Cache(i + 1, size, 8, 64) for i, size in enumerate((49152, 2 << 20, 32 << 20))
        ),
        4096,
        (),
    )
    block = gemm.model(14, 32, cpu)
    assert block == gemm.Block(4088, 512, 512)
    smaller = gemm.model(14, 32, replace(cpu, caches=cpu.caches[:1]))
    assert smaller.kc == block.kc and smaller.nc < block.nc


@pytest.mark.parametrize(
    ("a", "b", "c", "said"),
    [
        ((2, 3), (4, 5), (2, 5), "have no product"),
        ((2, 3), (3, 5), (2, 4), r"C has shape \(2, 4\), the product \(2, 5\)"),
    ],
)
def test_shapes_that_disagree(
    a: tuple[int, int], b: tuple[int, int], c: tuple[int, int], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        gemm.rung("naive")(*(np.zeros(shape, np.float32) for shape in (a, b, c)))


def test_a_transposed_matrix_is_refused() -> None:
    square = np.zeros((3, 4), np.float32)
    with pytest.raises(ValueError, match="B does not lie row by row"):
        gemm.rung("naive")(square, square.T, np.zeros((3, 3), np.float32))


def test_no_such_rung() -> None:
    with pytest.raises(ValueError, match="has no rung 'fast': choose from naive"):
        gemm.rung("fast")
    with pytest.raises(ValueError, match="give positive numbers"):
        gemm.rung("packed", gemm.Block(0, 1, 1))


WHOLE = gemm.Block(20, 24, 32)


@pytest.mark.parametrize("name", gemm.WATCHED)
@pytest.mark.parametrize("n", [1, 7, 33, 64])
def test_a_watched_rung_computes_the_same(name: str, n: int) -> None:
    rng = np.random.default_rng(n)
    a, b, c = (rng.integers(-9, 10, (n, n)).astype(np.float32) for _ in "abc")
    right = c + a @ b
    counts = gemm.watched(name, a, b, c, WHOLE, tile=(4, 8))
    assert np.array_equal(c, right)
    assert counts.misses["L1"] >= 3 * (n * n // 16)


def test_what_a_watched_rung_touches() -> None:
    """By hand: n = 64, one block, tiles of 4 × 8."""
    n, block = 64, gemm.Block(64, 64, 64)

    def touched(name: str) -> int:
        a, b, c = (np.ones((n, n), np.float32) for _ in "abc")
        return gemm.watched(name, a, b, c, block, tile=(4, 8)).accesses

    assert touched("naive") == 2 * n**3 + 2 * n**2
    assert touched("interchanged") == touched("tiled") == 3 * n**3 + n**2
    assert touched("packed") == 3 * n**3 + 3 * n**2
    tiles = (n // 4) * (n // 8)
    assert touched("registers") == tiles * n * (4 + 8) + 2 * n**2 + 4 * n**2


def test_nobody_watches_prefetching() -> None:
    square = np.zeros((4, 4), np.float32)
    with pytest.raises(ValueError, match="nobody can watch 'prefetch': choose from naive"):
        gemm.watched("prefetch", square, square, square, WHOLE)
    with pytest.raises(ValueError, match=r"a matrix of shape \(4, 2\)"):
        gemm.watched("naive", square, square[:, :2], square, WHOLE)


def test_a_difference_is_what_changed() -> None:
    lines = gemm.difference("naive", "interchanged").splitlines()
    assert "-            float sum = 0;" in lines
    assert "+            const float factor = alpha * a[i * lda + p];" in lines
    assert not any("block" in line for line in lines)
    assert gemm.difference("tiled", "tiled") == ""


def test_a_comparison_is_a_line_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    product = gemm.rung("registers")
    said = gemm.compare(product, 96, 2)
    assert re.fullmatch(r"⏱ 96³: \d+\.\d{3} of the rate of OpenBLAS 0\..*, measured now", said)

    def none() -> openblas.Product:
        raise toolchain.ToolMissing("no OpenBLAS")

    monkeypatch.setattr(openblas, "sgemm", none)
    said = gemm.compare(product, 96, 2)
    assert re.fullmatch(r"⏱ 96³: \d+\.\d GFLOP/s here; this NumPy has no OpenBLAS, .*", said)


@pytest.mark.parametrize(("rows", "vectors"), [(1, 1), (5, 3), (14, 2), (16, 2), (7, 4)])
def test_a_micro_kernel_of_any_tile_is_right(rows: int, vectors: int) -> None:
    tile = native.load("gemm/tile", options=[f"-DROWS={rows}", f"-DVECTORS={vectors}"])
    columns = tile.tile_columns()
    assert tile.tile_rows() == rows and columns % vectors == 0
    rng = np.random.default_rng(rows)
    a = rng.integers(-9, 10, (19, rows)).astype(np.float32)
    b = rng.integers(-9, 10, (3, 19, columns)).astype(np.float32)
    c = rng.integers(-9, 10, (rows, 3 * columns)).astype(np.float32)
    right = c + np.hstack([a.T @ panel for panel in b])
    tile.panels(3, 19, a, b, c)
    assert np.array_equal(c, right)


def test_the_peak_counts_what_it_does() -> None:
    peak, to = native.load("gemm/peak"), np.zeros(16, np.float32)
    once = peak.multiply_adds(1, to)
    assert peak.multiply_adds(1000, to) == 1000 * once > 0
    assert once % (2 * 12) == 0 and np.isfinite(to).all() and to.any()


def test_the_chapter_shows_the_rung_that_is_measured() -> None:
    """The reader's copy in the notebook is the file's micro-kernel, and takes the rest from it."""
    chapter = next(files.kernels().parent.glob("book/*/??_gemm.ipynb"))
    cells = json.loads(chapter.read_text(encoding="utf-8"))["cells"]
    (cell,) = ("".join(cell["source"]) for cell in cells if cell["id"] == "micro")
    start, _, rest = cell.partition("\n\n")
    assert start == '%%cpp mine\n#include "gemm/panels.h"'
    micro, _, rest = rest.partition("\n\n#define OWN_MICRO")
    assert micro.startswith("// c (MR, NR)") and f"{micro}\n#endif\n" in gemm.source("registers")
    assert rest.splitlines()[1] == '#include "gemm/e_registers.cpp"'
    loops = gemm.loops_of("registers")
    assert loops.count("for (") == 5 and loops.count("pack_") == 2


# Several threads, and what a cache keeps


@pytest.mark.parametrize("loop", gemm.LOOPS)
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_make_the_product_whatever_loop_they_divide(loop: str, threads: int) -> None:
    assert gemm.verify(gemm.threaded(loop, threads, SMALL)) == "OK"


@pytest.mark.parametrize("given", [("p0", 2), ("j0", 0), ("j", 65)])
def test_a_loop_that_nobody_divides_is_refused(given: tuple[str, int]) -> None:
    with pytest.raises(ValueError, match="give j0, i, j, and 1 to 64"):
        gemm.threaded(*given)


def test_shares_of_threads_are_what_one_thread_does() -> None:
    a = b = np.ones((64, 64), np.float32)
    block = gemm.Block(28, 32, 64)
    whole = gemm.watched("registers", a, b, np.zeros((64, 64), np.float32), block, (14, 16))
    for loop in gemm.LOOPS:
        c = np.zeros((64, 64), np.float32)
        half = gemm.watched("registers", a, b, c, block, (14, 16), threads=2, loop=loop)
        assert 0.4 < half.accesses / whole.accesses < 0.7
        assert 0 < (c != 0).sum() < c.size
    with pytest.raises(ValueError, match="threads divide"):
        gemm.watched("packed", a, b, c, block, threads=2)
    with pytest.raises(ValueError, match="0 threads: 1 or more"):
        gemm.watched("registers", a, b, c, block, (14, 16), threads=0)


def test_a_panel_of_a_stays_up_to_the_depth_that_the_ways_allow() -> None:
    level = caches.cache("L1", 48 << 10, 12)
    depth = gemm.resident_depth(14, 32, level)
    assert depth == 224
    assert gemm.panel_misses(14, 32, depth, level) == {"A": 0, "B": 448}
    assert gemm.panel_misses(14, 32, 512, level) == {"A": 448, "B": 1024}


@pytest.mark.parametrize("promise", ["", "__restrict"])
@pytest.mark.parametrize("extent", ["", "const int64_t k = 512, n = 512;"])
def test_gcc_makes_vectors_of_j_only_with_constants_and_a_promise(
    promise: str, extent: str
) -> None:
    if not toolchain.host_compiler().version.startswith("g++ 12"):
        pytest.skip("other compilers do other things")
    names = "x, int64_t y" if extent else "n, int64_t k"
    source = f"""#include <cstdint>
extern "C" void f(int64_t {names}, const float* {promise} a, const float* {promise} b,
                  float* {promise} c) {{
    {extent}
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {{
            float sum = 0;
            for (int64_t p = 0; p < k; p++) sum += a[i * k + p] * b[p * n + j];
            c[i * n + j] += sum;
        }}
}}
"""
    said = native.compile(source, options=["-fopt-info-vec-optimized"]).build.warnings
    of_j = [line for line in said.splitlines() if ":6:" in line and "loop vectorized" in line]
    assert bool(of_j) == bool(promise and extent), said


def test_products_take_turns() -> None:
    calls: list[str] = []
    products = {name: lambda a, b, c, name=name: calls.append(name) for name in "ab"}
    least = gemm.in_turns(products, 8, 5)
    assert set(least) == set("ab") and 0 < max(least.values()) < 1
    assert all(set(calls[i : i + 2]) == set("ab") for i in range(0, 10, 2))
