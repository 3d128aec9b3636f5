"""The products of *Low precision, block by block*, timed.

For whoever has a GPU that runs ``sm_100a``, as a B200 is: none was at hand when this was written.
Where torch is installed, cuBLAS's products of NVFP4 and MXFP8 stand beside them; it has none of the
other formats.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phasebit import measure, toolchain
from phasebit.chapters.low_precision import mixed, nvfp4, vendor

NAME = "low_precision"
TARGET = "sm_100a"
"""What a GPU must run for this to be measured."""

SIZES = 4096, 8192
"""Of cubes."""

MIXED = ("e4m3", "e4m3"), ("e4m3", "e2m1")
_COUNT = 50


def checked(device: str) -> list[str]:
    """Each kernel once, on ragged shapes whose sums are exact: the names of those that are wrong.

    ``device``: ``"gpu"``, or ``"emulator"`` to rehearse.
    """
    wrong = []
    for name in nvfp4.KERNELS:
        form = nvfp4.format_of(name)
        a, b = nvfp4.plain(300, 544, 1, form), nvfp4.plain(290, 544, 2, form)
        c = nvfp4.multiply(a, b, nvfp4.source(name), device=device).c
        if not np.array_equal(c, a.values() @ b.values().T):
            wrong.append(name)
    for pair in MIXED:
        a, b = mixed.plain(300, 256, pair[0], 1), mixed.plain(290, 256, pair[1], 2)
        if not np.array_equal(mixed.multiply(a, b, device=device).c, a.values() @ b.values().T):
            wrong.append(f"{mixed.NAME}, {' × '.join(pair)}")
    return wrong


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU, or one that does not run
    :data:`TARGET`, or when a kernel is wrong.
    """
    from phasebit.instruments import beside_torch, programs

    facts = beside_torch.facts_for(NAME, TARGET)
    if wrong := checked("gpu"):
        raise toolchain.CudaError(f"wrong on ragged shapes: {', '.join(wrong)}")
    products = []
    for size in SIZES:
        for name in nvfp4.KERNELS:
            a, b = (nvfp4.plain(size, size, seed, nvfp4.format_of(name)) for seed in (1, 2))
            launch = nvfp4.prepare(a, b, nvfp4.source(name), blocks=programs.multiprocessors())
            products.append({"kernel": name, "m": size, "n": size, "k": size,
                             "us": launch.times(_COUNT)})  # fmt: skip
        for pair in MIXED:
            a, b = (mixed.plain(size, size, of, seed) for seed, of in enumerate(pair))
            launch = mixed.prepare(a, b)
            products.append({"kernel": f"{mixed.NAME}, {' × '.join(pair)}", "m": size, "n": size,
                             "k": size, "us": launch.times(_COUNT)})  # fmt: skip
    beside, said = _vendor()
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "clock": f"events around each of {_COUNT} launches, some before that do not count",
            "inputs": "random codes, scales of three sizes; f32 sums and results; no flush",
            "check": "before timing, ragged shapes whose sums are exact, every element",
            "vendor": said,
        },
        "products": products + beside,
    }


def _vendor() -> tuple[list[dict[str, Any]], str]:
    """cuBLAS's products, and what the record says of them."""
    from phasebit.instruments import beside_torch

    try:
        torch = beside_torch.torch_here(NAME)
    except toolchain.CudaError as error:
        return [], f"nothing: {error}"
    products, refused = [], []
    for size in SIZES:
        for kind in vendor.KINDS:
            us = vendor.times(torch, kind, size)
            if isinstance(us, str):
                refused.append(us)
            else:
                products.append({"kernel": f"cuBLAS, {kind}, C in bf16", "m": size, "n": size,
                                 "k": size, "us": us})  # fmt: skip
    said = f"cuBLAS through torch {torch.__version__}, random codes of the same kinds, bf16 results"
    return products, "; ".join([said, *dict.fromkeys(refused)])


def table(record: dict[str, Any]) -> measure.Table:
    """What the page shows of a record: rates of whole products."""
    rows = []
    for each in record["products"]:
        us = measure.summary(each["us"]).median
        flop = measure.matmul_flop(each["m"], each["n"], each["k"])
        rows.append((each["kernel"], f"{each['m']:,}", f"{us:,.0f}",
                     f"{measure.tflops(flop, us * 1e-6):,.0f}"))  # fmt: skip
    return measure.Table(("kernel", "cube of", "µs, median", "TFLOP/s"), tuple(rows),
                         measure.source(record))  # fmt: skip
