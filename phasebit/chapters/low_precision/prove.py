"""Launches of *Low precision, block by block* to compare with a GPU's, bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from phasebit import files
from phasebit.chapters.low_precision import mixed, nvfp4, quantise
from phasebit.launching.two_devices import Case


def cases() -> list[Case]:
    """The kernels on activations with outliers and on weights, whose sums are rounded."""
    both = files.kernel(mixed.KERNEL)
    return [
        *(Case(name, nvfp4.source(name), "sm_100a", 3.0, _launch(name))
          for name in nvfp4.KERNELS),
        *(Case(f"{mixed.NAME}, {of_a} × {of_b}", both, "sm_100a", 1.0, _mixed(of_a, of_b))
          for of_a, of_b in PAIRS),
    ]  # fmt: skip


PAIRS = ("e4m3", "e4m3"), ("e4m3", "e2m1"), ("e2m3", "e5m2"), ("e3m2", "e2m1")


def _mixed(of_a: str, of_b: str) -> Callable[[str], Mapping[str, Any]]:
    def launch(device: str) -> Mapping[str, Any]:
        forms = (quantise.Format(of, of, mixed.BITS[of], 32, "ue8m0") for of in (of_a, of_b))
        data = quantise.activations(256, 512, 4), quantise.weights(256, 512)
        a, b = (quantise.quantise(x, form) for x, form in zip(data, forms, strict=True))
        return {"C": mixed.multiply(a, b, device=device).c}

    return launch


def _launch(name: str) -> Callable[[str], Mapping[str, Any]]:
    def launch(device: str) -> Mapping[str, Any]:
        data = quantise.activations(256, 512, 4), quantise.weights(256, 512)
        a, b = (quantise.quantise(x, nvfp4.format_of(name)) for x in data)
        return {"C": nvfp4.multiply(a, b, nvfp4.source(name), device=device).c}

    return launch
