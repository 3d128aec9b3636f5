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
def along_m(answer: Callable[[int, int, int], int]) -> str:
    """``answer(address, span, step)``: the 64 bits for 16 along k of an M-major tile, 64 × 64.

    Its lines have ``span`` bytes, one for each k, and are swizzled over as many; 64 of them hold
    ``span // 2`` rows, the next 64 the rows behind these.
    """
    from phasebit.emulator import matrix_descriptors, swizzle

    def cases() -> Iterator[Case]:
        draw = random.Random(161)
        for span in (128, 64, 32):
            pattern = swizzle.MODES[f"{span}B"]
            for step in range(4):
                address = 1024 * draw.randrange(200)
                yield (
                    (address, span, step),
                    matrix_descriptors.encode(
                        address + step * 16 * span, 64 * span, 8 * span, pattern, "wgmma"
                    ),
                )

    def words(address: int, span: int, step: int) -> str:
        return f"address {address:#x}, lines of {span} bytes, step {step}"

    return agree(answer, cases(), words, "descriptors")


@judged
def narrowest(answer: Callable[[int, bool], int]) -> str:
    """``answer(spare, in_registers)``: the narrowest width at full rate, or 0 for no width.

    The products may read what is left of 128 bytes of shared memory a cycle when ``spare`` are
    kept free. An instruction begins 13 cycles after the one before it, or later, and widths are
    multiples of 8 up to 256.
    """

    def width(spare: int, in_registers: bool) -> int:
        for n in range(8, 257, 8):
            cycles = 2 * 64 * n * 16 / 4096
            read = 32 * n + (0 if in_registers else 2048)
            if read <= (128 - spare) * cycles and cycles >= 13:
                return n
        return 0

    def cases() -> Iterator[Case]:
        for spare in (0, 16, 24, 32, 47, 48, 49, 64, 72):
            for in_registers in (False, True):
                yield (spare, in_registers), width(spare, in_registers)

    def words(spare: int, in_registers: bool) -> str:
        return f"{spare} bytes to spare, A in {'registers' if in_registers else 'shared memory'}"

    return agree(answer, cases(), words, "loads")


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


__all__ = ["along_m", "complex_product", "descriptor", "narrowest"]
