"""Where a kernel is spread, and what no GPU of its target could run.

Source: PTX ISA 11.4 (performance directives).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasebit.emulator.capabilities import (
    MAX_BLOCK,
    MAX_BLOCK_EXTENTS,
    MAX_CLUSTER,
    MAX_GRID,
    MOST_MULTIPROCESSORS,
    capability,
    limits,
)
from phasebit.emulator.errors import LaunchError
from phasebit.emulator.ptx.syntax import Function

Three = tuple[int, int, int]
Extent = int | Sequence[int]
"""Up to three numbers; those that are not given are 1."""


@dataclass(frozen=True)
class Extents:
    """Where a kernel is spread: threads, blocks, clusters, and dynamic shared memory."""

    grid: Three
    block: Three
    cluster: Three
    explicit_cluster: bool
    cooperative: bool
    shared: int

    @classmethod
    def of(
        cls, function: Function, grid: Extent, block: Extent, cluster: Extent | None,
        cooperative: bool, shared: int,
    ) -> Extents:  # fmt: skip
        """As a launch gives them; without a cluster it is the kernel's own.

        Raises :class:`LaunchError` for what is not one to three positive numbers.
        """
        if not isinstance(shared, int | np.integer):
            raise LaunchError(f"shared is an integer, not {shared!r}")
        own = function.directives.get("reqnctapercluster") or 1
        return cls(
            three(grid, "grid"), three(block, "block"),
            three(own if cluster is None else cluster, "cluster"),
            cluster is not None, cooperative, shared,
        )  # fmt: skip

    def check(self, name: str, function: Function, target: str, static_shared: int) -> None:
        """Raise :class:`LaunchError` for what no GPU of the target could run.

        ``static_shared``: bytes of shared memory that the kernel ``name`` declares.
        """
        for extent, most, axis in zip(self.grid, MAX_GRID, "xyz", strict=True):
            if extent > most:
                raise LaunchError(
                    f"{name}: the {axis} extent of a grid is at most {most}, not {extent}"
                )
        threads = self.block[0] * self.block[1] * self.block[2]
        if threads > MAX_BLOCK:
            raise LaunchError(
                f"{name}: a block of {threads} threads is too large; at most {MAX_BLOCK} fit"
            )
        deepest = MAX_BLOCK_EXTENTS[2]
        if self.block[2] > deepest:
            raise LaunchError(
                f"{name}: the z extent of a block is at most {deepest}, not {self.block[2]}"
            )
        limit = function.directives.get("maxntid") or function.directives.get("reqntid")
        if limit:
            most = int(np.prod(limit))
            if threads > most:
                raise LaunchError(
                    f"{name} was compiled for at most {most} threads a block "
                    f"(__launch_bounds__), not {threads}"
                )
        if self.shared < 0:
            raise LaunchError(f"{name}: shared={self.shared} bytes makes no sense")
        room = limits(capability(target)).block_shared
        total = static_shared + self.shared
        if total > room:
            raise LaunchError(
                f"{name}: {total} bytes of shared memory ({static_shared} static, "
                f"{self.shared} dynamic) are more than the {room} of {target}"
            )
        most = MOST_MULTIPROCESSORS * limits(capability(target)).blocks_of(threads, total)
        blocks = self.grid[0] * self.grid[1] * self.grid[2]
        if self.cooperative and blocks > most:
            raise LaunchError(
                f"{name}: the {blocks} blocks of a cooperative launch run at once, and no GPU "
                f"of {target} holds more than {most} of them"
            )
        for g, c, axis in zip(self.grid, self.cluster, "xyz", strict=True):
            if g % c:
                raise LaunchError(
                    f"{name}: the grid's {axis} extent {g} is no multiple of the cluster's {c}"
                )
        if self.cluster[0] * self.cluster[1] * self.cluster[2] > MAX_CLUSTER:
            raise LaunchError(f"{name}: a cluster has at most {MAX_CLUSTER} blocks")


def three(value: Extent, what: str) -> Three:
    """One to three positive numbers as three; raises :class:`LaunchError` for anything else."""
    if isinstance(value, np.ndarray):  # one without dimensions is no sequence
        value = value.ravel().tolist()
    numbers: list[Any] = list(value) if isinstance(value, Sequence) else [value]
    if not 1 <= len(numbers) <= 3 or not all(
        isinstance(n, int | np.integer) and n >= 1 for n in numbers
    ):
        raise LaunchError(f"{what} is one to three positive numbers, not {value!r}")
    x, y, z = (*(int(n) for n in numbers), *[1] * (3 - len(numbers)))
    return x, y, z
