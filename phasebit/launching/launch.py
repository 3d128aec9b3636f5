"""Modules and kernels whose launches choose a device: the emulator, or this machine's GPU.

mod = pb.Module(ptx_text)
run = mod["matmul"].launch(grid=(1,), block=(512,), args=[A, B, C, 4096])
run.counters, run.findings, run.timeline
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import phasebit
from phasebit import emulator, kept_programs
from phasebit.emulator import (
    MAX_STEPS,
    SCHEDULES,
    Extent,
    Extents,
    Found,
    Interleavings,
    LaunchError,
    Mode,
    Run,
    Schedule,
    searched,
)
from phasebit.launching import build, devices, on_gpu, timing, warp_timeline
from phasebit.launching.devices import Device
from phasebit.launching.driver import driver
from phasebit.timeline import Timeline

__tracebackhide__ = True
"""In a test that fails in here, pytest shows the line of the test."""


EVERY = "every"
"""The schedule that is all of them."""


class SearchedRun(Run):
    """The first of the orders in which a launch ran, with the findings of all of them."""

    def __init__(self, first: Run, orders: Interleavings) -> None:
        super().__init__(
            first.counters, list(orders.findings), first.output, first.trace, first.cycles
        )
        self.orders = orders


class DeviceRun(emulator.Run):
    """What a launch did, and where.

    A launch on a GPU has no counters, findings, timeline or output: those come from
    the emulator.
    """

    device: str
    """``"emulator"``, or the name of the GPU."""

    milliseconds: float | None
    """On a GPU, between events around the launch; None on the emulator, whose clock is no time."""

    orders: Interleavings | None
    """What the search saw, of a launch with ``schedule="every"``."""

    def __init__(
        self, run: emulator.Run, device: str = "emulator", milliseconds: float | None = None
    ) -> None:
        super().__init__(run.counters, run.findings, run.output, run.trace, run.cycles)
        self.device = device
        self.milliseconds = milliseconds
        self.orders = run.orders if isinstance(run, SearchedRun) else None

    @property
    def timeline(self) -> Timeline:
        """The warps of block 0 against the emulator's clock."""
        return warp_timeline.timeline(self.trace)

    def __repr__(self) -> str:
        return f"<Run on the {self.device}: {len(self.findings)} findings, {self.cycles} cycles>"


class Kernel(kept_programs.KeptKernel):
    """A kernel of a module, for the emulator and for a GPU."""

    def launch(
        self,
        grid: Extent = 1,
        block: Extent = 1,
        args: Sequence[Any] = (),
        *,
        shared: int = 0,
        cluster: Extent | None = None,
        cooperative: bool = False,
        schedule: Schedule | Literal["every"] = "late",
        seed: int = 0,
        check: bool = True,
        exact: bool = True,
        max_steps: int = MAX_STEPS,
        accesses: bool = False,
        resident: int = 1,
        device: Device = "emulator",
        raises: bool | None = None,
        on_fault: Literal["raise", "report"] = "raise",
    ) -> DeviceRun:
        """Run the kernel and wait for its end.

        ``grid``, ``block``, ``cluster``: one to three numbers. ``args``: NumPy arrays for pointers
        (changed in place), numbers by the parameter's type, ``bytes`` or structured scalars for
        structs, integers for addresses, :class:`phasebit.TensorMap` for tensor maps; on a GPU also
        arrays that lie there: CuPy's, or any with ``__cuda_array_interface__``. ``shared``: bytes
        of dynamic shared memory.

        ``schedule``: when asynchronous copies finish: ``"eager"``, as soon as they may, ``"late"``,
        or ``"random"``, by the ``seed``. ``"every"`` runs the kernel in every order of its
        synchronisation that makes a difference, within :mod:`phasebit.emulator.search_limits`:
        ``run.findings`` are those of all orders, what ends a kernel among them, ``run.orders``
        says whether the search was complete, and arrays are left as the first order leaves them.
        ``check=False`` looks for nothing, ``exact=False`` rounds
        as NumPy does; both are faster. ``max_steps``: turns of loops. ``accesses=True`` keeps each
        load and store in ``run.accesses``. ``resident``: how many blocks share a multiprocessor.

        ``device``: ``auto`` is the GPU if there is one that the target runs on, unless
        ``phasebit.device`` says otherwise. ``raises``: whether findings of a kernel that came to
        its end are an error; by itself what ``phasebit.strict`` says, False at first.
        ``on_fault="report"``: on the emulator, what ends a kernel (a fault, a deadlock, too many
        steps) is the last of ``run.findings`` and no exception; arrays keep what was written until
        then.

        Raises :class:`phasebit.LaunchError` before anything runs; :class:`phasebit.Fault`,
        :class:`phasebit.Deadlock` or :class:`phasebit.StepLimit` when the kernel fails;
        :class:`phasebit.Found` with ``raises``; :class:`phasebit.CudaError` where the device
        cannot be had.
        """
        if schedule not in (*SCHEDULES, EVERY):
            known = ", ".join((*SCHEDULES, EVERY))
            raise LaunchError(f"schedule {schedule!r}: choose one of {known}")
        if raises not in (None, True, False):
            raise LaunchError(f"raises is True or False, not {raises!r}")
        every = schedule == "every"
        mode = Mode(
            Mode.schedule if schedule == "every" else schedule, seed, check, exact, max_steps,
            accesses, resident, on_fault=on_fault,
        )  # fmt: skip
        if every and (not check or not exact or accesses or resident != 1):
            raise LaunchError(
                'schedule="every" checks all orders of a kernel alone on a multiprocessor: leave '
                "out check, exact, accesses and resident"
            )
        extents = self.extents(grid, block, cluster, cooperative, shared)
        chosen = devices.choose(self.syntax.target, device, ptx=True)
        if every and chosen.gpu:
            raise LaunchError('schedule="every" is the emulator\'s: leave out device')
        if not chosen.gpu:
            execute = self.search if every else self.execute
            run = DeviceRun(execute(extents, args, mode))
            if run.findings and (phasebit.strict if raises is None else raises):
                raise Found(run.findings, run)
            return run
        gpu = driver()
        with on_gpu.prepared(gpu, self, extents, [args]) as launches:
            (milliseconds,) = gpu.events_around(launches)
        nothing = emulator.Run(emulator.Counters(), [], "", emulator.Trace())
        return DeviceRun(nothing, gpu.name, milliseconds)

    def search(self, extents: Extents, args: Sequence[Any], mode: Mode) -> Run:
        """:meth:`launch` with ``schedule="every"``: its checked extents, and its mode."""
        found, first = searched(self, extents, args)
        return SearchedRun(first.result(), found)

    def times(
        self,
        grid: Extent,
        block: Extent,
        sets: Sequence[Sequence[Any]],
        *,
        count: int = 200,
        flush: bool = False,
        shared: int = 0,
        cluster: Extent | None = None,
        cooperative: bool = False,
    ) -> list[float]:
        """Microseconds of ``count`` launches on this machine's GPU, between events around each.

        ``sets`` are argument lists as of :meth:`launch`, taken in turn. Launches that do not
        count come first; with ``flush`` no data is in the caches. The arrays hold the
        results of the last launches afterwards. The kernel must bear being launched again and
        again. See :func:`phasebit.measure.summary` for what to do with the times.

        Raises :class:`phasebit.launching.devices.DeviceError` where no GPU runs the target, and
        :class:`phasebit.emulator.LaunchError` for arguments that do not fit.
        """
        if count < 1 or not sets:
            raise LaunchError(f"times of {count} launches of {len(sets)} sets: give one at least")
        extents = self.extents(grid, block, cluster, cooperative, shared)
        devices.choose(self.syntax.target, "gpu", ptx=True)
        with on_gpu.prepared(driver(), self, extents, sets) as launches:
            return timing.microseconds(driver(), launches, count, flush)


class Module(kept_programs.KeptModule):
    """PTX text, read. ``module["name"]`` is a :class:`Kernel`.

    Raises :class:`phasebit.PtxError` for text that is no PTX.
    """

    kernel_type = Kernel

    def __getitem__(self, name: str) -> Kernel:
        """A kernel, by its name in the PTX or in C++: ``"add"``, ``"add<float, 4>"``.

        Raises :class:`phasebit.LaunchError`, with the names that there are, for one that is none
        or of several.
        """
        kernel = super().__getitem__(name)
        assert isinstance(kernel, Kernel)
        return kernel


def compile(
    source: str | os.PathLike[str], arch: str | None = None, options: Sequence[str] = ()
) -> Module:
    """Compile CUDA source with nvcc and read its PTX: a path to a ``.cu`` file, or the text.

    ``arch``: ``"sm_90a"`` if not given. ``options``: nvcc's. A file finds headers beside it.

    Raises :class:`phasebit.CompileError` with file and line, and :class:`phasebit.ToolMissing`
    where there is no nvcc.
    """
    text = Path(source) if isinstance(source, os.PathLike) else source
    return Module(build.ptx(text, arch, options))
