"""How long a product takes, by type and N: ``described.cu``, which repeats one, timed.

For whoever has a GPU that runs ``sm_100a``, as a B200 is: none was at hand when this was written.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from phasebit import files, measure, toolchain
from phasebit.chapters.one_thread_multiplies import described, halved

if TYPE_CHECKING:
    from phasebit.emulator import Run
    from phasebit.hardware import Gpu

NAME = "one_thread_multiplies"
TARGET = "sm_100a"
"""What a GPU must run for this to be measured."""

CASES = {
    "f16, sum f32": ("f16", "f16", "f32"), "f16, sum f16": ("f16", "f16", "f16"),
    "bf16, sum f32": ("f16", "bf16", "f32"), "e4m3, sum f32": ("f8f6f4", "e4m3", "f32"),
    "s8, sum s32": ("i8", "s8", "s32"), "tf32, sum f32": ("tf32", "tf32", "f32"),
}  # fmt: skip
"""What the record calls a product -> its kind, the type of A and B, that of the sum."""

HALF = "bf16, half of A, sum f32"
"""The product of :mod:`halved`, which has one N."""

WIDTHS = 32, 64, 128
"""N; M is 128."""

CHECKED = 8
FEW, MANY = 1_000, 11_000
"""How often a launch multiplies; the difference of two launches is what so many cost."""

_COUNT = 40


def _launch(case: str, n: int, times: int) -> tuple[Any, list[Any], Any]:
    """The kernel, its arguments, and the one of them that is the sum, of ``times`` products.

    Whole numbers, so that every sum is exact in every type.
    """
    import numpy as np

    from phasebit.emulator import instruction_descriptors, sparse
    from phasebit.launching.launch import compile

    if case == HALF:
        a, b = halved.numbers(n)
        stored, bits = sparse.compress(a, 4)
        together = halved.K // halved.STEP  # products that the kernel makes at a time
        kernel, arguments = halved.prepare(
            stored, halved.metadata(bits), b, times=times // together
        )
        return kernel, arguments, arguments[3]
    kind, of, total = CASES[case]
    text = f'#define KIND "{kind}"\n' + files.kernel("one_thread_multiplies/described")
    bits = instruction_descriptors.encode(kind, 128, n, of, of, total)
    draw = np.random.default_rng(n)
    depth = instruction_descriptors.DEPTH[kind]
    a, b = (described.tile(draw.integers(-2, 3, (128, depth)), of) for _ in range(2))
    out = np.zeros((128, 128), np.uint32)
    arguments = [a.image, b.image, a.descriptor, b.descriptor, bits, times, out, n]
    return compile(text, TARGET)["described"], arguments, out


def repeat(case: str, n: int, times: int, **options: Any) -> tuple[Any, Run]:
    """Multiply so many times: the sum, bits or f32 [128, columns], and the run."""
    kernel, arguments, out = _launch(case, n, times)
    return out, kernel.launch(1, 128, arguments, **options)


def possible(gpu: Gpu) -> list[tuple[str, int]]:
    """Products and N that a GPU has; ``kind::i8`` is ``sm_100a``'s alone."""
    dense = [case for case, (kind, _, _) in CASES.items()
             if kind != "i8" or gpu.executes(TARGET)]  # fmt: skip
    return [(case, n) for case in dense for n in WIDTHS] + [(HALF, halved.N)]


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
    found = []
    for case, n in products:
        few, many = (
            kernel.times(1, 128, [arguments], count=_COUNT)
            for kernel, arguments, _ in (_launch(case, n, times) for times in (FEW, MANY))
        )
        spent = statistics.median(many) - statistics.median(few)
        k = halved.STEP if case == HALF else instruction_descriptors.DEPTH[CASES[case][0]]
        found.append({
            "product": case, "m": 128, "n": n, "k": k,
            "us_few": few, "us_many": many, "ns_each": round(spent * 1e3 / (MANY - FEW), 3),
        })  # fmt: skip
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "clock": "events around each launch of one block",
            "each": f"the difference of the medians of {_COUNT} launches that multiply {MANY} and "
            f"{FEW} times into one sum, divided by the difference; the rest of the GPU is idle",
            "operands": "A and B in shared memory, swizzled over 128 bytes, small whole numbers",
            "check": "before timing, products of whole numbers of each kind against the emulator, "
            "every element",
        },
        "products": found,
    }


def table(record: dict[str, Any]) -> measure.Table:
    """What the page shows of a record: how long each product takes."""
    rows = []
    for each in record["products"]:
        flop = measure.matmul_flop(each["m"], each["n"], each["k"])
        rows.append((each["product"], f"128 × {each['n']} × {each['k']}", f"{each['ns_each']:.1f}",
                     f"{measure.tflops(flop, each['ns_each'] * 1e-9):.1f}"))  # fmt: skip
    return measure.Table(("one product", "shape", "ns", "TFLOP/s of a multiprocessor"),
                         tuple(rows), measure.source(record))  # fmt: skip
