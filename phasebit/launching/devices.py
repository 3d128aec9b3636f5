"""Which device runs a kernel: this machine's GPU, or the emulator.

``phasebit.device`` decides for the whole process, and each launch may decide for itself:

``"auto"``      the GPU if there is one that runs the target, else the emulator
``"gpu"``       the GPU, or an error
``"emulator"``  the emulator, on every machine
"""

from __future__ import annotations

from dataclasses import dataclass

import phasebit
from phasebit import hardware, toolchain

DEVICES = ("auto", "gpu", "emulator")


class DeviceError(toolchain.CudaError):
    """The device that was asked for cannot be had."""


@dataclass(frozen=True)
class Choice:
    """The device that was chosen, and why."""

    gpu: hardware.Gpu | None  # None: the emulator
    why: str = ""  # why it is the emulator: "no GPU here"

    @property
    def name(self) -> str:
        """``"gpu"`` or ``"emulator"``."""
        return "gpu" if self.gpu else "emulator"


def choose(target: str, wanted: str = "auto", *, ptx: bool = False) -> Choice:
    """The device for code built for ``target`` (``"sm_90a"``), machine code or PTX.

    ``wanted`` is one of :data:`DEVICES`; ``"auto"`` follows ``phasebit.device``. Raises
    :class:`DeviceError` for another word, and for ``"gpu"`` where no GPU runs the target.
    """
    said = "device"
    if wanted == "auto":
        said, wanted = "phasebit.device", phasebit.device
    if wanted not in DEVICES:
        raise DeviceError(f"{said} is {wanted!r}: choose one of {', '.join(DEVICES)}")
    if wanted == "emulator":
        return Choice(None, f"{said} is 'emulator'")
    gpu = hardware.gpu()
    if gpu and (gpu.assembles(target) if ptx else gpu.executes(target)):
        return Choice(gpu)
    why = f"{gpu.name} does not run {target}" if gpu else "no GPU here"
    if wanted == "gpu":
        raise DeviceError(f"{said} is 'gpu', but: {why}; say 'auto' or 'emulator'")
    return Choice(None, why)
