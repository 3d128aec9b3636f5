"""Checks of *Four warps multiply*."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np

from phasebit.chapters.warpgroup_products import one_wgmma
from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import Wrong, judged
from phasebit.exercises.written import clean, compiled, running, written


@judged
def descriptor(answer: Callable[[int, int], int]) -> str:
    """``answer(address, span)``: the 64 bits for a K-major tile whose rows have ``span`` bytes.

    The rows, of 32, 64 or 128 bytes, lie without gaps, swizzled over as many.
    """
    from phasebit.emulator import matrix_descriptors, swizzle

    def cases() -> Iterator[Case]:
        draw = random.Random(160)
        for span in (128, 64, 32):
            for address in (0x400, 0x8000, 1024 * draw.randrange(200)):
                pattern = swizzle.MODES[f"{span}B"]
                yield (
                    (address, span),
                    matrix_descriptors.encode(address, 16, 8 * span, pattern, "wgmma"),
                )

    return agree(answer, cases(), lambda a, span: f"address {a:#x}, rows of {span} bytes", "tiles")


@judged
def shared_bytes(answer: Callable[[int, bool], float]) -> str:
    """``answer(n, in_registers)``: bytes a cycle that products of width ``n`` read at full rate."""

    def cases() -> Iterator[Case]:
        for n in (8, 32, 64, 128, 256):
            for in_registers in (False, True):
                cycles = 2 * 64 * n * 16 / 4096
                yield (n, in_registers), (32 * n + (0 if in_registers else 2048)) / cycles

    def words(n: int, in_registers: bool) -> str:
        return f"N = {n}, A in {'registers' if in_registers else 'shared memory'}"

    return agree(answer, cases(), words, "widths")


@judged
def complex_product(answer: str) -> str:
    """The kernel that multiplies complex matrices, from blank: run with every check."""
    head = "complex_product(const uint4* a_real,"
    kernel = compiled(written(answer, [head], "kernel"), "complex_product", "sm_90a")
    draw = np.random.default_rng(random.randrange(1 << 30))
    for schedule in ("late", "eager"):
        where = f"{schedule} products"
        parts = [draw.integers(-4, 5, (64, 64)).astype(np.float64) for _ in range(4)]
        images = [one_wgmma.tile(each).image for each in parts]
        real, imaginary = (np.full((64, 64), np.nan, np.float32) for _ in range(2))
        with running(where):
            run = kernel["complex_product"].launch(
                1, 128, [*images, real, imaginary], schedule=schedule
            )
        clean(run, where)
        right = (parts[0] + 1j * parts[1]) @ (parts[2] + 1j * parts[3]).T
        for name, got, want in (("real", real, right.real), ("imaginary", imaginary, right.imag)):
            if not np.array_equal(got, want):
                raise Wrong(f"{where}: the {name} part is wrong")
    return "exact on whole numbers, no finding"


__all__ = ["complex_product", "descriptor", "shared_bytes"]
