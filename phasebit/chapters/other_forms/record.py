"""What half of A saves, and what a B that stays: products, each repeated and timed.

For whoever has a GPU that runs ``sm_100a``, as a B200 is: none was at hand when this was written.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from phasebit import files, toolchain
from phasebit.chapters.other_forms import halved, held_weights
from phasebit.instruments import repeated
from phasebit.launching import one_product

if TYPE_CHECKING:
    from phasebit.emulator import Run
    from phasebit.launching.launch import Kernel

NAME = "other_forms"
TARGET = "sm_100a"
"""What a GPU must run for this to be measured."""

WHOLE, HALF = "bf16, all of A", "bf16, half of A"
DEPTHS = {WHOLE: halved.STEP // 2, HALF: halved.STEP}
"""Products of 128 rows -> the numbers along k that each takes; both read as many bytes of A."""
ANEW, STAYS = "bf16, 32 rows, B anew", "bf16, 32 rows, B stays"
FEW = {ANEW: False, STAYS: True}
"""Products of ``.ws`` -> whether B stays in a buffer of the tensor core."""
WIDE = 128
"""Columns of such a sum."""

CHECKED = 8


def _launch(case: str, times: int) -> tuple[Kernel, list[Any]]:
    """The kernel and its arguments for ``times`` products.

    Whole numbers, so that every sum is exact.
    """
    import numpy as np

    from phasebit.emulator import instruction_descriptors, sparse

    if case in FEW:
        return held_weights.repeated(WIDE, times, stays=FEW[case])
    if case == HALF:
        a, b = halved.numbers(halved.N)
        stored, bits = sparse.compress(a, 4)
        together = halved.K // halved.STEP  # products that the kernel makes at a time
        return halved.prepare(stored, halved.metadata(bits), b, times=times // together)
    draw = np.random.default_rng(halved.N)
    left, right = (one_product.tile(draw.integers(-2, 3, (rows, DEPTHS[case])))
                   for rows in (halved.M, halved.N))  # fmt: skip
    instruction = instruction_descriptors.encode("f16", halved.M, halved.N, "bf16", "bf16", "f32")
    text = files.kernel("one_thread_multiplies/described")
    return one_product.prepare(text, left, right, instruction, times=times)


def repeat(case: str, times: int, **options: Any) -> tuple[Any, Run]:
    """Multiply so many times, a multiple of four: the sum, bits or f32, and the run."""
    kernel, arguments = _launch(case, times)
    out = arguments[3 if case == HALF else 6]
    return out, kernel.launch(1, 128, arguments, **options)


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU, or one that does not run
    :data:`TARGET`, or where a product of whole numbers differs from the emulator's.
    """
    import numpy as np

    from phasebit.instruments import beside_torch

    facts = beside_torch.facts_for(NAME, TARGET)
    for case in (*DEPTHS, *FEW):
        there, here = (repeat(case, CHECKED, device=device)[0] for device in ("gpu", "emulator"))
        if not np.array_equal(there, here):
            raise toolchain.CudaError(
                f"{case}: products of whole numbers differ from the emulator's"
            )
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            **repeated.PROTOCOL,
            "operands": "A and B in shared memory, swizzled over 128 bytes, small whole numbers; "
            "metadata in tensor memory",
            "check": "before timing, products of whole numbers against the emulator, every element",
        },
        "products": [
            *({"product": case, "m": halved.M, "n": halved.N, "k": k,
               **repeated.timed(partial(_launch, case))} for case, k in DEPTHS.items()),
            *({"product": case, "m": min(held_weights.ROWS), "n": WIDE, "k": halved.STEP // 2,
               **repeated.timed(partial(_launch, case))} for case in FEW),
        ],
    }  # fmt: skip


table = repeated.table
