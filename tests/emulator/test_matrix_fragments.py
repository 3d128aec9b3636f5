"""Fragment layouts, section by section, against the formulas that the PTX ISA prints.

Each section of 9.7.14.5 gives ``row`` and ``col`` of element i of a lane with
``groupID = %laneid >> 2`` and ``threadID_in_group = %laneid % 4``.  Those
formulas are written out here one by one, for scalars; the module under test
has one rule for all of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from phasebit.emulator.numbers.fragments import (
    Fragment,
    accumulator,
    operand_a,
    operand_b,
    pack,
    repeated,
    unpack,
)
from phasebit.emulator.ops.matrix import wmma_fragment

Formula = Callable[[int, int, int], tuple[int, int]]
"""(groupID, threadID_in_group, i) -> (row, col)."""


def c_of_16_rows(g: int, t: int, i: int) -> tuple[int, int]:
    return (g if i < 2 else g + 8), t * 2 + (i & 1)


def c_of_8_rows(g: int, t: int, i: int) -> tuple[int, int]:
    return g, t * 2 + (i & 1)


SECTIONS: list[tuple[str, Fragment, int, Formula]] = [
    # 9.7.14.5.2  m8n8k4 .f64
    ("m8n8k4 f64 A", operand_a(8, 4, 1), 1, lambda g, t, i: (g, t)),
    ("m8n8k4 f64 B", operand_b(8, 4, 1), 1, lambda g, t, i: (t, g)),
    ("m8n8k4 f64 C", accumulator(8, 8), 2, c_of_8_rows),
    # 9.7.14.5.3  m8n8k16 .s8 .u8
    ("m8n8k16 s8 A", operand_a(8, 16, 4), 4, lambda g, t, i: (g, t * 4 + i)),
    ("m8n8k16 s8 B", operand_b(8, 16, 4), 4, lambda g, t, i: (t * 4 + i, g)),
    # 9.7.14.5.4  m8n8k32 .s4 .u4
    ("m8n8k32 s4 A", operand_a(8, 32, 8), 8, lambda g, t, i: (g, t * 8 + i)),
    ("m8n8k32 s4 B", operand_b(8, 32, 8), 8, lambda g, t, i: (t * 8 + i, g)),
    # 9.7.14.5.6  m16n8k4 .tf32 .f64
    ("m16n8k4 A", operand_a(16, 4, 1), 2, lambda g, t, i: (g if i == 0 else g + 8, t)),
    ("m16n8k4 B", operand_b(8, 4, 1), 1, lambda g, t, i: (t, g)),
    ("m16n8k4 C", accumulator(16, 8), 4, c_of_16_rows),
    # 9.7.14.5.7  m16n8k8 .f16 .bf16
    ("m16n8k8 f16 A", operand_a(16, 8, 2), 4,
     lambda g, t, i: (g if i < 2 else g + 8, t * 2 + (i & 1))),
    ("m16n8k8 f16 B", operand_b(8, 8, 2), 2, lambda g, t, i: (t * 2 + i, g)),
    # 9.7.14.5.7  m16n8k8 .tf32 .f64
    ("m16n8k8 tf32 A", operand_a(16, 8, 1), 4,
     lambda g, t, i: (g if i in (0, 2) else g + 8, t if i in (0, 1) else t + 4)),
    ("m16n8k8 tf32 B", operand_b(8, 8, 1), 2, lambda g, t, i: (t if i == 0 else t + 4, g)),
    # 9.7.14.5.8  m16n8k16 .f16 .bf16
    ("m16n8k16 f16 A", operand_a(16, 16, 2), 8,
     lambda g, t, i: (g if i < 2 or 4 <= i < 6 else g + 8,
                      t * 2 + (i & 1) + (8 if i >= 4 else 0))),
    ("m16n8k16 f16 B", operand_b(8, 16, 2), 4,
     lambda g, t, i: (t * 2 + (i & 1) + (8 if i >= 2 else 0), g)),
    # 9.7.14.5.8  m16n8k16 .f64
    ("m16n8k16 f64 A", operand_a(16, 16, 1), 8,
     lambda g, t, i: (g if i % 2 == 0 else g + 8, (i * 2 if i % 2 == 0 else i * 2 - 2) + t)),
    ("m16n8k16 f64 B", operand_b(8, 16, 1), 4, lambda g, t, i: (t + i * 4, g)),
    # 9.7.14.5.9  m16n8k16 .s8 .u8
    ("m16n8k16 s8 A", operand_a(16, 16, 4), 8,
     lambda g, t, i: (g if i < 4 else g + 8, t * 4 + (i & 3))),
    ("m16n8k16 s8 B", operand_b(8, 16, 4), 4, lambda g, t, i: (t * 4 + i, g)),
    # 9.7.14.5.10  m16n8k32 .s4 .u4
    ("m16n8k32 s4 A", operand_a(16, 32, 8), 16,
     lambda g, t, i: (g if i < 8 else g + 8, t * 8 + (i & 7))),
    ("m16n8k32 s4 B", operand_b(8, 32, 8), 8, lambda g, t, i: (t * 8 + i, g)),
    # 9.7.14.5.10  m16n8k32 .s8 .u8 .e4m3 .e5m2
    ("m16n8k32 s8 A", operand_a(16, 32, 4), 16,
     lambda g, t, i: (g if i < 4 or 8 <= i < 12 else g + 8,
                      t * 4 + (i & 3) + (16 if i >= 8 else 0))),
    ("m16n8k32 s8 B", operand_b(8, 32, 4), 8,
     lambda g, t, i: (t * 4 + (i & 3) + (16 if i >= 4 else 0), g)),
    # 9.7.14.5.11  m16n8k64 .s4 .u4
    ("m16n8k64 s4 A", operand_a(16, 64, 8), 32,
     lambda g, t, i: (g if i < 8 or 16 <= i < 24 else g + 8,
                      t * 8 + (i & 7) + (32 if i >= 16 else 0))),
    ("m16n8k64 s4 B", operand_b(8, 64, 8), 16,
     lambda g, t, i: (t * 8 + (i & 7) + (32 if i >= 8 else 0), g)),
]  # fmt: skip


@pytest.mark.parametrize(("fragment", "elements", "formula"), [s[1:] for s in SECTIONS],
                         ids=[s[0] for s in SECTIONS])  # fmt: skip
def test_section(fragment: Fragment, elements: int, formula: Formula) -> None:
    assert fragment.elements == elements
    for lane in range(32):
        for i in range(elements):
            here = fragment.row[lane, i], fragment.column[lane, i]
            assert here == formula(lane >> 2, lane % 4, i), (lane, i)


@pytest.mark.parametrize("fragment", [s[1] for s in SECTIONS], ids=[s[0] for s in SECTIONS])
def test_a_matrix_survives_its_fragments(fragment: Fragment) -> None:
    """Every element is held exactly once, and comes back to its place."""
    rows, columns = fragment.shape
    assert 32 * fragment.elements == rows * columns
    whole = np.arange(3 * rows * columns).reshape(3, rows, columns)
    held = fragment.spread(whole)
    assert sorted(held[0].ravel()) == list(range(rows * columns))
    np.testing.assert_array_equal(fragment.collect(held), whole)


WMMA = [  # PTX ISA 9.7.14.4.1: registers of a fragment, by shape, type and role
    ("m16n16k16", "f16", 16, 16), ("m8n32k16", "f16", 16, 16), ("m32n8k16", "f16", 16, 16),
    ("m16n16k16", "bf16", 8, 8), ("m8n32k16", "bf16", 4, 16), ("m32n8k16", "bf16", 16, 4),
    ("m16n16k16", "s8", 8, 8), ("m8n32k16", "s8", 4, 16), ("m32n8k16", "u8", 16, 4),
    ("m16n16k8", "tf32", 4, 4), ("m8n8k4", "f64", 1, 1),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "kind", "of_a", "of_b"), WMMA)
def test_wmma_fragments_hold_what_the_isa_counts(
    shape: str, kind: str, of_a: int, of_b: int
) -> None:
    """Elements a thread: 8 registers for f16 whatever the shape, no spare ones for the others."""
    a, b = wmma_fragment("a", shape, kind), wmma_fragment("b", shape, kind)
    c = wmma_fragment("c", shape, kind)
    assert (a.elements, b.elements) == (of_a, of_b)
    assert c.elements * 32 == c.shape[0] * c.shape[1]
    for fragment in (a, b, c):
        whole = np.arange(fragment.shape[0] * fragment.shape[1]).reshape(1, *fragment.shape)
        np.testing.assert_array_equal(fragment.collect(fragment.spread(whole)), whole)


def test_repeated_elements_are_the_same_elements() -> None:
    once = operand_a(16, 16, 2)
    twice = repeated(once, 16)
    np.testing.assert_array_equal(twice.row[:, :8], twice.row[:, 8:])
    np.testing.assert_array_equal(twice.column[:, 8:], once.column)


def test_elements_of_a_register_from_low_to_high() -> None:
    registers = np.array([[0x89ABCDEF, 0x01234567]], np.uint32)
    assert unpack(registers, 1).tolist() == [[0x89ABCDEF, 0x01234567]]
    assert unpack(registers, 2).tolist() == [[0xCDEF, 0x89AB, 0x4567, 0x0123]]
    assert unpack(registers, 4).tolist() == [[0xEF, 0xCD, 0xAB, 0x89, 0x67, 0x45, 0x23, 0x01]]
    assert unpack(registers, 8)[0, :9].tolist() == [15, 14, 13, 12, 11, 10, 9, 8, 7]
    np.testing.assert_array_equal(pack(unpack(registers, 2)), registers)
    np.testing.assert_array_equal(pack(unpack(registers, 4)), registers)


def test_tensor_layouts_agrees() -> None:
    """The tables of the package tensor-layouts, made for other reasons by other people."""
    atoms = pytest.importorskip(
        "tensor_layouts.atoms_nv", reason="tensor-layouts is not installed: NOT asked"
    )
    asked = 0
    for name, shape, width in (
        ("SM80_16x8x8_F32F16F16F32_TN", (16, 8, 8), 2),
        ("SM80_16x8x16_F32F16F16F32_TN", (16, 8, 16), 2),
        ("SM80_16x8x4_F32TF32TF32F32_TN", (16, 8, 4), 1),
        ("SM80_16x8x8_F32TF32TF32F32_TN", (16, 8, 8), 1),
        ("SM80_8x8x4_F64F64F64F64_TN", (8, 8, 4), 1),
        ("SM80_8x8x16_S32S8S8S32_TN", (8, 8, 16), 4),
        ("SM80_16x8x16_S32S8S8S32_TN", (16, 8, 16), 4),
        ("SM80_16x8x32_S32S8S8S32_TN", (16, 8, 32), 4),
    ):
        atom = getattr(atoms, name, None)
        if atom is None:
            continue
        asked += 1
        m, n, k = shape
        # a layout maps (lane, value) to m + row count * k, and for B to n + 8 * k
        for fragment, layout, swapped in (
            (operand_a(m, k, width), atom.a_layout, False),
            (operand_b(n, k, width), atom.b_layout, True),
            (accumulator(m, n), atom.c_layout, False),
        ):
            for lane in range(32):
                for i in range(fragment.elements):
                    row, column = fragment.row[lane, i], fragment.column[lane, i]
                    if swapped:
                        row, column = column, row
                    major = fragment.shape[1] if swapped else fragment.shape[0]
                    assert layout(lane, i) == row + major * column, (name, lane, i)
    assert asked, "none of the atoms has the name expected"


def test_the_sections_catch_a_planted_mistake() -> None:
    """The two middle registers of A exchanged (right along k before down): not the layout."""
    right = operand_a(16, 16, 2)
    order = [0, 1, 4, 5, 2, 3, 6, 7]
    wrong = Fragment(right.shape, right.row[:, order], right.column[:, order])
    with pytest.raises(AssertionError):
        test_section(wrong, 8, {s[0]: s[3] for s in SECTIONS}["m16n8k16 f16 A"])
