"""The stand-in inside this process, for Python packages that compile and launch kernels themselves.

    with emulated("sm_90a", schedules="all") as runs:
        ...                      # code that uses libcuda, by whichever way
    runs.findings, runs.launches

`libcudart.so.13` and `libcuda.so.1` are loaded here, and a function stands for the socket that
leads to the device half in a program's run. Whoever opens a `libcuda.so.1` later gets this one. The
device, its memory and what was loaded last as long as the process; what each block chooses is how
launches are executed and where findings go. Device memory is mapped open, so that arrays and
tensors lie in it and need no copy: `allocate`.

One thread: kernels are launched by the one that entered the block.
"""

from __future__ import annotations

import atexit
import ctypes
import re
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

from phasebit.emulator import Finding, LaunchError, Mode, Schedule, digest
from phasebit.runtime import driver_library, library
from phasebit.runtime.backend import KernelFacts, Launch, Module, Outcome, Symbol
from phasebit.runtime.emulated import MAX_STEPS, EmulatorBackend
from phasebit.runtime.mapped_memory import DeviceMemory
from phasebit.runtime.protocol import Space, Status
from phasebit.runtime.report import End
from phasebit.runtime.run_program import device_memory, half_of_memory
from phasebit.runtime.server import Device

SCHEDULES: Mapping[str, tuple[tuple[str, int], ...]] = {
    "eager": (("eager", 0),),
    "late": (("late", 0),),
    "random": (("random", 0),),
    "all": (("eager", 0), ("random", 0), ("late", 0)),
}
"""Name -> the schedules and seeds under which each launch runs, one after another."""

_FAILED = int(Status.LAUNCH_FAILURE)


@dataclass(frozen=True)
class Launched:
    """One launch: its kernel and shape, the emulator's clocks, a `cudaError` code or 0."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    clocks: int
    error: int


@dataclass
class Runs:
    """What the launches of a block did, in their order."""

    findings: list[Finding] = field(default_factory=list)
    """What is wrong with the kernels; of several schedules, each finding once."""
    launches: list[Launched] = field(default_factory=list)

    apart = True  # a Reporter (see report.py): nothing is for standard error

    def found(self, findings: Sequence[Finding]) -> None:
        """See `phasebit.runtime.report.Reporter`."""
        self.findings += findings

    def counted(self, kernel: str, launch: int, counters: Mapping[str, float]) -> None:
        """See `phasebit.runtime.report.Reporter`: nobody asks for counters here."""

    def note(self, text: str) -> None:
        """See `phasebit.runtime.report.Reporter`: nothing is held back here."""

    def ended(self, end: End, standing: Finding | None) -> None:
        """See `phasebit.runtime.report.Reporter`: a process does not end here."""

    def __str__(self) -> str:
        sentences = digest.told(self.findings) or [f"{len(self.launches)} launches, no finding"]
        return "\n".join(sentences)


class _Backend:
    """The emulator, with each launch under every schedule from the same memory."""

    def __init__(self) -> None:
        self.schedules = SCHEDULES["late"]
        self.emulator = EmulatorBackend()
        self.runs = Runs()
        self.around: list[Callable[[], AbstractContextManager[Any]]] = []
        """Entered before each launch, left after it."""

    def load(self, ptx: str, memory: DeviceMemory) -> _Module:
        """See `phasebit.runtime.backend.Backend.load`."""
        return _Module(self.emulator.load(ptx, memory), memory, self)


class _Module:
    def __init__(self, inner: Module, memory: DeviceMemory, backend: _Backend) -> None:
        self.inner, self.memory, self.backend = inner, memory, backend

    @property
    def kernels(self) -> Mapping[str, KernelFacts]:
        return self.inner.kernels

    @property
    def symbols(self) -> Mapping[str, Symbol]:
        return self.inner.symbols

    def launch(self, launch: Launch) -> Outcome:
        with ExitStack() as stack:
            for each in self.backend.around:
                stack.enter_context(each())
            return self._launch(launch)

    def _launch(self, launch: Launch) -> Outcome:
        emulator, schedules = self.backend.emulator, self.backend.schedules
        before = _Snapshot(self.memory) if len(schedules) > 1 else None
        findings: dict[str, Finding] = {}
        outcome = Outcome()
        for emulator.schedule, emulator.seed in schedules:
            if before:
                before.restore()
            outcome = self.inner.launch(launch)
            findings |= {str(each): each for each in outcome.findings if str(each) not in findings}
            if outcome.error:
                break
        self.backend.runs.launches.append(
            Launched(launch.kernel, launch.grid, launch.block, outcome.clocks, outcome.error)
        )
        return replace(outcome, findings=list(findings.values()))


class _Snapshot:
    """All of device memory at one moment, and what of it nobody has written yet."""

    def __init__(self, memory: DeviceMemory) -> None:
        self.memory = memory
        self.bytes = [
            (item.address, memory.view(item.address, item.size).copy())
            for item in memory.allocations
        ]
        unwritten = getattr(memory.listener, "unwritten", {})
        self.unwritten = {start: written.copy() for start, written in unwritten.items()}

    def restore(self) -> None:
        for address, content in self.bytes:
            self.memory.view(address, len(content))[:] = content
        unwritten = getattr(self.memory.listener, "unwritten", {})
        unwritten.clear()
        unwritten.update({start: written.copy() for start, written in self.unwritten.items()})


_HANDLER = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint64), ctypes.c_uint64,
    ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64,
    ctypes.POINTER(ctypes.c_int32),
)  # fmt: skip


class _Process:
    """This process as a device: made once, at the first `emulated`."""

    def __init__(self) -> None:
        folder = library.build()
        for name in driver_library.SONAME, library.SONAME:
            if _opened(name):
                raise LaunchError(
                    f"this process has opened another {name}, NVIDIA's: enter the block before "
                    "anything uses CUDA or imports PyTorch, or run in a process of its own"
                )
        self.memory = device_memory(half_of_memory())
        self.backend = _Backend()
        self.device = Device(self.backend, self.memory, reporter=self.backend.runs)
        self.raised: BaseException | None = None
        self.active = False
        self.folder = folder
        self.runtime = ctypes.CDLL(str(folder / library.SONAME), ctypes.RTLD_GLOBAL)
        self.driver = ctypes.CDLL(str(folder / driver_library.SONAME), ctypes.RTLD_GLOBAL)
        self.runtime.phasebit_serve.argtypes = [ctypes.c_void_p, ctypes.c_int]
        self._handler = _HANDLER(self._handle)  # C keeps its address
        self.connect()
        self._make_context()
        atexit.register(lambda: self.runtime.phasebit_serve(None, -1))

    def connect(self) -> None:
        """Let the C half ask this device; an error of an earlier kernel is forgotten."""
        self.device.fault = 0
        handler = ctypes.cast(self._handler, ctypes.c_void_p)
        if self.runtime.phasebit_serve(handler, self.memory.fd):
            raise LaunchError(
                "device memory cannot be mapped into this process: its addresses are taken; "
                "run in a process of its own"
            )

    def _make_context(self) -> None:
        """As PyTorch does before anything else: the primary context is current in this thread."""
        context = ctypes.c_void_p()
        self.driver.cuInit(0)
        self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        self.driver.cuCtxSetCurrent(context)

    def _handle(
        self, op: int, words: Any, count: int, blob: int | None, size: int, reply: int | None,
        capacity: int, fault: Any,
    ) -> int:  # fmt: skip
        """One message from the C half. No exception may pass through C: it is kept."""
        try:
            given = ctypes.string_at(blob, size) if blob else b""
            answer = self.device.handle(op, words[:count], given)
            if self.device.printed:
                text, self.device.printed = self.device.printed, b""
                sys.stdout.write(text.decode(errors="replace"))
            fault[0] = self.device.fault
            if answer is None:
                return 0
            payload = answer.payload()[:capacity]
            if reply:
                ctypes.memmove(reply, payload, len(payload))
            return int(answer.status)
        except BaseException as error:
            self.raised = error
            fault[0] = self.device.fault = _FAILED
            return _FAILED


def _opened(name: str) -> bool:
    """Whether this process has opened a shared library of that name."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return any(line.rstrip().endswith(f"/{name}") for line in maps)


_process: _Process | None = None


def process() -> _Process:
    """This process as a device. Raises LaunchError where it cannot be one."""
    global _process
    if _process is None:
        _process = _Process()
    return _process


def capability(target: str) -> int:
    """`sm_90a` -> 90. Raises LaunchError for a name of another form."""
    match = re.fullmatch(r"(?:sm_)?(\d{2,3})[af]?", target)
    if match is None:
        raise LaunchError(f"target {target!r}: name it as nvcc does, sm_90a or sm_100a")
    return int(match[1])


def _chosen(schedules: str | Sequence[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    """The schedules and seeds of a word, or of a list. Raises LaunchError for what is none."""
    if isinstance(schedules, str):
        if schedules not in SCHEDULES:
            raise LaunchError(f"schedules={schedules!r}: choose one of {', '.join(SCHEDULES)}")
        return SCHEDULES[schedules]
    try:
        pairs = [(name, seed) for name, seed in schedules]
    except (TypeError, ValueError):
        pairs = []
    if not pairs:
        raise LaunchError(
            f"schedules={schedules!r}: give a word, or pairs of a name and a seed, one at least, "
            'as [("late", 0), ("random", 3)]'
        )
    for name, seed in pairs:
        Mode(schedule=cast(Schedule, name), seed=seed)  # which refuses what is none
    return tuple(pairs)


@contextmanager
def emulated(
    target: str = "sm_90a", *, schedules: str | Sequence[tuple[str, int]] = "late",
    check: bool = True, max_steps: int = MAX_STEPS,
) -> Iterator[Runs]:  # fmt: skip
    """Within the block, this process has a GPU of `target`, which is the emulator.

    `schedules`: under which of them each launch runs, from the same memory: eager, late, random,
    "all", or pairs of a name and a seed; what the last of them leaves in memory stays there.
    Raises LaunchError for a target or schedules that are none, and where one block stands in
    another; `phasebit.runtime.library.BuildError` without a C compiler.
    """
    number = capability(target)
    chosen = _chosen(schedules)
    here = process()
    if here.active:
        raise LaunchError("one emulated block stands in another: leave the first one before")
    here.backend.schedules = chosen
    here.backend.emulator.check, here.backend.emulator.steps = check, max_steps
    here.backend.runs = here.device.reporter = runs = Runs()
    here.device.asked_capability = here.device.capability = number
    here.connect()
    here.active, here.raised = True, None
    try:
        yield runs
    finally:
        here.active = False
        here.device.program_left()
        if isinstance(here.raised, KeyboardInterrupt | SystemExit):
            raise here.raised


def allocate(size: int, name: str) -> ctypes.Array[ctypes.c_uint8]:
    """`size` zeroed bytes of device memory, given back when nobody refers to them any more.

    `name`: what findings call them. Raises `phasebit.runtime.mapped_memory.OutOfMemory`.
    """
    memory = process().memory
    address = memory.allocate(max(size, 1), Space.MANAGED, name)
    made = (ctypes.c_uint8 * max(size, 1)).from_address(address)
    weakref.finalize(made, _free, memory, address).atexit = False
    return made


def _free(memory: DeviceMemory, address: int) -> None:
    if memory.find(address) is not None:  # cudaDeviceReset has freed it before
        memory.free(address)


def holds(address: int) -> bool:
    """Whether an address is in device memory of this process."""
    return _process is not None and _process.memory.find(address) is not None
