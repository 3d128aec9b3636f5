"""The backend that the commands use: `phasebit.emulator` on the runtime's memory.

The emulator keeps everything in one buffer. Here that buffer is device memory itself, the file
that the program maps too; shared and local memory of running blocks lie between the program's
allocations, where its own code cannot look.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from phasebit.emulator.counters import Counters
from phasebit.emulator.errors import Deadlock, EmulatorError, Fault, LaunchError, StepLimit
from phasebit.emulator.hazards import Checker, Hazard
from phasebit.emulator.launch import Kernel as EmulatorKernel
from phasebit.emulator.launch import Module as EmulatorModule
from phasebit.emulator.layout import GLOBAL_BASE, align_up, readable
from phasebit.emulator.machine import MAX_STACK, Machine
from phasebit.emulator.memory import GRANULE, Memory, Parameters
from phasebit.emulator.memory import Allocation as EmulatorAllocation
from phasebit.emulator.trace import Trace
from phasebit.emulator.types import Array
from phasebit.runtime import library
from phasebit.runtime.backend import (
    Dim3,
    KernelFacts,
    Launch,
    ModuleError,
    Outcome,
    Parameter,
    Symbol,
)
from phasebit.runtime.memory import BASE, Allocation, DeviceMemory, OutOfMemory
from phasebit.runtime.protocol import Space, Status

#: Bytes that the emulator sees at first.
SMALLEST = 1 << 20
#: Findings of one launch that are printed; more say the same.
MOST_FINDINGS = 10

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
        self.allocations = []
        self.heap = {}
        self.unwritten = {}
        self.free_lists = {}
        self._mirrored: dict[int, EmulatorAllocation] = {}
        self._adopt(device.bytes[:SMALLEST])
        for item in device.allocations:
            self.added(item)
        for address, size in device.early:
            self.written(address, size)
        device.early.clear()
        device.listener = self

    def allocate(self, size: int, name: str = "", kind: str = "global") -> EmulatorAllocation:
        """Variables of modules are the program's too; the rest is the emulator's own."""
        if kind in ("global", "const"):
            space = Space.MANAGED if name in self.managed else Space.SYMBOL
            return self._mirrored[self.device.allocate(max(size, 1), space, name)]
        room = align_up(max(size, 1), GRANULE) + GRANULE
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

    def malloc(self, size: int) -> int:
        """A kernel asks for memory, which the host cannot free."""
        try:
            address = self.device.allocate(max(size, 1), Space.SYMBOL, "memory from malloc")
        except OutOfMemory:
            return 0
        self.heap[address] = self._mirrored[address]
        return address

    def release(self, address: int) -> bool:
        """A kernel frees what it was given."""
        if self.heap.pop(address, None) is None:
            return False
        self.device.free(address)
        return True

    def _note(self, made: EmulatorAllocation) -> None:
        end = made.start + max(made.size, 1)
        if end + GRANULE > len(self.u1):
            self._adopt(self.device.bytes[: 1 << (end + GRANULE).bit_length()])
        self.allocations.append(made)
        self.owners[made.start // GRANULE : -(-end // GRANULE)] = 1

    def added(self, item: Allocation) -> None:
        """The runtime allocated something."""
        made = EmulatorAllocation(item.address - BASE, item.size, item.name, "global")
        self._mirrored[item.address] = made
        self._note(made)
        if item.space == Space.DEVICE:
            self.watch(made)

    def removed(self, item: Allocation) -> None:
        """The runtime freed something."""
        made = self._mirrored.pop(item.address)
        self.unwritten.pop(made.start, None)
        self.allocations.remove(made)
        self.owners[made.start // GRANULE : -(-(made.start + made.size) // GRANULE)] = 0

    def written(self, address: int, size: int) -> None:
        """The host wrote."""
        self.wrote(address - BASE, size)


def error_of(error: EmulatorError) -> Status:
    """The code with which a GPU would end the same kernel.

    A deadlock, and a kernel that runs on and on, have none: such a GPU hangs until a watchdog
    ends the launch, so they get the watchdog's.
    """
    if isinstance(error, Deadlock | StepLimit):
        return Status.LAUNCH_TIMEOUT
    text = str(error)
    for word, status in (
        ("Assertion", Status.ASSERT),
        ("not a multiple of", Status.MISALIGNED_ADDRESS),
        ("trap", Status.LAUNCH_FAILURE),
    ):
        if word in text:
            return status
    return Status.ILLEGAL_ADDRESS if isinstance(error, Fault) else Status.LAUNCH_FAILURE


class _Module:
    """A module of the emulator, as the runtime wants it."""

    def __init__(self, ptx: str, memory: ArenaMemory, options: EmulatorBackend) -> None:
        self.options = options
        memory.managed = set(map(readable, _MANAGED.findall(ptx)))
        try:
            self.module = EmulatorModule(ptx, memory)
        except EmulatorError as error:
            raise ModuleError(str(error)) from error
        self.kernels: Mapping[str, KernelFacts] = _Facts(self)
        self.symbols: Mapping[str, Symbol] = {
            name: Symbol(item.address, item.size) for name, item in self.module.allocations.items()
        }

    def launch(self, launch: Launch) -> Outcome:
        kernel = self.module[launch.kernel]
        machine, hazards = self._machine(kernel, launch)
        error = 0
        findings: list[str] = []
        try:
            machine.run()
        except EmulatorError as failure:
            error = error_of(failure)
            findings = [f"kernel {kernel.name}: {failure}"]
        except BaseException as stop:  # the time limit: it says where the kernel was
            stop.add_note(f"kernel {kernel.name} was running: {machine.standing()}")
            raise
        finally:
            machine.memory.free(self._parameters)
        said = [f"kernel {kernel.name}: {hazard}" for hazard in hazards[:MOST_FINDINGS]]
        if len(hazards) > MOST_FINDINGS:
            said.append(f"kernel {kernel.name}: and {len(hazards) - MOST_FINDINGS} more")
        printed = "".join(machine.printed).encode()
        return Outcome(int(machine.clock), printed, error, said + findings)

    def _machine(self, kernel: EmulatorKernel, launch: Launch) -> tuple[Machine, list[Hazard]]:
        check = self.options.check
        program = kernel.program(check, True, launch.cluster != (1, 1, 1))
        memory = self.module.memory
        data = launch.parameters
        self._parameters = memory.allocate(max(1, len(data)), "parameters", "param")
        memory.bytes(self._parameters)[: len(data)] = np.frombuffer(data, np.uint8)
        hazards: list[Hazard] = []
        machine = Machine(
            program=program,
            memory=memory,
            parameters=Parameters(data),
            parameter_start=self._parameters.start,
            grid=launch.grid,
            block=launch.block,
            cluster=launch.cluster,
            explicit_cluster=launch.cluster != (1, 1, 1),
            cooperative=launch.cooperative,
            dynamic_shared=launch.shared,
            shared_size=kernel.layout.static_shared + launch.shared,
            schedule=self.options.schedule,
            seed=0,
            steps=self.options.steps,
            exact=True,
            checked=check,
            counters=Counters(len(program.blocks)),
            trace=Trace(False),
        )
        machine.workspace = launch.workspace
        # A frame here has another size than on a GPU, so a small limit must not be too small.
        machine.stack = max(MAX_STACK, launch.stack)
        if check:
            machine.checker = Checker(machine, hazards)
        return machine, hazards


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
            kernel.program(self._owner.options.check, True)
        except LaunchError as error:
            raise KeyError(name) from error
        except EmulatorError as error:
            raise ModuleError(str(error)) from error
        layout, directives = kernel.layout, kernel.function.directives
        most = directives.get("maxntid") or directives.get("reqntid")
        fixed = directives.get("reqnctapercluster")
        return KernelFacts(
            name=name,
            parameters=tuple(
                Parameter(layout.parameters[item.name], item.size)
                for item in kernel.function.parameters
            ),
            shared=layout.static_shared,
            local=layout.local_size,
            max_threads=int(np.prod(most)) if most else 1024,
            cluster=_three(fixed) if fixed else None,
        )


def _three(extents: Sequence[int]) -> Dim3:
    x, y, z = [*extents, 1, 1][:3]
    return x, y, z


MAX_STEPS = 200_000_000
"""Turns of loops that a launch of a program may take: a program is ended by who started it."""


class EmulatorBackend:
    """Executes launches with the emulator.

    `check` looks for races and other hazards; memory is checked in any case. `schedule` says when
    asynchronous copies finish. `ptx` is executed in place of the program's own.
    """

    def __init__(
        self,
        check: bool = True,
        schedule: str = "eager",
        steps: int = MAX_STEPS,
        ptx: str | None = None,
    ) -> None:
        self.check = check
        self.schedule = schedule
        self.steps = steps
        self.ptx = ptx
        self._memory: ArenaMemory | None = None

    def load(self, ptx: str, memory: DeviceMemory) -> _Module:
        """See `phasebit.runtime.backend.Backend.load`."""
        if self._memory is None or self._memory.device is not memory or memory.listener is None:
            self._memory = ArenaMemory(memory)
        return _Module(ptx if self.ptx is None else self.ptx, self._memory, self)
