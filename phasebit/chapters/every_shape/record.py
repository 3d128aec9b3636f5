"""*Past the vendor*: products of every shape by plans of the chapter's kernels, beside cuBLAS.

In one process and by turns, in random order. Needs torch, for cuBLAS and for the check.
"""

from __future__ import annotations

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from phasebit import measure, toolchain
from phasebit.chapters.every_shape import narrower, open_kernels, row_ends, tries
from phasebit.chapters.every_shape.bench import Bench, any_text, protocol
from phasebit.chapters.every_shape.choice import SMALL_SQUARES, contenders
from phasebit.chapters.every_shape.shapes import SHAPES, Shape
from phasebit.instruments import beside_torch
from phasebit.instruments.rivals import FOLDER

NAME = "every_shape"
FURTHER = (row_ends.NAME, narrower.NAME, open_kernels.NAME)
_ANY = (Shape(1001, 1001, 1001), Shape(4097, 4097, 4097))


def record() -> dict[str, Any]:
    """Measure on this machine's GPU; what rows and narrower tiles change is saved beside it, and
    what the rivals do, where they are.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, or when a kernel fails or is
    wrong.
    """
    facts = measure.facts()
    measure.save(row_ends.record())
    measure.save(narrower.record())
    if FOLDER in os.environ:
        measure.save(open_kernels.record())
    else:
        print(f"⏱ no {open_kernels.NAME}: {FOLDER} does not say where the rivals are")
    torch = beside_torch.torch_here(NAME)
    texts = {plan.text for shape in SHAPES for plan in contenders(shape)}
    texts |= {each.text for each in tries.TRIES.values()} | set(map(tries.part, tries.PARTS))
    texts |= {any_text(shape) for shape in _ANY}
    with ThreadPoolExecutor(16) as pool:
        built = dict(zip(texts, pool.map(_build, texts), strict=True))
    bench = Bench(torch, {text: ctypes.CDLL(str(each.program)) for text, each in built.items()})
    return {
        "benchmark": NAME,
        **facts,
        "protocol": protocol(torch),
        "shapes": [bench.shape(shape, contenders(shape)) for shape in SHAPES],
        "tries": bench.tries(),
        "parts": [bench.parts(shape) for shape in SMALL_SQUARES],
        "any": [bench.any(shape) for shape in _ANY],
    }


def _build(text: str) -> toolchain.Build:
    return toolchain.build(text, name=NAME, target="sm_90a", library=True)
