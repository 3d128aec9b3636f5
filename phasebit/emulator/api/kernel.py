"""Kernels and their launches on the emulator.

module = Module(ptx_text)
run = module["matmul"].launch(grid=1, block=512, args=[A, B, C, 4096])
run.counters, run.findings
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from phasebit.emulator.api.arguments import DeviceArrays, EmulatedArrays, marshal, refuse_written
from phasebit.emulator.api.execution import MAX_STEPS, Execution, Mode, Run, Schedule
from phasebit.emulator.api.extents import Extent, Extents
from phasebit.emulator.codegen.translate import translate
from phasebit.emulator.codegen.translated_program import TranslatedProgram
from phasebit.emulator.errors import Deadlock, Fault, LaunchError, StepLimit
from phasebit.emulator.machine.company import Seat
from phasebit.emulator.machine.device_memory import Memory
from phasebit.emulator.machine.system import EXTERNALS
from phasebit.emulator.ptx.mangling import demangle
from phasebit.emulator.ptx.noticed_steps import Stepwise
from phasebit.emulator.ptx.placement import Layout
from phasebit.emulator.ptx.syntax import Function
from phasebit.emulator.ptx.syntax import Module as Syntax


class Kernel:
    """A kernel of a module, translated on first use."""

    def __init__(
        self, ptx: str, syntax: Syntax, function: Function, memory: Memory,
        symbols: Mapping[str, int],
    ) -> None:  # fmt: skip
        self.ptx = ptx
        self.syntax = syntax
        self.function = function
        self.memory = memory
        self.name = demangle(function.name)
        self.layout = Layout(syntax, function, dict(symbols), dict(EXTERNALS))
        self._programs: dict[tuple[bool, bool, bool, Stepwise], TranslatedProgram] = {}

    def program(
        self, check: bool = False, exact: bool = True, clustered: bool = False,
        stepwise: Stepwise = None,
    ) -> TranslatedProgram:  # fmt: skip
        """The translated kernel; raises :class:`PtxError` for an unknown instruction."""
        key = (check, exact, clustered, stepwise)
        if key not in self._programs:
            self._programs[key] = self.translated(*key)
        return self._programs[key]

    def translated(
        self, check: bool, exact: bool, clustered: bool, stepwise: Stepwise
    ) -> TranslatedProgram:
        """The kernel, translated now: what a class with a cache asks only where it has none."""
        return translate(
            self.syntax, self.function, self.layout, check, exact, clustered, stepwise
        )

    def python(self, check: bool = False) -> str:
        """The generated Python text, to read."""
        return self.program(check).source

    def extents(
        self, grid: Extent = 1, block: Extent = 1, cluster: Extent | None = None,
        cooperative: bool = False, shared: int = 0,
    ) -> Extents:  # fmt: skip
        """Where a launch spreads the kernel; raises :class:`LaunchError` for what cannot be."""
        made = Extents.of(self.function, grid, block, cluster, cooperative, shared)
        made.check(self.name, self.function, self.syntax.target, self.layout.static_shared)
        return made

    @property
    def offsets(self) -> list[int]:
        """Where each parameter begins, in bytes."""
        return [self.layout.parameters[p.name] for p in self.function.parameters]

    def marshal(self, args: Sequence[Any], arrays: DeviceArrays) -> bytes:
        """The bytes of all parameters; ``arrays`` brings arrays to a device.

        Raises :class:`LaunchError` for arguments that do not fit the parameters.
        """
        if not isinstance(args, list | tuple):
            raise LaunchError(f"args is a list of arguments, not {type(args).__name__}")
        return marshal(self.name, self.function, self.layout, args, arrays)

    def prepare(
        self, extents: Extents, parameters: bytes, mode: Mode, *, workspace: int = 0,
        stack: int = 0, dependent: bool = False, seat: Seat | None = None,
        kind: type[Execution] = Execution, stepwise: Stepwise = None,
    ) -> Execution:  # fmt: skip
        """A launch with its parameters as bytes, ready to run; see :class:`Execution`."""
        program = self.program(mode.check, mode.exact, extents.cluster != (1, 1, 1), stepwise)
        return kind(
            program, self.layout, self.memory, extents, parameters, mode,
            workspace=workspace, stack=stack, dependent=dependent, seat=seat,
        )  # fmt: skip

    def launch(
        self,
        grid: Extent = 1,
        block: Extent = 1,
        args: Sequence[Any] = (),
        *,
        shared: int = 0,
        cluster: Extent | None = None,
        cooperative: bool = False,
        schedule: Schedule = "late",
        seed: int = 0,
        check: bool = True,
        exact: bool = True,
        max_steps: int = MAX_STEPS,
        accesses: bool = False,
        resident: int = 1,
        on_fault: Literal["raise", "report"] = "raise",
    ) -> Run:
        """Run the kernel and wait for its end.

        ``args``: NumPy arrays for pointers (changed in place), numbers by the parameter's type,
        ``bytes`` or structured scalars for structs, integers for addresses, :class:`TensorMap`
        for tensor maps.  ``shared``: bytes of dynamic shared memory.  ``schedule``: when
        asynchronous copies finish.  ``check`` and ``exact`` choose a mode: see the text of
        :mod:`phasebit.emulator`, which says what each does and costs.
        ``accesses=True`` keeps each load and store in ``run.accesses``; it needs ``check``.
        ``resident``: how many blocks share a multiprocessor, and with it tensor memory.
        ``on_fault="report"``: what ends a kernel is the last of ``run.findings`` and no exception;
        arrays keep what was written until then.

        Raises :class:`LaunchError` before anything runs; :class:`Fault`, :class:`Deadlock` or
        :class:`StepLimit` when the kernel fails.
        """
        mode = Mode(schedule, seed, check, exact, max_steps, accesses, resident, on_fault=on_fault)
        return self.execute(self.extents(grid, block, cluster, cooperative, shared), args, mode)

    def execute(self, extents: Extents, args: Sequence[Any], mode: Mode) -> Run:
        """:meth:`launch`, with its checked extents and its mode; threads take turns."""
        with self.memory.launching:
            return self._execute(extents, args, mode)

    def _execute(self, extents: Extents, args: Sequence[Any], mode: Mode) -> Run:
        arrays = EmulatedArrays(self.memory)
        try:
            execution = self.prepare(extents, self.marshal(args, arrays), mode)
            _run(execution, mode)
        except MemoryError as error:
            raise LaunchError(
                f"{self.name}: there is not enough memory for this launch: {error}"
            ) from error
        finally:
            written = arrays.give_back()
        refuse_written(written)
        return execution.result()


def _run(execution: Execution, mode: Mode) -> None:
    """Run it; what ends the kernel is a finding where that is asked for."""
    try:
        execution.run()
    except (Fault, Deadlock, StepLimit) as error:
        if mode.on_fault == "raise":
            raise
        execution.findings.append(error.finding)
