"""A backend for tests: kernels are Python functions, found by a part of their name.

It reads from PTX only what the runtime needs: entries with their parameters, and variables.
"""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable, Mapping

from phasebit.runtime.backend import KernelFacts, Launch, ModuleError, Outcome, Parameter, Symbol
from phasebit.runtime.mapped_memory import DeviceMemory
from phasebit.runtime.protocol import Space, Status
from phasebit.runtime.report import of_program

_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}
_ENTRY = re.compile(r"\.entry\s+(\w+)\s*\((.*?)\)(.*?)\{", re.DOTALL)
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+(\d+)\s+)?\.[a-z](\d+)\s+\w+(?:\[(\d+)\])?")
_VARIABLE = re.compile(
    r"^(?:\.visible\s+)?\.(global|const)\s+(\.attribute\(\.managed\)\s+)?\.align\s+\d+\s+"
    r"\.[a-z](\d+)\s+(\w+)(?:\[(\d+)\])?(?:\s*=\s*(-?\d+))?\s*;",
    re.MULTILINE,
)


class Kernels:
    """What fake kernels may use: the module, the memory, the launch and its arguments."""

    def __init__(self, module: FakeModule, launch: Launch) -> None:
        self.module = module
        self.memory = module.memory
        self.launch = launch
        facts = module.kernels[launch.kernel]
        self.arguments = [
            launch.parameters[item.offset : item.offset + item.size] for item in facts.parameters
        ]

    def ints(self, argument: int, count: int):
        """The int array that pointer argument `argument` points to."""
        (address,) = struct.unpack("<Q", self.arguments[argument])
        return self.memory.view(address, 4 * count).view("<i4")

    def integer(self, argument: int) -> int:
        (value,) = struct.unpack("<i", self.arguments[argument])
        return value

    def symbol(self, part: str, count: int):
        (name,) = (name for name in self.module.symbols if part in name)
        return self.memory.view(self.module.symbols[name].address, 4 * count).view("<i4")


def increment(k: Kernels) -> Outcome:
    """p[i] += 1 for every thread"""
    threads = k.launch.grid[0] * k.launch.block[0]
    k.ints(0, threads)[:] += 1
    return Outcome(clocks=1000 * k.launch.grid[0])


def add(k: Kernels) -> Outcome:
    """p[i] += n for every thread"""
    k.ints(0, k.launch.grid[0] * k.launch.block[0])[:] += k.integer(1)
    return Outcome(clocks=1000)


def scale(k: Kernels) -> Outcome:
    """p[i] = p[i] * factor + offset[0] + managed, from a struct, a symbol and a managed variable"""
    n, factor = struct.unpack("<bxxxi", k.arguments[1])
    p = k.ints(0, n)
    p[:] = p * factor + k.symbol("offset", 1)[0] + k.symbol("shared_with_host", 1)[0]
    k.symbol("shared_with_host", 1)[0] += 1
    return Outcome(clocks=500)


def say(k: Kernels) -> Outcome:
    return Outcome(printed=b"hello from the device %d\n" % k.integer(0))


def stray(k: Kernels) -> Outcome:
    return Outcome(
        error=Status.ILLEGAL_ADDRESS,
        findings=[
            of_program("thread 3 of block 0 reads 4 bytes at 0x10, which is in no allocation")
        ],
    )


def endless(k: Kernels) -> Outcome:
    while True:
        time.sleep(0.01)


def until_flag(k: Kernels) -> Outcome:
    """Wait until the host sets *p, then answer in p[1]: the host must be running meanwhile."""
    p = k.ints(0, 2)
    while p[0] == 0:
        time.sleep(0.001)
    p[1] = 42
    return Outcome(clocks=10)


def cooperative(k: Kernels) -> Outcome:
    assert k.launch.cooperative
    assert not k.memory.view(k.launch.workspace, 4096).any()
    k.memory.view(k.launch.workspace, 8)[:] = 1
    k.ints(0, 1)[0] += 1
    return Outcome()


def cluster(k: Kernels) -> Outcome:
    k.ints(0, 3)[:] = k.launch.cluster
    return Outcome()


def gather(k: Kernels) -> Outcome:
    """Parameters of every size, each aligned to its own."""
    (c,) = struct.unpack("<b", k.arguments[1])
    (s,) = struct.unpack("<h", k.arguments[2])
    (d,) = struct.unpack("<d", k.arguments[3])
    (e,) = struct.unpack("<b", k.arguments[4])
    x, y, z = struct.unpack("<bbb", k.arguments[5])
    (i,) = struct.unpack("<i", k.arguments[6])
    k.ints(0, 9)[:] += [c, s, int(d), e, x, y, z, i, 1]
    return Outcome()


def busy(k: Kernels) -> Outcome:
    time.sleep(0.2)
    return Outcome(clocks=200_000)


def nothing(k: Kernels) -> Outcome:
    return Outcome(clocks=100)


KERNELS: dict[str, Callable[[Kernels], Outcome]] = {
    item.__name__: item
    for item in (
        increment, add, scale, say, stray, endless, until_flag, cooperative, cluster, gather, busy,
        nothing,
    )
}  # fmt: skip


class FakeModule:
    def __init__(self, ptx: str, memory: DeviceMemory) -> None:
        if ".version" not in ptx:
            raise ModuleError("not PTX")
        self.memory = memory
        self.symbols: dict[str, Symbol] = {}
        for space, managed, bits, name, count, value in _VARIABLE.findall(ptx):
            size = _SIZES[bits] * int(count or 1)
            kind = Space.MANAGED if managed else Space.SYMBOL
            address = memory.allocate(size, kind, name)
            assert space
            if value:
                memory.view(address, 4).view("<i4")[0] = int(value)
            self.symbols[name] = Symbol(address, size)
        self._kernels = {}
        for name, text, directives in _ENTRY.findall(ptx):
            offset, parameters = 0, []
            for align, bits, count in _PARAMETER.findall(text):
                size = _SIZES[bits] * int(count or 1)
                unit = int(align or _SIZES[bits])
                offset = -(-offset // unit) * unit
                parameters.append(Parameter(offset, size))
                offset += size
            most = re.search(r"\.maxntid (\d+)", directives)
            fixed = re.search(r"\.reqnctapercluster (\d+), (\d+), (\d+)", directives)
            self._kernels[name] = KernelFacts(
                name,
                tuple(parameters),
                shared=1024 if "with_shared" in name else 0,
                max_threads=int(most.group(1)) if most else 1024,
                cluster=tuple(map(int, fixed.groups())) if fixed else None,
            )

    @property
    def kernels(self) -> Mapping[str, KernelFacts]:
        return self._kernels

    def launch(self, launch: Launch) -> Outcome:
        for part, kernel in KERNELS.items():
            if re.match(rf"_Z\d+{part}", launch.kernel):
                return kernel(Kernels(self, launch))
        raise AssertionError(f"no fake kernel for {launch.kernel}")


class FakeBackend:
    def load(self, ptx: str, memory: DeviceMemory) -> FakeModule:
        return FakeModule(ptx, memory)
