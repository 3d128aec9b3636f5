"""How long a product takes, by type and N: ``described.cu``, which repeats one, timed.

For whoever has a GPU that runs ``sm_100a``, as a B200 is: none was at hand when this was written.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from phasebit import files, toolchain
from phasebit.chapters.one_thread_multiplies import described

if TYPE_CHECKING:
    from phasebit.emulator import Run

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

FEW, MANY = 1_000, 11_000
"""How often a launch multiplies; the difference of two launches is what so many cost."""

_COUNT = 40


def _launch(case: str, n: int, times: int) -> tuple[Any, list[Any]]:
    """The kernel and its arguments: tiles of random bytes, which any type can be made of."""
    import numpy as np

    from phasebit.emulator import instruction_descriptors
    from phasebit.launching.launch import compile

    kind, of, total = CASES[case]
    text = f'#define KIND "{kind}"\n' + files.kernel("one_thread_multiplies/described")
    bits = instruction_descriptors.encode(kind, 128, n, of, of, total)
    draw = np.random.default_rng(n)
    # small numbers in every type: bytes that are no infinity and no NaN
    tiles = [draw.integers(0, 0x40, described.BYTES).astype(np.uint8).view(np.uint32)
             for _ in range(2)]  # fmt: skip
    to = described.tile(np.zeros((128, 16))).descriptor
    out = np.zeros((128, 128), np.uint32)
    return compile(text, TARGET)["described"], [*tiles, to, to, bits, times, out, n]


def repeat(case: str, n: int, times: int, **options: Any) -> tuple[Any, Run]:
    """Multiply so many times: the bits of the sum [128, 128], and the run."""
    kernel, arguments = _launch(case, n, times)
    return arguments[6], kernel.launch(1, 128, arguments, **options)


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU, or one that does not run
    :data:`TARGET`, or where a product of whole numbers differs from the emulator's.
    """
    import numpy as np

    from phasebit.instruments import beside_torch

    facts = beside_torch.facts_for(NAME, TARGET)
    there, here = (repeat("s8, sum s32", 64, 3, device=device)[0] for device in ("gpu", "emulator"))
    if not np.array_equal(there, here):
        raise toolchain.CudaError("products of whole numbers differ from the emulator's")
    found = []
    for case in CASES:
        for n in WIDTHS:
            few, many = (
                kernel.times(1, 128, [arguments], count=_COUNT)
                for kernel, arguments in (_launch(case, n, times) for times in (FEW, MANY))
            )
            spent = statistics.median(many) - statistics.median(few)
            found.append({
                "product": case, "m": 128, "n": n, "bytes_of_k": 32,
                "us_few": few, "us_many": many, "ns_each": round(spent * 1e3 / (MANY - FEW), 3),
            })  # fmt: skip
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "clock": "events around each launch of one block",
            "each": f"the difference of the medians of {_COUNT} launches that multiply {MANY} and "
            f"{FEW} times into one sum, divided by the difference; the rest of the GPU is idle",
            "operands": "A and B in shared memory, swizzled over 128 bytes, random bytes below 64",
            "check": "before timing, a product of whole numbers, bit by bit, against the emulator",
        },
        "products": found,
    }
