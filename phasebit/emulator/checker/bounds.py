"""Is an address valid?  Within its allocation, aligned to its width (PTX ISA 6.4.1, 5.1).

An invalid access ends the kernel, as it does on a GPU, but says where it went.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from phasebit.emulator.checker.reports import Findings
from phasebit.emulator.errors import Fault, Misaligned, OutOfBounds, UseAfterFree
from phasebit.emulator.findings import Address, Said, Sentence, say
from phasebit.emulator.machine.device_memory import GRANULE, Allocation
from phasebit.emulator.machine.group import AccessObserver, Group
from phasebit.emulator.machine.scheduler import Machine
from phasebit.emulator.ptx.placement import GLOBAL_BASE
from phasebit.emulator.ptx.types import Array, Value


class Part(NamedTuple):
    """One access of those that a check covers."""

    place: Sentence
    start: int  # bytes from the first address that was checked
    width: int  # bytes
    align: int


class Bounds(AccessObserver):
    """Checks every address once for each base register and block."""

    def __init__(self, machine: Machine, findings: Findings) -> None:
        self.machine = machine
        self.findings = findings
        self.last: dict[int, Allocation] = {}
        """Access -> the allocation that it reached last time."""
        self.reserved = any(
            "%reserved_smem" in instruction.text
            for block in machine.program.blocks for instruction in block.body
        )  # fmt: skip
        """Whether the program asks where the system's own shared memory is: then it may use it."""

    def shared_addresses(self, g: Group, first: Value, span: int, align: int, access: int) -> None:
        """Shared addresses: within the block's static and dynamic variables."""
        size = self.machine.shared_size
        offset = first & first.dtype.type(0xFFFFFFFF) if first.dtype.itemsize == 8 else first
        if self.machine.cluster_size > 1:
            offset = offset & first.dtype.type(0xFFFFFF)
        if isinstance(offset, np.ndarray):
            bits = int(np.bitwise_or.reduce(offset))  # no offset is larger: one pass does mostly
            bad = bits + span > size and int(offset.max()) + span > size
            crooked = align > 1 and bits & (align - 1)
        else:
            bad = int(offset) + span > size
            crooked = align > 1 and int(offset) & (align - 1)
        if bad or crooked:
            addresses = g.spread(offset).astype(np.int64)
            reserved = self.machine.reserved
            system = (addresses >= reserved) & (addresses < reserved + 1024)
            allowed = system & (self.reserved and not crooked)
            for part in self._parts(access, span, align):
                theirs = addresses + part.start
                outside = (theirs + part.width > size) & ~allowed
                wrong = outside if bad else theirs % part.align != 0
                if wrong.any():
                    self._shared_fault(g, theirs, wrong, size, part)

    def _parts(self, access: int, span: int, align: int) -> list[Part]:
        """The accesses that one check covers, in order, and at last their span as a whole."""
        covered = self.machine.program.covered.get(access, [])
        parts = [
            Part(say("`{}` at {}", each.text, each.where), start, width, width)
            for each, start, width in covered
        ]
        return [*parts, Part(self.findings.place(access), 0, span, align)]

    def _shared_fault(
        self, g: Group, addresses: Array, wrong: Array, size: int, part: Part
    ) -> None:
        i = int(np.flatnonzero(wrong)[0])
        address = int(addresses[i])
        who = g.batch.describe(g.lanes[i : i + 1])
        name, offset = self.machine.program.layout.shared_place(address)
        kind: type[Fault] = OutOfBounds
        if address < size:
            why = "reaches past the end"
            if address % part.align:
                kind, why = Misaligned, f"is misaligned: not a multiple of {part.align}"
        else:
            why = f"lies outside of the block's {size} bytes"
        raise kind(
            "invalid shared access by {}: address {} {}; {}",
            who, Address("shared", address, name, offset, f"{address} ({name}+{offset})"), why,
            part.place,
        )

    def local_addresses(self, g: Group, first: Value, span: int, align: int, access: int) -> None:
        """Local addresses: within the thread's stack frames."""
        size = g.batch.local_stride
        offset = g.spread(first).astype(np.int64) & 0xFFFFFFFF
        wrong = (offset + span > size) | (offset % align != 0)
        if not wrong.any():
            return
        for part in self._parts(access, span, align):
            theirs = offset + part.start
            wrong = (theirs + part.width > size) | (theirs % part.align != 0)
            if wrong.any():
                i = int(np.flatnonzero(wrong)[0])
                raise OutOfBounds(
                    "invalid local access by {}: address {} of a stack of {} bytes; {}",
                    g.batch.describe(g.lanes[i:i + 1]), int(theirs[i]), size, part.place,
                )

    def global_addresses(self, g: Group, first: Value, span: int, align: int, access: int) -> None:
        """Global addresses: within one allocation."""
        if isinstance(first, np.ndarray):
            low, high = int(first.min()), int(first.max())
            crooked = align > 1 and int(np.bitwise_or.reduce(first)) & (align - 1)
        else:
            low = high = int(first)
            crooked = align > 1 and low & (align - 1)
        known = self.last.get(access)
        if known is not None and not crooked:
            start = known.address
            if start <= low and high + span <= start + known.size:
                return
        allocation = self.machine.memory.find(low - GLOBAL_BASE)
        if (
            allocation is not None
            and not crooked
            and high + span <= allocation.address + allocation.size
        ):
            self.last[access] = allocation
            return
        addresses = g.spread(first)
        if not self._all_inside(addresses, span, align):
            for part in self._parts(access, span, align):
                self._each(g, addresses + addresses.dtype.type(part.start), part)

    def _all_inside(self, addresses: Array, span: int, align: int) -> bool:
        """Thread by thread, since they may name several allocations."""
        find = self.machine.memory.find
        owners: dict[int, Allocation | None] = {}
        for address in addresses.tolist():
            offset = address - GLOBAL_BASE
            if offset // GRANULE not in owners:
                owners[offset // GRANULE] = find(offset)
            owner = owners[offset // GRANULE] or find(offset)
            if owner is None or address % align:
                return False
            if not owner.start <= offset <= owner.start + owner.size - span:
                return False
        return True

    def _each(self, g: Group, addresses: Array, part: Part) -> None:
        """What is wrong with the first address that is."""
        memory = self.machine.memory
        for i, address in enumerate(addresses.tolist()):
            offset = address - GLOBAL_BASE
            owner = memory.find(offset)
            inside = owner is not None and owner.start <= offset and (
                offset + part.width <= owner.start + owner.size
            )  # fmt: skip
            if inside and address % part.align == 0:
                continue
            who = g.batch.describe(g.lanes[i : i + 1])
            kind: type[Fault] = OutOfBounds
            name, within = "", 0
            why: Said
            if owner is not None and owner.start <= offset:
                name, within = owner.name, offset - owner.start
            if inside:
                kind, why = Misaligned, f"is misaligned: not a multiple of {part.align}"
            elif owner is not None and owner.start <= offset < owner.start + owner.size:
                past = offset + part.width - owner.start - owner.size
                why = f"reaches {past} bytes past the end of {owner.name or 'its array'} " \
                      f"({owner.size} bytes)"  # fmt: skip
            else:
                why = say("is {}", memory.near(offset) if offset >= 0 else "no address of an array")
                if memory.was_freed(offset):
                    kind = UseAfterFree
            raise kind(
                "invalid global access by {}: address {} {}; {}",
                who, Address("global", address, name, within, f"{address:#x}"), why, part.place,
            )
