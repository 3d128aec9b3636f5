"""The matrix products of *The anatomy of a fast GEMM*, and OpenBLAS: C = alpha·A·B + beta·C in f32.

Every rung of the ladder is one file of ``kernels/gemm/`` with a function ``gemm``; :func:`rung`
calls it with NumPy arrays and :func:`verify` checks it, or :mod:`phasebit.openblas`.
"""

from __future__ import annotations

import difflib
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phasebit import caches, files, hardware, native, openblas, rounding, toolchain
from phasebit.openblas import Matrix, Product

RUNGS: dict[str, str] = {
    "naive": "a_naive",
    "interchanged": "b_interchanged",
    "tiled": "c_tiled",
    "packed": "d_packed",
    "registers": "e_registers",
    "prefetch": "f_prefetch",
}
"""The ladder, from the bottom up: the name of a rung, and its file in ``kernels/gemm/``."""

SHAPES = (
    *((1, 1, 1), (1, 1, 0), (3, 5, 7), (14, 32, 64), (15, 33, 65), (13, 31, 63)),
    *((64, 1, 200), (1, 100, 300), (100, 70, 513), (257, 129, 1025)),
)
"""M, N, K of :func:`verify`: tiny, whole tiles and ragged ones, and no product at all."""

L1_SHARE, L2_SHARE, L3_SHARE = 0.6, 0.5, 0.25
"""How much of each cache a block may fill; the rest is for what streams through it."""


@dataclass(frozen=True)
class Block:
    """The blocks of a product: rows of A, the common side, columns of B."""

    mc: int
    kc: int
    nc: int


def model(
    tile_rows: int, tile_columns: int, cpu: hardware.Cpu | None = None, nearest: int = 32 << 10
) -> Block:
    """Block sizes from cache sizes.

    A panel of A, ``tile_rows`` × kc, is as large as the greater part of L1; a block of B, kc × nc,
    is to stay in L2 while the panels of A pass by; the block of A, mc × kc, in L3. The panel of A
    does not stay in L1: :func:`resident_depth` says which would. Where the system
    does not say a size, L1 counts ``nearest`` bytes, and each further cache 16 times as much.
    Source: Goto and van de Geijn, 2008, with the roles of A and B exchanged for rows in C.
    """
    cpu = cpu or hardware.cpu()
    sizes = [nearest << 4 * level for level in range(3)]
    for level in range(3):
        cache = cpu.cache(level + 1)
        sizes[level] = cache.bytes if cache else sizes[level]
    kc = max(64, int(L1_SHARE * sizes[0] / (4 * tile_rows)) // 64 * 64)
    nc = max(1, int(L2_SHARE * sizes[1] / (4 * kc)) // tile_columns) * tile_columns
    mc = max(1, int(min(L3_SHARE * sizes[2], 8 << 20) / (4 * kc)) // tile_rows) * tile_rows
    return Block(mc, kc, nc)


def rung(name: str, block: Block | None = None, library: native.Library | None = None) -> Product:
    """A rung of the ladder, by its name in :data:`RUNGS`; ``library`` for a reader's own.

    ``block`` is what :func:`model` says if not given. Raises ``ValueError`` for an unknown name
    or blocks that are not positive, and as :func:`native.load` does.
    """
    if library is None and name not in RUNGS:
        raise ValueError(f"the ladder has no rung {name!r}: choose from {', '.join(RUNGS)}")
    chosen = library or native.load(f"gemm/{RUNGS[name]}")
    sizes = block or default_block()
    block_array = np.array([sizes.mc, sizes.kc, sizes.nc], np.int64)
    if block_array.min() < 1:
        raise ValueError(f"blocks of {sizes}: give positive numbers")

    def product(a: Matrix, b: Matrix, c: Matrix, alpha: float = 1.0, beta: float = 0.0) -> None:
        (m, n, k), (lda, ldb, ldc) = openblas.shape(a, b, c)
        chosen.gemm(m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, block_array)

    return product


def default_block() -> Block:
    """What :func:`model` says for this processor and the micro-kernel that fits it."""
    kernel = native.load(f"gemm/{RUNGS['registers']}")
    return model(kernel.tile_rows(), kernel.tile_columns())


def packing(block: Block | None = None) -> Callable[[Matrix, Matrix], None]:
    """Only the packing of the rung "registers", for A (M, K) and B (K, N)."""
    library = native.load(f"gemm/{RUNGS['registers']}")
    sizes = block or default_block()
    block_array = np.array([sizes.mc, sizes.kc, sizes.nc], np.int64)

    def pack(a: Matrix, b: Matrix) -> None:
        c = np.empty((a.shape[0], b.shape[1]), np.float32)
        (m, n, k), (lda, ldb, _) = openblas.shape(a, b, c)
        library.packing(m, n, k, a, lda, b, ldb, block_array)

    return pack


def source(name: str) -> str:
    """The C++ of a rung, by its name in :data:`RUNGS`."""
    return (files.kernels() / "gemm" / f"{RUNGS[name]}.cpp").read_text(encoding="utf-8")


def difference(before: str, after: str) -> str:
    """What the second of two rungs has otherwise, inside ``gemm``: lines with ``-`` and ``+``."""
    lines = difflib.unified_diff(_body(before), _body(after), n=1, lineterm="")
    return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


def _body(name: str) -> list[str]:
    """The lines of a rung's ``gemm``, between its braces."""
    _, _, body = source(name).partition("const int64_t* block) {\n")
    return body.partition("\n}\n")[0].replace("    (void)block;\n", "").splitlines()


def loops_of(name: str) -> str:
    """The loops of a rung's ``gemm``, from the outermost on."""
    lines = _body(name)
    first = next(i for i, line in enumerate(lines) if "for (int64_t p0" in line)
    return textwrap.dedent("\n".join(lines[first:]))


LOOPS = ("j0", "i", "j")
"""The loops of rung e whose rounds threads can divide."""


def threaded(loop: str, threads: int, block: Block | None = None) -> Product:
    """Rung e by several threads, which divide the rounds of a loop of :data:`LOOPS`.

    Raises ``ValueError`` for another loop, or not 1 to 64 threads, and as :func:`native.load`.
    """
    if loop not in LOOPS or not 1 <= threads <= 64:
        raise ValueError(f"loop {loop!r}, {threads} threads: give {', '.join(LOOPS)}, and 1 to 64")
    library = native.load("gemm/threads", options=[f"-DLOOP={LOOPS.index(loop)}", "-pthread"])
    sizes = block or default_block()
    block_array = np.array([sizes.mc, sizes.kc, sizes.nc], np.int64)

    def product(a: Matrix, b: Matrix, c: Matrix, alpha: float = 1.0, beta: float = 0.0) -> None:
        (m, n, k), (lda, ldb, ldc) = openblas.shape(a, b, c)
        library.gemm(threads, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, block_array)

    return product


def resident_depth(tile_rows: int, tile_columns: int, level: caches.Level) -> int:
    """The largest kc with which a panel of A stays in L1 while panels of B pass by.

    One way of each set is for C. A panel of B gets whole ways of the others, and one of A as many
    in proportion. Source: Low, Igual, Smith and Quintana-Ortí, 2016, section 4.1, with the roles
    of A and B exchanged for rows in C.
    """
    ways = int((level.ways - 1) / (1 + tile_rows / tile_columns))
    return ways * level.sets * level.line // (4 * tile_columns)


def panel_misses(tile_rows: int, tile_columns: int, kc: int, level: caches.Level) -> dict[str, int]:
    """Misses of L1 when a micro-kernel takes one more panel of B: of A's lines and of B's.

    C, which is touched at the end only, is left out. B's panels lie one behind the other.
    """
    step = np.arange(kc)[:, None]
    of_a = step * tile_rows * 4 + np.arange(0, tile_rows * 4, 4)
    of_b = step * tile_columns * 4 + np.arange(0, tile_columns * 4, 4)
    pages = -(-kc * tile_rows * 4 // 4096) * 4096
    found = []
    for rounds in (3, 4):
        walk = [
            np.concatenate([of_a, pages + turn * kc * tile_columns * 4 + of_b], axis=1).ravel()
            for turn in range(rounds)
        ]
        found.append(caches.trace(np.concatenate(walk), (level,)).misses[level.name])
    fetched = kc * tile_columns * 4 // level.line  # B is new in each round
    return {"A": found[1] - found[0] - fetched, "B": fetched}


WATCHED = ("naive", "interchanged", "tiled", "packed", "registers")
"""The rungs of which ``kernels/gemm/watched.cpp`` has a version that caches can watch."""


def watched(
    name: str,
    a: Matrix,
    b: Matrix,
    c: Matrix,
    block: Block,
    tile: tuple[int, int] = (14, 32),
    levels: Sequence[caches.Level] = caches.TYPICAL,
    threads: int = 1,
    loop: str = "j0",
) -> caches.Counts:
    """Add A·B to C, all (n, n), on a rung of :data:`WATCHED`; what caches and TLBs see of it.

    With several ``threads``, which divide the rounds of a loop of :data:`LOOPS` of the rung
    "registers", it is what the first of them does, and what its own caches see. An
    access is one element; what is in a register is none. Every array starts at a page. Raises
    ``ValueError`` for another rung, for a loop or a number of threads that there cannot be, and
    for matrices that are not square and without gaps.
    """
    if name not in WATCHED:
        raise ValueError(f"nobody can watch {name!r}: choose from {', '.join(WATCHED)}")
    if loop not in LOOPS or threads < 1 or (threads > 1 and name != "registers"):
        raise ValueError(
            f"loop {loop!r} of {name!r}, {threads} threads: 1 or more threads divide "
            f"{', '.join(LOOPS)} of rung e"
        )
    n, (rows, columns) = len(a), tile
    for matrix in (a, b, c):
        if matrix.shape != (n, n) or not matrix.flags.c_contiguous:
            raise ValueError(f"a matrix of shape {matrix.shape}: give three ({n}, {n}), no gaps")
    sizes = [-(-min(n, block.mc) // rows) * rows, -(-min(n, block.nc) // columns) * columns]
    panels = [np.zeros(size * min(n, block.kc), np.float32) for size in sizes]
    arrays = [a, b, c, *panels]
    pages = [-(-array.nbytes // 4096) * 4096 for array in arrays]
    at = np.cumsum([0, *pages[:-1]], dtype=np.int64)
    nc = block.nc
    if loop == "j0":  # a block for each thread
        nc = min(nc, -(-n // threads // columns) * columns)
    sizes_and_share = [n, rows, columns, block.mc, block.kc, nc, threads, LOOPS.index(loop)]
    numbers = np.array(sizes_and_share, np.int64)
    counts = np.zeros(1 + len(levels), np.int64)
    library = native.load("gemm/watched")
    rows_of_levels = caches.table(levels)
    rung_number = WATCHED.index(name)
    library.watched(rung_number, numbers, *arrays, at, len(levels), rows_of_levels, counts)
    return caches.read_counts(levels, counts)


def compare(product: Product, n: int = 768, repeats: int = 7) -> str:
    """A line on how fast a product of (n, n) matrices is beside OpenBLAS, here and now.

    From the processor's time of this thread, the least of some runs that take turns. Without
    OpenBLAS the line gives operations a second, and says so.
    """
    rng = np.random.default_rng(n)
    a, b = (rng.standard_normal((n, n), np.float32) for _ in "ab")
    c = np.zeros((n, n), np.float32)
    try:
        products = {"ours": product, "theirs": openblas.sgemm()}
    except toolchain.ToolMissing:
        products = {"ours": product}
    least = dict.fromkeys(products, float("inf"))
    for _ in range(repeats):
        for name, each in products.items():
            begin = time.thread_time()
            each(a, b, c)
            least[name] = min(least[name], time.thread_time() - begin)
    if "theirs" not in least:
        rate = 2 * n**3 / least["ours"] / 1e9
        return f"⏱ {n}³: {rate:.1f} GFLOP/s here; this NumPy has no OpenBLAS, see the record"
    ratio = least["theirs"] / least["ours"]
    return f"⏱ {n}³: {ratio:.3f} of the rate of {openblas.version()}, one thread, measured now"


def in_turns(products: Mapping[str, Product], n: int, rounds: int) -> dict[str, float]:
    """The least seconds on the wall of each product of (n, n) matrices, in random order."""
    rng = np.random.default_rng(n)
    a, b = (rng.standard_normal((n, n), np.float32) for _ in "ab")
    c = np.zeros((n, n), np.float32)
    least = dict.fromkeys(products, float("inf"))
    for _ in range(rounds):
        for name in rng.permutation(list(products)):
            begin = time.perf_counter()
            products[name](a, b, c)
            least[name] = min(least[name], time.perf_counter() - begin)
    return least


# Checking


def verify(product: Product, shapes: Sequence[tuple[int, int, int]] = SHAPES, seed: int = 0) -> str:
    """``"OK"``, or what is wrong with a product, and for which shape.

    For each M, N, K, on fresh normal numbers: C within the error bound of
    :mod:`phasebit.rounding`, with C poisoned before (beta 0 must not read it), gaps between the
    rows untouched, alpha and beta, then NaN and infinities in A and B where they must come out.
    """
    rng = np.random.default_rng(seed)
    for shape in shapes:
        for alpha, beta in ((1.0, 0.0), (-0.5, 2.0), (0.0, 1.0), (1.0, 1.0)):
            said = _verify_one(product, shape, alpha, beta, rng)
            if said:
                return f"WRONG for M, N, K = {shape}, alpha {alpha:g}, beta {beta:g}: {said}"
        said = _verify_special(product, shape, rng)
        if said:
            return f"WRONG for M, N, K = {shape}: {said}"
    return "OK"


def _within(rng: np.random.Generator, rows: int, columns: int, gap: int) -> tuple[Matrix, Matrix]:
    """A matrix of normal numbers in a wider one of others: (the wide one, the matrix in it)."""
    wide = rng.standard_normal((rows, columns + gap), np.float32)
    return wide, wide[:, :columns]


def _verify_one(
    product: Product,
    shape: tuple[int, int, int],
    alpha: float,
    beta: float,
    rng: np.random.Generator,
) -> str:
    m, n, k = shape
    _, a = _within(rng, m, k, 3)
    _, b = _within(rng, k, n, 5)
    wide, c = _within(rng, m, n, 7)
    before, gaps = c.astype(np.float64), wide[:, n:].copy()
    if beta == 0:
        c[:] = np.nan
    product(a, b, c, alpha, beta)
    exact, size = rounding.reference(a, b)
    exact, size = alpha * exact, abs(alpha) * size
    if beta != 0:
        exact, size = exact + beta * before, size + abs(beta) * np.abs(before)
    # The K products, and two more roundings for alpha and beta.
    bad = rounding.wrong(c, exact, rounding.product_bound(k + 4) * size)
    if bad.any():
        return f"{bad.sum()} of {bad.size} elements, the first at {_first(bad)}"
    if not np.array_equal(wide[:, n:], gaps):
        return "it wrote between the rows of C"
    return ""


def _verify_special(product: Product, shape: tuple[int, int, int], rng: np.random.Generator) -> str:
    """NaN and infinities come out exactly where the definition has them."""
    m, n, k = shape
    if k == 0:
        return ""
    _, a = _within(rng, m, k, 0)
    _, b = _within(rng, k, n, 0)
    a[rng.integers(m), rng.integers(k)] = np.nan
    b[rng.integers(k), rng.integers(n)] = np.inf
    at = rng.integers(k)
    a[rng.integers(m), at] = -np.inf
    b[at, rng.integers(n)] = 0  # zero times infinity is NaN: nobody may skip the zeros
    c = np.full((m, n), 7, np.float32)
    product(a, b, c)
    with np.errstate(invalid="ignore"):
        exact = a.astype(np.float64) @ b.astype(np.float64)
    special = ~np.isfinite(exact)
    same = np.where(np.isnan(exact), np.isnan(c), c == exact)
    bad = np.where(special, ~same, ~np.isfinite(c))
    return f"NaN or infinity is lost or invented at {_first(bad)}" if bad.any() else ""


def _first(bad: NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(bad)[0])
