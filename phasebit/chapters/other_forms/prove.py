"""Launches of *Other forms of the product* to compare with a GPU's, bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from phasebit import files
from phasebit.chapters.other_forms import halved, held_weights
from phasebit.launching.devices import Device
from phasebit.launching.two_devices import Case


def cases() -> list[Case]:
    """Products of half of A with other metadata each, and tiles of A beside a B that stays."""
    half = files.kernel(halved.KERNEL)
    sparse = [
        Case(f"half of A is zero, metadata {seed}", half, "sm_100a", 0.5, _halved(seed))
        for seed in range(4)
    ]
    return sparse + [
        Case(f"B stays, {high} rows of A", held_weights.source(high), "sm_100a", 0.5, _held(high))
        for high in held_weights.ROWS
    ]


def _held(high: int) -> Callable[[Device], Mapping[str, Any]]:
    def launch(device: Device) -> Mapping[str, Any]:
        import numpy as np

        draw = np.random.default_rng(high)
        a, b = (draw.standard_normal((rows, held_weights.K)) for rows in (3 * high + 5, 100))
        return {"C": held_weights.launch(a, b, high, device=device)[0]}

    return launch


def _halved(seed: int) -> Callable[[Device], Mapping[str, Any]]:
    def launch(device: Device) -> Mapping[str, Any]:
        import numpy as np

        from phasebit.emulator import sparse

        a, b = halved.numbers(seed)
        stored, bits = sparse.compress(a, 4)
        scale = np.random.default_rng(seed).standard_normal(stored.shape)
        c, _ = halved.launch(stored * scale, halved.metadata(bits), b, device=device)
        return {"the sum": c}

    return launch
