"""The device half: owns memory, modules and the clock, and executes launches in order; those of
several devices side by side (`side_by_side.py`).

`Device.handle` takes one message and returns its reply; it knows nothing of sockets, so tests
call it directly. `connection.py` has the loop around it.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from numpy.lib.stride_tricks import as_strided

from phasebit import backtrace, occupancy
from phasebit.emulator import Finding, LaunchError, demangle, findings, tensormap
from phasebit.runtime import fatbin
from phasebit.runtime import properties as device
from phasebit.runtime.backend import (
    Backend,
    KernelFacts,
    Launch,
    Module,
    ModuleError,
    Outcome,
    defect,
    failure,
)
from phasebit.runtime.clock import Clock
from phasebit.runtime.mapped_memory import DeviceMemory, OutOfMemory
from phasebit.runtime.protocol import DEVICE_STREAMS, MOST_DEVICES, Copy, Op, Space, Status
from phasebit.runtime.report import ForPeople, Reporter, of_program
from phasebit.runtime.side_by_side import ForSeveral, Startable, Work

ALL_STREAMS = 2**64 - 1
ENDING = {Op.FREE, Op.COPY, Op.FILL, Op.SYNCHRONIZE, Op.ELAPSED, Op.WAIT, Op.HOST_WROTE, Op.UNLOAD}
"""After these the next kernel begins when those before it have ended, whatever its launch says."""
WORKSPACE_BYTES = 4096  # where grid.sync() counts
_DEFAULT_CAPABILITY = 90
_CALLS = {
    Space.DEVICE: "cudaMalloc",
    Space.HOST: "cudaMallocHost",
    Space.MANAGED: "cudaMallocManaged",
    Space.SYMBOL: "variable",
}


@dataclass(frozen=True)
class Reply:
    """`words` are 64-bit unsigned; `data` is used instead where the answer is bytes."""

    status: int = Status.SUCCESS
    words: Sequence[int] = ()
    data: bytes = b""

    def payload(self) -> bytes:
        return self.data or struct.pack(f"<{len(self.words)}Q", *self.words)


@dataclass
class _Loaded:
    """A fat binary that a program registered; loaded when something of it is first used."""

    blob: bytes
    modules: dict[int, Module] = field(default_factory=dict)
    """Device -> the module, with the device's own variables."""
    error: int = Status.SUCCESS


@dataclass
class _Kernel:
    module: int
    facts: KernelFacts


@dataclass
class _Call:
    words: Sequence[int]
    blob: bytes

    @property
    def name(self) -> str:
        """The bytes as a name; a program may ask for one that is no text."""
        return self.blob.decode(errors="replace")


class Device:
    """The device, or several alike, as one program sees them.

    `capability` limits which PTX is taken (90 for sm_90); None takes the newest and becomes that.
    Findings and errors are told to `reporter`; `program` is the file whose lines they name.
    """

    def __init__(
        self,
        backend: Backend,
        memory: DeviceMemory,
        capability: int | None = None,
        reporter: Reporter | None = None,
        program: Path | None = None,
        devices: int = 1,
    ) -> None:
        self.devices = devices
        self.backend = backend
        self.memory = memory
        self.asked_capability = capability
        self.reporter = reporter or ForPeople(sys.stderr)
        self.texts: dict[bytes, str] = {}
        """PTX of machine code that a compiler in this process made of it: `fatbin.digest`."""
        self._handlers: dict[Op, Callable[[_Call], Reply | None]] = {
            op: getattr(self, "_" + op.name.lower()) for op in Op if op is not Op.CALLS
        }
        self.program = program
        self._unasked: dict[int, list[Finding]] = {}
        self.busy = False
        """Whether it does something that may be left when the program is gone."""
        self.left = False
        """The program is gone: kernels have no more time, and only what was refused is told."""
        self._start()

    def _start(self) -> None:
        self.memory.reset()
        self.clock = Clock()
        self.capability = self.asked_capability or 0
        self.fault = 0
        self.printed = b""
        self._modules: dict[int, _Loaded] = {}
        self._kernels: list[_Kernel] = []
        self._workspace = 0
        self._allocations = 0
        self._launches = 0
        self.work = Work(self) if self.devices > 1 else None
        """What several devices do side by side; one does each thing as it is asked to."""
        self._reach: set[tuple[int, int]] = set()
        """Which device may touch the memory of which."""
        self._last_stream: int | None = None
        """That of the last launch, if nothing has been asked of any stream since."""

    def handle(self, op: int, words: Sequence[int], blob: bytes) -> Reply | None:
        """Do what one message asks. None for posted messages.

        Raises ValueError for a message that no host half of this version sends.
        """
        try:
            handler = self._handlers[Op(op)]
        except (KeyError, ValueError):
            raise ValueError(f"unknown operation {op} from the program's runtime") from None
        telling = op in (Op.REFUSED, Op.ASKED)
        self.busy = not telling
        try:
            if not self.left or telling:
                return self._handled(handler, Op(op), words, blob)
            return Reply() if op < Op.CALLS else None
        finally:
            self.busy = False

    def _handled(
        self, handler: Callable[[_Call], Reply | None], op: Op, words: Sequence[int], blob: bytes
    ) -> Reply | None:
        if self.work is not None and not self.fault:
            self.work.before(op, words)
        if self.fault and op not in (Op.HELLO, Op.PROPERTIES, Op.ATTRIBUTE, Op.RANGE):
            if op == Op.LAUNCH:
                self.memory.finished += 1
            return Reply(self.fault) if op < Op.CALLS else None
        if op in ENDING:
            self._last_stream = None
        return handler(_Call(words, blob))

    def finish(self) -> None:
        """The program is gone, or without its end of the connection: finish what it launched."""
        self.handle(Op.SYNCHRONIZE, (ALL_STREAMS, 0), b"")

    def say(self, text: str, rule: str) -> None:
        """Tell what is no kernel's doing."""
        self.reporter.found([of_program(text, rule)])

    def _defect(self, what: str, error: Exception) -> None:
        self.reporter.found([Finding("defect", findings.say("{}: {}", what, defect(error)))])

    # Beginning, properties

    def _hello(self, call: _Call) -> Reply:
        self._start()
        return Reply(words=(self.memory.base, self.memory.span, self.devices))

    def _module(self, call: _Call) -> None:
        """words: module"""
        (number,) = call.words
        self._modules[number] = _Loaded(call.blob)
        if self.asked_capability is None:
            targets = [item.target for item in _images(call.blob) if item.kind == fatbin.PTX]
            # Text is compiled for the device that there is; a program brings its own.
            least = self._known_capability() if fatbin.alone(call.blob) else self.capability
            self.capability = max([*targets, least])

    def _known_capability(self) -> int:
        return self.capability or _DEFAULT_CAPABILITY

    def _properties(self, call: _Call) -> Reply:
        """words: the version of CUDA whose structure is meant"""
        own = self._known_capability(), self.memory.total
        return Reply(data=device.properties_bytes(*own, *call.words))

    def _attribute(self, call: _Call) -> Reply:
        """words: cudaDeviceAttr"""
        (number,) = call.words
        try:
            value = device.attribute(number, self._known_capability(), self.memory.total)
        except KeyError:
            return Reply(Status.INVALID_VALUE)
        return Reply(words=(value % 2**64,))

    # Modules

    def _load(self, number: int, device: int = 0) -> tuple[Module | None, int]:
        """A module on a device, or None and the error."""
        loaded = self._modules[number]
        if device not in loaded.modules and not loaded.error:
            try:
                ptx = self.texts.get(fatbin.digest(loaded.blob)) or fatbin.newest_ptx(
                    loaded.blob, self.asked_capability
                )
                made = (
                    cast(ForSeveral, self.backend).load(ptx, self.memory, device)
                    if device
                    else self.backend.load(ptx, self.memory)
                )
                if device and self._shares(made):
                    loaded.error = Status.NOT_SUPPORTED
                loaded.modules[device] = made
            except fatbin.FatBinaryError as error:
                loaded.error = Status.NO_KERNEL_IMAGE
                self.say(str(error), "invalid-ptx")
            except ModuleError as error:
                loaded.error = Status.INVALID_PTX
                self.say(str(error), "invalid-ptx")
            except OutOfMemory as error:
                loaded.error = Status.MEMORY_ALLOCATION
                self.say(f"no memory for the module's variables: {error}", "program")
            except Exception as error:
                loaded.error = Status.INVALID_PTX
                self._defect("the program's PTX", error)
        return None if loaded.error else loaded.modules[device], loaded.error

    def _shares(self, module: Module) -> bool:
        """Whether it has a variable that all devices would share: said, where there are several."""
        found = [self.memory.find(each.address) for each in module.symbols.values()]
        shared = [item for item in found if item is not None and item.space == Space.MANAGED]
        for item in shared[:1]:
            self.say(
                f"the __managed__ variable {item.name} would be one for all devices, which this "
                "stand-in does not do: allocate it with cudaMallocManaged",
                "program",
            )
        return bool(shared)

    def _symbol(self, call: _Call) -> Reply:
        """words: module, device; bytes: name. Answer: address, size."""
        module, error = self._load(*call.words)
        if module is None:
            return Reply(error)
        symbol = module.symbols.get(call.name)
        if symbol is None:
            return Reply(Status.INVALID_SYMBOL)
        return Reply(words=(symbol.address, symbol.size))

    def _open(self, call: _Call) -> Reply:
        """words: module. Answer: how many kernels (64 bits), their names, each with its zero."""
        module, error = self._load(*call.words)
        if module is None:
            return Reply(error)
        names = [name.encode() + b"\0" for name in module.kernels]
        return Reply(data=struct.pack("<Q", len(names)) + b"".join(names))

    def _unload(self, call: _Call) -> None:
        """words: module"""
        (number,) = call.words
        loaded = self._modules.pop(number, None)
        for module in loaded.modules.values() if loaded is not None else ():
            for symbol in module.symbols.values():
                self.memory.free(symbol.address)

    def _kernel(self, call: _Call) -> Reply:
        """words: module; bytes: name. Answer: what launch.c's `struct facts` holds."""
        (number,) = call.words
        module, failed = self._load(number)
        if module is None:
            return Reply(failed)
        try:
            facts = module.kernels.get(call.name)
        except ModuleError as error:
            self.say(str(error), "invalid-ptx")
            return Reply(Status.INVALID_PTX)
        except Exception as error:
            self._defect(f"kernel {call.name}", error)
            return Reply(Status.INVALID_PTX)
        if facts is None:
            return Reply(Status.INVALID_DEVICE_FUNCTION)
        self._kernels.append(_Kernel(number, facts))
        own = occupancy.limits(self._known_capability())
        words = [
            len(self._kernels) - 1,
            facts.shared,
            facts.local,
            facts.constant,
            facts.registers,
            facts.max_threads,
            *(facts.cluster or (0, 0, 0)),
            self._known_capability(),
            own.block_shared,
            facts.parameter_bytes,
            len(facts.parameters),
        ]
        for parameter in facts.parameters:
            words += [parameter.offset, parameter.size]
        return Reply(words=words)

    # Memory

    def _allocate(self, call: _Call) -> Reply:
        """words: size, space, device. Answer: address."""
        size, kind, *device = call.words
        space = Space(kind)
        self._allocations += 1
        name = f"{_CALLS[space]} #{self._allocations}"  # what findings call it
        try:
            return Reply(words=(self.memory.allocate(size, space, name, *device),))
        except OutOfMemory:
            return Reply(Status.MEMORY_ALLOCATION)

    def _free(self, call: _Call) -> Reply:
        """words: address, spaces that the call may free (bits), addresses of the calls that lead
        there, outermost first. Answer: size, space."""
        address, allowed, *calls = call.words
        item = self.memory.find(address)
        if item is None or item.address != address or not allowed >> item.space & 1:
            return Reply(Status.INVALID_VALUE)
        self.memory.free(address, lambda: self._freed_by_host(calls))
        return Reply(words=(item.size, item.space))

    def _freed_by_host(self, calls: Sequence[int]) -> findings.Sentence:
        place = self._called_at(calls)
        return findings.say("by the host{}", f" at {place.source}" if place else "")

    def _range(self, call: _Call) -> Reply:
        """words: address. Answer: address, size, space, device of what holds it."""
        item = self.memory.find(*call.words)
        if item is None:
            return Reply(Status.INVALID_VALUE)
        return Reply(words=(item.address, item.size, item.space, item.device))

    def _memory_info(self, call: _Call) -> Reply:
        return Reply(words=(self.memory.total - self.memory.used, self.memory.total))

    def _copy(self, call: _Call) -> Reply:
        """words: to, to bytes, from, from bytes, copied bytes, kind, stream, does the host wait.

        Only checks and counts: the program's half, which can see both sides, moves the bytes
        when the answer is success.
        """
        to, to_bytes, source, from_bytes, size, kind, stream, waits = call.words
        if kind > Copy.DEFAULT:
            return Reply(Status.INVALID_MEMCPY_DIRECTION)
        ends = []
        for address, extent in ((to, to_bytes), (source, from_bytes)):
            inside = self.memory.base <= address < self.memory.base + self.memory.span
            item = self.memory.find(address, extent)
            if inside and item is None:
                self._explain_copy(address, extent)
                return Reply(Status.INVALID_VALUE)
            ends.append(item)
        to_device, from_device = (item is not None for item in ends)
        if (kind in (Copy.HOST_TO_DEVICE, Copy.DEVICE_TO_DEVICE) and not to_device) or (
            kind in (Copy.DEVICE_TO_HOST, Copy.DEVICE_TO_DEVICE) and not from_device
        ):
            return Reply(Status.INVALID_VALUE)
        if kind != Copy.DEFAULT:
            to_device = kind in (Copy.HOST_TO_DEVICE, Copy.DEVICE_TO_DEVICE)
            from_device = kind in (Copy.DEVICE_TO_HOST, Copy.DEVICE_TO_DEVICE)
        both = to_device and from_device
        self.clock.copy(stream, size, to_device and not both, from_device and not both)
        if waits:
            self.clock.synchronize(stream)
        return Reply()

    def _explain_copy(self, address: int, extent: int) -> None:
        item = self.memory.find(address)
        if item is None:
            gone = self.memory.freed_at(address)
            where: findings.Said = "in no allocation"
            if gone is not None:
                where = findings.say(
                    "{} bytes into {} ({} bytes), which was freed {}",
                    address - gone.item.address, gone.item.name, gone.item.size, gone.by(),
                )  # fmt: skip
            self.say(f"a copy uses 0x{address:x}, which is {where}", "invalid-copy")
        else:
            over = address + extent - item.end
            self.say(
                f"a copy of {extent} bytes at 0x{address:x} runs {over} bytes past the end of "
                f"an allocation of {item.size} bytes",
                "invalid-copy",
            )

    def _fill(self, call: _Call) -> Reply:
        """words: address, byte, pitch, width, rows, stream, does the host wait."""
        address, _, pitch, width, rows, stream, waits = call.words
        if not width or not rows:
            return Reply()
        extent = (rows - 1) * pitch + width
        if self.memory.find(address, extent) is None:
            self._explain_copy(address, extent)
            return Reply(Status.INVALID_VALUE)
        if self.work is not None:
            self.work.then(stream, lambda: self._set(call))
        else:
            self._set(call)
        if waits:
            self.clock.synchronize(stream)
        return Reply()

    def _set(self, call: _Call) -> None:
        """The bytes of a fill."""
        address, value, pitch, width, rows, stream, _ = call.words
        extent = (rows - 1) * pitch + width
        whole = self.memory.view(address, extent)
        as_strided(whole, (rows, width), (pitch, 1))[:] = value & 0xFF
        self.memory.written(address, extent)
        self.clock.copy(stream, width * rows, False, False)

    def _host_wrote(self, call: _Call) -> None:
        """words: address, size. The program's half copied bytes to device memory."""
        self.memory.written(*call.words)

    # Launches

    def _launch(self, call: _Call) -> None:
        """words: kernel, stream, grid (3), block (3), shared, cluster (3), cooperative,
        bytes of stack and of the heap, may it begin before the kernel before it in its stream has
        ended."""
        number, stream, gx, gy, gz, bx, by, bz, shared, cx, cy, cz, *rest = call.words
        cooperative, stack, heap, early = rest
        kernel = self._kernels[number]
        launch = Launch(
            kernel.facts.name,
            (gx, gy, gz),
            (bx, by, bz),
            call.blob,
            shared,
            (cx, cy, cz),
            bool(cooperative),
            self._clean_workspace() if cooperative else 0,
            stack,
            heap,
            bool(early) and stream == self._last_stream and self.work is None,
        )
        self._last_stream = stream
        self._launches += 1
        device = self.clock.device_of(stream)
        try:
            module, failed = self._load(kernel.module, device)
            if module is None:
                self.fault = failed
                self.memory.finished += 1
                return
            if self.work is not None:
                name, number = kernel.facts.name, self._launches
                self.work.launch(
                    stream, cast(Startable, module), launch,
                    lambda outcome: self._ended(name, stream, number, outcome),
                )  # fmt: skip
                return
            outcome = module.launch(launch)
        except Exception as error:
            outcome = failure(kernel.facts.name, error)
        self._ended(kernel.facts.name, stream, self._launches, outcome)

    def _ended(self, kernel: str, stream: int, number: int, outcome: Outcome) -> None:
        """A launch has ended: tell what it did."""
        self.printed += outcome.printed
        self.clock.launch(stream, outcome.clocks)
        self.fault = self.fault or outcome.error
        if outcome.findings:
            self.reporter.found([replace(f, launch=number) for f in outcome.findings])
        if outcome.counters:
            self.reporter.counted(demangle(kernel), number, outcome.counters)
        self.memory.finished += 1

    def _refused(self, call: _Call) -> None:
        """words: thread, grid (3), block (3), shared bytes, addresses of the calls that lead
        there, outermost first; bytes: the error's name and the kernel's."""
        thread, gx, gy, gz, bx, by, bz, shared, *calls = call.words
        error, _, kernel = call.name.partition(" ")
        place = self._called_at(calls)
        written = [_extent((gx, gy, gz)), _extent((bx, by, bz)), *([str(shared)] if shared else [])]
        sentence = findings.say(
            "the launch <<<{}>>>{} was refused with {}, and the program never asked: look at "
            "cudaGetLastError() after a launch",
            ", ".join(written), f" at {place.source}" if place else "", error,
        )  # fmt: skip
        finding = Finding("refused-launch", sentence, place, kernel=demangle(kernel))
        self._unasked.setdefault(thread, []).append(finding)

    def _asked(self, call: _Call) -> None:
        """words: thread. It has looked at its last error."""
        (thread,) = call.words
        self._unasked.pop(thread, None)

    def _called_at(self, addresses: Sequence[int]) -> findings.Place | None:
        """The line of the program that calls; to launch it calls a stub, by way of another."""
        if self.program is None:
            return None
        calls = backtrace.calls_at(self.program, reversed(addresses))
        stubs = [number for number, call in enumerate(calls) if "__device_stub_" in call[0]]
        for function, path, line in calls[stubs[-1] + 2 if stubs else 0 :]:
            if line:
                own = findings.Call(line, 0, function.partition("(")[0])
                return findings.Place(0, "", os.path.basename(path), (own,), path)
        return None

    def program_left(self) -> None:
        """The program is gone: what it never asked for is told."""
        for refused in self._unasked.values():
            self.reporter.found(refused)
        self._unasked.clear()

    def _clean_workspace(self) -> int:
        if not self._workspace:
            self._workspace = self.memory.allocate(
                WORKSPACE_BYTES, Space.SYMBOL, "grid.sync() workspace"
            )
        self.memory.view(self._workspace, WORKSPACE_BYTES)[:] = 0
        self.memory.written(self._workspace, WORKSPACE_BYTES)
        return self._workspace

    def _occupancy(self, call: _Call) -> Reply:
        """words: kernel, threads a block, dynamic shared bytes, blocks (0: none given).

        Answer: blocks that fit on a multiprocessor, dynamic shared bytes that `blocks` leave.
        """
        number, threads, shared, blocks = call.words
        facts = self._kernels[number].facts
        own = occupancy.limits(self._known_capability())
        fits = occupancy.occupancy(own, facts.registers, facts.shared + shared, threads)
        return Reply(words=(fits.blocks, occupancy.shared_for_blocks(own, blocks, facts.shared)))

    def _tensor_map(self, call: _Call) -> Reply:
        """words: the arguments of cuTensorMapEncodeTiled, its arrays filled up to five (strides:
        four) numbers, for cuTensorMapEncodeIm2col with the two corners. Answer: the 128 bytes."""
        try:
            return Reply(data=tensormap.described(call.words).encode())
        except LaunchError as error:
            which = "Im2col" if len(call.words) > 26 else "Tiled"
            self.say(f"cuTensorMapEncode{which}: {error}", "invalid-tensor-map")
            return Reply(Status.INVALID_VALUE)

    # Streams and events

    def _stream(self, call: _Call) -> None:
        """words: stream, blocking, device"""
        number, blocking, *device = call.words
        self.clock.open(number, bool(blocking), *device)

    def _record(self, call: _Call) -> None:
        """words: event, stream"""
        event, stream = call.words
        if self.work is not None:
            self.work.record(event, stream)
        else:
            self.clock.record(event, stream)

    def _wait(self, call: _Call) -> None:
        """words: stream, event"""
        stream, event = call.words
        if self.work is not None:
            self.work.wait(stream, event)
        else:
            self.clock.wait(stream, event)

    def _value(self, call: _Call) -> Reply:
        """words: stream, address, number, comparison of cuStreamWaitValue32, or 4: write it."""
        stream, address, number, how = call.words
        if self.memory.find(address, 4) is None:
            self._explain_copy(address, 4)
            return Reply(Status.INVALID_VALUE)
        there = self.memory.view(address, 4)

        def write() -> None:
            there[:] = list(struct.pack("<I", number))
            self.memory.written(address, 4)

        def reached() -> bool:
            found = int.from_bytes(bytes(there), "little")
            return (
                (found - number) % 2**32 < 2**31, found == number, found & number != 0,
                (found | number) != 2**32 - 1,
            )[how]  # fmt: skip

        if how == 4:
            self.work.then(stream, write) if self.work is not None else write()
        elif self.work is not None:
            self.work.until(stream, reached, address, number)
        elif not reached():
            self.waits_for_ever(address, number)
            return Reply(Status.LAUNCH_TIMEOUT)
        return Reply()

    def waits_for_ever(self, address: int, number: int) -> None:
        """Nothing is left that could give a stream the number that it waits for."""
        found = int.from_bytes(bytes(self.memory.view(address, 4)), "little")
        self.say(
            f"a stream waits by cuStreamWaitValue32 for {number} at 0x{address:x}, where {found} "
            "is, and nothing that was issued before writes there any more (with one device, and "
            "before a copy, the emulator makes what comes before as it is issued: issue what "
            "writes first)",
            "deadlock",
        )

    def _query(self, call: _Call) -> Reply:
        """words: stream, event or 0. Answer: whether all work up to there is done."""
        return Reply(words=(int(self.work is None or self.work.done(*call.words)),))

    def _peer(self, call: _Call) -> None:
        """words: device, peer, whether it may touch the peer's memory"""
        device, peer, allowed = call.words
        if allowed:
            self._reach.add((device, peer))
        else:
            self._reach.discard((device, peer))

    def reaches(self, device: int, peer: int) -> bool:
        """Whether a device may touch the memory of another."""
        return (device, peer) in self._reach

    def _elapsed(self, call: _Call) -> Reply:
        """words: start, end. Answer: clocks between, two's complement."""
        try:
            return Reply(words=(self.clock.elapsed(*call.words) % 2**64,))
        except KeyError:
            return Reply(Status.INVALID_RESOURCE_HANDLE)

    def _synchronize(self, call: _Call) -> Reply:
        """words: stream, or all ones, or DEVICE_STREAMS minus a device; event or 0.

        By the time this is read, the launches that it is about are done.
        """
        stream, _ = call.words
        if stream == ALL_STREAMS or self.work is None:
            self.clock.synchronize(stream if stream < DEVICE_STREAMS - MOST_DEVICES else None)
        for one in self.streams(stream) if self.work is not None else ():
            self.clock.synchronize(one)
        return Reply()

    def streams(self, stream: int) -> list[int]:
        """The streams that a synchronisation names, where there are several devices.

        All of them are none by name: they are those of no device.
        """
        if stream > DEVICE_STREAMS - MOST_DEVICES:
            return self.clock.streams_of(DEVICE_STREAMS - stream)
        return [stream]


def _extent(numbers: Sequence[int]) -> str:
    """As it is written between the brackets: ``64``, ``(64, 2)``."""
    shown = list(numbers)
    while len(shown) > 1 and shown[-1] == 1:
        shown.pop()
    return str(shown[0]) if len(shown) == 1 else f"({', '.join(map(str, shown))})"


def _images(blob: bytes) -> list[fatbin.Image]:
    try:
        return [image for unit in fatbin.units(blob) for image in fatbin.images(unit)]
    except fatbin.FatBinaryError:
        return []  # said when something of the module is used
