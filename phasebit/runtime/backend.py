"""What the runtime needs from whatever executes kernels.

Three small things: load a module's PTX, tell what a kernel looks like, launch it. The emulator
implements them (`phasebit.runtime.emulated`); the tests implement them with kernels written in
Python, so that the runtime is tested without an emulator.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from phasebit.emulator import Finding, findings
from phasebit.emulator.capabilities import MAX_BLOCK, USUAL_HEAP
from phasebit.runtime.mapped_memory import DeviceMemory
from phasebit.runtime.protocol import Status

Dim3 = tuple[int, int, int]


class Stop(BaseException):
    """Raised out of whatever the device is doing. No `except Exception` may catch it.

    `standing`: where the kernel was that ran, said by the backend.
    """

    standing: Finding | None = None


class ModuleError(Exception):
    """PTX that cannot be loaded; the text says what and where."""


@dataclass(frozen=True)
class Parameter:
    """Where a kernel parameter lies in the parameter buffer, in bytes."""

    offset: int
    size: int


@dataclass(frozen=True)
class KernelFacts:
    """What the runtime must know of a kernel before it launches it. Sizes in bytes."""

    name: str
    parameters: tuple[Parameter, ...]
    shared: int = 0
    local: int = 0
    constant: int = 0
    registers: int = 32
    max_threads: int = MAX_BLOCK
    cluster: Dim3 | None = None

    @property
    def parameter_bytes(self) -> int:
        return max((item.offset + item.size for item in self.parameters), default=0)


@dataclass(frozen=True)
class Symbol:
    """A `.global` or `.const` variable of a loaded module."""

    address: int
    size: int


@dataclass(frozen=True)
class Launch:
    """One launch: `parameters` is the parameter buffer as the program filled it.

    A cooperative launch has a `workspace`: the address of zeroed device memory in which
    `grid.sync()` counts (the code reads it from %envreg1, upper half, and %envreg2). `stack`: the
    bytes a thread that the program asks for with cudaLimitStackSize; `heap`: those of all that
    kernels have from malloc, cudaLimitMallocHeapSize. A `dependent` one may begin before the
    launch before it has ended (programmatic stream serialisation).
    """

    kernel: str
    grid: Dim3
    block: Dim3
    parameters: bytes
    shared: int = 0
    cluster: Dim3 = (1, 1, 1)
    cooperative: bool = False
    workspace: int = 0
    stack: int = 0
    heap: int = USUAL_HEAP
    dependent: bool = False


@dataclass(frozen=True)
class Outcome:
    """What a launch did.

    `clocks` on the emulator's clock; `error` a `cudaError` code or 0; `findings` what was wrong,
    told whether the launch failed or not: first what the checker found, then how the kernel ended;
    `counters`: what they show, where the backend keeps them.
    """

    clocks: int = 0
    printed: bytes = b""
    error: int = 0
    findings: Sequence[Finding] = ()
    counters: Mapping[str, int] = field(default_factory=dict)


def failure(kernel: str, error: Exception) -> Outcome:
    """What a launch came to that could not be executed."""
    finding = Finding("defect", findings.say("{}", defect(error)), kernel=kernel)
    return Outcome(error=Status.LAUNCH_FAILURE, findings=[finding])


def defect(error: Exception) -> str:
    """In words, an error that nobody raised on purpose."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"{type(error).__name__}: {error} ({where.filename}:{where.lineno}); "
        "this is a defect of phasebit, please report it"
    )


class Module(Protocol):
    """PTX that is loaded: its variables have addresses."""

    @property
    def kernels(self) -> Mapping[str, KernelFacts]: ...

    @property
    def symbols(self) -> Mapping[str, Symbol]: ...

    def launch(self, launch: Launch) -> Outcome: ...


class Backend(Protocol):
    """Something that executes PTX on `DeviceMemory`."""

    def load(self, ptx: str, memory: DeviceMemory) -> Module:
        """Load a module and give its variables memory (`Space.SYMBOL`; `Space.MANAGED` for
        those that the PTX marks `.attribute(.managed)`).

        Raises ModuleError.
        """
        ...
