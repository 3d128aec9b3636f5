"""The machine behind The Phase Bit: producers, consumers and the barriers between them.

Pipelines, in Python alone: :class:`Pipeline` and :func:`simulate`, :class:`Ring`,
:func:`explore` and :func:`walk`, :class:`Mbarrier`, and their pictures.

Kernels: :func:`compile` makes a :class:`Module` of CUDA source, ``module["name"]`` is a
:class:`Kernel`, ``kernel.launch(…)`` gives a :class:`DeviceRun` with its counters and every
:class:`Finding`; ``raises=True``, or :data:`strict` for all launches, makes these an error.

Names are loaded on first use, so that the pure-Python layer (``pipeline``,
``timeline``, ``mbarrier``) imports in a browser that has no NumPy.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from phasebit.draw import Picture
    from phasebit.emulator import (
        Counters,
        Deadlock,
        EmulatorError,
        Fault,
        Finding,
        Found,
        LaunchError,
        Livelock,
        PtxError,
        StepLimit,
        TensorMap,
    )
    from phasebit.launching.launch import DeviceRun, Kernel, Module, compile
    from phasebit.mbarrier import Mbarrier
    from phasebit.pipeline import Pipeline, simulate
    from phasebit.pipeline.explore import explore
    from phasebit.pipeline.interleaving import walk
    from phasebit.pipeline.ring import Ring
    from phasebit.timeline import Mark, Span, Timeline
    from phasebit.toolchain import CompileError, CudaError, ToolMissing

    Hazard = Finding

__version__ = "0.1.0"

device: Literal["auto", "gpu", "emulator"] = os.environ.get(  # type: ignore[assignment]
    "PHASEBIT_DEVICE", "auto"
)
"""What runs kernels: ``"auto"``, ``"gpu"``, ``"emulator"``; see :mod:`.launching.devices`."""

strict: bool = os.environ.get("PHASEBIT_STRICT", "0").lower() not in ("", "0", "false", "no", "off")
"""Whether a launch with findings raises :class:`Found`, where it does not say so itself."""

__all__ = [
    "CompileError",
    "Counters",
    "CudaError",
    "Deadlock",
    "DeviceRun",
    "EmulatorError",
    "Fault",
    "Finding",
    "Found",
    "Kernel",
    "LaunchError",
    "Livelock",
    "Mark",
    "Mbarrier",
    "Module",
    "Picture",
    "Pipeline",
    "PtxError",
    "Ring",
    "Span",
    "StepLimit",
    "TensorMap",
    "Timeline",
    "ToolMissing",
    "__version__",
    "compile",
    "device",
    "explore",
    "load_ipython_extension",
    "simulate",
    "strict",
    "walk",
]

_NAMES = {
    "draw": ("Picture",),
    "emulator": (
        "Counters", "Deadlock", "EmulatorError", "Fault", "Finding", "Found", "LaunchError",
        "Livelock", "PtxError", "StepLimit", "TensorMap",
    ),
    "launching.launch": ("DeviceRun", "Kernel", "Module", "compile"),
    "mbarrier": ("Mbarrier",),
    "pipeline": ("Pipeline", "simulate"),
    "pipeline.explore": ("explore",),
    "pipeline.interleaving": ("walk",),
    "pipeline.ring": ("Ring",),
    "timeline": ("Mark", "Span", "Timeline"),
    "toolchain": ("CompileError", "CudaError", "ToolMissing"),
}  # fmt: skip
"""Module -> what is public of it."""

_HOME = {name: module for module, names in _NAMES.items() for name in names}

_ONCE = {"Hazard": "Finding"}
"""Old public names, which keep working -> what they are called now."""


if not TYPE_CHECKING:  # a checker of types shall refuse a name that is none

    def __getattr__(name: str) -> Any:
        name = _ONCE.get(name, name)
        if name in _HOME:
            return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext phasebit``: see :mod:`phasebit.notebook`."""
    from phasebit import notebook

    notebook.load(shell)
