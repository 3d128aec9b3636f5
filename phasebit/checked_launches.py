"""Kernels whose launches fail a test of pytest when anything is found; see `pytest_plugin`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from phasebit import build_cache, toolchain
from phasebit.emulator import SCHEDULES, EmulatorError, Extents, Finding, Mode, Run, digest
from phasebit.launching import build
from phasebit.launching.launch import EVERY, Kernel, Module, SearchedRun

__tracebackhide__ = True
"""What pytest shows is the line of the test."""


class CheckedKernel(Kernel):
    """A kernel, launched as :meth:`phasebit.Kernel.launch` says; every finding fails the test.

    So does a launch that is refused or does not come to its end.
    """

    seed: int | str | None = None
    """That of a random schedule, or a schedule: it takes the place of the usual one."""

    def execute(self, extents: Extents, args: Sequence[Any], mode: Mode) -> Run:
        """See :meth:`phasebit.Kernel.launch`."""
        usual = mode.schedule == Mode().schedule
        if self.seed == EVERY and usual:
            return self.search(extents, args, mode)
        if isinstance(self.seed, int) and usual:
            mode = replace(mode, schedule="random", seed=self.seed)
        for fixed in SCHEDULES:
            if self.seed == fixed and usual:
                mode = replace(mode, schedule=fixed)
        try:
            run = super().execute(extents, args, mode)
            findings: Sequence[Finding] = run.findings
        except EmulatorError as error:
            findings = [*error.findings, error.finding]
        if findings:
            seed = f", seed {mode.seed}" if mode.schedule == "random" else ""
            first = f"kernel {self.name}, schedule {mode.schedule}{seed}:"
            pytest.fail("\n".join([first, *digest.told(findings)]))
        return run

    def search(self, extents: Extents, args: Sequence[Any], mode: Mode) -> Run:
        """See :meth:`phasebit.Kernel.launch`; a search that is not complete is a warning."""
        try:
            run = super().search(extents, args, mode)
        except EmulatorError as error:
            pytest.fail(f"kernel {self.name}, every order:\n{error}")
        assert isinstance(run, SearchedRun)
        if run.findings:
            pytest.fail(f"kernel {self.name}, every order: {run.orders}")
        if not run.orders.complete:
            warnings.warn(f"kernel {self.name}, every order: {run.orders.headline}", stacklevel=3)
        return run


class CheckedModule(Module):
    """A module whose kernels are checked ones."""

    kernel_type = CheckedKernel
    seed: int | str | None = None

    def __getitem__(self, name: str) -> CheckedKernel:
        kernel = super().__getitem__(name)
        assert isinstance(kernel, CheckedKernel)
        kernel.seed = self.seed
        return kernel


class Kernels:
    """What the fixture ``kernel`` is: call it with CUDA source to get a kernel."""

    def __init__(self, folder: Path, seed: int | str | None) -> None:
        self.folder = folder
        self.seed = seed

    def __call__(
        self,
        source: str | os.PathLike[str],
        name: str = "",
        *,
        arch: str | None = None,
        options: Sequence[str] = (),
    ) -> CheckedKernel:
        """A kernel of a ``.cu`` file, whose path counts from the test's folder, or of CUDA text.

        ``name``: as C++ has it (``"add<float, 4>"``); not needed where there is one kernel only.
        ``arch`` and ``options`` are as of :func:`phasebit.compile`. What cannot be compiled fails
        the test.
        """
        module = self.module(source, arch=arch, options=options)
        return module[name or (module.kernels[0] if len(module.kernels) == 1 else "")]

    def module(
        self,
        source: str | os.PathLike[str],
        *,
        arch: str | None = None,
        options: Sequence[str] = (),
    ) -> CheckedModule:
        """All kernels of a source and its variables; new, with nothing of another test in them."""
        is_file = isinstance(source, os.PathLike) or ("\n" not in source and source.endswith(".cu"))
        try:
            ptx = build.ptx(self.folder / source if is_file else str(source), arch, options)
            module = CheckedModule(ptx)
        except (toolchain.CudaError, build_cache.CacheError, EmulatorError) as error:
            pytest.fail(str(error))
        module.seed = self.seed
        return module
