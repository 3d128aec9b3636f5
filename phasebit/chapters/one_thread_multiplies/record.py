"""How long a product takes, by type and N: ``described.cu``, which repeats one, timed.

For whoever has a GPU that runs ``sm_100a``, as a B200 is: none was at hand when this was written.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from phasebit import files, measure, toolchain
from phasebit.instruments import repeated
from phasebit.launching import one_product

if TYPE_CHECKING:
    from phasebit.emulator import Run
    from phasebit.hardware import Gpu
    from phasebit.launching.launch import Kernel

NAME = "one_thread_multiplies"
TARGET = "sm_100a"
"""What a GPU must run for this to be measured."""

CASES = {
    "f16, sum f32": ("f16", "f16", "f32"), "f16, sum f16": ("f16", "f16", "f16"),
    "bf16, sum f32": ("f16", "bf16", "f32"), "e4m3, sum f32": ("f8f6f4", "e4m3", "f32"),
    "s8, sum s32": ("i8", "s8", "s32"), "tf32, sum f32": ("tf32", "tf32", "f32"),
}  # fmt: skip
"""What the record calls a product -> its kind, the type of A and B, that of the sum."""

WIDTHS = 32, 64, 128
"""N; M is 128."""

CHECKED = 8


def _launch(case: str, n: int, times: int) -> tuple[Kernel, list[Any]]:
    """The kernel and its arguments, of which the seventh is the sum, of ``times`` products.

    Whole numbers, so that every sum is exact in every type.
    """
    import numpy as np

    from phasebit.emulator import instruction_descriptors

    kind, of, total = CASES[case]
    text = f'#define KIND "{kind}"\n' + files.kernel("one_thread_multiplies/described")
    bits = instruction_descriptors.encode(kind, 128, n, of, of, total)
    draw = np.random.default_rng(n)
    depth = instruction_descriptors.DEPTH[kind]
    a, b = (one_product.tile(draw.integers(-2, 3, (128, depth)), of) for _ in range(2))
    return one_product.prepare(text, a, b, bits, times=times, columns=n)


def repeat(case: str, n: int, times: int, **options: Any) -> tuple[Any, Run]:
    """Multiply so many times: the bits of the sum [128, n], and the run."""
    kernel, arguments = _launch(case, n, times)
    return arguments[6], kernel.launch(1, 128, arguments, **options)


def possible(gpu: Gpu) -> list[tuple[str, int]]:
    """Products and N that a GPU has; ``kind::i8`` is ``sm_100a``'s alone."""
    return [(case, n) for case, (kind, _, _) in CASES.items()
            if kind != "i8" or gpu.executes(TARGET) for n in WIDTHS]  # fmt: skip


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU, or one that does not run
    :data:`TARGET`, or where a product of whole numbers differs from the emulator's.
    """
    import numpy as np

    from phasebit.emulator import instruction_descriptors
    from phasebit.instruments import beside_torch

    facts = beside_torch.facts_for(NAME, TARGET)
    products = possible(measure.gpu())
    for case in dict(products):
        there, here = (
            repeat(case, 64, CHECKED, device=device)[0] for device in ("gpu", "emulator")
        )
        if not np.array_equal(there, here):
            raise toolchain.CudaError(
                f"{case}: products of whole numbers differ from the emulator's"
            )
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            **repeated.PROTOCOL,
            "operands": "A and B in shared memory, swizzled over 128 bytes, small whole numbers",
            "check": "before timing, products of whole numbers of each kind against the emulator, "
            "every element",
        },
        "products": [
            {"product": case, "m": 128, "n": n, "k": instruction_descriptors.DEPTH[CASES[case][0]],
             **repeated.timed(partial(_launch, case, n))}
            for case, n in products
        ],
    }  # fmt: skip


table = repeated.table
