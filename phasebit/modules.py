"""``pb.compile`` and ``pb.Module``: kernels that one call launches on either device.

    module = pb.compile(Path("kernels/04_tiled.cu"))
    run = module["matmul"].launch(grid=1, block=512, args=[A, B, C], device="emulator")
    run.counters, run.hazards, run.timeline
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from phasebit import devices, gpu
from phasebit.emulator import build
from phasebit.emulator import launch as emulator
from phasebit.emulator.launch import Run


class Module:
    """PTX text, from nvcc or any other compiler. ``module["name"]`` is one of its kernels.

    Raises :class:`phasebit.emulator.errors.PtxError` for text that is no PTX.
    """

    def __init__(self, ptx: str) -> None:
        self.emulated = emulator.Module(ptx)

    @property
    def ptx(self) -> str:
        """The text."""
        return self.emulated.ptx

    @property
    def target(self) -> str:
        """What the text was compiled for: ``"sm_90a"``."""
        return self.emulated.target

    @property
    def kernels(self) -> list[str]:
        """The names of the kernels, as in the PTX."""
        return self.emulated.kernels

    def __getitem__(self, name: str) -> Kernel:
        """A kernel by its name in the PTX or in the source; LaunchError if there is none."""
        return Kernel(self.emulated[name])


class Kernel:
    """A kernel of a module."""

    def __init__(self, emulated: emulator.Kernel) -> None:
        self.emulated = emulated
        self.name = emulated.name

    def python(self, check: bool = False) -> str:
        """The Python text that the emulator runs for this kernel, to read."""
        return self.emulated.python(check)

    def launch(
        self,
        grid: int | Sequence[int] = 1,
        block: int | Sequence[int] = 1,
        args: Sequence[Any] = (),
        *,
        shared: int = 0,
        cluster: int | Sequence[int] | None = None,
        device: str | None = None,
        **emulation: Any,
    ) -> Run | gpu.Run:
        """Run the kernel and wait for its end.

        ``args``: arrays for pointers (NumPy's are changed in place; CuPy's need the GPU), numbers
        by the parameter's type, ``bytes`` or structured scalars for structs. ``shared``: bytes of
        dynamic shared memory. ``device``: ``"auto"``, ``"gpu"`` or ``"emulator"``; without one,
        ``phasebit.device``. ``emulation``: ``schedule``, ``seed``, ``check`` and the others of
        :meth:`phasebit.emulator.launch.Kernel.launch`, which a GPU does not have.

        Raises :class:`phasebit.emulator.errors.LaunchError` before anything runs,
        :class:`phasebit.devices.DeviceError` for a device that cannot be had or that fails, and
        on the emulator ``Fault``, ``Deadlock`` or ``StepLimit`` when the kernel fails.
        """
        choice = devices.choose(self.emulated.module.target, device)
        if choice.gpu is None:
            return self.emulated.launch(
                grid, block, args, shared=shared, cluster=cluster, device="emulator", **emulation
            )
        refused = {"cooperative", "cluster"} & {*emulation, *(["cluster"] if cluster else [])}
        if refused:
            raise devices.DeviceError(
                f"{self.name}: {refused.pop()} cannot be asked of a launch on the GPU from Python: "
                "launch it from a CUDA program, or with device='emulator'"
            )
        shape, threads = self.emulated.shape(grid, block, shared)
        return gpu.launch(self.emulated, shape, threads, args, shared)


def compile(
    source: str | os.PathLike[str], arch: str | None = None, options: Sequence[str] = ()
) -> Module:
    """Compile CUDA source with nvcc and read its PTX: the path of a ``.cu`` file, or its text.

    Raises :class:`phasebit.toolchain.CompileError` with file and line.
    """
    text = Path(source) if isinstance(source, os.PathLike) else source
    return Module(build.ptx(text, arch, options))
