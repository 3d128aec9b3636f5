"""The machine behind The Phase Bit: producers, consumers and the barriers between them.

Names are loaded on first use, so that the pure-Python layer (``pipeline``,
``timeline``, ``mbarrier``) imports in a browser that has no NumPy.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

__version__ = "0.1.0"

device: str = os.environ.get("PHASEBIT_DEVICE", "auto")
"""What runs kernels: ``"auto"``, ``"gpu"`` or ``"emulator"``; see :mod:`phasebit.devices`."""

_HOME: dict[str, str] = {
    "Pipeline": "phasebit.pipeline",
    "simulate": "phasebit.pipeline",
    "Timeline": "phasebit.timeline",
    "Span": "phasebit.timeline",
    "Mark": "phasebit.timeline",
    "Picture": "phasebit.draw",
    "Mbarrier": "phasebit.mbarrier",
    "Ring": "phasebit.pipeline.ring",
    "explore": "phasebit.pipeline.explore",
    "walk": "phasebit.pipeline.interleaving",
    "compile": "phasebit.emulator.launch",
    "Module": "phasebit.emulator.launch",
    "Hazard": "phasebit.emulator.hazards",
    "TensorMap": "phasebit.emulator.tensormap",
}
"""Public name -> the module that defines it."""


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'phasebit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext phasebit``: see :mod:`phasebit.notebook`."""
    from phasebit import notebook

    notebook.load(shell)
