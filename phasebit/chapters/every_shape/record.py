"""*Past the vendor*: products of every shape by plans of the chapter's kernels, beside cuBLAS.

In one process and by turns, in random order. Needs torch, for cuBLAS and for the check.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from phasebit import measure
from phasebit.chapters.every_shape import (
    cold,
    early_controls,
    few_rows,
    floor_of_reads,
    grouped,
    last_wave,
    narrower,
    open_kernels,
    processes,
    row_ends,
    tries,
)
from phasebit.chapters.every_shape.bench import MAJORS as MAJORS_GIVEN
from phasebit.chapters.every_shape.bench import Bench, any_text, loaded, protocol
from phasebit.chapters.every_shape.choice import PAIRS_EVERYWHERE, SMALL_SQUARES, contenders
from phasebit.chapters.every_shape.shapes import SHAPES, Shape
from phasebit.instruments import beside_torch
from phasebit.instruments.rivals import FOLDER

NAME = "every_shape"
_CONTROLS = (early_controls, cold, last_wave, floor_of_reads, grouped, processes)
FURTHER = (
    open_kernels.NAME, row_ends.NAME, narrower.NAME, few_rows.NAME,
    *(each.NAME for each in _CONTROLS),
)  # fmt: skip
MAJORS = Shape(4096, 4096, 4096)
_ANY = (Shape(1001, 1001, 1001), Shape(4097, 4097, 4097))


def alone() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, or when a kernel fails or is
    wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here(NAME)
    texts = {plan.text for shape in SHAPES for plan in contenders(shape)}
    texts |= {each.text for each in tries.TRIES.values()} | set(map(tries.part, tries.PARTS))
    texts |= {plan.text for tried in tries.FURTHER for plan in (tried.base, *tried.plans)}
    texts |= {replace(PAIRS_EVERYWHERE, across=each).text for each in MAJORS_GIVEN}
    texts |= {any_text(shape) for shape in _ANY}
    bench = Bench(torch, loaded(texts))
    return {
        "benchmark": NAME,
        **facts,
        "protocol": protocol(torch),
        "shapes": [bench.shape(shape, contenders(shape)) for shape in SHAPES],
        "tries": bench.tries(),
        "further": [bench.further(tried) for tried in tries.FURTHER],
        "parts": [bench.parts(shape) for shape in SMALL_SQUARES],
        "any": [bench.any(shape) for shape in _ANY],
        "majors": bench.majors(MAJORS, PAIRS_EVERYWHERE),
    }


def record() -> dict[str, Any]:
    """What :func:`alone` measures. Further records are saved beside it, after it: what the rivals
    do, where they are, what rows, narrower tiles and few rows change, and the controls.
    """
    found = alone()
    measure.save(found)
    if FOLDER in os.environ:
        measure.save(open_kernels.record(found))
    else:
        print(f"⏱ no {open_kernels.NAME}: {FOLDER} does not say where the rivals are")
    measure.save(row_ends.record())
    measure.save(narrower.record())
    measure.save(few_rows.record())
    for each in _CONTROLS:
        measure.save(each.record())
    return found
