"""``mma`` of numbers of 8, 6 and 4 bits by ``.kind``, and with block scales (PTX ISA 9.7.14.3).

==================  ===========  ======================================  =======================
kind                shape        elements in registers                   scales of a row of A
==================  ===========  ======================================  =======================
``f8f6f4``          m16n8k32     a number a byte (containers)            none
``mxf8f6f4``        m16n8k32     a number a byte (containers)            1: ``ue8m0``
``mxf4``            m16n8k64     two of 4 bits a byte                    2: ``ue8m0``
``mxf4nvf4``        m16n8k64     two of 4 bits a byte                    2: ``ue8m0``, 4: ``ue4m3``
==================  ===========  ======================================  =======================

Each thread gives a register with four scales, of which few are looked at. Of the four threads of a
quad, which have row g of A and row g + 8 and column g of B, *thread-id-a* 0 chooses the first two
for the two rows, 1 the last two; *thread-id-b* chooses one of the four for the column. *byte-id*
is the byte of the first scale; the next ones along k follow it. What fits there: any byte for one
scale, 0 or 2 for two, 0 for four.

The ISA's figures were not at hand; that the quads are laid out so is its text and CUTLASS's
``mma_traits_sm120.hpp``. How it rounds is what ``tensor_core.arithmetic`` has for Blackwell: an
assumption.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phasebit.emulator.errors import Fault
from phasebit.emulator.findings import Sentence
from phasebit.emulator.machine.group import Group
from phasebit.emulator.numbers.fragments import accumulator, operand_a, operand_b, unpack
from phasebit.emulator.numbers.sub_byte import WIDTH, containers_to_codes
from phasebit.emulator.ops.tcgen05_access import executing
from phasebit.emulator.ops.warp_matrices import fragments, gathered, matrix, scattered, sizes
from phasebit.emulator.ptx.operands import misfit
from phasebit.emulator.ptx.syntax import Instruction
from phasebit.emulator.ptx.table import Option, Selected, Traits, collective
from phasebit.emulator.ptx.types import Array, Value
from phasebit.emulator.tensor_core import arithmetic as tensor_core
from phasebit.emulator.tensor_core.block_scales import added, scaled, values
from phasebit.emulator.tensor_core.tensor_mma import elements, exact

TYPES = frozenset({"e4m3", "e5m2", "e3m2", "e2m3", "e2m1"})
PACKED = 8
"""Numbers in a register of kinds ``mxf4`` and ``mxf4nvf4``."""
CONTAINERS = 4
"""Numbers in a register of the other kinds."""

FORMS = {
    ("mxf8f6f4", ""): (1, ("ue8m0",)), ("mxf8f6f4", "scale_vec::1X"): (1, ("ue8m0",)),
    ("mxf4", ""): (2, ("ue8m0",)), ("mxf4", "scale_vec::2X"): (2, ("ue8m0",)),
    ("mxf4nvf4", "scale_vec::2X"): (2, ("ue8m0",)), ("mxf4nvf4", "scale_vec::4X"): (4, ("ue4m3",)),
}  # fmt: skip
"""Kind and size -> scales of a row, and the types that they may have."""

BYTES = {1: (0, 1, 2, 3), 2: (0, 2), 4: (0,)}
"""Scales of a row -> the bytes at which the first may be."""

SHAPES: dict[str, Option] = {word: ("shape", word) for word in ("m16n8k32", "m16n8k64")}
KINDS: dict[str, Option] = {
    f"kind::{word}": ("form", word) for word in ("mxf8f6f4", "mxf4", "mxf4nvf4")
}
SIZES: dict[str, Option] = {
    word: ("vector", word) for word in ("scale_vec::1X", "scale_vec::2X", "scale_vec::4X")
}


def check_plain(instruction: Instruction, chosen: Selected) -> None:
    """Shape and types of ``kind::f8f6f4``."""
    if chosen.options.get("shape") != "m16n8k32" or len(chosen.types) != 4:
        raise misfit(instruction, "mma of kind::f8f6f4 is m16n8k32 and names D, A, B and C")
    of_d, of_a, of_b, of_c = chosen.types
    if of_c != of_d or not {of_a, of_b} <= TYPES:
        raise misfit(instruction, "mma of kind::f8f6f4 has A and B of 8, 6 or 4 bits, C as D")


def check_scaled(instruction: Instruction, chosen: Selected) -> None:
    """Shape, types and size of a kind with block scales."""
    form, vector = chosen.options.get("form", ""), chosen.options.get("vector", "")
    if (form, vector) not in FORMS:
        known = ", ".join(f"kind::{kind}.block_scale{size and '.'}{size}" for kind, size in FORMS)
        raise misfit(instruction, f"mma with block scales is one of {known}")
    shape = "m16n8k32" if form == "mxf8f6f4" else "m16n8k64"
    if chosen.options.get("shape") != shape:
        raise misfit(instruction, f"mma of kind::{form} is {shape}")
    if len(chosen.types) != 5:
        raise misfit(instruction, "it names the types of D, A, B, C and of the scales")
    of_d, of_a, of_b, of_c, scales = chosen.types
    if (of_d, of_c) != ("f32", "f32") or not {of_a, of_b} <= (
        TYPES if form == "mxf8f6f4" else {"e2m1"}
    ):
        raise misfit(instruction, f"mma of kind::{form} has not these types")
    if scales not in FORMS[form, vector][1]:
        known = " or ".join(FORMS[form, vector][1])
        raise misfit(instruction, f"the scales of kind::{form} are {known} here, not {scales}")


def numbers(registers: Array, kind: str, packed: bool) -> Array:
    """The numbers, f32 [warps, 32, elements], that registers hold."""
    if packed:
        return elements(unpack(registers, PACKED), kind)
    raw = unpack(registers, CONTAINERS)
    return elements(containers_to_codes(raw, WIDTH[kind]) if kind in WIDTH else raw, kind)


def multiplicands(
    g: Group, a: Sequence[Value], b: Sequence[Value], kinds: tuple[str, str], shape: str, name: str
) -> tuple[Array, Array]:
    """A [warps, m, k] and B [warps, k, n], f32."""
    m, n, k = sizes(shape)
    each = PACKED if k == 64 else CONTAINERS
    found = []
    for registers, kind, part in (
        (a, kinds[0], operand_a(m, k, each)), (b, kinds[1], operand_b(n, k, each)),
    ):  # fmt: skip
        held = gathered(g, registers, name)
        if held.shape[2] * each != part.elements:
            raise Fault(
                "{}: {} registers a thread, where {} hold its part of a {}×{} matrix",
                name, held.shape[2], part.elements // each, *part.shape,
            )
        found.append(part.collect(numbers(held, kind, each == PACKED)))
    return found[0], found[1]


@collective(
    "mma.sync.row.col.kind::f8f6f4", "*b32 *b32 *b32 -> *b32", {"f32", "f16"}, TYPES,
    section="9.7.14.5.14", options=[SHAPES], traits=Traits(check=check_plain),
)  # fmt: skip
def mma(
    g: Group, a: Sequence[Value], b: Sequence[Value], c: Sequence[Value], *, shape: str,
    types: tuple[str, ...],
) -> tuple[Array, ...]:  # fmt: skip
    """mma.kind::f8f6f4: D = A·B + C; each number has a byte of its own.

    Of 6 bits it stands in the lower bits of its byte, of 4 in the middle.
    """
    name = f"mma.{shape}.kind::f8f6f4"
    of_d, of_a, of_b, of_c = types
    left, right = multiplicands(g, a, b, (of_a, of_b), shape, name)
    m, n, _ = sizes(shape)
    part = accumulator(m, n)
    before = matrix(gathered(g, c, name), part, of_c)
    kind = "e5m2" if "e5m2" in (of_a, of_b) else "e4m3"
    result = []
    for x, y, z in zip(left, right, before, strict=True):
        one = exact(x, y.T, z.astype(np.float32), of_d)
        result.append(one if one is not None else tensor_core.accumulate(
            x[None].astype(np.float64), y[None].astype(np.float64), z[None], (kind, kind), of_d,
            tensor_core.MODELS["blackwell"], x.shape[1],
        )[0])  # fmt: skip
    return scattered(fragments(np.stack(result), part, of_d))


@collective(
    "mma.sync.row.col.block_scale", "*b32 *b32 *b32 b32 *b16 b32 *b16 -> *b32", {"f32"}, TYPES,
    section="9.7.14.3", options=[SHAPES, KINDS, SIZES], traits=Traits(check=check_scaled),
)  # fmt: skip
def mma_scaled(
    g: Group, a: Sequence[Value], b: Sequence[Value], c: Sequence[Value], a_scales: Value,
    a_from: Sequence[Value], b_scales: Value, b_from: Sequence[Value], *, shape: str, form: str,
    types: tuple[str, ...], vector: str = "",
) -> tuple[Array, ...]:  # fmt: skip
    """mma.block_scale: D = (A · scales) (B · scales) + C.

    16 or 32 elements along k share a scale.  How it rounds is an assumption.
    """
    name = f"mma.{shape}.kind::{form}"
    per_row, _ = FORMS[form, vector]
    where, _ = executing(g)
    left, right = multiplicands(g, a, b, (types[1], types[2]), shape, name)
    m, n, _ = sizes(shape)
    part = accumulator(m, n)
    before = gathered(g, c, name)
    rows, columns = np.arange(m), np.arange(n)
    by_a, from_a = selected(g, a_from, per_row, 2, "a", where)
    by_b, from_b = selected(g, b_from, per_row, 4, "b", where)
    of_a = gathered(g, [a_scales], name)[:, rows % 8 * 4 + 2 * from_a + rows // 8, 0]
    of_b = gathered(g, [b_scales], name)[:, columns * 4 + from_b, 0]
    old = part.collect(before.view(np.float32))
    result = [
        added(
            scaled(left[i], chosen(of_a[i], by_a, per_row, types[4], "A", where)),
            scaled(right[i].T, chosen(of_b[i], by_b, per_row, types[4], "B", where)), old[i],
        )
        for i in range(len(left))
    ]  # fmt: skip
    return scattered(fragments(np.stack(result), part, "f32"))


def selected(
    g: Group, given: Sequence[Value], per_row: int, threads: int, which: str, where: Sentence
) -> tuple[int, int]:
    """The byte and the thread that give the scales, the same for all threads."""
    if len(given) != 2:
        raise Fault("byte-id-{} and thread-id-{} are two numbers: {}", which, which, where)
    spread = [g.spread(x) for x in given]
    if any((x != x[0]).any() for x in spread):
        raise Fault("byte-id-{} and thread-id-{} differ in a warp: {}", which, which, where)
    byte, thread = (int(x[0]) for x in spread)
    if byte not in BYTES[per_row]:
        raise Fault(
            "byte-id-{} is {}: {}; with {} scales a row it is {}",
            which, byte, where, per_row, " or ".join(map(str, BYTES[per_row])),
        )  # fmt: skip
    if thread >= threads:
        raise Fault(
            "thread-id-{} is {}: {}; it is at most {}", which, thread, where, threads - 1
        )
    return byte, thread


def chosen(
    words: Array, byte: int, per_row: int, kind: str, name: str, where: Sentence
) -> Array:
    """The scales, f64 [rows, scales of a row], of words with four bytes each."""
    held = np.ascontiguousarray(words).view(np.uint8).reshape(-1, 4)
    return values(held[:, byte : byte + per_row], kind, name, where)
