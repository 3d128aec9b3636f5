"""Launches of *Low precision, block by block* to compare with a GPU's, bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from phasebit.chapters.low_precision import nvfp4, quantise
from phasebit.launching.two_devices import Case


def cases() -> list[Case]:
    """Both kernels on activations with outliers and on weights, whose sums are rounded."""
    return [
        Case(name, nvfp4.source(name), "sm_100a", 3.0, _launch(nvfp4.source(name)))
        for name in nvfp4.KERNELS
    ]


def _launch(source: str) -> Callable[[str], Mapping[str, Any]]:
    def launch(device: str) -> Mapping[str, Any]:
        a = quantise.quantise(quantise.activations(256, 512, 4), quantise.NVFP4)
        b = quantise.quantise(quantise.weights(256, 512), quantise.NVFP4)
        return {"C": nvfp4.multiply(a, b, source, device=device).c}

    return launch
