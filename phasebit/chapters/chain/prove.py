"""Launches of *Four producers, four consumers* to compare with a GPU's, bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from phasebit.chapters.chain import kernels
from phasebit.launching.two_devices import Case

SHAPES = (256, 256, 64), (300, 260, 200)
"""A whole tile or two, and several ragged ones."""


def cases() -> list[Case]:
    """Each kernel on normal random numbers, whose sums are rounded."""
    return [
        Case("{}, {} × {} × {}".format(name, *shape), kernels.source(name), "sm_100a", 2.0,
             _launch(kernels.source(name), shape))
        for name in kernels.EVERY for shape in SHAPES
    ]  # fmt: skip


def _launch(source: str, shape: tuple[int, int, int]) -> Callable[[str], Mapping[str, Any]]:
    def launch(device: str) -> Mapping[str, Any]:
        import numpy as np

        draw, (m, n, k) = np.random.default_rng(23), shape
        a, b = draw.standard_normal((m, k)), draw.standard_normal((n, k))
        return {"C": kernels.launch(source, a, b, device=device)[1]}

    return launch
