"""Where rows begin, and what a tensor map asks of L2: each alone is otherwise.

Rows of 1000 or 5000 bf16 numbers begin at multiples of 16 bytes, so a box's 128 bytes of a row lie
across two lines of the cache. With zeros behind each row, up to a multiple of 64 numbers, they do
not; the kernel makes the same steps and copies the same boxes. A tensor map also names a promotion:
how many bytes L2 fetches from memory where fewer are asked for.
"""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from phasebit import measure, toolchain
from phasebit.chapters.every_shape import bench
from phasebit.chapters.every_shape.choice import choose
from phasebit.chapters.every_shape.plans import Plan
from phasebit.chapters.every_shape.shapes import SHAPES, Shape
from phasebit.instruments import beside_torch

NAME = "every_shape_rows"
RAGGED = (Shape(1000, 1000, 1000), Shape(5000, 5000, 5000))
PROMOTIONS = ("NONE", "L2_128B", "L2_256B")
VENDOR = bench.VENDOR
AS_THEY_ARE, PADDED = "rows as they are", "rows to multiples of 128 bytes"


def text(plan: Plan, promotion: str) -> str:
    """A plan whose tensor maps have another promotion."""
    if promotion == "NONE":
        return plan.text
    here = "CU_TENSOR_MAP_L2_PROMOTION_NONE"
    head = f"#include <cuda.h>\n#define {here} CU_TENSOR_MAP_L2_PROMOTION_{promotion}\n"
    return head + plan.text


def build(plan: Plan, promotion: str) -> toolchain.Build:
    """The plan as a library."""
    return toolchain.build(text(plan, promotion), name=NAME, target="sm_90a", library=True)


def wanted() -> list[tuple[Plan, str]]:
    """What is built."""
    found = dict.fromkeys(choose(shape) for shape in SHAPES)
    return [(plan, promotion) for plan in found for promotion in PROMOTIONS]


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, or when a kernel fails or is
    wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here(NAME)
    built = wanted()
    with ThreadPoolExecutor(16) as pool:
        done = list(pool.map(lambda each: build(*each), built))
    libraries = {
        text(*each): ctypes.CDLL(str(one.program)) for each, one in zip(built, done, strict=True)
    }
    by_turns = bench.Bench(torch, libraries)
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            **bench.protocol(torch),
            "rows": "the plan that the model chooses; zeros behind each row, up to a multiple of "
            "64 numbers; cuBLAS gets the same matrices, with the same distance between rows",
            "promotion": "CUtensorMapL2promotion of the maps of A, B and C",
        },
        "rows": [
            by_turns.rows(shape, text(choose(shape), PROMOTIONS[0]), (AS_THEY_ARE, PADDED))
            for shape in RAGGED
        ],
        "promotion": [
            by_turns.side_by_side(
                shape, {each: text(choose(shape), each) for each in PROMOTIONS}
            )
            for shape in SHAPES
        ],
    }  # fmt: skip
