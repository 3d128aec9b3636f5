"""*Past the vendor*: products of every shape by plans of the chapter's kernels, beside cuBLAS.

In one process and by turns, in random order. Needs torch, for cuBLAS and for the check.
"""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from phasebit import measure, toolchain
from phasebit.chapters.every_shape import narrower, row_ends, tries
from phasebit.chapters.every_shape.bench import Bench, any_text, protocol
from phasebit.chapters.every_shape.choice import CLUSTERS, PAIRS_EVERYWHERE, candidates
from phasebit.chapters.every_shape.plans import Plan
from phasebit.chapters.every_shape.shapes import SHAPES, Shape
from phasebit.instruments import beside_torch

NAME = "every_shape"
FURTHER = (row_ends.NAME, narrower.NAME)
_ANY = (Shape(1001, 1001, 1001), Shape(4097, 4097, 4097))
_PARTS = (Shape(1024, 1024, 1024), Shape(1000, 1000, 1000))


def record() -> dict[str, Any]:
    """Measure on this machine's GPU; what rows and narrower tiles change is saved beside it.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, or when a kernel fails or is
    wrong.
    """
    facts = measure.facts()
    for further in (row_ends, narrower):
        measure.save(further.record())
    torch = beside_torch.torch_here(NAME)
    texts = {plan.text for shape in SHAPES for plan in _contenders(shape)}
    texts |= {each.text for each in tries.TRIES.values()} | set(map(tries.part, tries.PARTS))
    texts |= {any_text(shape) for shape in _ANY}
    with ThreadPoolExecutor(16) as pool:
        built = dict(zip(texts, pool.map(_build, texts), strict=True))
    bench = Bench(torch, {text: ctypes.CDLL(str(each.program)) for text, each in built.items()})
    return {
        "benchmark": NAME,
        **facts,
        "protocol": protocol(torch),
        "shapes": [bench.shape(shape, _contenders(shape)) for shape in SHAPES],
        "tries": bench.tries(),
        "parts": [bench.parts(shape) for shape in _PARTS],
        "any": [bench.any(shape) for shape in _ANY],
    }


def _contenders(shape: Shape) -> list[Plan]:
    shared = CLUSTERS if shape in _PARTS else ()
    return list(dict.fromkeys([*candidates(shape), PAIRS_EVERYWHERE, *shared]))


def _build(text: str) -> toolchain.Build:
    return toolchain.build(text, name=NAME, target="sm_90a", library=True)
