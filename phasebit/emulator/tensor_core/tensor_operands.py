"""A, B and D of one ``tcgen05.mma``: where they lie, in one block or in a pair of them.

Found when the instruction is issued, read when the tensor core comes to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from phasebit.emulator.errors import Fault, OutOfBounds
from phasebit.emulator.findings import Sentence, say
from phasebit.emulator.machine.group import Group
from phasebit.emulator.numbers.sub_byte import WIDTH, in_slots
from phasebit.emulator.numbers.swizzle import B128_ATOM_32B
from phasebit.emulator.numbers.words import distinct
from phasebit.emulator.ptx.types import Array
from phasebit.emulator.tensor_core.cta_pairs import Accumulator
from phasebit.emulator.tensor_core.instruction_descriptors import InstructionDescriptor
from phasebit.emulator.tensor_core.matrix_descriptors import (
    DescriptorError,
    MatrixDescriptor,
    decode,
    folded,
    places,
)
from phasebit.emulator.tensor_core.regions import Region
from phasebit.emulator.tensor_core.tensor_memory import TensorMemory, split, tensor_memory
from phasebit.emulator.tensor_core.tensor_metadata import Metadata
from phasebit.emulator.tensor_core.tensor_mma import (
    BYTES,
    from_shared_memory,
    from_tensor_memory,
    row_length,
    rows,
)
from phasebit.emulator.tensor_core.tensor_observer import SharedTile, TensorObserver

SLOTS = {4: "b4x16_p64", 6: "b6x16_p32"}
"""Bits of an element -> the type of a tensor map that makes the slots of 16 bytes for it."""

A_COLUMNS = 8
"""Columns of A in tensor memory, for every kind: 32 bytes a row."""


class SharedOperand:
    """A or B in the shared memory of a block: where its elements lie."""

    def __init__(
        self, g: Group, slot: int, bits: int, count: int, of: InstructionDescriptor, which: str,
        where: Sentence,
    ) -> None:  # fmt: skip
        self.of = of
        self.kind = of.a if which == "A" else of.b
        self.mn_major = mn_major = of.mn_major_a if which == "A" else of.mn_major_b
        self.width = BYTES.get(self.kind, 1)
        who = g.batch.describe(g.lanes)
        try:
            self.descriptor: MatrixDescriptor = decode(bits, "tcgen05")
        except DescriptorError as error:
            raise Fault("tcgen05.mma of {}: {}'s {}; {}", who, which, error, where) from error
        atoms = self.descriptor.swizzle == B128_ATOM_32B
        if mn_major and atoms != (self.width == 4):
            raise Fault(
                "tcgen05.mma of {}: {} of {} is MN-major in the {} swizzle; tf32 takes 128B with "
                "atoms of 32B for that, swizzle 1, and no other type takes it; {}",
                who, which, self.kind, self.descriptor.swizzle.name, where,
            )
        self.places = places(self.descriptor, count, row_length(of, which), self.width, mn_major)
        machine = g.batch.machine
        room = machine.reserved
        if int(self.places.max()) + self.width > room:
            raise OutOfBounds(
                "tcgen05.mma of {} reads {} up to byte {} of shared memory, and the block has {}: "
                "{}",
                who, which, int(self.places.max()), room, where,
            )
        self.base = g.batch.shared_base + slot * g.batch.shared_stride
        self.memory = machine.memory
        start = self.base + int(self.places.flat[0])
        elements = "b4x16" if of.packed else SLOTS[WIDTH[self.kind]] if self.kind in WIDTH else ""
        shape = count, row_length(of, which), self.width, mn_major
        for told in machine.told[TensorObserver.reads_tile]:
            twice = folded(self.descriptor, *shape)
            told(g, SharedTile(which, start, self.descriptor, elements, twice), where)

    def read(self) -> Array:
        """The elements, f32 [rows, k]."""
        view = getattr(self.memory, f"u{self.width}")
        shift = self.width.bit_length() - 1
        raw = view[(self._along(self.places) + self.base) >> shift]
        return self._along(from_shared_memory(raw, self.of, self.kind))

    def _along(self, table: Array) -> Array:
        """A table [rows, k], turned where the 16 elements of a slot are neighbours in M or N."""
        return table.T if self.mn_major and self.kind in WIDTH else table

    def words(self, shift: int) -> Array:
        """The words of ``1 << shift`` bytes that it lies in."""
        places = self.places
        if self.kind in WIDTH and not self.of.packed:
            places = in_slots(self._along(places), WIDTH[self.kind])
        return distinct((places + self.base) >> shift)


class TensorOperand:
    """A in the tensor memory of a block."""

    def __init__(
        self, memory: TensorMemory, lanes: Array, region: Region, shifted: bool = False
    ) -> None:
        """``shifted``: each row is the next lane's, but for the last."""
        self.memory, self.region = memory, region
        self.lanes = lanes[[*range(1, len(lanes)), -1]] if shifted else lanes

    def read(self, of: InstructionDescriptor) -> Array:
        """The elements, f32 [rows, k]."""
        cells = self.memory.cells[self.region.slot, self.lanes, self.region.columns]
        return from_tensor_memory(cells, of)


def tensor_rows(
    g: Group, memory: TensorMemory, address: int, m: int, columns: int, slot: int, name: str,
    where: Sentence,
) -> tuple[Array, Region]:  # fmt: skip
    """The lanes of a matrix with M rows, and what it covers."""
    who = say("tcgen05.mma of {}", g.batch.describe(g.lanes))
    lane, column = split(address)
    if lane not in ((0, 16) if m == 64 else (0,)):
        raise Fault(
            "{}: {} begins at lane {}; with M = {} it begins at lane {}; {}",
            who, name, lane, m, "0 or 16" if m == 64 else "0", where,
        )
    memory.reach(slot, (0, 128), (column, column + columns), say("{} of {}", name, who), where)
    halves = slice(lane // 16, 8, 2) if m == 64 else slice(0, 8)
    return rows(m, lane == 16), Region(slot, halves, slice(column, column + columns))


class Product:
    """The operands of one product: each block of a pair gives half of A's rows and half of B's."""

    def __init__(
        self, g: Group, slots: tuple[int, ...], of: InstructionDescriptor, target: int,
        a_in_tensor: bool, a: int, b: int, where: Sentence, metadata: int | None = None,
        shifted: bool = False,
    ) -> None:  # fmt: skip
        """``metadata``: of a sparse A, their address in tensor memory; ``shifted``: .ashift."""
        self.of = of
        memory = tensor_memory(g.batch)
        who = g.batch.describe(g.lanes)
        m, n = of.m // len(slots), of.n // len(slots)
        self.halved = len(slots) == 2 and m == 64 and metadata is None
        if a_in_tensor and of.mn_major_a:
            raise Fault("tcgen05.mma of {}: A in tensor memory is K-major; {}", who, where)
        self.first: list[SharedOperand | TensorOperand] = []
        self.second: list[SharedOperand] = []
        self.regions: list[Region] = []
        for slot in slots:
            height, width = (128, n) if self.halved else (m, of.n)
            lanes, region = tensor_rows(g, memory, target, height, width, slot, "D", where)
            self.regions.append(region)
            self.second.append(SharedOperand(g, slot, b, n, of, "B", where))
            if not a_in_tensor:
                self.first.append(SharedOperand(g, slot, a, m, of, "A", where))
                continue
            a_lanes, source = tensor_rows(g, memory, a, height, A_COLUMNS, slot, "A", where)
            if height == 64 and a_lanes[0] != lanes[0]:
                raise Fault(
                    "tcgen05.mma of {}: A and D begin at different lanes, {} and {}; {}",
                    who, a_lanes[0], lanes[0], where,
                )
            self.first.append(TensorOperand(memory, a_lanes, source, shifted))
        column = self.regions[0].columns.start
        self.form = of.m << 16 | of.n
        self.d = Accumulator(memory.cells, slots, lanes, column, of.m, of.n, self.halved)
        self.metadata = None if metadata is None else Metadata(
            memory, slots, metadata, lanes, of, say("tcgen05.mma.sp of {}", who), where
        )  # fmt: skip

    def tell(self, g: Group, adds: bool, scales: Sequence[Sequence[Region]] = ()) -> None:
        """Tell who listens what is read and written; ``scales``: where each block reads them."""
        machine = g.batch.machine
        for told in machine.told[TensorObserver.multiplies]:
            for i, region in enumerate(self.regions):
                first = self.first[i]
                source = first.region if isinstance(first, TensorOperand) else None
                shared = [x for x in (first, self.second[i]) if isinstance(x, SharedOperand)]
                told(
                    g, region, source, shared, adds, scales[i] if scales else (), self.form,
                    None if self.metadata is None else self.metadata.regions[i],
                )  # fmt: skip
        machine.now += 1

    def along(self) -> Array | None:
        """Of a sparse A the columns that are stored, [M, k / 2]."""
        if self.metadata is None:
            return None
        return _stacked([
            self.metadata.read(i, partial(self._stored, i)) for i in range(len(self.regions))
        ])  # fmt: skip

    def _stored(self, block: int) -> Array:
        """What a block gives of A."""
        first = self.first[block]
        return first.read(self.of) if isinstance(first, TensorOperand) else first.read()

    def work(self, multiply: Multiply, adds: bool, kept: Array | None = None) -> None:
        """Multiply; ``kept``, one a lane [blocks * 128], says which lanes are written."""
        tensor = isinstance(self.first[0], TensorOperand)
        a = _stacked([self._stored(block) for block in range(len(self.first))])
        b = _stacked([x.read() for x in self.second])
        old = self.d.read() if adds else None
        if self.halved and tensor:
            self.d.write(_by_halves(multiply, a, b, old), kept)
        else:
            self.d.write(multiply(a, b, old), kept)


Multiply = Callable[[Array, Array, Any], Array]
"""From A (M, k), B (N, k) and the old cells of D, or None, to its new ones (M, N)."""


def _stacked(parts: list[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _by_halves(multiply: Multiply, a: Array, b: Array, d: Array | None) -> Array:
    """The product of a pair with M = 128 whose A lies in tensor memory: the lanes that hold a
    half of N take A from themselves.
    """
    own = a.reshape(2, 2, 64, -1).transpose(1, 0, 2, 3).reshape(2, 128, -1)
    whole = [multiply(half, b, d) for half in own]
    middle = len(b) // 2
    return np.concatenate([whole[0][:, :middle], whole[1][:, middle:]], axis=1)


__all__ = ["A_COLUMNS", "Product", "SharedOperand", "TensorOperand", "tensor_rows"]
