"""What ``tcgen05`` tells whoever listens; see ``machine.events``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from phasebit.emulator.findings import Sentence
from phasebit.emulator.machine.barrier_sites import BarrierSite
from phasebit.emulator.machine.group import Group
from phasebit.emulator.ptx.types import Array
from phasebit.emulator.tensor_core.matrix_descriptors import MatrixDescriptor
from phasebit.emulator.tensor_core.regions import Region


class Reads(Protocol):
    """Something in shared memory that the tensor core reads."""

    def words(self, shift: int) -> Array:
        """The words of ``1 << shift`` bytes that it lies in."""


@dataclass(frozen=True)
class SharedTile:
    """A tile in shared memory that the tensor core is about to read."""

    role: str
    """A or B of a product; the source of a copy."""
    start: int
    """The byte of the buffer at which it begins."""
    descriptor: MatrixDescriptor
    elements: str | None = None
    """The type of a tensor map that puts elements of less than a byte where they are looked for;
    nothing for those of a byte or more, ``None`` for bytes that are copied."""
    folded: bool = False
    """Whether two of its elements lie at one place."""


class Commit:
    """One ``tcgen05.commit`` of one thread."""

    def __init__(self, thread: Group, site: BarrierSite) -> None:
        self.thread = thread
        self.site = site
        """The mbarrier at which it arrives."""


class TensorObserver:
    """Events of tensor memory and of the tensor core that works on it."""

    # -- allocating -----------------------------------------------------------

    def asks_for_columns(self, g: Group, warps: int) -> None:
        """Warps execute ``tcgen05.alloc``."""

    def requests_columns(self, g: Group, slot: int, count: int, held: int, where: Sentence) -> None:
        """A warp asks for columns for a block that holds others: how many of either, and where."""

    def allocated(self, g: Group, region: Region) -> None:
        """A warp gets columns."""

    def wrote_address(self, g: Group) -> None:
        """The address of a warp's columns is about to be written to shared memory."""

    def deallocates(self, g: Group, lanes: Array, region: Region) -> None:
        """A warp gives columns back."""

    # -- threads and tensor memory --------------------------------------------

    def loads_columns(
        self, g: Group, regions: Sequence[tuple[Array, Region]], registers: int
    ) -> None:
        """``tcgen05.ld``: the lanes of each warp and what it loads, so many registers a thread."""

    def stores_columns(
        self, g: Group, regions: Sequence[tuple[Array, Region]], registers: int
    ) -> None:
        """``tcgen05.st``, likewise."""

    def waits_for_columns(self, g: Group, lanes: Array, word: str) -> None:
        """``tcgen05.wait`` of a warp: for its ``ld`` or for its ``st``."""

    def wrong_quarter(self, g: Group, why: Sentence, where: Sentence) -> None:
        """A warp gives an address in a quarter of tensor memory that is not its own."""

    def reserved_bit(self, g: Group, bits: int, where: Sentence) -> None:
        """A product with block scales of 4-bit elements gets an instruction descriptor, ``bits``,
        whose bit 12 is set."""

    def address_of_other_space(self, g: Group, address: int, given: str) -> None:
        """A commit was given an address of another space: ``given`` is "generic" or "shared"."""

    def fenced_before(self, g: Group) -> None:
        """``tcgen05.fence::before_thread_sync``."""

    def fenced_after(self, g: Group) -> None:
        """``tcgen05.fence::after_thread_sync``."""

    # -- the tensor core ------------------------------------------------------

    def issues(self, g: Group, word: str) -> None:
        """Threads issue an instruction that is meant for one thread."""

    def reads_tile(self, g: Group, tile: SharedTile, where: Sentence) -> None:
        """A product reads A or B, or ``tcgen05.cp`` what it copies, in shared memory."""

    def multiplies(
        self, g: Group, target: Region, source: Region | None, reads: Sequence[Reads], adds: bool,
        scales: Sequence[Region], form: int, metadata: Region | None,
    ) -> None:  # fmt: skip
        """A thread issues a product: where its sums, A in tensor memory, and its scales lie.

        ``reads``: what it reads in shared memory.  ``adds``: to what the target holds.  ``form``:
        the product's shape.  ``metadata``: those of a sparse A.
        """

    def copies_columns(self, g: Group, target: Region, reads: Reads) -> None:
        """A thread issues ``tcgen05.cp``."""

    def shifts(self, g: Group, region: Region) -> None:
        """A thread issues ``tcgen05.shift``."""

    def commits(self, commit: Commit) -> None:
        """A thread issues ``tcgen05.commit``."""

    def commit_arrives(self, commit: Commit) -> None:
        """All before it is done: it is about to arrive."""


__all__ = ["Commit", "Reads", "TensorObserver"]
