"""The chapter's kernels on the emulator, with every check: a product on whole numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from phasebit.chapters.every_shape.plans import DEPTH, SHARED
from phasebit.emulator import Schedule

if TYPE_CHECKING:
    from phasebit.emulator import Run

_PATTERN = 1024  # bytes of the swizzle's pattern


class Product(NamedTuple):
    """A product that was made on the emulator."""

    run: Run
    exact: bool
    clean: bool
    """Whether all flags are 0 again."""
    steps: dict[int, int]
    """Block -> the slots that were filled for it."""


def number(text: str, name: str, without: int | None = None) -> int:
    """A constant of a kernel's text; where it has none ``without``, or ``ValueError``."""
    found = re.search(rf"\b{name} = (\d+)", text)
    if found:
        return int(found[1])
    if without is None:
        raise ValueError(f"the kernel has no constant {name}")
    return without


def multiply(
    text: str, m: int, n: int, k: int, *, workers: int = 2, schedule: Schedule = "late",
    seed: int = 18, most: int = 10_000_000, more: Sequence[Any] = (), grid: int = 0,
) -> Product:  # fmt: skip
    """C (m, n) = A (m, k) · B (n, k)ᵀ by a kernel's text; n and k are multiples of 8.

    A kernel whose text names ``lines_of_a`` is given the operands themselves, too. ``more``:
    arguments behind the kernel's usual ones; ``grid``: blocks, where they are not as many as tiles.

    ``workers``: blocks, or pairs, of a kernel whose blocks stay. Before the launch C and the room
    for sums are full of NaN. ``most``: turns of loops, as of ``launch``.
    """
    import numpy as np

    from phasebit.emulator import TensorMap, formats
    from phasebit.launching.launch import compile

    bn, slots = number(text, "BN"), number(text, "SLOTS")
    pair, split, waves = (number(text, name, 0) for name in ("PAIR", "SPLIT", "WAVES"))
    sharers = number(text, "SHARERS", 1)  # blocks that fetch A together
    turns = number(text, "HALVES", 0)  # ping-pong: a tile belongs to one of two warp groups
    bm = 64 * (turns or number(text, "GROUPS"))
    consumers = 256 if turns else 2 * bm
    swapped = "ring.c[(i / 4" in text
    draw = np.random.default_rng(seed)
    a, b = (draw.integers(-4, 5, size).astype(np.float64) for size in ((m, k), (n, k)))
    c = np.full((m, n), 0x7FC0, np.uint16)  # NaN in bf16
    sides = [(b, bm), (a, bn)] if swapped else [(a, bm // sharers), (b, bn // max(pair, 1))]
    maps, operands = [], []
    for (x, high), name in zip(sides, "AB", strict=True):
        across = f"#define ACROSS_{name} 1" in text
        lies = np.ascontiguousarray(formats.encode("bf16", x.T if across else x))
        box = (DEPTH, DEPTH if across else high)
        maps.append(TensorMap(lies, box, data_type="bf16", swizzle="128B"))
        operands += [lies, lies.nbytes // 128]
    rows, columns = -(-m // (bm * max(pair, 1))), -(-n // bn)
    if swapped:
        rows, columns = -(-n // bm), -(-m // bn)
    ready = np.zeros(64, np.uint32)
    shared = slots * 2 * DEPTH * (bm + bn)
    arguments: list[Any]
    if pair:
        cols = 64 if bn % 64 == 0 else 32 if bn % 32 == 0 else 16
        boxes = TensorMap(c, (cols, 16), data_type="bf16", swizzle=f"{2 * cols}B")
        steps, tiles = -(-k // DEPTH), rows * columns
        walked = np.array([rows, columns, steps, number(text, "SUPER")], np.int32).tobytes()
        workers = min(tiles * steps if waves else tiles, workers)
        arguments = [*maps, boxes, walked]
        if "Walk(tiles, streamed)" in text:
            rest = tiles % workers
            cut = min(tiles, rest + (waves - 1) * workers) if waves and rest else 0
            partial = np.full(workers * pair * bm * bn, np.nan, np.float32)
            arguments += [cut, partial, ready]
        blocks, threads = workers * pair, consumers + 128
        of_warp = number(text, "BOXES") * max(512, 32 * cols)
        shared += consumers // 32 * _PATTERN * -(-of_warp // _PATTERN)
    else:
        blocks, threads = grid or rows * columns * max(split, 1), consumers + 32
        shared = max(shared, 2 * (bm * (bn + 8) if not swapped else bn * (bm + 8)))
        if "THREADS = CONSUMERS + 64" in text:  # a warp that brings nothing out
            threads += 32
        if "c[CONSUMERS / 32]" in text:  # each warp has room of its own, apart from the slots
            rows, least = consumers // 32 * 16, slots * (2 * DEPTH * (bm + bn) + 16)
            wide = 64 if SHARED - least >= rows * 2 * (64 + 8) else 32
            shared = slots * 2 * DEPTH * (bm + bn) + rows * 2 * (wide + 8)
        if "c[THREADS / 32]" in text:  # a part of C of each warp, apart from the slots
            shared = slots * 2 * DEPTH * (bm + bn) + threads // 32 * 16 * (64 + 8) * 2
        if split:
            shared += (split - 1) * bm * bn // split * 4
        arguments = [*maps, c, *((n, m, k) if swapped else (m, n, k))]
    if "lines_of_a" in text:
        arguments += operands
    arguments += more
    cluster = next((size for size in (pair, split, sharers) if size > 1), None)
    kernel = compile(text, "sm_90a")["matmul"]
    full = {f"memory+{shared + 8 * slot}" for slot in range(slots)}
    with _filling(full) as filled:
        run = kernel.launch(
            (blocks,), threads, arguments, shared=shared + _PATTERN, schedule=schedule,
            cluster=cluster, max_steps=most,
        )  # fmt: skip
    exact = np.asarray(formats.encode("bf16", a @ b.T)).view(np.uint16)
    return Product(run, bool(np.array_equal(c, exact)), not ready.any(), dict(filled))


def scaled(
    text: str, m: int, n: int, k: int, alpha: float, beta: float, *, seed: int = 18,
    most: int = 10_000_000,
) -> Product:  # fmt: skip
    """C (m, n) = alpha · A (m, k) · B (n, k)ᵀ + beta · C in f32 by a text of ``g_any.cu``.

    k is a multiple of 8. Where beta is 0, C is full of NaN before the launch.
    """
    import numpy as np

    from phasebit.emulator import TensorMap, formats
    from phasebit.launching.launch import compile

    bm, bn, slots = 64 * number(text, "GROUPS"), number(text, "BN"), number(text, "SLOTS")
    draw = np.random.default_rng(seed)
    a, b = (draw.integers(-4, 5, size).astype(np.float64) for size in ((m, k), (n, k)))
    c = draw.integers(-4, 5, (m, n)).astype(np.float32)
    exact = (alpha * (a @ b.T) + beta * c).astype(np.float32)
    if beta == 0:
        c[:] = np.nan
    maps = [
        TensorMap(formats.encode("bf16", x), (DEPTH, high), data_type="bf16", swizzle="128B")
        for x, high in ((a, bm), (b, bn))
    ]
    shared = max(slots * 2 * DEPTH * (bm + bn), 4 * bm * (bn + 8))
    run = compile(text, "sm_90a")["matmul"].launch(
        (-(-m // bm) * -(-n // bn),), 2 * bm + 32, [*maps, c, m, n, k, alpha, beta],
        shared=shared + _PATTERN, max_steps=most,
    )  # fmt: skip
    return Product(run, bool(np.array_equal(c, exact)), True, {})


@contextmanager
def _filling(barriers: set[str]) -> Iterator[Counter[int]]:
    """Counts, for each block, the phases of these barriers that complete meanwhile."""
    from phasebit.emulator import MbarrierObserver, observing

    filled: Counter[int] = Counter()

    class Watcher(MbarrierObserver):
        def completes(self, site: Any) -> None:
            if site.name in barriers:
                filled[int(site.batch.blocks[site.slot])] += 1

    with observing(Watcher()):
        yield filled
