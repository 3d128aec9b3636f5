"""The fifth generation of tensor cores (PTX ISA 9.7.16): tensor memory and ``tcgen05.mma``.

A warp allocates tensor memory, loads and stores its quarter of it; one thread issues matrix
products, which run beside the threads, and commits them to an mbarrier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from phasebit.emulator.errors import Fault
from phasebit.emulator.findings import Sentence, say
from phasebit.emulator.machine.barrier_sites import sites
from phasebit.emulator.machine.group import Group
from phasebit.emulator.numbers.sub_byte import codes_to_containers, in_slots, slots_to_codes
from phasebit.emulator.numbers.words import distinct
from phasebit.emulator.ops.tcgen05_access import REGISTERS, Access, executing
from phasebit.emulator.ops.warp_matrices import accesses, scattered, whole_warps
from phasebit.emulator.ptx.operands import items_of, misfit
from phasebit.emulator.ptx.placement import RANK_SHIFT
from phasebit.emulator.ptx.syntax import Instruction
from phasebit.emulator.ptx.table import Option, Selected, Traits, blocking, collective, effect
from phasebit.emulator.ptx.types import Array, Value, dtype
from phasebit.emulator.tensor_core.cta_pairs import blocks
from phasebit.emulator.tensor_core.instruction_descriptors import (
    InstructionDescriptorError,
)
from phasebit.emulator.tensor_core.instruction_descriptors import decode as decode_instruction
from phasebit.emulator.tensor_core.matrix_descriptors import DescriptorError, places
from phasebit.emulator.tensor_core.matrix_descriptors import decode as decode_matrix
from phasebit.emulator.tensor_core.regions import Region
from phasebit.emulator.tensor_core.tensor_memory import Request, one, split, tensor_memory
from phasebit.emulator.tensor_core.tensor_mma import (
    Form,
    multiply,
)
from phasebit.emulator.tensor_core.tensor_observer import Commit, SharedTile, TensorObserver
from phasebit.emulator.tensor_core.tensor_operands import Product
from phasebit.emulator.tensor_core.tensor_work import issue

ONE_BLOCK: dict[str, Option] = {"cta_group::1": ("group", 1)}
FILLED_LATER = Traits(registers="filled later")
GROUPS: dict[str, Option] = ONE_BLOCK | {"cta_group::2": ("group", 2)}
B32 = frozenset({"b32"})
B64 = frozenset({"b64"})


# -- allocating -------------------------------------------------------------------


@blocking("tcgen05.alloc.sync", "a u32", B32, section="9.7.16.7.1", options=[GROUPS],
          traits=Traits(allocates=True), whole=True)  # fmt: skip
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
            for allocated in machine.told[TensorObserver.allocated]:
                allocated(warp, Region(slot, slice(0, 8), slice(first, first + columns)))
            writer.watch_store(writer.spread(index), accesses((0,), 4, 4, access, space))
            for wrote in machine.told[TensorObserver.wrote_address]:
                wrote(warp)
            machine.memory.u4[index] = first

        request = Request(slot, int(counts[w]), warp, where, grant)
        slots = blocks(warp, group, "tcgen05.alloc", where)
        if tensor_memory(batch).allocate(request, resume, slots):
            free.append(warp)
    for asks in machine.told[TensorObserver.asks_for_columns]:
        asks(g, warps)
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
) -> list[tuple[Array, int, int, int, Sentence]]:
    """For each warp: its lanes, its block, address and number of columns, the instruction."""
    batch = g.batch
    whole_warps(g, "tcgen05.dealloc")
    where, _ = executing(g)
    counts = one(g, count, "numbers of columns", where)
    found = []
    for w, start in enumerate(one(g, address, "addresses", where)):
        lanes = g.lanes[32 * w : 32 * w + 32]
        slot = int(batch.slots(lanes[:1])[0])
        first = split(start)[1]
        region = Region(slot, slice(0, 8), slice(first, min(first + int(counts[w]), 512)))
        for told in batch.machine.told[TensorObserver.deallocates] if first < 512 else ():
            told(g, lanes, region)
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



PACK: dict[str, Option] = {"pack::16b": ("halved", True)}
UNPACK: dict[str, Option] = {"unpack::16b": ("halved", True)}
TWICE = {"16x32bx2": SHAPES["16x32bx2"]}
ONCE = {word: option for word, option in SHAPES.items() if word not in TWICE}


@collective("tcgen05.ld.sync", "a -> *b32", B32, section="9.7.16.8.3",
            options=[ONCE, TIMES, PACK], traits=FILLED_LATER)  # fmt: skip
@collective("tcgen05.ld.sync", "a u32 -> *b32", B32, section="9.7.16.8.3",
            options=[TWICE, TIMES, PACK], traits=FILLED_LATER)  # fmt: skip
def ld(
    g: Group, address: Value, apart: Value = None, *, shape: str, times: int,
    halved: bool = False,
) -> tuple[Array, ...]:  # fmt: skip
    """tcgen05.ld: a warp loads from its quarter of tensor memory into registers.

    Whoever uses one waits for its value (9.7.16.6.4.5); that the cells are free again says
    tcgen05.wait::ld alone.  With .pack::16b a register takes the low halves of
    two neighbouring columns.
    """
    registers = REGISTERS[shape] * times
    found = Access(g, address, shape, times, registers, int(apart or 0), halved, "tcgen05.ld")
    values = found.memory[found.slots, found.rows, found.columns]
    if halved:
        high = found.memory[found.slots, found.rows, found.columns + 1]
        values = (values & np.uint32(0xFFFF)) | high << np.uint32(16)
    for told in g.batch.machine.told[TensorObserver.loads_columns]:
        told(g, found.regions, registers)
    return scattered(values)


EXTREMES: dict[str, Option] = {"min": ("op", "min"), "max": ("op", "max")}
OF_FLOATS: dict[str, Option] = {"abs": ("abs_", True), "NaN": ("nan", True)}


def check_reduced(instruction: Instruction, chosen: Selected) -> None:
    """Two registers at least; and of which columns the result is must be said."""
    if chosen.options["shape"] != "32x32b":
        raise misfit(
            instruction,
            "of tcgen05.ld.red the emulator knows .32x32b: the PTX ISA does not say whether the "
            "result of .16x32bx2 is of one half of its columns or of both",
        )
    if chosen.options["times"] < 2 or len(items_of(instruction.operands[0])) < 2:
        raise misfit(instruction, "tcgen05.ld.red needs .x2 or more, and a register for its result")


@collective("tcgen05.ld.red.sync", "a u32 -> *b32", {"u32", "s32"}, section="9.7.16.8.3",
            options=[SHAPES, TIMES, EXTREMES], optional=1,
            traits=replace(FILLED_LATER, check=check_reduced))  # fmt: skip
@collective("tcgen05.ld.red.sync", "a u32 -> *b32", {"f32"}, section="9.7.16.8.3",
            options=[SHAPES, TIMES, EXTREMES, OF_FLOATS], optional=1,
            traits=replace(FILLED_LATER, check=check_reduced))  # fmt: skip
def ld_red(
    g: Group, address: Value, apart: Value = None, *, kind: str, shape: str, times: int, op: str,
    abs_: bool = False, nan: bool = False,
) -> tuple[Array, ...]:  # fmt: skip
    """tcgen05.ld.red: as tcgen05.ld, and the least or greatest of a thread's words (sm_103a).

    The register of that is the last of the results.  A NaN counts only where all are, or with
    .NaN; -0 is less than +0: so says the PTX ISA of redux.sync, of this it says nothing.
    """
    loaded = ld(g, address, shape=shape, times=times)
    words = np.stack(loaded, axis=1)
    if kind == "f32":
        bad = (words & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
        words = words & np.uint32(0x7FFFFFFF) if abs_ else words
        order = words.view(np.int32) ^ (words.view(np.int32) >> 31 & 0x7FFFFFFF)
        order = np.where(bad, np.int32(0x7FFFFFFF if op == "min" else -0x80000000), order)
        best = getattr(order, op)(axis=1)
        best ^= best >> 31 & 0x7FFFFFFF
        none = bad.any(axis=1) if nan else bad.all(axis=1)
        result = np.where(none, np.uint32(0x7FFFFFFF), best.view(np.uint32))
    else:
        result = getattr(words.view(dtype(kind)), op)(axis=1).view(np.uint32)
    return (*loaded, np.ascontiguousarray(result))


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
    count = len(registers)
    found = Access(g, address, shape, times, count, apart, halved, "tcgen05.st")
    values = np.stack([g.spread(r) for r in registers], axis=1).reshape(found.warps, 32, count)
    for told in g.batch.machine.told[TensorObserver.stores_columns]:
        told(g, found.regions, count)
    if halved:
        found.memory[found.slots, found.rows, found.columns + 1] = values >> np.uint32(16)
        values = values & np.uint32(0xFFFF)
    found.memory[found.slots, found.rows, found.columns] = values


@collective("tcgen05.st.sync", "a u32 *b32", B32, section="9.7.16.8.4",
            options=[TWICE, TIMES, UNPACK])  # fmt: skip
def st_apart(
    g: Group, address: Value, apart: Value, registers: Sequence[Value], *, shape: str, times: int,
    halved: bool = False,
) -> None:  # fmt: skip
    """tcgen05.st.16x32bx2: two blocks of 16 lanes, the second some columns further."""
    st(g, address, registers, shape=shape, times=times, halved=halved, apart=int(apart))


@collective("tcgen05.wait::ld.sync", "", section="9.7.16.8.5", traits=Traits(registers="awaited"))
def wait_ld(g: Group) -> None:
    """tcgen05.wait::ld: the warp's loads have come; what they read may be overwritten."""
    _waited(g, "ld")


@collective("tcgen05.wait::st.sync", "", section="9.7.16.8.5")
def wait_st(g: Group) -> None:
    """tcgen05.wait::st: the warp's stores are done."""
    _waited(g, "st")


def _waited(g: Group, word: str) -> None:
    machine = g.batch.machine
    warps = whole_warps(g, f"tcgen05.wait::{word}")
    for told in machine.told[TensorObserver.waits_for_columns]:
        for w in range(warps):
            told(g, g.lanes[32 * w : 32 * w + 32], word)
    machine.now += 1


# -- multiplying --------------------------------------------------------------------

KINDS: dict[str, Option] = {
    f"kind::{word}": ("form", word) for word in ("f16", "tf32", "f8f6f4", "i8")
}
ASHIFT: dict[str, Option] = {"ashift": ("shifted", True)}
COLLECTOR: dict[str, Option] = {
    f"collector::a::{word}": ("collector", word)
    for word in ("fill", "use", "lastuse", "discard")
}  # fmt: skip


@effect("tcgen05.mma", "a any b64 u32 any any any", None, section="9.7.16.10.9.1",
        options=[GROUPS, KINDS, ASHIFT, COLLECTOR], optional=2)  # fmt: skip
def mma(
    g: Group, target: Value, a: tuple[str, Value], b: Value, descriptor: Value, *rest: Any,
    form: str, group: int = 1, shifted: bool = False, collector: str = "",
) -> None:  # fmt: skip
    """tcgen05.mma: D = A·B + D, or A·B, for a block or a pair of them; D lies in tensor memory.

    One thread issues it, and it runs beside the threads until a tcgen05.commit's mbarrier tells
    that it is done.  How it rounds is an assumption: that of the tensor core's model for Blackwell.
    .ashift takes each row of an A in tensor memory from the next lane, but for the last row.
    """
    issue_products(g, target, a, b, descriptor, rest, form, group, shifted=shifted)


def issue_products(
    g: Group, target: Value, a: tuple[str, Value], b: Value, descriptor: Value,
    rest: Sequence[Any], form: str, group: int, metadata: Value = None, shifted: bool = False,
) -> None:  # fmt: skip
    """Each thread issues a product; ``metadata``: of a sparse A, their address."""
    machine = g.batch.machine
    where, _ = executing(g)
    masks, accumulate, scale = _rest(rest, 4 * group, where)
    for told in machine.told[TensorObserver.issues]:
        told(g, "tcgen05.mma" if metadata is None else "tcgen05.mma.sp")
    values = [g.spread(x) for x in (target, a[1], b, descriptor, accumulate)]
    masked = [g.spread(x) for x in masks]
    sparse = None if metadata is None else g.spread(metadata)
    for i in range(g.n):
        thread = g if g.n == 1 else g.part(np.array([i]), g.pc)
        d_at, a_at, b_bits, bits, adds = (x[i] for x in values)
        _one_mma(
            thread, int(d_at), a[0] == "a", int(a_at), int(b_bits), int(bits), bool(adds), scale,
            [int(x[i]) for x in masked], form, group, where,
            None if sparse is None else int(sparse[i]), shifted,
        )  # fmt: skip


def _rest(
    rest: Sequence[tuple[str, Any]], words: int, where: Sentence
) -> tuple[tuple[Value, ...], Value, int]:
    """The operands after the instruction descriptor: lane mask, whether D is added, its scale."""
    left = list(rest)
    masks: tuple[Value, ...] = ()
    if left and left[0][0] == "*b32":
        masks = left.pop(0)[1]
        if len(masks) != words:
            raise Fault(
                "tcgen05.mma takes a mask of {} words, four for each block, not {}: {}",
                words, len(masks), where,
            )
    if not left or left[0][0] != "pred" or len(left) > 2:
        raise Fault("tcgen05.mma wants a predicate that says whether D is added: {}", where)
    scale = int(np.max(left[1][1])) if len(left) > 1 else 0
    if not 0 <= scale <= 15:
        raise Fault("tcgen05.mma scales D by 2 to the power of -{}; 0 to 15: {}", scale, where)
    return masks, left[0][1], scale


def _one_mma(
    g: Group, target: int, a_in_tensor: bool, a: int, b: int, bits: int, adds: bool, scale: int,
    masks: Sequence[int], kind: str, group: int, where: Sentence, metadata: int | None,
    shifted: bool,
) -> None:  # fmt: skip
    """What one thread issues; each block of a pair gives half of A's rows and half of B's."""
    batch = g.batch
    who = batch.describe(g.lanes)
    slots = blocks(g, group, "tcgen05.mma", where)
    try:
        of = decode_instruction(bits, kind, group, sparse=metadata is not None)
    except InstructionDescriptorError as error:
        raise Fault("tcgen05.mma of {}: {}; {}", who, error, where) from error
    if scale and kind not in ("f16", "tf32"):
        raise Fault("tcgen05.mma of {}: kind::{} does not scale D; {}", who, kind, where)
    if shifted and not (a_in_tensor and of.m == 128 * group):
        raise Fault(
            "tcgen05.mma of {}: .ashift is for A in tensor memory, 128 rows in a block; {}",
            who, where,
        )
    product = Product(g, slots, of, target, a_in_tensor, a, b, where, metadata, shifted)
    product.tell(g, adds)
    kept: Array | None = None
    if masks:
        kept = np.unpackbits(np.array(masks, "<u4").view(np.uint8), bitorder="little") == 0
    form = Form(of, scale)

    def work() -> None:
        along = product.along()
        product.work(
            lambda first, second, old: multiply(first, second, old, form, along), adds, kept
        )

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


class Bytes:
    """Bytes of the buffer that are copied."""

    def __init__(self, positions: Array) -> None:
        self.positions = positions

    def words(self, shift: int) -> Array:
        """The words of ``1 << shift`` bytes that they lie in."""
        return distinct(self.positions >> shift)


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
    where, _ = executing(g)
    if shape + multicast not in SPREADS:
        known = ", ".join(SPREADS)
        raise Fault(
            "there is no tcgen05.cp.{}{}: {}; there are {}",
            shape, multicast, where, known,
        )
    count, width, parts = SPREADS[shape + multicast]
    memory = tensor_memory(batch)
    for i, (to, bits) in enumerate(zip(g.spread(target), g.spread(descriptor), strict=True)):
        thread = g if g.n == 1 else g.part(np.array([i]), g.pc)
        who = say("tcgen05.cp of {}", batch.describe(thread.lanes))
        lane, column = split(to)
        if lane and (shape != "4x256b" or lane > 31):
            most = "one of the lanes 0-31" if shape == "4x256b" else "lane 0"
            raise Fault("{} begins at lane {}; {} begins at {}; {}", who, lane, shape, most, where)
        columns = slice(column, column + width // 4)
        try:
            source = decode_matrix(int(bits), "tcgen05")
            offsets = places(source, count, width, 1, False)
        except DescriptorError as error:
            raise Fault("{}: {}; {}", who, error, where) from error
        if int(offsets.max()) >= machine.reserved:
            raise Fault(
                "{} reads up to byte {} of shared memory, and the block has {}: {}",
                who, int(offsets.max()), machine.reserved, where,
            )
        for slot in blocks(thread, group, "tcgen05.cp", where):
            memory.reach(slot, (0, 128), (columns.start, columns.stop), who, where)
            at = offsets + batch.shared_base + slot * batch.shared_stride
            halves = slice(lane // 16, 8, 2) if shape == "4x256b" else slice(0, 8)
            region = Region(slot, halves, columns)
            for reads in machine.told[TensorObserver.reads_tile]:
                reads(thread, SharedTile("a tcgen05.cp", int(at.flat[0]), source), where)
            for told in machine.told[TensorObserver.copies_columns]:
                told(thread, region, Bytes(in_slots(at, narrow) if narrow else at))
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
        options=[GROUPS])  # fmt: skip
@effect("tcgen05.commit.mbarrier::arrive::one.multicast::cluster", "a b16", B64,
        section="9.7.16.12.1", options=[GROUPS])  # fmt: skip
def commit(
    g: Group, address: Value, mask: Value = None, *, space: str = "generic", group: int = 1
) -> None:
    """tcgen05.commit: an mbarrier gets an arrival when this thread's operations so far are done.

    With .multicast::cluster so do those at the same place in the blocks of the mask.

    A generic address where the instruction says ``.shared::cluster`` is none of that space's, but
    its lower half is.  An address of that space where the instruction says nothing is no generic
    one; ThunderKittens counts on it.  Either is reported, and taken as it was meant.
    """
    machine = g.batch.machine
    where, access = executing(g)
    for told in machine.told[TensorObserver.issues]:
        told(g, "tcgen05.commit")
    addresses = g.spread(address)
    for i in range(g.n):
        thread = g if g.n == 1 else g.part(np.array([i]), g.pc)
        where_to = addresses[i : i + 1]
        given = "generic" if int(where_to[0]) >> 32 else "shared"
        if given != space:
            for other in machine.told[TensorObserver.address_of_other_space]:
                other(thread, int(where_to[0]), given)
            where_to = where_to.astype(np.uint32)
        if mask is not None:
            ranks = [r for r in range(16) if int(g.spread(mask)[i]) >> r & 1]
            if not ranks:
                raise Fault("tcgen05.commit to no block, for its mask is 0: {}", where)
            offset = int(where_to[0]) & ((1 << RANK_SHIFT) - 1)
            where_to = np.array([offset | r << RANK_SHIFT for r in ranks], where_to.dtype)
        blocks(thread, group, "tcgen05.commit", where)
        for to in where_to:
            ((site, _),) = sites(thread, np.array([to]), "shared" if given != space else space)
            one_commit = Commit(thread, site)
            for commits in machine.told[TensorObserver.commits]:
                commits(one_commit)

            def arrive(commit: Commit = one_commit) -> None:
                for arrives in machine.told[TensorObserver.commit_arrives]:
                    arrives(commit)
                commit.site.operate(commit.thread, "arrive", 1, access=access)

            issue(g.batch, int(thread.lanes[0]), arrive, signals=True)
    machine.now += 1


@effect("tcgen05.fence::before_thread_sync", "", section="9.7.16.11.1",
        traits=Traits(tensor_fence="before"))  # fmt: skip
def fence_before(g: Group) -> None:
    """tcgen05.fence::before_thread_sync: the thread's tensor operations, then its next barrier.

    Nothing here runs ahead of a fence.
    """
    for told in g.batch.machine.told[TensorObserver.fenced_before]:
        told(g)


@effect("tcgen05.fence::after_thread_sync", "", section="9.7.16.11.1",
        traits=Traits(tensor_fence="after"))  # fmt: skip
def fence_after(g: Group) -> None:
    """tcgen05.fence::after_thread_sync: the thread's last barrier, then its tensor operations."""
    for told in g.batch.machine.told[TensorObserver.fenced_after]:
        told(g)
