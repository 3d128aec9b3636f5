"""The fifth generation of tensor cores (PTX ISA 9.7.16): tensor memory and ``tcgen05.mma``.

A warp allocates tensor memory, loads and stores its quarter of it; one thread issues matrix
products, which run beside the threads, and commits them to an mbarrier.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from phasebit.emulator.cta_pairs import blocks
from phasebit.emulator.errors import Fault
from phasebit.emulator.group import Group
from phasebit.emulator.instruction_descriptors import (
    InstructionDescriptorError,
)
from phasebit.emulator.instruction_descriptors import decode as decode_instruction
from phasebit.emulator.layout import RANK_SHIFT
from phasebit.emulator.matrix_descriptors import DescriptorError, places
from phasebit.emulator.matrix_descriptors import decode as decode_matrix
from phasebit.emulator.mbarriers import sites
from phasebit.emulator.ops.matrix import accesses, scattered, whole_warps
from phasebit.emulator.register_waits import touched_before
from phasebit.emulator.sub_byte import codes_to_containers, in_slots, slots_to_codes
from phasebit.emulator.table import Option, blocking, collective, effect
from phasebit.emulator.tensor_checks import Region
from phasebit.emulator.tensor_memory import Request, one, split, tensor_memory
from phasebit.emulator.tensor_mma import (
    Form,
    multiply,
)
from phasebit.emulator.tensor_operands import Product
from phasebit.emulator.tensor_work import issue
from phasebit.emulator.types import Array, Value

ONE_BLOCK: dict[str, Option] = {"cta_group::1": ("group", 1)}
GROUPS: dict[str, Option] = ONE_BLOCK | {"cta_group::2": ("group", 2)}
B32 = frozenset({"b32"})
B64 = frozenset({"b64"})


def executing(g: Group) -> tuple[str, int]:
    """The instruction that a group executes, in words, and the checker's number for it."""
    machine = g.batch.machine
    return machine.where(g), machine.program.executing_access() if machine.checked else -1


# -- allocating -------------------------------------------------------------------


@blocking("tcgen05.alloc.sync", "a u32", B32, section="9.7.16.7.1", options=[GROUPS],
          whole=True)  # fmt: skip
def alloc(
    g: Group, dest: Any, address: Value, count: Value, *, space: str = "generic", group: int = 1
) -> int:
    """tcgen05.alloc: a warp takes columns of tensor memory; their address goes to shared memory.

    It waits while there are not enough neighbouring ones.  With cta_group::2 a warp of each block
    of a pair takes part; each waits for the other, and both get the same columns.
    """
    resume = g.resume
    batch, machine = g.batch, g.batch.machine
    warps = whole_warps(g, "tcgen05.alloc")
    where, access = executing(g)
    counts, targets = one(g, count, "numbers of columns", where), g.spread(address)
    parts = [g] if warps == 1 else [
        g.part(np.arange(32 * w, 32 * w + 32), resume) for w in range(warps)
    ]
    free = []
    for w, warp in enumerate(parts):
        slot = int(batch.slots(warp.lanes[:1])[0])

        def grant(
            first: int, warp: Group = warp, slot: int = slot,
            target: Array = targets[32 * w : 32 * w + 1], columns: int = int(counts[w]),
        ) -> None:
            writer = Group(batch, warp.lanes[:1], warp.pc, [None] * len(warp.registers), warp.time)
            index = writer.index(target, space, 4, 2, access)
            if machine.checked:
                machine.checker.tensor.allocated(
                    batch, Region(slot, slice(0, 8), slice(first, first + columns))
                )
                writer.watch_store(writer.spread(index), accesses((0,), 4, 4, access, space))
                machine.checker.tensor.wrote_address(warp)
            machine.memory.u4[index] = first

        request = Request(slot, int(counts[w]), warp, where, grant)
        slots = blocks(warp, group, "tcgen05.alloc", where)
        if tensor_memory(batch).allocate(request, resume, slots):
            free.append(warp)
    machine.counters.add("tcgen05.allocations", warps)
    if warps == 1:
        return resume if free else -1
    for warp in free:
        warp.pc = resume
        machine.make_ready(warp)
    return -1


@collective("tcgen05.dealloc.sync", "u32 u32", B32, section="9.7.16.7.1", options=[ONE_BLOCK])
def dealloc(g: Group, address: Value, count: Value, *, group: int = 1) -> None:
    """tcgen05.dealloc: a warp gives columns back, as many as were allocated at that address."""
    memory = tensor_memory(g.batch)
    for lanes, slot, start, number, where in _given_back(g, address, count):
        memory.free(lanes, slot, start, number, where)


@blocking("tcgen05.dealloc.sync.cta_group::2", "u32 u32", B32, section="9.7.16.7.1", whole=True)
def dealloc_pair(g: Group, dest: Any, address: Value, count: Value) -> int:
    """tcgen05.dealloc.cta_group::2: a warp of each block of a pair gives their columns back.

    Each waits for the other.
    """
    resume = g.resume
    memory = tensor_memory(g.batch)
    found = _given_back(g, address, count)
    parts = [g] if len(found) == 1 else [
        g.part(np.arange(32 * w, 32 * w + 32), resume) for w in range(len(found))
    ]
    for part, (_, slot, start, number, where) in zip(parts, found, strict=True):
        slots = blocks(part, 2, "tcgen05.dealloc", where)
        done = memory.free_pair(part, slots, slot, start, number, where, resume)
        if done and len(parts) == 1:
            return resume
        if done:
            part.pc = resume
            g.batch.machine.make_ready(part)
    return -1


def _given_back(
    g: Group, address: Value, count: Value
) -> list[tuple[Array, int, int, int, str]]:
    """For each warp: its lanes, its block, address and number of columns, the instruction."""
    batch = g.batch
    whole_warps(g, "tcgen05.dealloc")
    where, access = executing(g)
    counts = one(g, count, "numbers of columns", where)
    found = []
    for w, start in enumerate(one(g, address, "addresses", where)):
        lanes = g.lanes[32 * w : 32 * w + 32]
        slot = int(batch.slots(lanes[:1])[0])
        if batch.machine.checked:
            first = split(start)[1]
            region = Region(slot, slice(0, 8), slice(first, min(first + int(counts[w]), 512)))
            if first < 512:
                batch.machine.checker.tensor.deallocated(g, lanes, region, access)
        found.append((lanes, slot, int(start), int(counts[w]), where))
    return found


@collective("tcgen05.relinquish_alloc_permit.sync", "", section="9.7.16.7.1", options=[GROUPS])
def relinquish_alloc_permit(g: Group, *, group: int = 1) -> None:
    """tcgen05.relinquish_alloc_permit: the block will allocate no more."""
    whole_warps(g, "tcgen05.relinquish_alloc_permit")
    for slot in np.unique(g.batch.slots(g.lanes)).tolist():
        tensor_memory(g.batch).relinquished[slot] = g.batch.machine.where(g)


# -- loading and storing ------------------------------------------------------------

SHAPES: dict[str, Option] = {
    word: ("shape", word) for word in ("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2")
}
TIMES: dict[str, Option] = {f"x{n}": ("times", n) for n in (1, 2, 4, 8, 16, 32, 64, 128)}
REGISTERS = {"32x32b": 1, "16x64b": 1, "16x32bx2": 1, "16x128b": 2, "16x256b": 4}
"""Registers of a thread for .x1."""


@functools.cache
def cells(shape: str, registers: int, apart: int) -> tuple[Array, Array]:
    """Row and column that register j of lane t holds, counted from the address: [32, registers].

    ``apart``: how many columns further the second half of 16x32bx2 begins.
    """
    t, j = np.arange(32)[:, None], np.arange(registers)[None, :]
    zero = 0 * (t + j)
    if shape == "32x32b":
        return t + zero, j + zero
    if shape == "16x64b":
        return (t >> 2) + 8 * (t & 1) + zero, (t >> 1 & 1) + 2 * j
    if shape == "16x128b":
        return (t >> 2) + 8 * (j & 1), (t & 3) + 4 * (j >> 1)
    if shape == "16x256b":
        return (t >> 2) + 8 * (j >> 1 & 1), 2 * (t & 3) + (j & 1) + 8 * (j >> 2)
    return (t & 15) + zero, j + apart * (t >> 4)


class Access:
    """Where the warps of a group reach in tensor memory: checked for each, one index for all.

    Where all warps give the address of the first quarter, each is given its own, and that is
    reported: the PTX ISA does not allow it (9.7.16.8.1), but DeepGEMM and TileLang count on it.
    """

    def __init__(
        self, g: Group, address: Value, shape: str, times: int, registers: int, apart: int,
        halved: bool, name: str,
    ) -> None:  # fmt: skip
        warps = whole_warps(g, name)
        self.where, self.access = executing(g)
        needed = REGISTERS[shape] * times
        if needed != registers or registers > 128:
            raise Fault(
                f"{name}.{shape}.x{times} has {needed} registers a thread (at most 128), not "
                f"{registers}: {self.where}"
            )
        row, column = cells(shape, registers, apart)
        self.regions: list[tuple[Array, Region]] = []
        memory = tensor_memory(g.batch)
        first_lane, first_column, slots = [], [], []
        height = 32 if shape == "32x32b" else 16
        wide = 2 if halved else 1
        spans = [(0, wide * (int(column.max()) + 1))]
        if shape == "16x32bx2":
            spans = [(0, wide * registers), (wide * apart, wide * (apart + registers))]
        for w, start in enumerate(one(g, address, "addresses", self.where)):
            lanes = g.lanes[32 * w : 32 * w + 32]
            who = g.batch.describe(lanes)
            lane, at = split(start)
            warp = int(lanes[0]) % g.batch.threads // 32
            quarter = 32 * (warp % 4)
            if not quarter <= lane <= quarter + 31:
                why = (
                    f"{who} reaches lanes {lane}-{lane + height - 1} of tensor memory: "
                    f"{self.where}; warp w reaches only lanes 32 (w % 4) to 32 (w % 4) + 31, here "
                    f"{quarter}-{quarter + 31}: add (w % 4) << 21 to the address"
                )
                if lane > 31:
                    raise Fault(why)
                lane += quarter
                if g.batch.machine.checked:
                    g.batch.machine.checker.tensor.wrong_quarter(why, self.where)
            if (lane - quarter) % height:
                raise Fault(
                    f"{who} begins at lane {lane} of tensor memory: {self.where}; the shape "
                    f"{shape} begins at a multiple of {height}"
                )
            slot = int(g.batch.slots(lanes[:1])[0])
            halves = slice(lane // 16, (lane + height) // 16)
            for low, high in spans:
                memory.reach(slot, (lane, lane + height), (at + low, at + high), who, self.where)
                self.regions.append((lanes, Region(slot, halves, slice(at + low, at + high))))
            first_lane.append(lane)
            first_column.append(at)
            slots.append(slot)
        self.memory = memory.cells
        self.slots = np.array(slots)[:, None, None]
        self.rows = np.array(first_lane)[:, None, None] + row
        self.columns = np.array(first_column)[:, None, None] + wide * column
        self.warps = warps


PACK: dict[str, Option] = {"pack::16b": ("halved", True)}
UNPACK: dict[str, Option] = {"unpack::16b": ("halved", True)}
TWICE = {"16x32bx2": SHAPES["16x32bx2"]}
ONCE = {word: option for word, option in SHAPES.items() if word not in TWICE}


@collective("tcgen05.ld.sync", "a -> *b32", B32, section="9.7.16.8.3",
            options=[ONCE, TIMES, PACK])  # fmt: skip
@collective("tcgen05.ld.sync", "a u32 -> *b32", B32, section="9.7.16.8.3",
            options=[TWICE, TIMES, PACK])  # fmt: skip
def ld(
    g: Group, address: Value, apart: Value = None, *, shape: str, times: int,
    halved: bool = False,
) -> tuple[Array, ...]:  # fmt: skip
    """tcgen05.ld: a warp loads from its quarter of tensor memory into registers.

    They may be used after tcgen05.wait::ld.  With .pack::16b a register takes the low halves of
    two neighbouring columns.

    CuTe DSL leaves the wait away where its loads are not inline assembly, and Triton's optimizer
    uses registers before it.  ptxas lets the first use of a register wait for the load, as for any
    load (seen in the SASS of both forms: the wait is an empty instruction), so in the text of
    these compilers that is no hazard.
    """
    machine = g.batch.machine
    registers = REGISTERS[shape] * times
    found = Access(g, address, shape, times, registers, int(apart or 0), halved, "tcgen05.ld")
    values = found.memory[found.slots, found.rows, found.columns]
    if halved:
        high = found.memory[found.slots, found.rows, found.columns + 1]
        values = (values & np.uint32(0xFFFF)) | high << np.uint32(16)
    machine.counters.add("tcgen05.ld.registers", g.n * registers)
    if machine.checked:
        for lanes, region in found.regions:
            machine.checker.tensor.load(g, lanes, region, found.access)
        _watch_registers(g, found)
    return scattered(values)


def _watch_registers(g: Group, found: Access) -> None:
    """Report what uses the registers of a load before it is waited for."""
    machine = g.batch.machine
    instruction = machine.program.executing()
    assert instruction is not None
    early = touched_before(machine.program, instruction, "wait::ld")
    if early is not None and instruction.generated:
        for lanes, _ in found.regions:
            machine.checker.tensor.waited(g, lanes, "ld")
    elif early is not None:
        user, register = early
        machine.checker.findings.report(
            "async",
            f"`{user.text}` at {user.where} uses {register} before tcgen05.wait::ld: the load may "
            f"still be under way: `{instruction.text}` at {instruction.where}",
            -1, ("register", instruction, user), user,
        )  # fmt: skip


@collective("tcgen05.st.sync", "a *b32", B32, section="9.7.16.8.4",
            options=[ONCE, TIMES, UNPACK])  # fmt: skip
def st(
    g: Group, address: Value, registers: Sequence[Value], *, shape: str, times: int,
    halved: bool = False, apart: int = 0,
) -> None:  # fmt: skip
    """tcgen05.st: a warp stores registers into its quarter of tensor memory.

    Others may look after tcgen05.wait::st.  With .unpack::16b the halves of a register go to the
    low halves of two neighbouring columns.
    """
    machine = g.batch.machine
    count = len(registers)
    found = Access(g, address, shape, times, count, apart, halved, "tcgen05.st")
    values = np.stack([g.spread(r) for r in registers], axis=1).reshape(found.warps, 32, count)
    if machine.checked:
        for lanes, region in found.regions:
            machine.checker.tensor.store(g, lanes, region, found.access)
    if halved:
        found.memory[found.slots, found.rows, found.columns + 1] = values >> np.uint32(16)
        values = values & np.uint32(0xFFFF)
    found.memory[found.slots, found.rows, found.columns] = values
    machine.counters.add("tcgen05.st.registers", g.n * count)


@collective("tcgen05.st.sync", "a u32 *b32", B32, section="9.7.16.8.4",
            options=[TWICE, TIMES, UNPACK])  # fmt: skip
def st_apart(
    g: Group, address: Value, apart: Value, registers: Sequence[Value], *, shape: str, times: int,
    halved: bool = False,
) -> None:  # fmt: skip
    """tcgen05.st.16x32bx2: two blocks of 16 lanes, the second some columns further."""
    st(g, address, registers, shape=shape, times=times, halved=halved, apart=int(apart))


@collective("tcgen05.wait::ld.sync", "", section="9.7.16.8.5")
def wait_ld(g: Group) -> None:
    """tcgen05.wait::ld: the warp's loads have come; their registers may be used."""
    _waited(g, "ld")


@collective("tcgen05.wait::st.sync", "", section="9.7.16.8.5")
def wait_st(g: Group) -> None:
    """tcgen05.wait::st: the warp's stores are done."""
    _waited(g, "st")


def _waited(g: Group, word: str) -> None:
    machine = g.batch.machine
    warps = whole_warps(g, f"tcgen05.wait::{word}")
    if machine.checked:
        for w in range(warps):
            machine.checker.tensor.waited(g, g.lanes[32 * w : 32 * w + 32], word)
        machine.now += 1


# -- multiplying --------------------------------------------------------------------

KINDS: dict[str, Option] = {
    f"kind::{word}": ("form", word) for word in ("f16", "tf32", "f8f6f4", "i8")
}
COLLECTOR: dict[str, Option] = {
    f"collector::a::{word}": ("collector", word)
    for word in ("fill", "use", "lastuse", "discard")
}  # fmt: skip


@effect("tcgen05.mma", "a any b64 u32 any any any", None, section="9.7.16.10.9.1",
        options=[GROUPS, KINDS, COLLECTOR], optional=2)  # fmt: skip
def mma(
    g: Group, target: Value, a: tuple[str, Value], b: Value, descriptor: Value, *rest: Any,
    form: str, group: int = 1, collector: str = "",
) -> None:  # fmt: skip
    """tcgen05.mma: D = A·B + D, or A·B, for a block or a pair of them; D lies in tensor memory.

    One thread issues it, and it runs beside the threads until a tcgen05.commit's mbarrier tells
    that it is done.  How it rounds is an assumption: that of the tensor core's model for Blackwell.
    """
    machine = g.batch.machine
    where, access = executing(g)
    masks, accumulate, scale = _rest(rest, 4 * group, where)
    if g.n > 1 and machine.checked and len(np.unique(g.batch.warp_of[g.lanes])) < g.n:
        machine.checker.tensor.issued_by_many(g, "tcgen05.mma", access)
    values = [g.spread(x) for x in (target, a[1], b, descriptor, accumulate)]
    masked = [g.spread(x) for x in masks]
    for i in range(g.n):
        thread = g if g.n == 1 else g.part(np.array([i]), g.pc)
        d_at, a_at, b_bits, bits, adds = (x[i] for x in values)
        _one_mma(
            thread, int(d_at), a[0] == "a", int(a_at), int(b_bits), int(bits), bool(adds), scale,
            [int(x[i]) for x in masked], form, group, where, access,
        )  # fmt: skip
    machine.counters.add("tcgen05.mma", g.n)


def _rest(
    rest: Sequence[tuple[str, Any]], words: int, where: str
) -> tuple[tuple[Value, ...], Value, int]:
    """The operands after the instruction descriptor: lane mask, whether D is added, its scale."""
    left = list(rest)
    masks: tuple[Value, ...] = ()
    if left and left[0][0] == "*b32":
        masks = left.pop(0)[1]
        if len(masks) != words:
            raise Fault(
                f"tcgen05.mma takes a mask of {words} words, four for each block, not "
                f"{len(masks)}: {where}"
            )
    if not left or left[0][0] != "pred" or len(left) > 2:
        raise Fault(f"tcgen05.mma wants a predicate that says whether D is added: {where}")
    scale = int(np.max(left[1][1])) if len(left) > 1 else 0
    if not 0 <= scale <= 15:
        raise Fault(f"tcgen05.mma scales D by 2 to the power of -{scale}; 0 to 15: {where}")
    return masks, left[0][1], scale


def _one_mma(
    g: Group, target: int, a_in_tensor: bool, a: int, b: int, bits: int, adds: bool, scale: int,
    masks: Sequence[int], kind: str, group: int, where: str, access: int,
) -> None:  # fmt: skip
    """What one thread issues; each block of a pair gives half of A's rows and half of B's."""
    batch = g.batch
    who = batch.describe(g.lanes)
    slots = blocks(g, group, "tcgen05.mma", where)
    try:
        of = decode_instruction(bits, kind, group)
    except InstructionDescriptorError as error:
        raise Fault(f"tcgen05.mma of {who}: {error}; {where}") from error
    if scale and kind not in ("f16", "tf32"):
        raise Fault(f"tcgen05.mma of {who}: kind::{kind} does not scale D; {where}")
    product = Product(g, slots, of, target, a_in_tensor, a, b, where)
    if batch.machine.checked:
        product.note(g, access, adds)
    kept: Array | None = None
    if masks:
        kept = np.unpackbits(np.array(masks, "<u4").view(np.uint8), bitorder="little") == 0
    form = Form(of, scale)

    def work() -> None:
        product.work(lambda first, second, old: multiply(first, second, old, form), adds, kept)

    issue(batch, int(g.lanes[0]), work)


SPREADS = {
    "128x256b": (128, 32, ((0, 0, 128),)),
    "128x128b": (128, 16, ((0, 0, 128),)),
    "64x128b.warpx2::02_13": (64, 16, ((0, 0, 64), (64, 0, 64))),
    "64x128b.warpx2::01_23": (64, 16, ((0, 0, 32), (32, 0, 32), (64, 32, 64), (96, 32, 64))),
    "32x128b.warpx4": (32, 16, tuple((lane, 0, 32) for lane in (0, 32, 64, 96))),
    "4x256b": (4, 32, tuple((32 * row, row, row + 1) for row in range(4))),
}
"""Of each shape of ``tcgen05.cp``: rows, bytes of a row, and which rows go where: first lane,
first row, one past the last row."""


CP_SHAPES: dict[str, Option] = {
    word: ("shape", word) for word in ("128x256b", "4x256b", "128x128b", "64x128b", "32x128b")
}
MULTICASTS: dict[str, Option] = {
    word: ("multicast", "." + word) for word in ("warpx2::02_13", "warpx2::01_23", "warpx4")
}
FORMATS: dict[str, Option] = {"b4x16_p64": ("narrow", 4), "b6x16_p32": ("narrow", 6)}


@effect("tcgen05.cp", "a b64", None, section="9.7.16.9.2",
        options=[GROUPS, CP_SHAPES, MULTICASTS])  # fmt: skip
@effect("tcgen05.cp.b8x16", "a b64", None, section="9.7.16.9.2",
        options=[GROUPS, CP_SHAPES, MULTICASTS, FORMATS])  # fmt: skip
def cp(
    g: Group, target: Value, descriptor: Value, *, shape: str, multicast: str = "",
    narrow: int = 0, group: int = 1,
) -> None:  # fmt: skip
    """tcgen05.cp: rows of bytes from shared to tensor memory, in the queue with the products.

    A product that the same thread issues later finds them there.  .4x256b: row r to lane
    32 r after the address's.  .b8x16: numbers of 4 or 6 bits in slots of 16 bytes get a byte each.
    """
    batch, machine = g.batch, g.batch.machine
    where, access = executing(g)
    if shape + multicast not in SPREADS:
        known = ", ".join(SPREADS)
        raise Fault(f"there is no tcgen05.cp.{shape}{multicast}: {where}; there are {known}")
    count, width, parts = SPREADS[shape + multicast]
    memory = tensor_memory(batch)
    for i, (to, bits) in enumerate(zip(g.spread(target), g.spread(descriptor), strict=True)):
        thread = g if g.n == 1 else g.part(np.array([i]), g.pc)
        who = f"tcgen05.cp of {batch.describe(thread.lanes)}"
        lane, column = split(to)
        if lane and (shape != "4x256b" or lane > 31):
            most = "one of the lanes 0-31" if shape == "4x256b" else "lane 0"
            raise Fault(f"{who} begins at lane {lane}; {shape} begins at {most}; {where}")
        columns = slice(column, column + width // 4)
        try:
            offsets = places(decode_matrix(int(bits), "tcgen05"), count, width, 1, False)
        except DescriptorError as error:
            raise Fault(f"{who}: {error}; {where}") from error
        if int(offsets.max()) >= machine.reserved:
            raise Fault(
                f"{who} reads up to byte {int(offsets.max())} of shared memory, and the block has "
                f"{machine.reserved}: {where}"
            )
        for slot in blocks(thread, group, "tcgen05.cp", where):
            memory.reach(slot, (0, 128), (columns.start, columns.stop), who, where)
            at = offsets + batch.shared_base + slot * batch.shared_stride
            if machine.checked:
                looked = in_slots(at, narrow) if narrow else at
                words = np.unique(looked >> machine.checker.races.shift)
                halves = slice(lane // 16, 8, 2) if shape == "4x256b" else slice(0, 8)
                region = Region(slot, halves, columns)
                machine.checker.tensor.multiply(
                    thread, access, region, None, words, False, "a tcgen05.cp"
                )
                machine.now += 1

            def work(
                at: Array = at, slot: int = slot, lane: int = lane, columns: slice = columns
            ) -> None:
                found = np.ascontiguousarray(machine.memory.u1[at])
                if narrow:
                    found = codes_to_containers(slots_to_codes(found, narrow), narrow)
                for first, low, high in parts:
                    to = slice(lane + first, lane + first + high - low)
                    memory.cells[slot, to, columns] = found[low:high].view(np.uint32)

            issue(batch, int(thread.lanes[0]), work)


@effect("tcgen05.commit.mbarrier::arrive::one", "a", B64, section="9.7.16.12.1",
        options=[GROUPS], releases=True)  # fmt: skip
@effect("tcgen05.commit.mbarrier::arrive::one.multicast::cluster", "a b16", B64,
        section="9.7.16.12.1", options=[GROUPS], releases=True)  # fmt: skip
def commit(
    g: Group, address: Value, mask: Value = None, *, space: str = "generic", group: int = 1
) -> None:
    """tcgen05.commit: an mbarrier gets an arrival when this thread's operations so far are done.

    With .multicast::cluster so do those at the same place in the blocks of the mask.
    """
    machine = g.batch.machine
    where, access = executing(g)
    if g.n > 1 and machine.checked and len(np.unique(g.batch.warp_of[g.lanes])) < g.n:
        machine.checker.tensor.issued_by_many(g, "tcgen05.commit", access)
    addresses = g.spread(address)
    for i in range(g.n):
        thread = g if g.n == 1 else g.part(np.array([i]), g.pc)
        where_to = addresses[i : i + 1]
        if mask is not None:
            ranks = [r for r in range(16) if int(g.spread(mask)[i]) >> r & 1]
            if not ranks:
                raise Fault(f"tcgen05.commit to no block, for its mask is 0: {where}")
            offset = int(where_to[0]) & ((1 << RANK_SHIFT) - 1)
            where_to = np.array([offset | r << RANK_SHIFT for r in ranks], where_to.dtype)
        for to in where_to:
            ((site, _),) = sites(thread, np.array([to]), space)
            known = machine.checker.tensor.commit(thread, site) if machine.checked else None

            def arrive(site: Any = site, thread: Group = thread, known: Any = known) -> None:
                if known is not None:
                    machine.checker.tensor.committed(site, known)
                site.operate(thread, "arrive", 1)

            issue(g.batch, int(thread.lanes[0]), arrive, signals=True)
    if machine.checked:
        machine.now += 1


@effect("tcgen05.fence::before_thread_sync", "", section="9.7.16.11.1", releases=True)
def fence_before(g: Group) -> None:
    """tcgen05.fence::before_thread_sync: the thread's tensor operations, then its next barrier.

    Nothing here runs ahead of a fence; the checker notes it.
    """
    if g.batch.machine.checked:
        g.batch.machine.checker.tensor.fenced_before(g)


@effect("tcgen05.fence::after_thread_sync", "", section="9.7.16.11.1", releases=True)
def fence_after(g: Group) -> None:
    """tcgen05.fence::after_thread_sync: the thread's last barrier, then its tensor operations."""
    if g.batch.machine.checked:
        g.batch.machine.checker.tensor.fenced_after(g)
