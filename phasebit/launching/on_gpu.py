"""Kernels of the emulator on this machine's GPU: the same text, the same arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from phasebit.emulator import Extents, Kernel, refuse_written, tensormap
from phasebit.launching.driver import Driver


class GpuArrays:
    """The arrays of a launch, in a GPU's memory; see :class:`phasebit.emulator.DeviceArrays`."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.placed: list[tuple[Any, int]] = []
        self.names: list[str] = []

    def place(self, array: Any, name: str) -> int:
        """Bring a NumPy array there, and give its address."""
        address = self.driver.reserve(array.nbytes)
        self.placed.append((array, address))
        self.names.append(name)
        if array.nbytes:
            self.driver.write(address, array)
        return address

    def adopt(self, array: Any, what: str) -> int:
        """The address of an array that lies there already."""
        return self.driver.adopt(array)

    def tensor_map(self, made: tensormap.Descriptor) -> bytes:
        """The 128 bytes that the driver makes."""
        return self.driver.tensor_map(*made.call())

    def give_back(self) -> list[str]:
        """Copy what the kernel wrote into the arrays, and free their memory there.

        The names of those that are read-only, and that the kernel wrote all the same.
        """
        spoilt = []
        for i, (array, address) in enumerate(self.placed):
            if array.nbytes and array.flags.writeable:
                self.driver.read(address, array)
            elif array.nbytes:
                there = np.empty_like(array)
                self.driver.read(address, there)
                if there.tobytes() != array.tobytes():
                    spoilt.append(self.names[i])
            self.driver.free(address)
        self.placed.clear()
        self.names.clear()
        return spoilt


@contextmanager
def prepared(
    driver: Driver, kernel: Kernel, extents: Extents, sets: Sequence[Sequence[Any]]
) -> Iterator[list[Callable[[], None]]]:
    """A launch for each list of arguments; at the end the arrays hold what the kernels wrote."""
    arrays = GpuArrays(driver)
    try:
        yield [
            driver.prepare(
                driver.module(kernel.ptx), kernel.function.name, extents.grid, extents.block,
                kernel.marshal(args, arrays), kernel.offsets,
                cluster=extents.cluster if extents.explicit_cluster else None,
                cooperative=extents.cooperative, shared=extents.shared,
            )
            for args in sets
        ]  # fmt: skip
    finally:
        written = arrays.give_back()
    refuse_written(written)
