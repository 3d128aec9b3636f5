"""The kernels of *Tensor memory* on the emulator: run, watched at their barriers, drawn.

No GPU that they are for was at hand. What compilers made of them is kept in a record.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import importlib.util
import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phasebit import build_cache, files, replay

if TYPE_CHECKING:
    from phasebit.emulator import Run

ONE, RING, PAIR = KERNELS = "tcgen05", "tcgen05_ring", "tcgen05_pair"
CUTE, CUTE_SHAPE = "cute", (256, 256, 192)
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
    """The source of one of :data:`KERNELS`, or of :data:`CUTE`."""
    return _source(name).read_text(encoding="utf-8")


def _source(name: str) -> Path:
    return files.kernels() / "tensor_memory" / f"{name}.{'py' if name == CUTE else 'cu'}"


def fingerprint(name: str) -> str:
    """What a kernel's source and its headers are: a record of another program is out of date.

    Comments in CUDA do not count.
    """
    text = source(name)
    return hashlib.sha256(text.encode()).hexdigest()[:16] if name == CUTE else replay.key(text)


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


def cute_ptx() -> tuple[str, str]:
    """PTX of ``kernels/tensor_memory/cute.py`` for CUTE_SHAPE, and where it comes from.

    Compiled now where CuTe DSL is installed, else from the record.
    """
    if importlib.util.find_spec("cutlass") is not None:
        from importlib.metadata import version

        return compile_cute(), f"compiled now by nvidia-cutlass-dsl {version('nvidia-cutlass-dsl')}"
    record = compiled()
    return _unpacked(record["cute"]["ptx"]), (
        f"compiled by {record['cute']['package']} on {record['date']}; it is not installed here"
    )


@functools.cache
def _scratch() -> build_cache.Scratch:
    """A folder that goes when Python does."""
    return build_cache.Scratch()


def compile_cute() -> str:
    """PTX of ``kernels/tensor_memory/cute.py`` for CUTE_SHAPE, by CuTe DSL; needs no GPU."""
    # It keeps a copy of its own, in the folder that this names when it is imported.
    os.environ.setdefault("CUTE_DSL_DUMP_DIR", _scratch().name)

    import cutlass.cute as cute  # type: ignore[import-not-found, unused-ignore]
    from cutlass.cute.runtime import (  # type: ignore[import-not-found, unused-ignore]
        make_fake_compact_tensor,
    )

    spec = importlib.util.spec_from_file_location("phasebit_cute", _source(CUTE))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    m, n, k = CUTE_SHAPE
    tensors = [
        make_fake_compact_tensor(kind, shape, stride_order=(1, 0), assumed_align=16)
        for kind, shape in ((module.BF16, (m, k)), (module.BF16, (n, k)), (module.F32, (m, n)))
    ]
    made = cute.compile(module.matmul, *tensors, options="--gpu-arch sm_100a --keep-ptx")
    return str(made.__ptx__)


def multiply_cute(ptx: str, *, schedule: str = "late", seed: int = 16) -> tuple[Run, bool]:
    """Run that PTX on the emulator: the run, and whether C is exact."""
    import numpy as np

    from phasebit.emulator import TensorMap
    from phasebit.launching.launch import Module

    m, n, k = CUTE_SHAPE
    bits, c, product = _whole_numbers(m, n, k, seed)
    module = Module(ptx)
    kernel = module[module.kernels[0]]
    maps = [TensorMap(x, (64, 128), data_type="bf16", swizzle="128B") for x in bits]
    flags = [bytes(each.size) for each in kernel.function.parameters[:-3]]
    run = kernel.launch(
        (m // 128, n // 128), 192, [*flags, *maps, c], shared=3 * 32_768 + 2_048,
        schedule=schedule,
    )  # fmt: skip
    return run, bool(np.array_equal(c, product))
