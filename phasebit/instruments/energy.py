"""The energy that a GPU has drawn, by its own counter (NVML's, in millijoules)."""

from __future__ import annotations

import ctypes
import time
from typing import Any

from phasebit import toolchain
from phasebit.instruments.beside_torch import Launch

_SETTLE = 0.4  # seconds before the counter is read: it is renewed only some times a second


class Meter:
    """The counter of the first GPU. Raises :class:`toolchain.CudaError` where there is none."""

    def __init__(self) -> None:
        try:
            self._nvml = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError as error:
            raise toolchain.CudaError(
                f"no energy can be measured, libnvidia-ml.so.1 does not load: {error}"
            ) from error
        self._gpu = ctypes.c_void_p()
        self._ask("nvmlInit_v2")
        self._ask("nvmlDeviceGetHandleByIndex_v2", 0, ctypes.byref(self._gpu))

    def joules(self) -> float:
        """Drawn since the driver was loaded."""
        counted = ctypes.c_ulonglong()
        self._ask("nvmlDeviceGetTotalEnergyConsumption", self._gpu, ctypes.byref(counted))
        return counted.value * 1e-3

    def _ask(self, function: str, *arguments: Any) -> None:
        status = getattr(self._nvml, function)(*arguments)
        if status:
            raise toolchain.CudaError(f"no energy can be measured: {function} says {status}")


def of(torch: Any, meter: Meter, launch: Launch, seconds: float) -> dict[str, float]:
    """``joules`` and ``microseconds`` of a launch that the GPU repeats for so many seconds.

    It has run alone for a while before.
    """
    for span in (_SETTLE, seconds):
        begin, before, count = time.perf_counter(), meter.joules(), 0
        while time.perf_counter() - begin < span:
            for _ in range(4):
                launch()
            torch.cuda.synchronize()
            count += 4
        joules, lasted = meter.joules() - before, time.perf_counter() - begin
    return {"joules": round(joules / count, 6), "microseconds": round(lasted / count * 1e6, 2)}
