"""Run the programs on a GPU, through the driver.

Modules are assembled by ``ptxas`` when there is one, many at a time; otherwise
the driver assembles them itself, which is slower.
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

import numpy as np

from phasebit import toolchain
from phasebit.launching.driver import Driver
from phasebit.toolchain import CudaError
from proof.batches import Batch
from proof.dice import Words
from proof.program import Program, module


def assemble(text: str, arch: str = "sm_90a", level: int = 3) -> bytes:
    """A module's machine code; raises :class:`CudaError` with the assembler's own words.

    ``level`` is how much the assembler optimises, 0 to 3 (its own choice).
    """
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "module.ptx"), Path(folder, "module.cubin")
        source.write_text(text)
        options = [f"-arch={arch}", "-fmad=false", f"-O{level}", "-o"]
        command: list[str | Path] = [toolchain.tool("ptxas"), *options, target, source]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if done.returncode:
            said = (done.stderr or done.stdout).strip()[:2000]
            raise CudaError(f"ptxas: {said or f'ended with {done.returncode} and no word'}")
        return target.read_bytes()


class Gpu:
    """A GPU that runs programs one after another.

    >>> Gpu()                                                       # doctest: +SKIP
    NVIDIA H200
    """

    def __init__(self, driver: Driver | None = None) -> None:
        self.driver = driver or Driver()
        self._room: dict[str, tuple[int, int]] = {}

    def __repr__(self) -> str:
        return self.driver.name

    def _memory(self, role: str, size: int) -> int:
        """Device memory for a role, kept from program to program and grown when needed."""
        address, room = self._room.get(role, (0, 0))
        if size > room:
            if room:
                self.driver.free(address)
            address = self.driver.reserve(size)
            self._room[role] = (address, size)
        return address

    def run(self, handle: ctypes.c_void_p, program: Program) -> Words:
        """The program's answers: uint64[outputs, threads]."""
        inputs, answers = np.ascontiguousarray(program.draw()), program.blank()
        source = self._memory("inputs", inputs.nbytes)
        target = self._memory("outputs", answers.nbytes)
        self.driver.write(source, inputs)
        self.driver.write(target, answers)
        addresses = {"inputs": source, "outputs": target}
        maps = [
            self.driver.tensor_map(*made.of(inputs).at(addresses[made.memory]).call())
            for made in program.maps
        ]
        data = b"".join([source.to_bytes(8, "little"), target.to_bytes(8, "little"), *maps])
        offsets = [0, 8, *(16 + 128 * i for i in range(len(maps)))]
        launch = self.driver.prepare(
            handle, program.name, (program.blocks, 1, 1), (program.threads, 1, 1), data, offsets
        )
        launch()
        self.driver.read(target, answers)
        return answers


Image = tuple[list[Program], bytes]


def _prepare(batch: Batch) -> list[Image]:
    return list(_assembled(batch.programs(), batch.level))


def _assembled(programs: list[Program], level: int) -> Iterator[Image]:
    """Modules of the programs; one on which ptxas itself crashes is left out, and said so."""
    text = module(programs)
    try:
        toolchain.tool("ptxas")
    except toolchain.ToolMissing:
        if level != 3:
            raise
        # the driver has an assembler of its own
        yield programs, text.encode() + b"\0"
        return
    try:
        yield programs, assemble(text, level=level)
    except CudaError as error:
        if len(programs) == 1:
            print(f"left out {programs[0].name}: {error}", file=sys.stderr)
            return
        half = len(programs) // 2
        yield from _assembled(programs[:half], level)
        yield from _assembled(programs[half:], level)


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
            handle = device.driver.load(image)
            for program in programs:
                try:
                    yield program, device.run(handle, program)
                except CudaError as error:
                    raise CudaError(f"{program.name}: {error}") from error
            device.driver.unload(handle)
