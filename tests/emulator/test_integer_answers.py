"""Integer arithmetic and logic against Python's whole numbers, at the edges of every type.

Each function here says what the PTX ISA says of its instruction (9.7.1, 9.7.2, 9.7.6, 9.7.8), one
number at a time and without a limit of bits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.emulator.values import chosen, execute


def edges(kind: str) -> list[int]:
    """Numbers of a type: both ends, their neighbours, powers of two, patterns."""
    bits = int(kind[1:])
    raw = [0, 1, 2, 3, 7, 8, 31, 32, (1 << bits) - 1, (1 << bits) - 2, 1 << bits - 1,
           (1 << bits - 1) - 1, (1 << bits - 1) + 1, 1 << bits // 2, (1 << bits // 2) - 1,
           0x9E3779B97F4A7C15, 0x0123456789ABCDEF >> 3]  # fmt: skip
    return [signed(n, kind) for n in raw]


def signed(n: int, kind: str) -> int:
    """The number of a type that has the lowest bits of this one."""
    bits = int(kind[1:])
    n &= (1 << bits) - 1
    return n - (1 << bits) if kind[0] == "s" and n >> bits - 1 else n


def array(numbers: Any, kind: str) -> np.ndarray:
    if kind == "pred":
        return np.array(numbers, bool)
    form = np.dtype(f"{'i' if kind[0] == 's' else 'u'}{int(kind[1:]) // 8}")
    return np.array([signed(n, kind) for n in numbers], form)


def clamp(n: int, kind: str = "s32") -> int:
    bits = int(kind[1:])
    return max(-(1 << bits - 1), min(n, (1 << bits - 1) - 1))


def towards_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)


def low24(a: int, kind: str) -> int:
    return a & 0xFFFFFF if kind[0] == "u" else ((a & 0xFFFFFF) ^ 1 << 23) - (1 << 23)


def bits_of(kind: str) -> int:
    return int(kind[1:])


INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")
NARROW = ("u16", "s16", "u32", "s32")
WORDS = ("u32", "s32")
CARRY = ("u32", "s32", "u64", "s64")
BITS = ("b16", "b32", "b64")

# opcode, its types, the types of the operands, that of the result ("w" twice as wide), what it is
Oracle = Callable[..., int]
CASES: list[tuple[str, tuple[str, ...], str, str, Oracle]] = [
    ("add.{t}", INTEGERS, "x x", "x", lambda t, a, b: a + b),
    ("add.sat.{t}", ("s32",), "x x", "x", lambda t, a, b: clamp(a + b)),
    ("sub.{t}", INTEGERS, "x x", "x", lambda t, a, b: a - b),
    ("sub.sat.{t}", ("s32",), "x x", "x", lambda t, a, b: clamp(a - b)),
    ("mul.lo.{t}", INTEGERS, "x x", "x", lambda t, a, b: a * b),
    ("mul.hi.{t}", INTEGERS, "x x", "x", lambda t, a, b: a * b >> bits_of(t)),
    ("mul.wide.{t}", NARROW, "x x", "w", lambda t, a, b: a * b),
    ("mad.lo.{t}", INTEGERS, "x x x", "x", lambda t, a, b, c: a * b + c),
    ("mad.hi.{t}", INTEGERS, "x x x", "x", lambda t, a, b, c: (a * b >> bits_of(t)) + c),
    ("mad.hi.sat.{t}", ("s32",), "x x x", "x", lambda t, a, b, c: clamp((a * b >> 32) + c)),
    ("mad.wide.{t}", NARROW, "x x w", "w", lambda t, a, b, c: a * b + c),
    ("mul24.lo.{t}", WORDS, "x x", "x", lambda t, a, b: low24(a, t) * low24(b, t)),
    ("mul24.hi.{t}", WORDS, "x x", "x", lambda t, a, b: low24(a, t) * low24(b, t) >> 16),
    ("mad24.lo.{t}", WORDS, "x x x", "x", lambda t, a, b, c: low24(a, t) * low24(b, t) + c),
    ("mad24.hi.{t}", WORDS, "x x x", "x",
     lambda t, a, b, c: (low24(a, t) * low24(b, t) >> 16) + c),
    ("mad24.hi.sat.{t}", ("s32",), "x x x", "x",
     lambda t, a, b, c: clamp(signed(low24(a, t) * low24(b, t) >> 16, t) + c)),
    ("sad.{t}", INTEGERS, "x x x", "x", lambda t, a, b, c: c + abs(a - b)),
    ("div.{t}", INTEGERS, "x x", "x", lambda t, a, b: towards_zero(a, b) if b else -1),
    ("rem.{t}", INTEGERS, "x x", "x",
     lambda t, a, b: a - b * towards_zero(a, b) if b else a),
    ("abs.{t}", ("s16", "s32", "s64"), "x", "x", lambda t, a: abs(a)),
    ("neg.{t}", ("s16", "s32", "s64"), "x", "x", lambda t, a: -a),
    ("min.{t}", INTEGERS, "x x", "x", lambda t, a, b: min(a, b)),
    ("max.{t}", INTEGERS, "x x", "x", lambda t, a, b: max(a, b)),
    ("min.relu.{t}", ("s32",), "x x", "x", lambda t, a, b: max(min(a, b), 0)),
    ("max.relu.{t}", ("s32",), "x x", "x", lambda t, a, b: max(a, b, 0)),
    ("popc.{t}", ("b32", "b64"), "x", "u32", lambda t, a: a.bit_count()),
    ("clz.{t}", ("b32", "b64"), "x", "u32", lambda t, a: bits_of(t) - a.bit_length()),
    ("brev.{t}", ("b32", "b64"), "x", "x", lambda t, a: int(f"{a:0{bits_of(t)}b}"[::-1], 2)),
    ("and.{t}", BITS, "x x", "x", lambda t, a, b: a & b),
    ("or.{t}", BITS, "x x", "x", lambda t, a, b: a | b),
    ("xor.{t}", BITS, "x x", "x", lambda t, a, b: a ^ b),
    ("not.{t}", BITS, "x", "x", lambda t, a: ~a),
    ("cnot.{t}", BITS, "x", "x", lambda t, a: int(a == 0)),
    ("shl.{t}", BITS, "x u32", "x", lambda t, a, n: a << n if n < 64 else 0),
    ("shr.{t}", (*INTEGERS, *BITS), "x u32", "x", lambda t, a, n: a >> min(n, 64)),
    ("shf.l.clamp.{t}", ("b32",), "x x u32", "x",
     lambda t, a, b, n: (b << 32 | a) << min(n, 32) >> 32),
    ("shf.r.clamp.{t}", ("b32",), "x x u32", "x", lambda t, a, b, n: (b << 32 | a) >> min(n, 32)),
    ("shf.l.wrap.{t}", ("b32",), "x x u32", "x",
     lambda t, a, b, n: (b << 32 | a) << n % 32 >> 32),
    ("shf.r.wrap.{t}", ("b32",), "x x u32", "x", lambda t, a, b, n: (b << 32 | a) >> n % 32),
    ("szext.clamp.{t}", WORDS, "x u32", "x",
     lambda t, a, n: a if n >= 32 else signed(a, f"{t[0]}{n}") if n else 0),
    ("szext.wrap.{t}", WORDS, "x u32", "x",
     lambda t, a, n: signed(a, f"{t[0]}{n % 32}") if n % 32 else 0),
    ("bmsk.clamp.{t}", ("b32",), "x x", "x",
     lambda t, a, n: ((1 << min(n, 32)) - 1) << a if a < 32 else 0),
    ("bmsk.wrap.{t}", ("b32",), "x x", "x", lambda t, a, n: ((1 << n % 32) - 1) << a % 32),
]  # fmt: skip
ALL = [(case[0].format(t=t), t, *case[2:]) for case in CASES for t in case[1]]


def kind_of(word: str, t: str) -> str:
    return {"x": t, "w": f"{t[0]}{2 * bits_of(t)}"}.get(word, word)


@pytest.mark.parametrize(("opcode", "t", "words", "result", "oracle"), ALL,
                         ids=[case[0] for case in ALL])  # fmt: skip
def test_an_instruction_at_the_edges_of_its_types(
    opcode: str, t: str, words: str, result: str, oracle: Oracle
) -> None:
    kinds = [kind_of(word, t) for word in words.split()]
    rows = [*itertools.product(*map(edges, kinds[:2]))]
    if len(kinds) == 3:
        third = edges(kinds[2])
        rows = [(*row, third[(5 * i + i // 17) % len(third)]) for i, row in enumerate(rows)]
    columns = [array(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds,
                                                           strict=True)]  # fmt: skip
    found = execute(opcode, *columns)
    of = kind_of(result, t)
    wanted = array([oracle(t, *row) for row in rows], of)
    assert found.dtype.itemsize == wanted.dtype.itemsize
    wrong = np.flatnonzero(found.view(wanted.dtype) != wanted)
    assert not len(wrong), (rows[wrong[0]], found[wrong[0]], wanted[wrong[0]])
    for i in range(0, len(rows), 7):  # all threads hold the same: scalars, and a scalar comes back
        one = execute(opcode, *(column[i] for column in columns))
        assert not isinstance(one, np.ndarray) and one == found[i]


def field(t: str, a: int, start: int, length: int) -> int:
    """bfe by its pseudocode."""
    bits = bits_of(t)
    if bits == 32:
        start, length = start & 0xFF, length & 0xFF
    sign = 0
    if t[0] == "s" and length:
        sign = a >> min(start + length - 1, bits - 1) & 1
    return sum((a >> start + i & 1 if i < length and start + i < bits else sign) << i
               for i in range(bits))  # fmt: skip


PLACES = [0, 1, 5, 8, 15, 16, 31, 32, 33, 48, 63, 64, 65, 127, 200, 255]


@pytest.mark.parametrize("t", CARRY)
def test_9_7_1_19_a_field_of_bits(t: str) -> None:
    more = [256, 257, 0x108] if t[1:] == "32" else []
    rows = [*itertools.product(edges(t)[::3], PLACES + more, PLACES + more)]
    a, start, length = zip(*rows, strict=True)
    found = execute(f"bfe.{t}", array(a, t), array(start, "u32"), array(length, "u32"))
    assert np.array_equal(found, array([field(t, *row) for row in rows], t))


@pytest.mark.parametrize("t", ["b32", "b64"])
def test_9_7_1_20_bits_put_in(t: str) -> None:
    bits = bits_of(t)
    more = [256, 257, 0x108] if bits == 32 else []
    rows = [*itertools.product(edges(t)[9::4], edges(t)[9::5], (PLACES + more)[::2], PLACES + more)]
    a, b, start, length = zip(*rows, strict=True)
    wanted = []
    for x, y, first, many in rows:
        first, many = (first & 0xFF, many & 0xFF) if bits == 32 else (first, many)
        for i in range(min(many, bits)):
            if first + i < bits:
                y = y & ~(1 << first + i) | (x >> i & 1) << first + i
        wanted.append(y)
    found = execute(f"bfi.{t}", array(a, t), array(b, t), array(start, "u32"),
                    array(length, "u32"))  # fmt: skip
    assert np.array_equal(found, array(wanted, t))


@pytest.mark.parametrize("t", CARRY)
@pytest.mark.parametrize("shiftamt", ["", ".shiftamt"])
def test_9_7_1_16_the_highest_bit(t: str, shiftamt: str) -> None:
    bits, numbers = bits_of(t), edges(t)
    wanted = []
    for n in numbers:
        place = (~n if n < 0 else n).bit_length() - 1
        wanted.append(bits - 1 - place if shiftamt and place >= 0 else place)
    found = execute(f"bfind{shiftamt}.{t}", array(numbers, t))
    assert found.dtype == np.uint32 and np.array_equal(found, array(wanted, "u32"))


def test_9_7_1_17_the_n_th_bit() -> None:
    masks = [0, 1, 0x80000000, 0xFFFFFFFF, 0x00F0A501, 0x80000001]
    rows = [*itertools.product(masks, [0, 1, 5, 16, 31, 32, 40],
                               [0, 1, 2, 3, 32, 33, -1, -2, -5, -33])]  # fmt: skip
    wanted = []
    for mask, base, offset in rows:
        if offset == 0:
            wanted.append(base if base < 32 and mask >> base & 1 else -1)
            continue
        way = range(base, 32) if offset > 0 else range(base, -1, -1)
        there = [i for i in way if mask >> i & 1] if base < 32 else []
        wanted.append(there[abs(offset) - 1] if abs(offset) <= len(there) else -1)
    mask, base, offset = zip(*rows, strict=True)
    given = array(mask, "u32"), array(base, "u32"), array(offset, "s32")
    found = execute("fns.b32", *given)
    assert np.array_equal(found, array(wanted, "u32"))
    one = execute("fns.b32", *(column[150] for column in given))
    assert not isinstance(one, np.ndarray) and one == found[150]


HALVES = [0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x1234]


@pytest.mark.parametrize("t", ["u16x2", "s16x2"])
@pytest.mark.parametrize("word", ["add", "min", "max", "min.relu", "max.relu"])
def test_two_numbers_of_16_bits(word: str, t: str) -> None:
    if "relu" in word and t[0] == "u":
        return
    name = word.partition(".")[0]
    pick = {"add": lambda a, b: a + b, "min": min, "max": max}[name]
    pairs = [*itertools.product(HALVES, repeat=4)][::3]
    a, b = ([p[i] | p[i + 1] << 16 for p in pairs] for i in (0, 2))
    found = execute(f"{word}.{t}", array(a, "u32"), array(b, "u32"))
    wanted = []
    for a0, a1, b0, b1 in pairs:
        both = [pick(signed(x, t[:3]), signed(y, t[:3])) for x, y in ((a0, b0), (a1, b1))]
        both = [max(x, 0) if "relu" in word else x for x in both]
        wanted.append(both[0] & 0xFFFF | (both[1] & 0xFFFF) << 16)
    assert np.array_equal(found.view(np.uint32), array(wanted, "u32"))


@pytest.mark.parametrize("t", CARRY)
def test_9_7_2_sums_with_the_carry_flag(t: str) -> None:
    bits = bits_of(t)
    rows = [*itertools.product(edges(t), edges(t), (0, 1))]
    a, b, c = (array(column, kind) for column, kind in zip(zip(*rows, strict=True), (t, t, "pred"),
                                                           strict=True))  # fmt: skip
    mask = (1 << bits) - 1
    unsigned = [(x & mask, y & mask, z) for x, y, z in rows]
    for word, value in (("add", lambda x, y, z: x + y + z), ("sub", lambda x, y, z: x - y - z)):
        with_flag = [value(*row) for row in unsigned]
        without = [value(x, y, 0) for x, y, _ in unsigned]
        found, carry = execute(f"{word}.cc.{t}", a, b, results=2)
        assert np.array_equal(found, array(without, t))
        assert carry.tolist() == [bool(n >> bits & 1) for n in without]
        found, carry = execute(f"{word}c.cc.{t}", a, b, c, results=2)
        assert np.array_equal(found, array(with_flag, t))
        assert carry.tolist() == [bool(n >> bits & 1) for n in with_flag]
        assert np.array_equal(execute(f"{word}c.{t}", a, b, c), array(with_flag, t))


@pytest.mark.parametrize("t", CARRY)
@pytest.mark.parametrize("half", ["lo", "hi"])
def test_9_7_2_products_with_the_carry_flag(t: str, half: str) -> None:
    bits = bits_of(t)
    numbers = edges(t)[::2]
    rows = [*itertools.product(numbers, numbers, numbers, (0, 1))]
    a, b, c, flag = (array(column, kind) for column, kind in zip(
        zip(*rows, strict=True), (t, t, t, "pred"), strict=True))  # fmt: skip
    mask = (1 << bits) - 1
    parts = [(x * y >> (bits if half == "hi" else 0) & mask, z & mask, f) for x, y, z, f in rows]
    found, carry = execute(f"mad.{half}.cc.{t}", a, b, c, results=2)
    assert np.array_equal(found, array([p + z for p, z, _ in parts], t))
    assert carry.tolist() == [p + z > mask for p, z, _ in parts]
    found, carry = execute(f"madc.{half}.cc.{t}", a, b, c, flag, results=2)
    assert np.array_equal(found, array([p + z + f for p, z, f in parts], t))
    assert carry.tolist() == [p + z + f > mask for p, z, f in parts]
    found = execute(f"madc.{half}.{t}", a, b, c, flag)
    assert np.array_equal(found, array([p + z + f for p, z, f in parts], t))


@pytest.mark.parametrize("a_kind", WORDS)
@pytest.mark.parametrize("b_kind", WORDS)
def test_9_7_1_23_products_of_bytes(a_kind: str, b_kind: str) -> None:
    rng = np.random.default_rng(4)
    a, b, c = rng.integers(0, 1 << 32, (3, 64), np.uint32)
    a[:4] = 0x80808080, 0x7F7F7F7F, 0xFF01FF01, 0x01000000
    b[:4] = 0x80808080, 0xFFFFFFFF, 0x00800000, 0x02030405

    def piece(n: int, i: int, bits: int, kind: str) -> int:
        return signed(int(n) >> bits * i, f"{kind[0]}{bits}")

    def products(p: int, q: int, first: int | None) -> int:
        if first is None:
            return sum(piece(p, i, 8, a_kind) * piece(q, i, 8, b_kind) for i in range(4))
        return sum(piece(p, i, 16, a_kind) * piece(q, i + first, 8, b_kind) for i in range(2))

    for first, opcode in ((None, "dp4a"), (0, "dp2a.lo"), (2, "dp2a.hi")):
        rows = zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
        wanted = [r + products(p, q, first) for p, q, r in rows]
        found = execute(f"{opcode}.{a_kind}.{b_kind}", a, b, c)
        assert np.array_equal(found, array(wanted, "u32"))


# -- logic and comparison --------------------------------------------------------------------


@pytest.mark.parametrize("table", [0, 1, 0x80, 0xE8, 0x96, 0xCA, 0xF0, 0xCC, 0xAA, 0xFF])
def test_9_7_8_6_any_function_of_three_bits(table: int) -> None:
    """0xF0 is a, 0xCC b, 0xAA c; 0x96 their exclusive or."""
    rng = np.random.default_rng(4)
    a, b, c = rng.integers(0, 1 << 32, (3, 16), np.uint32)
    a[:2] = b[:2] = c[:2] = 0, 0xFFFFFFFF
    found = execute("lop3.b32", a, b, c, np.uint32(table))
    for x, y, z, got in zip(a, b, c, np.broadcast_to(found, 16), strict=True):
        for i in range(32):
            row = (int(x) >> i & 1) << 2 | (int(y) >> i & 1) << 1 | int(z) >> i & 1
            assert int(got) >> i & 1 == table >> row & 1
    for word, join in (("and", np.logical_and), ("or", np.logical_or)):
        q = rng.integers(0, 2, 16).astype(bool)
        r, p = chosen(f"lop3.{word}.b32", 5, 2).function(a, b, c, np.uint32(table), q)
        assert np.array_equal(r, found) and np.array_equal(p, join(found != 0, q))


def test_logic_of_predicates() -> None:
    p, q = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    assert execute("and.pred", p, q).tolist() == [False, False, False, True]
    assert execute("or.pred", p, q).tolist() == [False, True, True, True]
    assert execute("xor.pred", p, q).tolist() == [False, True, True, False]
    assert execute("not.pred", p).tolist() == [True, True, False, False]


MODES = {
    "f4e": ((3, 2, 1, 0), (4, 3, 2, 1), (5, 4, 3, 2), (6, 5, 4, 3)),
    "b4e": ((5, 6, 7, 0), (6, 7, 0, 1), (7, 0, 1, 2), (0, 1, 2, 3)),
    "rc8": ((0,) * 4, (1,) * 4, (2,) * 4, (3,) * 4),
    "ecl": ((3, 2, 1, 0), (3, 2, 1, 1), (3, 2, 2, 2), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (1, 1, 1, 0), (2, 2, 1, 0), (3, 2, 1, 0)),
    "rc16": ((1, 0, 1, 0), (3, 2, 3, 2), (1, 0, 1, 0), (3, 2, 3, 2)),
}
"""The table of the PTX ISA, 9.7.9.7: selector -> which byte goes to d.b3, d.b2, d.b1, d.b0."""


@pytest.mark.parametrize("mode", MODES)
def test_9_7_9_7_bytes_in_an_order(mode: str) -> None:
    a, b = 0x83726150, 0xC7B6A594
    parts = [*a.to_bytes(4, "little"), *b.to_bytes(4, "little")]
    selectors = np.arange(8, dtype=np.uint32)
    found = execute(f"prmt.b32.{mode}", np.uint32(a), np.uint32(b), selectors)
    wanted = [int.from_bytes(bytes(parts[i] for i in MODES[mode][s % 4]), "big") for s in range(8)]
    assert found.tolist() == wanted


def test_9_7_9_7_bytes_and_their_signs() -> None:
    a, b = 0x83726150, 0xC7B6A594
    parts = [*a.to_bytes(4, "little"), *b.to_bytes(4, "little")]
    for selector in (0x3210, 0x7654, 0x0000, 0xFEDC, 0xBA98, 0x8F07, 0x1C5B):
        wanted = 0
        for place in range(4):
            choice = selector >> 4 * place & 15
            byte = parts[choice & 7]
            wanted |= (0xFF * (byte >> 7) if choice & 8 else byte) << 8 * place
        found = execute("prmt.b32", np.uint32(a), np.uint32(b), np.uint32(selector))
        assert int(found) == wanted, hex(selector)
