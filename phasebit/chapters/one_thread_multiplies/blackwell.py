"""The whole products of *One thread multiplies* on the emulator: in CUDA C++, and in CuTe DSL.

No GPU that they are for was at hand. What CuTe DSL made of its kernel is kept in a record.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phasebit import assembled, build_cache, files

if TYPE_CHECKING:
    from phasebit.emulator import Run

ONE = "one_thread_multiplies/tcgen05"
CUTE, CUTE_SHAPE = "tensor_memory/cute.py", (256, 256, 192)


def _whole_numbers(m: int, n: int, k: int, seed: int) -> tuple[list[Any], Any, Any]:
    """A (m, k) and B (n, k) as bits of bf16, C (m, n) full of NaN, and the product."""
    import numpy as np

    from phasebit.emulator import formats

    draw = np.random.default_rng(seed)
    a, b = (draw.integers(-4, 5, size).astype(np.float64) for size in ((m, k), (n, k)))
    bits = [np.asarray(formats.encode("bf16", x)) for x in (a, b)]
    return bits, np.full((m, n), np.nan, np.float32), a @ b.T


def multiply(
    source: str, m: int, n: int, k: int, *, schedule: str = "late", seed: int = 16
) -> tuple[Run, bool]:
    """C (m, n) = A (m, k) · B (n, k)ᵀ by ``tcgen05.cu``, or a variant, on whole numbers.

    Returns the run, and whether C is exact.
    """
    import numpy as np

    from phasebit.launching.launch import compile

    bits, c, product = _whole_numbers(m, n, k, seed)
    kernel = compile(source, "sm_100a")["matmul"]
    grid = -(-n // 128), -(-m // 128)
    run = kernel.launch(grid, 128, [*bits, c, m, n, k], schedule=schedule)
    return run, bool(np.array_equal(c, product))


# -- the same in CuTe DSL ----------------------------------------------------------


def _cute() -> Path:
    return files.kernels() / CUTE


def fingerprint() -> str:
    """What the kernel in CuTe DSL is: a record of another is out of date."""
    return hashlib.sha256(_cute().read_bytes()).hexdigest()[:16]


def cute_ptx() -> tuple[str, str]:
    """PTX of ``kernels/tensor_memory/cute.py`` for CUTE_SHAPE, and where it comes from.

    Compiled now where CuTe DSL is installed, else from the record.
    """
    if importlib.util.find_spec("cutlass") is not None:
        from importlib.metadata import version

        return compile_cute(), f"compiled now by nvidia-cutlass-dsl {version('nvidia-cutlass-dsl')}"
    record = assembled.record()
    return assembled.unpacked(record["cute"]["ptx"]), (
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

    spec = importlib.util.spec_from_file_location("phasebit_cute", _cute())
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
