"""Launches of *Attention again* to compare with a GPU's, bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from phasebit.chapters.attention_again import tensor_attention as kernels
from phasebit.chapters.attention_again.tensor_attention import Shape
from phasebit.launching.two_devices import Case

SHAPES = Shape(130, 200), Shape(200, 330, 128, causal=True)
"""Ragged, full and causal, of both depths."""

SPREAD = 4.0
"""Q so many times as large as K: rows of both kinds, with and without a rescale."""


def cases() -> list[Case]:
    """Each kernel on normal random numbers: exponentials and sums are rounded."""
    return [
        Case(f"{name}, {shape.queries} × {shape.keys} × {shape.depth}", kernels.source(name),
             "sm_100a", 2.0, _launch(kernels.source(name), shape))
        for name in kernels.KERNELS for shape in SHAPES
    ]  # fmt: skip


def _launch(text: str, shape: Shape) -> Callable[[str], Mapping[str, Any]]:
    def launch(device: str) -> Mapping[str, Any]:
        kernel = kernels.compiled(text, shape.depth)
        data = kernels.draw(shape, 25, SPREAD)
        return {"O": kernels.launch(kernel, text, data, shape.causal, device=device).out}

    return launch
