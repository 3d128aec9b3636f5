"""Launches of *Tensor memory* to compare with a GPU's, bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from phasebit.chapters.tensor_memory import cells, record
from phasebit.launching.two_devices import Case


def cases() -> list[Case]:
    """Who gets which cell by each shape of a load, and which lanes each shape of a copy fills."""

    def fetched(shape: str) -> Callable[[str], Mapping[str, Any]]:
        return lambda device: {"cells": cells.fetch(cells.shapes(shape), device=device)[0]}

    def copied(shape: str) -> Callable[[str], Mapping[str, Any]]:
        return lambda device: {"lanes": cells.copied(shape, device=device)[0]}

    def unpacked(width: int) -> Callable[[str], Mapping[str, Any]]:
        def launch(device: str) -> Mapping[str, Any]:
            import numpy as np

            return {"bytes": np.frombuffer(cells.unpacked(width, device=device)[1], np.uint8)}

        return launch

    def repeated(name: str) -> Callable[[str], Mapping[str, Any]]:
        return lambda device: {"registers": record.repeat(name, 3, device=device)[0]}

    return [
        *(Case(f"tcgen05.ld.{shape}", cells.shapes(shape), "sm_100a", 0.3, fetched(shape))
          for shape in cells.SHAPES),
        *(Case(f"tcgen05.cp.{shape}", cells.source("copied"), "sm_100a", 0.3, copied(shape))
          for shape in (*cells.COPIES, *cells.WIDE)),
        *(Case(f"tcgen05.cp.128x128b.b8x16.{of}", cells.source("copied"), "sm_100a", 0.3,
               unpacked(width)) for width, of in cells.UNPACKED.items()),
        *(Case(f"again and again: {name}", cells.source("fetch_rate", SHAPE=number), "sm_100a", 0.3,
               repeated(name)) for name, number in record.SHAPES.items()),
    ]  # fmt: skip
