"""Which device runs a kernel: this machine's GPU, or the emulator.

``phasebit.device`` decides for the whole process, and each launch may decide for itself:

``"auto"``      the GPU if there is one that runs the target, else the emulator
``"gpu"``       the GPU, or an error
``"emulator"``  the emulator, on every machine
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import phasebit
from phasebit import hardware, toolchain

Device: TypeAlias = Literal["auto", "gpu", "emulator"]
DEVICES: tuple[Device, ...] = get_args(Device)


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


def choose(
    target: str, wanted: Device = "auto", *, ptx: bool = False, cuda: int = 0
) -> Choice:  # fmt: skip
    """The device for code built for ``target`` (``"sm_90a"``), machine code or PTX.

    ``cuda``: the major version of the nvcc that it is a program of, which the driver must know.

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
    why = "no GPU here"
    if gpu:
        runs = gpu.assembles(target) if ptx else gpu.executes(target)
        why = "" if runs else f"{gpu.name} does not run {target}"
        if old := hardware.too_old_for(cuda):
            why = f"{gpu.name}: {old}"
        if not why:
            return Choice(gpu)
    if wanted == "gpu":
        raise DeviceError(f"{said} is 'gpu', but: {why}; say 'auto' or 'emulator'")
    return Choice(None, why)
