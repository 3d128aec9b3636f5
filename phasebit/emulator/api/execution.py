"""One launch on the emulator: prepared, run, and what it did."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from phasebit.emulator.api.extents import Extents
from phasebit.emulator.checker.subscriptions import watch
from phasebit.emulator.codegen.translated_program import TranslatedProgram
from phasebit.emulator.errors import Defect, EmulatorError, LaunchError
from phasebit.emulator.findings import Finding, Sentence
from phasebit.emulator.machine.accesses import Access
from phasebit.emulator.machine.company import Seat
from phasebit.emulator.machine.counters import Counters
from phasebit.emulator.machine.device_memory import Memory, Parameters
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.machine.launch_state import MAX_STACK, STACKED, STACKED_OBSERVED
from phasebit.emulator.machine.scheduler import Machine
from phasebit.emulator.machine.standing import position
from phasebit.emulator.machine.trace import Trace
from phasebit.emulator.ptx.placement import Layout

MAX_STEPS = 2_000_000
"""Turns of loops that a launch may take unless it says more: threads that wait for a flag which
nobody sets are given up after ten seconds to two minutes, not after hours."""

Schedule: TypeAlias = Literal["eager", "late", "random"]
SCHEDULES: tuple[Schedule, ...] = get_args(Schedule)
ON_FAULT = ("raise", "report")


@dataclass(frozen=True)
class Mode:
    """How the emulator executes a launch: what is checked, kept and allowed.

    ``check`` and ``exact`` are explained in :mod:`phasebit.emulator`, the others in
    :meth:`phasebit.emulator.Kernel.launch`. Raises :class:`LaunchError` for what is no mode.
    """

    schedule: Schedule = "late"
    seed: int = 0
    check: bool = True
    exact: bool = True
    max_steps: int = MAX_STEPS
    accesses: bool = False
    resident: int = 1
    trace: bool = True
    """Whether a checked run keeps what happened when."""
    on_fault: str = "raise"

    def __post_init__(self) -> None:
        if self.schedule not in SCHEDULES:
            raise LaunchError(f"schedule {self.schedule!r}: choose one of {', '.join(SCHEDULES)}")
        if self.on_fault not in ON_FAULT:
            raise LaunchError(f"on_fault {self.on_fault!r}: choose one of {', '.join(ON_FAULT)}")
        for number, what in ((self.seed, "seed"), (self.max_steps, "max_steps"),
                             (self.resident, "resident")):  # fmt: skip
            if not isinstance(number, int | np.integer):
                raise LaunchError(f"{what} is an integer, not {number!r}")
        if self.seed < 0:
            raise LaunchError(f"seed={self.seed}: seeds count from 0")
        if self.accesses and not self.check:
            raise LaunchError("accesses=True needs check=True: the checker sees the addresses")
        if not 1 <= self.resident <= 32:
            raise LaunchError(f"resident={self.resident}: a multiprocessor has 1 to 32 blocks")
        if self.max_steps < 1:
            raise LaunchError(f"max_steps={self.max_steps}: a kernel needs at least one step")


class Run:
    """What a launch did."""

    counters: Counters
    """A mapping from metric names to values."""

    findings: list[Finding]
    """What the checker found, in order; empty for a correct kernel."""

    output: str
    """What the kernel printed."""

    trace: Trace
    """What happened when: :class:`phasebit.emulator.Trace`."""

    cycles: int
    """The emulator's clock at the end."""

    def __init__(
        self, counters: Counters, findings: list[Finding], output: str, trace: Trace,
        cycles: int = 0,
    ) -> None:  # fmt: skip
        self.counters = counters
        self.findings = findings
        self.output = output
        self.trace = trace
        self.cycles = cycles

    @property
    def hazards(self) -> list[Finding]:
        """The old name of ``findings``."""
        return self.findings

    @property
    def accesses(self) -> list[Access]:
        """Who touched which bytes: loads and stores, warp by warp (:class:`Access`); empty unless
        launched with ``accesses=True``."""
        return self.trace.accesses or []

    def __repr__(self) -> str:
        return f"<Run on the emulator: {len(self.findings)} findings, {self.cycles} cycles>"


class Execution:
    """A launch that is ready to run.

    ``parameters``: the bytes of all of them.  ``workspace``: the address of zeroed memory in
    which a cooperative grid's blocks meet.  ``stack``: bytes of local memory for the calls of a
    thread.  ``seat``: its place among launches that run at the same time, :class:`Together`.
    """

    machine_type = Machine
    """Who says which threads run next."""

    def __init__(
        self, program: TranslatedProgram, layout: Layout, memory: Memory, extents: Extents,
        parameters: bytes, mode: Mode, *, workspace: int = 0, stack: int = 0,
        dependent: bool = False, seat: Seat | None = None,
    ) -> None:  # fmt: skip
        self.program = program
        self.findings: list[Finding] = []
        self._parameters = memory.allocate(max(1, len(parameters)), "parameters", "param")
        memory.bytes(self._parameters)[: len(parameters)] = np.frombuffer(parameters, np.uint8)
        self.machine = self.machine_type(
            program=program, memory=memory, parameters=Parameters(parameters),
            parameter_start=self._parameters.start, grid=extents.grid, block=extents.block,
            cluster=extents.cluster, explicit_cluster=extents.explicit_cluster,
            cooperative=extents.cooperative, dynamic_shared=extents.shared,
            shared_size=layout.static_shared + extents.shared, schedule=mode.schedule,
            seed=int(mode.seed), steps=mode.max_steps, exact=mode.exact, resident=mode.resident,
            stacked=STACKED_OBSERVED if mode.check else STACKED,
            keep_apart=mode.check and mode.trace, dependent=dependent,
            seat=seat,
        )  # fmt: skip
        self.machine.workspace = workspace
        # A frame here has another size than on a GPU, so a small limit must not be too small.
        self.machine.stack = max(MAX_STACK, stack)
        self.counters = Counters()
        self.trace = Trace(accesses=[] if mode.accesses else None)
        found = self.findings if mode.check else None
        watch(self.machine, self.counters, found, self.trace.accesses)
        if mode.check and mode.trace:
            self.machine.told.subscribe(self.trace)

    @property
    def output(self) -> str:
        """What the kernel has printed so far."""
        return "".join(self.machine.printed)

    @property
    def cycles(self) -> int:
        """The emulator's clock."""
        return int(self.machine.clock)

    def standing(self) -> Sentence:
        """Where the kernel is: for one that is stopped from outside."""
        return self.machine.standing()

    def run(self) -> None:
        """Run to the end, once.

        Raises :class:`Fault`, :class:`Deadlock` or :class:`StepLimit` when the kernel fails, and
        :class:`Defect` when the emulator does.
        """
        try:
            with self.attempt():
                self.machine.run()
        finally:
            self.over()

    def over(self) -> None:
        """It has run, or is given up: its parameters go, and what its watchers noted."""
        self.machine.memory.free(self._parameters)
        for told in self.machine.told[LaunchObserver.gone]:
            told()

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """What goes wrong while it runs is an error of this launch."""
        machine = self.machine
        try:
            yield
        except EmulatorError as error:
            error.findings = self.findings
            raise
        except MemoryError as error:
            raise LaunchError(f"there is not enough memory for this launch: {error}") from error
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            where = position(machine.program.blocks[machine.last_block])
            raise Defect(
                f"the emulator failed in {where}: {error!r}; if ptxas accepts this "
                "kernel, that is a defect of phasebit: please report it"
            ) from error

    def result(self) -> Run:
        """What was done, once it has run."""
        machine = self.machine
        self.counters.finish(self.program, machine.block_threads, machine.block_warps)
        return Run(self.counters, self.findings, self.output, self.trace, self.cycles)
