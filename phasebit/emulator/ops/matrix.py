"""Matrix instructions of a warp (PTX ISA 9.7.14): move fragments, multiply them.

The 32 threads of a warp execute each of these together.  What arrives here is
a group of whole warps; all of them are computed at once.  An operand that is a
vector of registers becomes one array [warps, 32 lanes, registers], the fragment
(:mod:`phasebit.emulator.numbers.fragments`) makes of it matrices [warps, rows, columns],
the tensor core's arithmetic (:mod:`phasebit.emulator.tensor_core.arithmetic`) multiplies
them, and the result takes the same way back.

Registers of 32 bits are uint32 patterns here whatever they hold; those of f64
are float64.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from phasebit.emulator.errors import Fault
from phasebit.emulator.machine.group import AccessObserver, Group
from phasebit.emulator.numbers import sparse
from phasebit.emulator.numbers.fragments import (
    Fragment,
    accumulator,
    operand_a,
    operand_b,
    pack,
    quads_accumulator,
    quads_operand,
    repeated,
    unpack,
)
from phasebit.emulator.numbers.sub_byte import slots_to_codes
from phasebit.emulator.ops.warp_matrices import (
    PER_REGISTER,
    accesses,
    fragments,
    gathered,
    matrix,
    scattered,
    sizes,
    transposed,
    whole_warps,
)
from phasebit.emulator.ptx.operands import items_of, misfit
from phasebit.emulator.ptx.syntax import Instruction
from phasebit.emulator.ptx.table import ROUNDING, Option, Selected, Traits, collective
from phasebit.emulator.ptx.types import Array, Value
from phasebit.emulator.tensor_core import arithmetic as tensor_core

BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "f32": 4, "f64": 8, "s8": 1, "u8": 1, "s32": 4}
"""Bytes of an element in memory, for ``wmma.load`` and ``wmma.store``."""

VIEWS = {1: "u1", 2: "u2", 4: "u4", 8: "f8"}

MULTIPLICANDS = frozenset(PER_REGISTER) - {"f64"}
SATFINITE: dict[str, Option] = {"satfinite": ("satfinite", True)}
COUNT: dict[str, Option] = {"x1": ("count", 1), "x2": ("count", 2), "x4": ("count", 4)}
TRANS: dict[str, Option] = {"trans": ("trans", True)}
ROLE: dict[str, Option] = {word: ("role", word) for word in "abc"}
LAYOUT: dict[str, Option] = {word: ("layout", word) for word in ("row", "col")}
MMA_SHAPES: dict[str, Option] = {
    word: ("shape", word)
    for word in (
        "m8n8k4", "m8n8k16", "m8n8k32", "m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32", "m16n8k64",
        "m8n8k128", "m16n8k128", "m16n8k256",
    )
}  # fmt: skip
ONE_BIT: dict[str, Option] = {
    "xor": ("bits", "xor"), "and": ("bits", "and"), "popc": ("count_ones", True),
}  # fmt: skip
WMMA_SHAPES: dict[str, Option] = {
    word: ("shape", word) for word in ("m16n16k16", "m32n8k16", "m8n32k16", "m16n16k8", "m8n8k4")
}


def multiply(
    operands: Sequence[Array],
    shape: str,
    types: Sequence[str],
    parts: tuple[Fragment, Fragment, Fragment] | None = None,
    *,
    satfinite: bool = False,
    rounding: str = "rn",
    step: int | None = None,
    bits: str = "",
) -> Array:
    """The registers of D = A·B + C; the operands A, B, C and D are [warps, 32, registers].

    ``types`` are those of D, A, B and C, ``parts`` the fragments of A, B and C: those of
    ``mma`` when not given, ``step`` the k of the smaller instructions it is made of, if any.
    """
    of_d, of_a, of_b, of_c = types
    m, n, k = sizes(shape)
    part_a, part_b, part_c = parts or (
        operand_a(m, k, PER_REGISTER[of_a]),
        operand_b(n, k, PER_REGISTER[of_b]),
        accumulator(m, n),
    )
    a = matrix(operands[0], part_a, of_a)
    b = matrix(operands[1], part_b, of_b)
    c = matrix(operands[2], part_c, of_c)
    if of_d == "f64":
        result = tensor_core.accumulate_f64(a, b, c, rounding)
    elif bits == "xor":
        result = tensor_core.count_different(a, b, c)
    else:
        result = product(a, b, c, (of_a, of_b), of_d, satfinite, step)
    return fragments(result, part_c, of_d)


def product(
    a: Array, b: Array, c: Array, kinds: tuple[str, str], of_d: str, satfinite: bool,
    step: int | None,
) -> Array:  # fmt: skip
    """D = A·B + C of matrices [warps, rows, columns], for a D of s32, f32 or f16."""
    if of_d == "s32":
        return tensor_core.accumulate_s32(a, b, c, satfinite)
    return tensor_core.accumulate(a, b, c, kinds, of_d, step=step)


# -- mma ------------------------------------------------------------------------


def check_types(instruction: Instruction, chosen: Selected) -> None:
    """Four types, and perhaps that of the scales."""
    if len(chosen.types) not in (4, 5):
        raise misfit(instruction, "mma names the types of D, A, B and C")


MMA = Traits(check=check_types)


@collective(
    "mma.sync.row.col", "*b32 *b32 *b32 -> *b32", {"f32", "f16", "s32"}, MULTIPLICANDS,
    section="9.7.14.5.14", options=[MMA_SHAPES, SATFINITE, ONE_BIT], traits=MMA,
)  # fmt: skip
@collective(
    "mma.sync.row.col", "*f64 *f64 *f64 -> *f64", {"f64"},
    section="9.7.14.5.14", options=[MMA_SHAPES, ROUNDING], traits=MMA,
)  # fmt: skip
def mma(
    g: Group,
    a: Sequence[Value],
    b: Sequence[Value],
    c: Sequence[Value],
    *,
    shape: str,
    types: tuple[str, ...],
    satfinite: bool = False,
    rounding: str = "rn",
    bits: str = "",
    count_ones: bool = False,
) -> tuple[Array, ...]:
    """mma: D = A·B + C.

    Integers are exact in s32 and wrap around, or with .satfinite are clamped.  Of single bits
    the product is .and or .xor.
    """
    name = f"mma.{shape}"
    operands = [gathered(g, x, name) for x in (a, b, c)]
    return scattered(
        multiply(operands, shape, types, satfinite=satfinite, rounding=rounding, bits=bits)
    )


@collective(
    "mma.sync.m8n8k4.row.col mma.sync.m8n8k4.row mma.sync.m8n8k4.col", "*b32 *b32 *b32 -> *b32",
    {"f32", "f16"}, {"f16"}, section="9.7.14.5.14", traits=MMA,
)  # fmt: skip
def mma_quads(
    g: Group, a: Sequence[Value], b: Sequence[Value], c: Sequence[Value], *, types: tuple[str, ...]
) -> tuple[Array, ...]:
    """mma.m8n8k4: D = A·B + C by each of the four quads of a warp, as Volta had it."""
    name = "mma.m8n8k4"
    instruction = g.batch.machine.executing()
    assert instruction is not None
    first, second = (word for word in instruction.modifiers if word in ("row", "col"))
    of_d, _, _, of_c = types
    left, right = quads_operand(first == "row"), quads_operand(second == "col")
    parts = left, right, quads_accumulator(of_c)
    whole = [
        matrix(gathered(g, x, name), part, kind)
        for x, part, kind in zip((a, b, c), parts, ("f16", "f16", of_c), strict=True)
    ]
    quads = [x.reshape(-1, 8, x.shape[2]) for x in whole]
    result = tensor_core.accumulate_m8n8k4(quads[0], quads[1].swapaxes(1, 2), quads[2], of_d)
    return scattered(fragments(result.reshape(-1, 32, 8), quads_accumulator(of_d), of_d))


@collective(
    "mma.sp.sync.row.col mma.sp::ordered_metadata.sync.row.col", "*b32 *b32 *b32 b32 u32 -> *b32",
    {"f32", "f16", "s32"}, MULTIPLICANDS - {"b1"},
    section="9.7.14.6.3", options=[MMA_SHAPES, SATFINITE], traits=MMA,
)  # fmt: skip
def mma_sparse(
    g: Group,
    a: Sequence[Value],
    b: Sequence[Value],
    c: Sequence[Value],
    metadata: Value,
    selector: Value,
    *,
    shape: str,
    types: tuple[str, ...],
    satfinite: bool = False,
) -> tuple[Array, ...]:
    """mma.sp: D = A·B + C, where half of A is zero and left out.

    A zero that is left out is not multiplied: an infinity in B that meets only such zeros does
    not show.  As many stored products are summed at once as dense ones.  [seen on an H200]
    """
    name = f"mma.sp.{shape}"
    of_d, of_a, of_b, of_c = types
    m, n, k = sizes(shape)
    chunk, wide = sparse.CHUNK[of_a], of_a in sparse.WIDE
    if m != 16 or k // chunk not in ((4, 8) if wide else (8, 16)):
        raise Fault("mma.sp has no {} of {}", shape, of_a)
    part_c = accumulator(m, n)
    stored = matrix(gathered(g, a, name), operand_a(m, k // 2, PER_REGISTER[of_a]), of_a)
    instruction = g.batch.machine.executing()
    ordered = instruction is not None and "sp::ordered_metadata" in instruction.modifiers
    bits = sparse.places(
        gathered(g, [metadata], name), int(g.spread(selector)[0]), k // chunk, wide
    )
    along = sparse.columns(bits, chunk, name, sparse.ORDERED if ordered else sparse.DIFFERENT)
    right = matrix(gathered(g, b, name), operand_b(n, k, PER_REGISTER[of_b]), of_b)
    added = matrix(gathered(g, c, name), part_c, of_c)
    if of_d == "s32":
        whole = sparse.expand(stored, along, k)
        result = tensor_core.accumulate_s32(whole, right, added, satfinite)
    else:
        result = tensor_core.accumulate(
            stored, sparse.met(right, along), added, (of_a, of_b), of_d
        )
    return scattered(fragments(result, part_c, of_d))


# -- ldmatrix, stmatrix, movmatrix -----------------------------------------------


def check_registers(instruction: Instruction, chosen: Selected) -> None:
    """One register for each matrix of 8 × 8 words."""
    tiles = chosen.options.get("count", 1) * (2 if "m16n16" in chosen.entry.needs else 1)
    matrix = instruction.operands[0 if chosen.entry.results else 1]
    if len(items_of(matrix)) != tiles:
        name = instruction.mnemonic
        raise misfit(instruction, f"{name} of this shape needs {tiles} registers")


ROWS = Traits(matrix=True, check=check_registers)


def row_words(
    g: Group, address: Value, space: str, rows: int, name: str, used: int = 4
) -> Array:
    """Where the four words of each row lie in memory, [warps, rows, 4].

    Lane i has the address of row i; the addresses of further lanes are not looked at
    (PTX ISA 9.7.14.5.15).  ``used``: so many words of a row count, the others are padding.
    """
    warps = whole_warps(g, name)
    lanes, given = g.lanes.reshape(warps, 32), g.spread(address).reshape(warps, 32)
    asked = Group(g.batch, lanes[:, :rows].ravel(), g.pc, [None] * len(g.registers), g.time)
    access = g.batch.machine.executing_access()
    first = asked.spread(asked.index(given[:, :rows].ravel(), space, 16, 2, access))
    watch = asked.watch_store if name == "stmatrix" else asked.watch_load
    watch(first, accesses((0, 1, 2, 3)[:used], 4, 16, access, space))
    return first.reshape(warps, rows)[:, :, None] + np.arange(4)


@collective(
    "ldmatrix.sync.m8n8", "a -> *b32", {"b16"}, section="9.7.14.5.15", options=[COUNT, TRANS],
    traits=ROWS,
)  # fmt: skip
def ldmatrix(
    g: Group, address: Value, *, space: str = "generic", count: int = 1, trans: bool = False
) -> tuple[Array, ...]:
    """ldmatrix: one, two or four 8×8 matrices of 16-bit elements, a row from each address.

    In register j lane l receives elements 2 (l % 4) and the next of row l // 4 of matrix j;
    with .trans, of the matrix transposed.
    """
    words = row_words(g, address, space, 8 * count, "ldmatrix")
    rows = g.memory.u4[words].reshape(-1, count, 8, 4)
    if trans:
        rows = transposed(rows, 2)
    return scattered(rows.reshape(-1, count, 32).swapaxes(1, 2))


@collective(
    "ldmatrix.sync.m16n16.trans", "a -> *b32", {"b8"}, section="9.7.14.5.15",
    options=[{word: COUNT[word] for word in ("x1", "x2")}], traits=ROWS,
)  # fmt: skip
def ldmatrix_b8(
    g: Group, address: Value, *, space: str = "generic", count: int = 1
) -> tuple[Array, ...]:
    """ldmatrix: one or two 16×16 matrices of bytes, transposed (sm_100a).

    Registers 2 j and 2 j + 1 hold rows l // 4 and l // 4 + 8 of matrix j transposed, four
    bytes each.  [read from the ISA's figure; not compared with hardware]
    """
    words = row_words(g, address, space, 16 * count, "ldmatrix")
    rows = transposed(g.memory.u4[words].reshape(-1, count, 16, 4), 1)
    return scattered(rows.reshape(-1, 2 * count, 32).swapaxes(1, 2))


SLOTS: dict[str, Option] = {"b4x16_p64": ("width", 4), "b6x16_p32": ("width", 6)}


def unpacked_rows(g: Group, address: Value, space: str, rows: int, width: int) -> Array:
    """Rows of 16 short numbers with padding behind, a number a byte: uint32 [warps, rows, 4]."""
    words = row_words(g, address, space, rows, "ldmatrix", used=width // 2)
    codes = slots_to_codes(g.memory.u4[words].view(np.uint8), width)
    return np.ascontiguousarray(codes).view(np.uint32)


@collective("ldmatrix.sync.m8n16.b8x16", "a -> *b32", section="9.7.14.5.15",
            options=[COUNT, SLOTS], traits=ROWS)  # fmt: skip
def ldmatrix_short(
    g: Group, address: Value, *, width: int, space: str = "generic", count: int = 1
) -> tuple[Array, ...]:
    """ldmatrix.b8x16: one, two or four 8×16 matrices of 4 or 6 bits, a number a byte (sm_100a).

    In register j lane l receives elements 4 (l % 4) and the next three of row l // 4 of matrix j.
    Each is in the lowest bits of its byte: so says CUTLASS, which shifts those of 4 bits for
    sm_120's products.  [not compared with hardware]
    """
    rows = unpacked_rows(g, address, space, 8 * count, width)
    return scattered(rows.reshape(-1, count, 32).swapaxes(1, 2))


@collective("ldmatrix.sync.m16n16.trans.b8x16", "a -> *b32", section="9.7.14.5.15",
            options=[{word: COUNT[word] for word in ("x1", "x2")}, SLOTS],
            traits=ROWS)  # fmt: skip
def ldmatrix_short_transposed(
    g: Group, address: Value, *, width: int, space: str = "generic", count: int = 1
) -> tuple[Array, ...]:
    """ldmatrix.trans.b8x16: one or two 16×16 matrices of 4 or 6 bits, transposed (sm_100a)."""
    rows = unpacked_rows(g, address, space, 16 * count, width)
    rows = transposed(rows.reshape(-1, count, 16, 4), 1)
    return scattered(rows.reshape(-1, 2 * count, 32).swapaxes(1, 2))


@collective("stmatrix.sync.m8n8", "a *b32", {"b16"}, section="9.7.14.5.16",
            options=[COUNT, TRANS], traits=ROWS)  # fmt: skip
def stmatrix(
    g: Group,
    address: Value,
    registers: Sequence[Value],
    *,
    space: str = "generic",
    count: int = 1,
    trans: bool = False,
) -> None:
    """stmatrix: the reverse of ldmatrix."""
    words = row_words(g, address, space, 8 * count, "stmatrix")
    rows = gathered(g, registers, "stmatrix").swapaxes(1, 2).reshape(-1, count, 8, 4)
    if trans:
        rows = transposed(rows, 2)
    g.memory.u4[words] = rows.reshape(words.shape)


@collective(
    "stmatrix.sync.m16n8.trans", "a *b32", {"b8"}, section="9.7.14.5.16", options=[COUNT],
    traits=ROWS,
)  # fmt: skip
def stmatrix_b8(
    g: Group, address: Value, registers: Sequence[Value], *, space: str = "generic", count: int = 1
) -> None:
    """stmatrix: one, two or four 16×8 matrices of bytes, transposed: 8 rows of 16 (sm_100a).

    A register holds two neighbours of row l // 4 and two of row l // 4 + 8, as an accumulator
    does.  [read from the ISA's figure and from CuTe's layout; not compared with hardware]
    """
    words = row_words(g, address, space, 8 * count, "stmatrix")
    held = np.ascontiguousarray(gathered(g, registers, "stmatrix")).view(np.uint8)
    held = held.reshape(-1, 8, 4, count, 2, 2)  # warp, lane // 4, lane % 4, matrix, half, neighbour
    rows = np.ascontiguousarray(held.transpose(0, 3, 2, 5, 4, 1)).view(np.uint32)
    g.memory.u4[words] = rows.reshape(words.shape)


@collective("movmatrix.sync.m8n8.trans", "b32 -> b32", {"b16"}, section="9.7.14.5.17")
def movmatrix(g: Group, a: Value) -> Array:
    """movmatrix: an 8×8 matrix of 16-bit elements, transposed across the warp."""
    rows = gathered(g, [a], "movmatrix").reshape(-1, 8, 4)
    return transposed(rows, 2).ravel()


# -- wmma -------------------------------------------------------------------------


@functools.cache
def wmma_fragment(role: str, shape: str, kind: str) -> Fragment:
    """The fragment of A, B, C or D in ``wmma``.

    The PTX ISA (9.7.14.4.1) leaves the layout open: a program may treat all elements of a
    fragment alike, but cannot know which is which.  Here it is that of ``mma``, tile by tile.
    """
    m, n, k = sizes(shape)
    if role in ("c", "d"):
        return accumulator(m, n)
    maker, width = (operand_a, m) if role == "a" else (operand_b, n)
    fragment = maker(width, k, PER_REGISTER[kind])
    return repeated(fragment, 16) if kind == "f16" else fragment


def element_places(
    g: Group,
    address: Value,
    stride: Value | None,
    fragment: Fragment,
    layout: str,
    size: int,
    space: str,
    name: str,
) -> Array:
    """Where each element of each thread lies in memory, [threads, elements].

    ``stride`` is the distance of two rows (of two columns when ``layout`` is "col") in
    elements; without one the matrix is dense.
    """
    warps = whole_warps(g, name)
    major, minor, dense = fragment.row, fragment.column, fragment.shape[1]
    if layout == "col":
        major, minor, dense = minor, major, fragment.shape[0]
    apart = np.full(g.n, dense) if stride is None else g.spread(stride).astype(np.int64)
    offset = np.tile(major, (warps, 1)) * apart[:, None] + np.tile(minor, (warps, 1))
    shift = size.bit_length() - 1
    base = g.spread(address)
    access = g.batch.machine.executing_access()
    places: Array = g.spread(g.index(base, space, size, shift, access))[:, None] + offset
    if g.batch.machine.told[AccessObserver.loads]:
        # the farthest element must lie in the same array as the first
        last = base + (offset.max(axis=1) * size).astype(base.dtype)
        g.index(last, space, size, shift, access)
        # from a lane's first element to its others it is as far in every lane
        steps = tuple(dict.fromkeys((offset[0] - offset[0, 0]).tolist()))
        watch = g.watch_store if name.startswith("wmma.store") else g.watch_load
        watch(places[:, 0], accesses(steps, size, size, access, space))
    return places


@collective(
    "wmma.load.sync", "a u32 -> *b32", frozenset(BYTES) - {"f64"}, section="9.7.14.4.3",
    options=[ROLE, LAYOUT, WMMA_SHAPES], optional=1,
)  # fmt: skip
@collective(
    "wmma.load.sync", "a u32 -> *f64", {"f64"}, section="9.7.14.4.3",
    options=[ROLE, LAYOUT, WMMA_SHAPES], optional=1,
)  # fmt: skip
def wmma_load(
    g: Group,
    address: Value,
    stride: Value | None = None,
    *,
    role: str,
    shape: str,
    kind: str,
    layout: str = "row",
    space: str = "generic",
) -> tuple[Array, ...]:
    """wmma.load: a matrix whose rows (or columns) lie ``stride`` elements apart, as fragments."""
    fragment = wmma_fragment(role, shape, kind)
    size = BYTES[kind]
    name = f"wmma.load.{role}"
    places = element_places(g, address, stride, fragment, layout, size, space, name)
    elements = getattr(g.memory, VIEWS[size])[places]
    registers = pack(elements) if size < 4 else elements
    return scattered(registers.reshape(g.n // 32, 32, -1))


@collective(
    "wmma.store.d.sync", "a *b32 u32", {"f16", "f32", "s32"}, section="9.7.14.4.4",
    options=[LAYOUT, WMMA_SHAPES], optional=1,
)  # fmt: skip
@collective(
    "wmma.store.d.sync", "a *f64 u32", {"f64"}, section="9.7.14.4.4",
    options=[LAYOUT, WMMA_SHAPES], optional=1,
)  # fmt: skip
def wmma_store(
    g: Group,
    address: Value,
    registers: Sequence[Value],
    stride: Value | None = None,
    *,
    shape: str,
    kind: str,
    layout: str = "row",
    space: str = "generic",
) -> None:
    """wmma.store: fragments of D to a matrix in memory."""
    fragment = wmma_fragment("d", shape, kind)
    size = BYTES[kind]
    name = "wmma.store.d"
    places = element_places(g, address, stride, fragment, layout, size, space, name)
    given = gathered(g, registers, name).reshape(g.n, -1)
    getattr(g.memory, VIEWS[size])[places] = unpack(given, 2) if kind == "f16" else given


@collective(
    "wmma.mma.sync", "*b32 *b32 *b32 -> *b32", {"f32", "f16", "s32"}, section="9.7.14.4.5",
    options=[LAYOUT, WMMA_SHAPES, SATFINITE],
)  # fmt: skip
@collective(
    "wmma.mma.sync", "*f64 *f64 *f64 -> *f64", {"f64"}, section="9.7.14.4.5",
    options=[LAYOUT, WMMA_SHAPES, ROUNDING],
)  # fmt: skip
def wmma_mma(
    g: Group,
    a: Sequence[Value],
    b: Sequence[Value],
    c: Sequence[Value],
    *,
    shape: str,
    types: tuple[str, ...],
    layout: str = "",
    satfinite: bool = False,
    rounding: str = "rn",
) -> tuple[Array, ...]:
    """wmma.mma: D = A·B + C.

    Two types in the name are those of D and C: then A and B are f16.  The layouts in the
    name have done their work in wmma.load.
    """
    of_d, of_a, of_b, of_c = types if len(types) == 4 else (types[0], "f16", "f16", types[1])
    parts = (
        wmma_fragment("a", shape, of_a),
        wmma_fragment("b", shape, of_b),
        wmma_fragment("c", shape, of_c),
    )
    operands = [gathered(g, x, f"wmma.mma.{shape}") for x in (a, b, c)]
    kinds = (of_d, of_a, of_b, of_c)
    step = 4 if of_a == "tf32" else None  # two steps of m16n8k4 [seen in the H200's answers]
    result = multiply(
        operands, shape, kinds, parts, satfinite=satfinite, rounding=rounding, step=step
    )
    return scattered(result)
