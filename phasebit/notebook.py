"""``%load_ext phasebit``: CUDA cells that are checked before they are timed."""

from __future__ import annotations

from typing import Any

from phasebit import machine


def where() -> str:
    """One line that says where this notebook runs."""
    gpu = machine.gpu()
    if gpu is None:
        return "⏱ no GPU here"
    return f"⏱ {gpu.name} ({gpu.target}), driver {gpu.driver}"


def load(shell: Any) -> None:
    """Register the magics and say where the notebook runs."""
    print(where())
