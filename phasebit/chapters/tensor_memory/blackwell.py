"""The kernels of *Tensor memory* on the emulator: run, watched at their barriers, drawn.

No GPU that they are for was at hand. What compilers made of them is kept in a record.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from phasebit import files, replay

if TYPE_CHECKING:
    from phasebit.emulator import Run

ONE, RING, PAIR = KERNELS = "tcgen05", "tcgen05_ring", "tcgen05_pair"
COMPILED = "blackwell_compiled.json"
SCOPED = f"{PAIR}, scopes of the cluster"
"""What the record calls the pair with every wait and arrival at the scope of the cluster."""

PIECES, PATTERN = 4 * 2 * 32 * 32 * 4, 1024
"""Bytes of the pieces of C on their way out, and of the swizzle's pattern."""


@dataclass(frozen=True)
class Rings:
    """The two rings of a kernel, by its source: slots, and where its barriers lie."""

    stages: int
    sums: int
    blocks: int
    """1, or 2 for a pair."""

    @classmethod
    def of(cls, source: str) -> Rings:
        def number(name: str) -> int:
            found = re.search(rf"constexpr int {name} = (\d+);", source)
            if found is None:
                raise ValueError(f"the kernel has no line `constexpr int {name} = …;`")
            return int(found[1])

        return cls(number("STAGES"), number("SUMS"), 2 if "__cluster_dims__" in source else 1)

    @property
    def tiles(self) -> int:
        """Bytes in front of the barriers: slices of A and B, and pieces of C."""
        slot = 64 * 2 * (128 + 256 // self.blocks)
        return self.stages * slot + PIECES

    @property
    def shared(self) -> int:
        """``sizeof(Shared)``: the barriers and the address need less than one pattern."""
        return self.tiles + PATTERN

    def barriers(self) -> dict[str, str]:
        """What the emulator calls each barrier -> what the kernel calls it."""
        names = [f"{kind} {slot}" for kind in ("full", "empty") for slot in range(self.stages)]
        names += [f"sum {kind} {slot}" for kind in ("full", "empty") for slot in range(self.sums)]
        return {f"memory+{self.tiles + 8 * i}": name for i, name in enumerate(names)}


def _whole_numbers(m: int, n: int, k: int, seed: int) -> tuple[list[Any], Any, Any]:
    """A (m, k) and B (n, k) as bits of bf16, C (m, n) full of NaN, and the product."""
    import numpy as np

    from phasebit.emulator import formats

    draw = np.random.default_rng(seed)
    a, b = (draw.integers(-4, 5, size).astype(np.float64) for size in ((m, k), (n, k)))
    bits = [np.asarray(formats.encode("bf16", x)) for x in (a, b)]
    return bits, np.full((m, n), np.nan, np.float32), a @ b.T


def multiply(
    source: str, m: int, n: int, k: int, *, workers: int = 1, schedule: str = "late", seed: int = 16
) -> tuple[Run, bool]:
    """C (m, n) = A (m, k) · B (n, k)ᵀ by a kernel of *Tensor memory*, on whole numbers.

    ``workers``: blocks of a persistent kernel, or pairs. Returns the run, and whether C is exact.
    """
    import numpy as np

    from phasebit.emulator import TensorMap
    from phasebit.launching.launch import compile

    bits, c, product = _whole_numbers(m, n, k, seed)
    kernel = compile(source, "sm_100a")["matmul"]
    arguments: list[Any] = [*bits, c, m, n, k]
    grid: tuple[int, ...] = (-(-n // 128), -(-m // 128))
    threads, shared = 128, 0
    if kernel.function.parameters[0].size == 128:  # a tensor map
        rings = Rings.of(source)
        maps = [TensorMap(x, (64, rows), data_type="bf16", swizzle="128B")
                for x, rows in zip(bits, (128, 256 // rings.blocks), strict=True)]  # fmt: skip
        arguments[:3] = [*maps, TensorMap(c, (32, 32), swizzle="128B")]
        grid, threads, shared = (workers * rings.blocks,), 192, rings.shared
    run = kernel.launch(grid, threads, arguments, shared=shared, schedule=schedule)
    return run, bool(np.array_equal(c, product))


# -- what compilers made of them ---------------------------------------------------


def source(name: str) -> str:
    """The source of one of :data:`KERNELS`."""
    return (files.kernels() / "tensor_memory" / f"{name}.cu").read_text(encoding="utf-8")


def fingerprint(name: str) -> str:
    """What a kernel's source and its headers are: a record of another program is out of date.

    Comments do not count.
    """
    return replay.key(source(name))


def compiled() -> dict[str, Any]:
    """The record of ``tools/compiled.py``."""
    path = files.records() / COMPILED
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


def _unpacked(text: str) -> str:
    return gzip.decompress(base64.b64decode(text)).decode()


def scoped() -> str:
    """The pair's source with every wait and arrival at the scope of the cluster."""
    text = source(PAIR).replace("mbarrier_wait(", "mbarrier_wait_cluster(")
    return text.replace("mbarrier_arrive_at_after_reads(", "mbarrier_arrive_at(")


def sass(kernel: str) -> list[str]:
    """The instructions that ptxas made of a kernel, or of ``SCOPED``, from the record."""
    return _unpacked(compiled()["kernels"][kernel]["sass"]).splitlines()
