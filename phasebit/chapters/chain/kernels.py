"""The kernels of *Four producers, four consumers* on the emulator: run, and watched.

No GPU that they are for was at hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from phasebit import files
from phasebit.edits import function as function

if TYPE_CHECKING:
    from phasebit.emulator import Run

RING, ROLES, PIECES, ONE_BOX = RUNGS = "ring", "roles", "pieces", "one_box"
"""The rungs that lead to the chain: a block makes one tile."""
CHAIN, PAIR, LAUNCH_CONTROL = KERNELS = "chain", "pair", "launch_control"
MULTICAST, TWO_PRODUCTS, PAIR_CONTROL = BESIDE = (
    "multicast", "two_products", "pair_launch_control",
)  # fmt: skip
"""Of two blocks that share B, of a pair that makes two products by the same B, and of a pair whose
tiles are handed out."""
EVERY = (*RUNGS, *KERNELS, *BESIDE)

SCOPED = f"chain/{PAIR}, scopes of the cluster"
"""What the record of assembled kernels calls :func:`scoped`."""

WAITING, PATTERN = 4 * 2 * 32 * 32, 1024
"""Numbers in the pieces of C on their way out, and bytes of the swizzle's pattern."""


def source(name: str) -> str:
    """The source of one of :data:`EVERY`."""
    return (files.kernels() / "chain" / f"{name}.cu").read_text(encoding="utf-8")


def scoped(source: str) -> str:
    """The pair's kernel with every wait and arrival at the scope of the cluster."""
    text = source.replace("mbarrier_wait(", "mbarrier_wait_cluster(")
    return text.replace("mbarrier_arrive_at_after_reads(", "mbarrier_arrive_at(")


def apart(source: str) -> str:
    """The pair's kernel without the cluster's meeting at its end: each block meets alone."""
    last = source.rindex("    ptx::cluster_arrive();\n    ptx::cluster_wait();")
    end = source.index("\n", source.index("ptx::cluster_wait();", last))
    return f"{source[:last]}    __syncthreads();{source[end:]}"


def box_rows(source: str) -> int:
    """Rows of a box of C: a warp's, where each has its own stored."""
    return 32 if "s.c[warp]" in source else 128


def loaded(source: str, m: int, n: int, k: int) -> int:
    """Bytes that copies write to shared memory for a product, in whole boxes."""
    rings = Rings.of(source)
    rows, columns = rings.tile
    return -(-m // rows) * -(-n // columns) * -(-k // 64) * rings.slot * rings.blocks


def fetched(source: str, m: int, n: int, k: int) -> int:
    """Bytes that copies read for it: of a multicast what both blocks get is read once."""
    rings = Rings.of(source)
    shared = 64 * 2 * 256 if rings.blocks == 2 and not rings.pair else 0
    return loaded(source, m, n, k) * (2 * rings.slot - shared) // (2 * rings.slot)


OUT_BYTES = {"f32": 4, "bf16": 2}
"""Of an element of C, by its type."""


@dataclass(frozen=True)
class Rings:
    """The rings of a kernel, by its source: slots, and where its barriers lie."""

    stages: int
    sums: int
    tiles: bool
    """Whether a block makes several tiles: then a sum is given back."""
    pieces: bool
    """Whether C leaves by pieces in shared memory."""
    answers: int
    """Slots for numbers of tiles; 0 where each block knows its tiles."""
    blocks: int
    """1, or 2 for a pair, or for two blocks that share B."""
    pair: bool
    apart: bool
    """Whether loading and multiplying are roles of their own."""
    products: int
    """By the same slice of B, each by a thread of its own into a sum of its own."""

    @classmethod
    def of(cls, source: str) -> Rings:
        """Raises ``ValueError`` for a kernel whose constants have other names."""

        def number(name: str) -> int:
            found = re.search(rf"constexpr int {name} = (\d+);", source)
            if found is None:
                raise ValueError(f"the kernel has no line `constexpr int {name} = …;`")
            return int(found[1])

        answers = number("ANSWERS") if "ANSWERS = " in source else 0
        blocks = 2 if "__cluster_dims__" in source else 1
        pair = "constexpr int PAIR" in source
        products = number("PRODUCTS") if "PRODUCTS = " in source else 1
        tiles, pieces = "for_each_tile" in source, "alignas(1024) uint4 c[" in source
        sums = products if products > 1 else number("SUMS") if tiles else 1
        apart = "void multiply" in source
        return cls(number("STAGES"), sums, tiles, pieces, answers, blocks, pair, apart, products)

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of C that a block, or a pair, makes at a time."""
        return 128 * self.blocks * self.products, 256

    @property
    def slot(self) -> int:
        """Bytes of a slice of A and B in one block: 64 numbers of bf16 a row."""
        return 64 * 2 * (128 * self.products + (128 if self.pair else 256))

    def in_front(self, out: str = "f32") -> int:
        """Bytes of shared memory before the barriers; ``out``: the type of C."""
        return self.stages * self.slot + self.pieces * WAITING * OUT_BYTES[out]

    def shared(self, out: str = "f32") -> int:
        """``sizeof(Shared)``: barriers, answers and address need less than one pattern."""
        return self.in_front(out) + PATTERN

    def grid(self, m: int, n: int, workers: int) -> tuple[int, ...]:
        """Blocks of a launch; ``workers``: those, or clusters, whose tiles are known before it."""
        tiles = -(-m // self.tile[0]), -(-n // self.tile[1])
        if not self.tiles:
            return tiles
        return ((tiles[0] * tiles[1] if self.answers else workers) * self.blocks,)

    @property
    def warps(self) -> int:
        """Of a block."""
        return 4 + (1 + self.products) * self.apart + (self.answers > 0)

    def barriers(self) -> dict[str, str]:
        """What the emulator calls each barrier of a run with C in f32 -> the kernel's name."""
        rings = ("", self.stages), ("sum ", self.sums), ("answer ", self.answers)
        names = [f"{ring}{side} {slot}" for ring, slots in rings
                 for side in ("full", "empty")[: 1 if ring == "sum " and not self.tiles else 2]
                 for slot in range(slots)]  # fmt: skip
        return {f"memory+{self.in_front() + 8 * i}": name for i, name in enumerate(names)}


class Product(NamedTuple):
    """A product that was made on the emulator."""

    run: Run
    exact: bool


@lru_cache(maxsize=64)
def compiled(source: str, out: str = "f32") -> Any:
    """The kernel of a source, for C of this type."""
    from phasebit.launching.launch import compile

    return compile(source, "sm_100a", ["-DC_BF16"] * (out == "bf16"))["matmul"]


def multiply(
    source: str, m: int, n: int, k: int, *, workers: int = 1, schedule: str = "late",
    seed: int = 18, out: str = "f32",
) -> Product:  # fmt: skip
    """C (m, n) = A (m, k) · B (n, k)ᵀ on whole numbers, with every check.

    ``workers``: blocks, or pairs, of a kernel whose blocks know their tiles. C of bf16 must be the
    exact sum, rounded once.
    """
    import numpy as np

    from phasebit.emulator import formats

    draw = np.random.default_rng(seed)
    a, b = (draw.integers(-4, 5, size).astype(np.float64) for size in ((m, k), (n, k)))
    run, c = launch(source, a, b, workers=workers, schedule=schedule, out=out)
    right = a @ b.T
    if out == "bf16":
        right = formats.decode(out, formats.encode(out, right))
    return Product(run, bool(np.array_equal(c, right)))


def verdict(source: str, *shape: int) -> str:
    """What three orders of copies and products say of a kernel; ``shape``: m, n, k."""
    said = []
    for schedule in ("eager", "late", "random"):
        run, exact = multiply(source, *shape, schedule=schedule)
        said.append(f"{schedule}: {'exact' if exact else 'WRONG'}, {len(run.findings)} findings")
    return "; ".join(said)


def launch(
    source: str, a: Any, b: Any, *, workers: int = 1, out: str = "f32", **options: Any
) -> tuple[Run, Any]:
    """The run, and C (m, n) = A (m, k) · B (n, k)ᵀ; A and B are rounded to bf16.

    ``out``: the type of C, a kernel's that stores pieces also ``"bf16"``; ``options``: those of a
    launch. C is full of NaN before it.
    """
    import numpy as np

    from phasebit.emulator import TensorMap, formats

    (m, k), n = a.shape, len(b)
    rings = Rings.of(source)
    c = np.full((m, n), np.nan, np.float32) if out == "f32" else np.full((m, n), 0x7FFF, np.uint16)
    maps = [TensorMap(np.asarray(formats.encode("bf16", x)), (64, rows), data_type="bf16",
                      swizzle="128B")
            for x, rows in ((a, 128), (b, 256 // rings.blocks))]  # fmt: skip
    stored: Any = c
    if rings.pieces:
        stored = TensorMap(c, (32, box_rows(source)), data_type=out,
                           swizzle=f"{32 * OUT_BYTES[out]}B")  # fmt: skip
    run = compiled(source, out).launch(
        rings.grid(m, n, workers), 32 * rings.warps,
        [*maps, stored, m, *[n] * (not rings.answers), k], shared=rings.shared(out), **options,
    )  # fmt: skip
    return run, c if out == "f32" else np.asarray(formats.decode(out, c), np.float64)


# -- what happens at its barriers --------------------------------------------------


class Seen(NamedTuple):
    """A phase that completed, a wait that went on because it had, or a warp's ``tcgen05.ld``."""

    what: str
    """``completes``, ``passes`` or ``fetches``."""
    barrier: str
    """Its name; for a fetch the first column and the one past the last, ``0-32``."""
    at: int
    """The emulator's clock."""
    block: int
    warp: int
    """Who waited; -1 for a completion."""


@contextmanager
def watching() -> Iterator[list[Seen]]:
    """Collects what happens at the mbarriers of kernels that run on the emulator meanwhile.

    And what is fetched from tensor memory.
    """
    from phasebit.emulator import observing

    log: list[Seen] = []
    with observing(_observer(log)):
        yield log


def _bare(name: str) -> str:
    """What the emulator calls a barrier, without the block of a cluster in which it lies."""
    return name.partition(" of block ")[0]


def _observer(log: list[Seen]) -> object:
    """Who listens to the emulator, and writes what it hears into a list."""
    from phasebit.emulator import MbarrierObserver, TensorObserver

    class Watcher(MbarrierObserver, TensorObserver):
        def completes(self, site: Any) -> None:
            block = int(site.batch.blocks[site.slot])
            log.append(Seen("completes", _bare(site.name), site.time, block, -1))

        def passes(self, g: Any, site: Any) -> None:
            batch = g.batch
            for warp in sorted({int(w) for w in batch.warp_of[g.lanes]}):
                slot, mine = divmod(warp, batch.warps)
                at = max(g.time, site.opened)
                log.append(
                    Seen("passes", _bare(site.name), at, int(batch.blocks[slot]), mine)
                )

        def loads_columns(self, g: Any, regions: Any, registers: int) -> None:
            for lanes, region in regions:
                slot, warp = divmod(int(g.batch.warp_of[lanes[0]]), g.batch.warps)
                columns = f"{region.columns.start}-{region.columns.stop}"
                log.append(Seen("fetches", columns, g.time, int(g.batch.blocks[slot]), warp))

    return Watcher()
