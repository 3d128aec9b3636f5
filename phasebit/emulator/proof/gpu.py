"""Run the programs on a GPU: ``libcuda`` through ctypes, nothing else to install.

The driver's interface needs eleven calls.  Modules are assembled by ``ptxas``
when there is one, many at a time; otherwise the driver assembles them itself,
which is slower.

Source: CUDA Driver API, chapters Module Management, Memory Management and
Execution Control.
"""

from __future__ import annotations

import ctypes
import itertools
import multiprocessing
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from phasebit import toolchain
from phasebit.emulator.proof.batches import Batch
from phasebit.emulator.proof.dice import Words
from phasebit.emulator.proof.program import Program, module
from phasebit.emulator.tensormap import Descriptor


class GpuError(RuntimeError):
    """The driver, or the assembler, refused something."""


def assemble(text: str, arch: str = "sm_90a") -> bytes:
    """A module's machine code; raises :class:`GpuError` with the assembler's own words."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "module.ptx"), Path(folder, "module.cubin")
        source.write_text(text)
        options = [f"-arch={arch}", "-fmad=false", "-o"]
        command: list[str | Path] = [toolchain.tool("ptxas"), *options, target, source]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if done.returncode:
            said = (done.stderr or done.stdout).strip()[:2000]
            raise GpuError(f"ptxas: {said or f'ended with {done.returncode} and no word'}")
        return target.read_bytes()


class Gpu:
    """One GPU with its primary context.

    >>> Gpu()                                                       # doctest: +SKIP
    NVIDIA H200
    """

    def __init__(self, driver: Any = None, ordinal: int = 0) -> None:
        try:
            self._driver = driver or ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise GpuError("no NVIDIA driver here: libcuda.so.1 is missing") from error
        self._call("cuInit", 0)
        self._device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(self._device), ordinal)
        context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device)
        self._call("cuCtxSetCurrent", context)
        self._room: dict[str, tuple[ctypes.c_uint64, int]] = {}

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._driver, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self._driver.cuGetErrorName(code, ctypes.byref(text))
            raise GpuError(f"{name} answered {(text.value or b'?').decode()} ({code})")

    def __repr__(self) -> str:
        name = ctypes.create_string_buffer(100)
        self._call("cuDeviceGetName", name, 100, self._device)
        return name.value.decode()

    def _memory(self, role: str, size: int) -> ctypes.c_uint64:
        """Device memory for a role, kept from program to program and grown when needed."""
        pointer, room = self._room.get(role, (ctypes.c_uint64(), 0))
        if size > room:
            if room:
                self._call("cuMemFree_v2", pointer)
            pointer = ctypes.c_uint64()
            self._call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
            self._room[role] = (pointer, size)
        return pointer

    def load(self, image: bytes) -> ctypes.c_void_p:
        """Load a module: machine code, or PTX text ending in a zero byte."""
        handle = ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(handle), image)
        return handle

    def unload(self, handle: ctypes.c_void_p) -> None:
        """Forget a module."""
        self._call("cuModuleUnload", handle)

    def run(self, handle: ctypes.c_void_p, program: Program) -> Words:
        """The program's answers: uint64[outputs, threads]."""
        function = ctypes.c_void_p()
        name = program.name.encode()
        self._call("cuModuleGetFunction", ctypes.byref(function), handle, name)
        inputs, answers = np.ascontiguousarray(program.draw()), program.blank()
        source = self._memory("inputs", inputs.nbytes)
        target = self._memory("outputs", answers.nbytes)
        size = ctypes.c_size_t(answers.nbytes)
        self._call("cuMemcpyHtoD_v2", source, _address(inputs), ctypes.c_size_t(inputs.nbytes))
        self._call("cuMemcpyHtoD_v2", target, _address(answers), size)
        addresses = {"inputs": source.value, "outputs": target.value}
        maps = [
            self._tensor_map(made.of(inputs).at(addresses[made.memory])) for made in program.maps
        ]
        given: list[Any] = [source, target, *maps]
        parameters = (ctypes.c_void_p * len(given))(*map(ctypes.addressof, given))
        self._call(
            "cuLaunchKernel", function, program.blocks, 1, 1, program.threads, 1, 1, 0, None,
            parameters, None,
        )  # fmt: skip
        self._call("cuMemcpyDtoH_v2", _address(answers), target, size)
        return answers

    def _tensor_map(self, made: Descriptor) -> Any:
        """The driver's 128 bytes for a tensor map."""
        name, arguments = made.call()
        image = (ctypes.c_uint64 * 32)()
        start = -(-ctypes.addressof(image) // 128) * 128
        self._call(name, ctypes.c_void_p(start), *map(_as_c, arguments))
        return (ctypes.c_uint64 * 16).from_buffer_copy(ctypes.string_at(start, 128))


_TYPES: dict[str, Any] = {
    "int": ctypes.c_int, "uint32": ctypes.c_uint32, "uint64": ctypes.c_uint64,
}  # fmt: skip


def _as_c(argument: tuple[str, Any]) -> Any:
    """A number of a C type, or an array of them for a tuple."""
    kind, value = argument
    if isinstance(value, tuple):
        return (_TYPES[kind] * max(1, len(value)))(*value)
    return _TYPES[kind](value)


def _address(array: Words) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


Image = tuple[list[Program], bytes]


def _prepare(batch: Batch) -> list[Image]:
    return list(_assembled(batch.programs()))


def _assembled(programs: list[Program]) -> Iterator[Image]:
    """Modules of the programs; one on which ptxas itself crashes is left out, and said so."""
    text = module(programs)
    try:
        toolchain.tool("ptxas")
    except toolchain.ToolMissing:  # the driver has an assembler of its own
        yield programs, text.encode() + b"\0"
        return
    try:
        yield programs, assemble(text)
    except GpuError as error:
        if len(programs) == 1:
            print(f"left out {programs[0].name}: {error}", file=sys.stderr)
            return
        half = len(programs) // 2
        yield from _assembled(programs[:half])
        yield from _assembled(programs[half:])


def run(batches: Iterable[Batch], jobs: int, gpu: Gpu | None = None) -> Iterator[
    tuple[Program, Words]
]:  # fmt: skip
    """Assemble batches in parallel and run each program; yields the answers.

    The workers are started afresh, not forked: a process that has opened the
    driver must not be forked.
    """
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        device = gpu or Gpu()
        prepared = pool.imap_unordered(_prepare, list(batches))
        for programs, image in itertools.chain.from_iterable(prepared):
            handle = device.load(image)
            for program in programs:
                try:
                    yield program, device.run(handle, program)
                except GpuError as error:
                    raise GpuError(f"{program.name}: {error}") from error
            device.unload(handle)
