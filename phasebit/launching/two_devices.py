"""A launch to be made on a GPU and on the emulator, whose results are compared bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from phasebit.launching.devices import Device


@dataclass(frozen=True)
class Case:
    """A launch that can be made on either device."""

    name: str
    """Of its chapter, as ``pair, 300 × 260 × 200``."""
    source: str
    """The kernel: where it changes, the case is compared again."""
    target: str
    """That it is compiled for, ``sm_100a``."""
    seconds: float
    """About how long the emulator takes on one core."""
    launch: Callable[[Device], Mapping[str, Any]]
    """``launch(device)`` runs it and returns what it wrote, by name: NumPy arrays."""
    family: bool = True
    """Whether later chips of the target's family run it: an ``sm_103a`` has no ``kind::i8``."""
