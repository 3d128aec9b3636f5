"""The backend that the commands use: `phasebit.emulator` on the runtime's memory.

The emulator keeps everything in one buffer. Here that buffer is device memory itself, the file
that the program maps too; shared and local memory of running blocks lie between the program's
allocations, where its own code cannot look.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from phasebit.emulator import (
    EVERY_DEVICE,
    FROM_MALLOC,
    GLOBAL_BASE,
    GRANULE,
    Deadlock,
    EmulatorError,
    Execution,
    Extents,
    Fault,
    Finding,
    FreedBy,
    Interleavings,
    LaunchError,
    Livelock,
    Memory,
    Mode,
    Schedule,
    Seat,
    StepLimit,
    Stepped,
    findings,
    readable,
    search,
    search_limits,
)
from phasebit.emulator import Allocation as EmulatorAllocation
from phasebit.emulator import Module as EmulatorModule
from phasebit.emulator.capabilities import MAX_BLOCK
from phasebit.kept_programs import KeptModule
from phasebit.runtime import library
from phasebit.runtime.backend import (
    Dim3,
    KernelFacts,
    Launch,
    ModuleError,
    Outcome,
    Parameter,
    Stop,
    Symbol,
)
from phasebit.runtime.mapped_memory import BASE, Allocation, DeviceMemory, OutOfMemory
from phasebit.runtime.protocol import Space, Status

EVERY = "every"
"""The schedule that is all of them."""

#: Bytes that the emulator sees at first.
SMALLEST = 1 << 20

Array = NDArray[Any]

_MANAGED = re.compile(r"\.attribute\(\.managed\)[^;={]*?([\w$]+)\s*(?:\[\d*\])?\s*[;=]")


class ArenaMemory(Memory):
    """The emulator's memory, in the runtime's file: what either allocates, both know.

    The emulator sees the beginning of the file, as far as it is in use, so that what it keeps for
    each word stays as small as the program's memory.
    """

    def __init__(self, device: DeviceMemory) -> None:
        if device.base != GLOBAL_BASE:
            raise ValueError("the runtime and the emulator disagree on where memory begins")
        self.device = device
        self.managed: set[str] = set()
        self.loads_for = 0
        """The device whose variables are allocated now."""
        self.allocations = []
        self.heap = {}
        self.unwritten = {}
        self.free_lists = {}
        self.freed = {}
        self._mirrored: dict[int, EmulatorAllocation] = {}
        self._adopt(device.bytes[:SMALLEST])
        for item in device.allocations:
            self.added(item)
        for address, size in device.early:
            self.written(address, size)
        device.early.clear()
        for gone in device.freed:
            self.went(_mirror(gone.item), gone.by)
        device.listener = self

    def allocate(self, size: int, name: str = "", kind: str = "global") -> EmulatorAllocation:
        """Variables of modules are the program's too; the rest is the emulator's own."""
        if kind in ("global", "const"):
            space = Space.MANAGED if name in self.managed else Space.SYMBOL
            address = self.device.allocate(max(size, 1), space, name, self.loads_for)
            return self._mirrored[address]
        room = (-(-max(size, 1) // GRANULE) + 1) * GRANULE
        reusable = self.free_lists.get(room)
        if reusable:
            start = reusable.pop()
            self.u1[start : start + room] = 0
        else:
            start = self.device.reserve(room) - BASE
        made = EmulatorAllocation(start, size, name, kind)
        self._note(made)
        return made

    def exchange(self, view: Array, places: Array, before: Array, after: Array) -> Array:
        """The program's own threads may write here in the same moment."""
        if view.itemsize > 8:
            return super().exchange(view, places, before, after)
        places = places.astype(np.int64)
        lost = np.zeros(len(places), bool)
        seen, wanted = before.copy(), np.ascontiguousarray(after)
        library.exchange()(
            view.itemsize, view.ctypes.data, places.ctypes.data, len(places),
            seen.ctypes.data, wanted.ctypes.data, lost.ctypes.data,
        )  # fmt: skip
        return lost

    def others_write(self, addresses: Any, span: int) -> bool:
        """The program may, to what is mapped into it too."""
        first = np.asarray(addresses).ravel()
        return any(
            bool(np.any((first < item.end) & (first + np.uint64(span) > item.address)))
            for item in self.device.allocations
            if item.space in (Space.HOST, Space.MANAGED)
        )

    def _from_heap(self, size: int) -> EmulatorAllocation | None:
        """The host cannot free it."""
        try:
            address = self.device.allocate(max(size, 1), Space.SYMBOL, FROM_MALLOC)
        except OutOfMemory:
            return None
        return self._mirrored[address]

    def _to_heap(self, made: EmulatorAllocation, by: FreedBy) -> None:
        self.device.free(made.address, by)

    def _heap_again(self, heap: object, freed: object) -> None:
        """Nothing: what a kernel frees the device may have given to somebody else."""

    def _note(self, made: EmulatorAllocation) -> None:
        end = made.start + made.size
        if end + GRANULE > len(self.u1):
            self._adopt(self.device.bytes[: 1 << (end + GRANULE).bit_length()])
        self.allocations.append(made)
        self.owners[_granules(made)] = 1

    def added(self, item: Allocation) -> None:
        """The runtime allocated something."""
        made = _mirror(item)
        self._mirrored[item.address] = made
        self._note(made)
        if item.space == Space.DEVICE:
            self.watch(made)

    def removed(self, item: Allocation, by: FreedBy) -> None:
        """The runtime freed something."""
        made = self._mirrored.pop(item.address)
        self.unwritten.pop(made.start, None)
        self.went(made, by)
        self.allocations.remove(made)
        self.owners[_granules(made)] = 0

    def written(self, address: int, size: int) -> None:
        """The host wrote."""
        self.wrote(address - BASE, size)


def _granules(made: EmulatorAllocation) -> slice:
    """Those that it owns, one at least."""
    first = made.start // GRANULE
    return slice(first, first + max(1, -(-made.size // GRANULE)))


def _mirror(item: Allocation) -> EmulatorAllocation:
    """A piece of the runtime's memory, as the emulator has it."""
    shared = item.space in (Space.HOST, Space.MANAGED)
    owner = EVERY_DEVICE if shared else item.device
    return EmulatorAllocation(item.address - BASE, item.size, item.name, "global", owner)


_STATUS = {
    "assertion": Status.ASSERT,
    "misaligned": Status.MISALIGNED_ADDRESS,
    "trap": Status.LAUNCH_FAILURE,
}


def error_of(error: EmulatorError) -> Status:
    """The code with which a GPU would end the same kernel.

    A deadlock, and a kernel that runs on and on, have none: such a GPU hangs until a watchdog
    ends the launch, so they get the watchdog's.
    """
    if isinstance(error, Deadlock | StepLimit):
        return Status.LAUNCH_TIMEOUT
    if isinstance(error, Fault):
        return _STATUS.get(error.cause, Status.ILLEGAL_ADDRESS)
    return Status.LAUNCH_FAILURE


_ORDER = "work that is issued later runs later here, in whatever stream"
"""What may tell a livelock here from a kernel that another stream would let go on."""


class _Module:
    """A module of the emulator, as the runtime wants it."""

    def __init__(self, ptx: str, memory: ArenaMemory, options: EmulatorBackend) -> None:
        self.options = options
        memory.managed = set(map(readable, _MANAGED.findall(ptx)))
        try:
            self.module = (KeptModule if options.keep else EmulatorModule)(ptx, memory)
        except EmulatorError as error:
            raise ModuleError(str(error)) from error
        self.kernels: Mapping[str, KernelFacts] = _Facts(self)
        self.symbols: Mapping[str, Symbol] = {
            name: Symbol(item.address, item.size) for name, item in self.module.allocations.items()
        }

    def launch(self, launch: Launch) -> Outcome:
        kernel = self.module[launch.kernel]
        if self.options.schedule == EVERY:
            return self._every(launch)
        execution = self.prepare(launch)
        failed: EmulatorError | None = None
        try:
            execution.run()
        except EmulatorError as failure:
            failed = failure
            if isinstance(failure, Livelock):
                failed = Livelock(findings.say("{}\n  {}", failure.sentence, _ORDER))
                failed.findings = failure.findings
        except Stop as stop:
            sentence = findings.say("was running: {}", execution.standing())
            stop.standing = Finding("time-limit", sentence, kernel=kernel.name)
            raise
        return self.outcome(kernel.name, execution, failed)

    def outcome(self, kernel: str, execution: Execution, failed: EmulatorError | None) -> Outcome:
        """What a launch did that has ended, or ``failed``."""
        error, ends = (error_of(failed), [failed.finding]) if failed else (0, [])
        if self.options.trace:
            self.options.executions.append(execution)
        named = [replace(each, kernel=kernel) for each in [*execution.findings, *ends]]
        counters = dict(execution.result().counters) if self.options.counters else {}
        return Outcome(execution.cycles, execution.output.encode(), error, named, counters)

    def _every(self, launch: Launch) -> Outcome:
        """The launch in every order of its steps; the program goes on after the first."""
        kernel, options, began = self.module[launch.kernel], self.options, time.monotonic()
        mode = Mode(max_steps=search_limits.TURNS, trace=False)
        found, execution, error = search(
            lambda lines: self.prepare(launch, mode=mode, kind=Stepped, stepwise=lines),
            lambda: self.prepare(launch, mode=mode),
            kernel.memory, most_runs=options.most_runs, seconds=max(0.0, options.seconds),
        )  # fmt: skip
        options.seconds -= time.monotonic() - began
        options.searches.append((readable(kernel.name), found))
        named = [replace(each, kernel=kernel.name) for each in found.findings]
        counters = dict(execution.result().counters) if options.counters else {}
        ended = error_of(error) if error is not None else 0
        return Outcome(execution.cycles, execution.output.encode(), ended, named, counters)

    def prepare(
        self, launch: Launch, seat: Seat | None = None, mode: Mode | None = None,
        kind: type[Execution] = Execution, stepwise: frozenset[int] | None = None,
    ) -> Execution:  # fmt: skip
        """A launch that is ready to run; ``seat``: among others that run at the same time."""
        kernel = self.module[launch.kernel]
        kernel.memory.heap_size = launch.heap
        mode = mode or Mode(
            schedule=cast(Schedule, self.options.schedule), seed=self.options.seed,
            check=self.options.check, max_steps=self.options.steps,
            trace=seat is not None and self.options.trace,
        )  # fmt: skip
        extents = Extents(
            launch.grid, launch.block, launch.cluster, launch.cluster != (1, 1, 1),
            launch.cooperative, launch.shared,
        )  # fmt: skip
        return kernel.prepare(
            extents, launch.parameters, mode, workspace=launch.workspace, stack=launch.stack,
            dependent=launch.dependent, seat=seat, kind=kind, stepwise=stepwise,
        )  # fmt: skip


class _Facts(Mapping[str, KernelFacts]):
    """A module's kernels. One is translated when it is asked for, so that what the emulator
    cannot execute is an error of the launch, and said with its line."""

    def __init__(self, owner: _Module) -> None:
        self._owner = owner
        self._names = owner.module.kernels

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, name: str) -> KernelFacts:
        if name not in self._names:
            raise KeyError(name)
        try:
            kernel = self._owner.module[name]
            fixed = kernel.function.directives.get("reqnctapercluster")
            kernel.program(self._owner.options.check, True, bool(fixed and max(fixed) > 1))
        except LaunchError as error:
            raise KeyError(name) from error
        except EmulatorError as error:
            raise ModuleError(str(error)) from error
        layout, directives = kernel.layout, kernel.function.directives
        most = directives.get("maxntid") or directives.get("reqntid")
        return KernelFacts(
            name=name,
            parameters=tuple(
                Parameter(layout.parameters[item.name], item.size)
                for item in kernel.function.parameters
            ),
            shared=layout.static_shared,
            local=layout.local_size if layout.frames else 0,
            max_threads=int(np.prod(most)) if most else MAX_BLOCK,
            cluster=_three(fixed) if fixed else None,
        )


def _three(extents: Sequence[int]) -> Dim3:
    x, y, z = [*extents, 1, 1][:3]
    return x, y, z


MAX_STEPS = 200_000_000
"""Turns of loops that a launch of a program may take: a program is ended by who started it."""


class EmulatorBackend:
    """Executes launches with the emulator.

    `check` looks for races and the like; memory is checked in any case. `schedule` says when
    asynchronous copies finish, `seed` which of the random ones it is; with `EVERY` each launch is
    run in every order of its steps, in `most_runs` orders and `seconds` of the whole program at
    most, and `searches` tells of each: the kernel, and what was seen. `ptx` is executed in place
    of the program's own. `counters`: those of each launch are told. `keep`: what is translated is
    kept on disk for the next time. `trace`: what launches on several devices do when.
    """

    def __init__(
        self,
        check: bool = True,
        schedule: str = "late",
        steps: int = MAX_STEPS,
        ptx: str | None = None,
        seed: int = 0,
        counters: bool = False,
        keep: bool = True,
        most_runs: int = search_limits.MOST_RUNS,
        seconds: float = search_limits.SECONDS,
        trace: bool = False,
    ) -> None:
        self.most_runs = most_runs
        self.seconds = seconds
        self.searches: list[tuple[str, Interleavings]] = []
        self.keep = keep
        self.trace = trace
        self.executions: list[Execution] = []
        """What ran beside others, if ``trace`` is kept: in the order of their ends."""
        self.check = check
        self.schedule = schedule
        self.seed = seed
        self.steps = steps
        self.ptx = ptx
        self.counters = counters
        self._memory: ArenaMemory | None = None

    def load(self, ptx: str, memory: DeviceMemory, device: int = 0) -> _Module:
        """See `phasebit.runtime.backend.Backend.load`."""
        if self._memory is None or self._memory.device is not memory or memory.listener is None:
            self._memory = ArenaMemory(memory)
        self._memory.loads_for = device
        return _Module(ptx if self.ptx is None else self.ptx, self._memory, self)
