"""Instruction descriptors: each bit, each limit, each sentence (PTX ISA 9.7.16.4.2)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from phasebit.emulator.tensor_core import descriptor_words as words
from phasebit.emulator.tensor_core import instruction_descriptors as plain
from phasebit.emulator.tensor_core import scaled_descriptors as scaled
from phasebit.emulator.tensor_core.instruction_descriptors import InstructionDescriptorError

F16 = plain.encode("f16", 128, 64, "f16", "bf16", "f32")
TF32 = plain.encode("tf32", 128, 64, "tf32", "tf32", "f32")
F8 = plain.encode("f8f6f4", 128, 64, "e4m3", "e2m1", "f16")
I8 = plain.encode("i8", 128, 64, "u8", "s8", "s32")


@pytest.mark.parametrize(("made", "bits"), [
    (F16, 8 << 24 | 8 << 17 | 1 << 10 | 1 << 4), (TF32,
     8 << 24 | 8 << 17 | 2 << 10 | 2 << 7 | 1 << 4),
    (F8, 8 << 24 | 8 << 17 | 5 << 10), (I8, 8 << 24 | 8 << 17 | 1 << 10 | 2 << 4),
    (plain.encode("f16", 64, 8, "f16", "f16", "f16", mn_major_a=True), 4 << 24 | 1 << 17 | 1 << 15),
    (plain.encode("f16", 64, 8, "f16", "f16", "f16", mn_major_b=True), 4 << 24 | 1 << 17 | 1 << 16),
    (plain.encode("f16", 64, 8, "f16", "f16", "f16", negate_a=True), 4 << 24 | 1 << 17 | 1 << 13),
    (plain.encode("f16", 64, 8, "f16", "f16", "f16", negate_b=True), 4 << 24 | 1 << 17 | 1 << 14),
    (plain.encode("i8", 64, 8, "u8", "u8", "s32", saturate=True), 4 << 24 | 1 << 17 | 2 << 4 | 8),
    (plain.encode("f16", 64, 8, "f16", "f16", "f16", sparse=True, selector=1),
     4 << 24 | 1 << 17 | 5),
    (scaled.encode("mxf8f6f4", 8, "e3m2", "e5m2"), 1 << 27 | 1 << 23 | 1 << 17 | 1 << 10 | 4 << 7),
    (scaled.encode("mxf4nvf4", 8, "e2m1", "e2m1", "ue4m3", m=256),
     2 << 27 | 1 << 17 | 1 << 10 | 1 << 7),
    (scaled.encode("mxf4", 8, "e2m1", "e2m1", a_id=2, b_id=3),
     2 << 29 | 1 << 27 | 1 << 23 | 1 << 17 | 1 << 10 | 1 << 7 | 3 << 4),
    (scaled.encode("mxf8f6f4", 8, "e4m3", "e4m3", negate_a=True, mn_major_b=True, sparse=True),
     1 << 27 | 1 << 23 | 1 << 17 | 1 << 16 | 1 << 13 | 4),
    (scaled.encode("mxf8f6f4", 8, "e4m3", "e4m3", negate_b=True, mn_major_a=True),
     1 << 27 | 1 << 23 | 1 << 17 | 1 << 15 | 1 << 14),
])  # fmt: skip
def test_which_bits_say_what(made: int, bits: int) -> None:
    assert f"{made:#x}" == f"{bits:#x}"


PRODUCTS = [
    ("f16", {}, "kind::f16: D f32 (128 × 64) = A f16, K-major · B bf16, K-major; k = 16"),
    ("f16", {"mn_major_a": True, "negate_b": True},
     "kind::f16: D f32 (128 × 64) = A f16, M-major · -B bf16, K-major; k = 16"),
    ("f16", {"mn_major_b": True, "negate_a": True},
     "kind::f16: D f32 (128 × 64) = -A f16, K-major · B bf16, N-major; k = 16"),
    ("i8", {"saturate": True},
     "kind::i8: D s32 (128 × 64) = A u8, K-major · B s8, K-major; k = 32, saturated"),
    ("tf32", {"sparse": True, "selector": 1},
     "kind::tf32: D f32 (128 × 64) = A tf32, K-major · B tf32, K-major; k = 16, A sparse, "
     "selector 1"),
    ("f8f6f4", {"sparse": True},
     "kind::f8f6f4: D f16 (128 × 64) = A e4m3, K-major · B e2m1, K-major; k = 64, A sparse, "
     "selector 0"),
]  # fmt: skip
OF = {"f16": ("f16", "bf16", "f32"), "tf32": ("tf32", "tf32", "f32"),
      "f8f6f4": ("e4m3", "e2m1", "f16"), "i8": ("u8", "s8", "s32")}  # fmt: skip


@pytest.mark.parametrize(("kind", "more", "says"), PRODUCTS)
def test_a_descriptor_in_words(kind: str, more: dict[str, Any], says: str) -> None:
    found = plain.decode(plain.encode(kind, 128, 64, *OF[kind], **more), kind,
                         sparse=more.get("sparse", False))  # fmt: skip
    assert str(found) == says
    for name in ("negate_a", "negate_b", "mn_major_a", "mn_major_b", "saturate", "sparse"):
        assert getattr(found, name) is more.get(name, False)
    assert found.selector == more.get("selector", 0) and not found.packed


def refused(bits: int, kind: str, *how: Any, **named: Any) -> str:
    """What is said of a descriptor; empty where it is taken."""
    read = scaled.decode if kind in scaled.VECTORS else plain.decode
    try:
        read(bits, kind, *how, **named)
    except InstructionDescriptorError as error:
        head, _, why = str(error).partition(": ")
        assert head == f"instruction descriptor {bits:#010x}"
        return why
    return ""


def shaped(kind: str, m: int, n: int, **more: Any) -> int:
    return plain.encode(kind, m, n, *OF[kind], **more)


@pytest.mark.parametrize(("kind", "group", "weights", "sparse", "right", "wrong"), [
    ("f16", 1, False, False, [(64, 8), (128, 256), (64, 24), (128, 16)],
     [(32, 64), (256, 64), (64, 0), (64, 264), (0, 64), (192, 64)]),
    ("f16", 2, False, False, [(128, 16), (256, 256), (128, 48)],
     [(64, 64), (128, 8), (256, 24), (512 - 16, 64)]),
    ("i8", 1, False, False, [(64, 8), (64, 24), (64, 32), (64, 48), (128, 256)],
     [(64, 40), (64, 56), (128, 72)]),
    ("i8", 2, False, False, [(128, 32), (256, 64)], [(128, 16), (128, 48)]),
    ("f16", 1, True, False, [(32, 64), (64, 128), (128, 256), (32, 256)],
     [(16, 64), (256, 64), (32, 32), (64, 192), (64, 72)]),
    ("f16", 1, True, True, [(32, 64), (64, 128)], [(32, 256), (64, 32)]),
])  # fmt: skip
def test_the_shapes_that_a_product_may_have(
    kind: str, group: int, weights: bool, sparse: bool, right: list[tuple[int, int]],
    wrong: list[tuple[int, int]],
) -> None:  # fmt: skip
    def says(m: int, n: int) -> str:
        return refused(shaped(kind, m, n, sparse=sparse), kind, group, weights, sparse)

    for m, n in right:
        assert says(m, n) == "", (m, n)
    for m, n in wrong:
        why = says(m, n)
        if weights:
            many = "64 or 128" if sparse else "64, 128 or 256"
            assert why == f"M = {m}, N = {n}; with .ws M is 32, 64 or 128, and N is {many}"
        elif m not in (64 * group, 128 * group):
            assert why == f"M = {m}; with cta_group::{group} it is {64 * group} or {128 * group}"
        else:
            step = {("f16", 1): 8, ("f16", 2): 16, ("i8", 1): 16 if n > 32 else 8, ("i8", 2): 32}
            assert why == (
                f"N = {n}; with M = {m} it is a multiple of {step[kind, group]} up to 256"
            )


@pytest.mark.parametrize(("kind", "bits", "how", "says"), [
    ("f16", F16 | 1 << 3, {}, "bit 3, saturation, is for kind::i8 only"),
    ("f16", F16 | 1 << 6, {}, "bits 6-6 must be 0"), ("f16", F16 | 1 << 23, {},
     "bits 23-23 must be 0"),
    ("f16", F16 | 1 << 29, {}, "bits 29-31 must be 0"),
    ("f16", F16 | 1 << 30, {}, "bits 29-31 must be 0"),
    ("f16", F16 | 1 << 30, {"weights": True}, ""),
    ("f16", F16 | 1 << 29, {"weights": True}, "bits 29-29 must be 0"),
    ("f16", F16 | 4, {}, "bit 2 asks for a sparse A, which this instruction has not; .sp has it"),
    ("f16", F16, {"sparse": True}, "bit 2 says that A is dense, and this is .sp: set it"),
    ("f16", F16 | 1, {}, "bits 0-1 must be 0"), ("f16", F16 | 2, {}, "bits 0-1 must be 0"),
    ("f16", F16 | 5, {"sparse": True}, ""), ("tf32", TF32 | 5, {"sparse": True}, ""),
    ("f16", F16 | 6, {"sparse": True},
     "bits 0-1 are 2; the sparsity selector is 0 or 1 here, one of two columns"),
    ("f8f6f4", F8 | 5, {"sparse": True},
     "bits 0-1 are 1; the sparsity selector is 0 here, for the metadata fill both columns"),
    ("f16", F16 | 2 << 4, {},
     "type 3 of D is none of kind::f16, which has: 0 f16, 1 f32"),
    ("tf32", TF32 ^ 1 << 4, {}, "type 0 of D is none of kind::tf32, which has: 1 f32"),
    ("f16", F16 | 2 << 7, {}, "type 2 of A is none of kind::f16, which has: 0 f16, 1 bf16"),
    ("f8f6f4", F8 | 2 << 10, {}, "type 7 of B is none of kind::f8f6f4, which has: 0 e4m3, 1 e5m2, "
     "3 e2m3, 4 e3m2, 5 e2m1"),
    ("i8", I8 | 1 << 13, {}, "bits 13 and 14, negation, are not for kind::i8"),
    ("i8", I8 | 1 << 14, {}, "bits 13 and 14, negation, are not for kind::i8"),
    ("i8", I8 | 1 << 3, {}, ""),
    ("f8f6f4", shaped("f8f6f4", 128, 24, mn_major_b=True), {},
     "N = 24; with an N-major B of 8 bits or fewer it is a multiple of 16"),
    ("f8f6f4", shaped("f8f6f4", 128, 32, mn_major_b=True), {}, ""),
    ("f8f6f4", shaped("f8f6f4", 256, 48, mn_major_b=True), {"group": 2},
     "N = 48; with an N-major B of 8 bits or fewer it is a multiple of 32"),
    ("f8f6f4", shaped("f8f6f4", 128, 24, mn_major_a=True), {}, ""),
    ("f16", shaped("f16", 128, 24, mn_major_b=True), {}, ""),
    ("tf32", shaped("tf32", 128, 24, mn_major_b=True), {}, ""),
])  # fmt: skip
def test_what_a_product_does_not_take(kind: str, bits: int, how: dict[str, Any], says: str) -> None:
    assert refused(bits, kind, **how) == says


MX8 = scaled.encode("mxf8f6f4", 64, "e4m3", "e2m3")
MX4 = scaled.encode("mxf4", 64, "e2m1", "e2m1")
NV4 = scaled.encode("mxf4nvf4", 64, "e2m1", "e2m1", "ue4m3")
AS = "; with block scales it is "


@pytest.mark.parametrize(("kind", "bits", "how", "says"), [
    ("mxf8f6f4", MX8, (1,), ""), ("mxf4", MX4, (2,), ""), ("mxf4nvf4", NV4, (4,), ""),
    ("mxf8f6f4", MX8 | 8, (1,), "bits 3-3 must be 0"), ("mxf4", MX4 | 1 << 6, (2,),
     "bits 6-6 must be 0"),
    ("mxf4", MX4 | 1 << 24, (2,), "bits 24-26 must be 0"),
    ("mxf4", MX4 | 1 << 26, (2,), "bits 24-26 must be 0"),
    ("mxf8f6f4", MX8 | 1 << 31, (1,), "bit 31 must be 0"),
    ("mxf4", MX4 | 1 << 31, (2,),
     "bit 31 asks for K = 96, which only sm_103a has, and the emulator "
     "has not: where its scales lie the PTX ISA shows in figures only"),
    ("mxf8f6f4", MX8 | 2 << 7, (1,), "type 2 of A is none of kind::mxf8f6f4, which has: 0 e4m3, "
     "1 e5m2, 3 e2m3, 4 e3m2, 5 e2m1"),
    ("mxf4", MX4 | 2 << 10, (2,), "type 3 of B is none of kind::mxf4, which has: 1 e2m1"),
    ("mxf4", MX4 | 1 << 12, (2,), ""),
    ("mxf4", MX4 | 1 << 12 | 4, (2, 1, True), "bit 12 must be 0: the type of B has two bits here"),
    ("mxf8f6f4", MX8 ^ 1 << 23, (1,),
     "bit 23 says scales of ue4m3; kind::mxf8f6f4 with 1 a row takes "
     "ue8m0, bit 23 = 1"),
    ("mxf4", MX4 ^ 1 << 23, (2,),
     "bit 23 says scales of ue4m3; kind::mxf4 with 2 a row takes ue8m0, "
     "bit 23 = 1"),
    ("mxf4nvf4", NV4, (2,), "bit 23 says scales of ue4m3; kind::mxf4nvf4 with 2 a row takes ue8m0, "
     "bit 23 = 1"),
    ("mxf4nvf4", NV4 | 1 << 23, (4,), ""),
    ("mxf8f6f4", MX8 ^ 1 << 23 | 1 << 4, (1,), "bits 4-5 are 1 and bit 23 is 0: this looks like a "
     "descriptor of kind::f8f6f4; with block scales bits 4-5 are the id of B's scales, D is f32, "
     "and bit 23 is 1 for ue8m0"),
    ("mxf8f6f4", MX8 | 3 << 29 | 3 << 4, (1,), ""), ("mxf4", MX4 | 2 << 29 | 2 << 4, (2,), ""),
    ("mxf4", MX4 | 1 << 29, (2,),
     "the scale factor id of A, bits 29-30, is 1; with 2 scales a row it "
     "is 0 or 2, the byte of the first"),
    ("mxf4nvf4", NV4 | 2 << 4, (4,),
     "the scale factor id of B, bits 4-5, is 2; with 4 scales a row it "
     "is 0, the byte of the first"),
    ("mxf4", MX4 | 3 << 27, (2,), f"M = 384, bits 27-28 times 128{AS}128"),
    ("mxf4", MX4 ^ 3 << 27, (2,), f"M = 256, bits 27-28 times 128{AS}128"),
    ("mxf4", MX4 ^ 3 << 27, (2, 2), ""), ("mxf4", MX4, (2, 2), ""),
    ("mxf4", MX4 ^ 1 << 27, (2, 2), f"M = 0, bits 27-28 times 128{AS}128 or 256"),
    ("mxf4", MX4 | 4, (2, 2, True), f"M = 128, bits 27-28 times 128{AS}256"),
    ("mxf4", scaled.encode("mxf4", 8, "e2m1", "e2m1"), (2,), ""),
    ("mxf4", scaled.encode("mxf4", 256, "e2m1", "e2m1"), (2,), ""),
    ("mxf4", scaled.encode("mxf4", 0, "e2m1", "e2m1"), (2,), f"N = 0{AS}a multiple of 8 up to 256"),
    ("mxf4", scaled.encode("mxf4", 264, "e2m1", "e2m1"), (2,),
     f"N = 264{AS}a multiple of 8 up to 256"),
    ("mxf4", scaled.encode("mxf4", 24, "e2m1", "e2m1"), (2, 2),
     f"N = 24{AS}a multiple of 16 up to 256"),
    ("mxf4", MX4 | 1 << 15, (2,), "bit 15 says that A of e2m1 is M-major; kind::mxf4 transposes "
     "neither operand, clear it (PTX ISA 9.7.16.10.1, the table Transpose and Negate operation)"),
    ("mxf4nvf4", NV4 | 1 << 16, (4,),
     "bit 16 says that B of e2m1 is N-major; kind::mxf4nvf4 transposes"
     " neither operand, clear it (PTX ISA 9.7.16.10.1, the table Transpose and Negate operation)"),
    ("mxf8f6f4", MX8 | 3 << 15, (1,), ""),
    ("mxf8f6f4", scaled.encode("mxf8f6f4", 24, "e4m3", "e4m3", mn_major_b=True), (1,),
     "N = 24; with an N-major B of 8 bits or fewer it is a multiple of 16"),
    ("mxf8f6f4", scaled.encode("mxf8f6f4", 24, "e4m3", "e4m3", mn_major_a=True), (1,), ""),
    ("mxf8f6f4", MX8 | 5, (1, 1, True),
     "bits 0-1 are 1; the sparsity selector is 0 here, for the metadata fill both columns"),
])  # fmt: skip
def test_what_a_product_with_scales_does_not_take(
    kind: str, bits: int, how: tuple[Any, ...], says: str
) -> None:
    assert refused(bits, kind, *how) == says


def test_a_scaled_descriptor_has_what_it_says() -> None:
    bits = scaled.encode("mxf4nvf4", 64, "e2m1", "e2m1", "ue4m3", negate_b=True)
    found = scaled.decode(bits | 1 << 12, "mxf4nvf4", 4)
    assert (found.scale, found.a_id, found.b_id, found.per_row) == ("ue4m3", 0, 0, 4)
    assert (found.dense_k, found.k, found.packed, found.reserved) == (64, 64, True, True)
    assert (found.negate_a, found.negate_b, found.saturate, found.d) == (False, True, False, "f32")
    assert (
        found == scaled.decode(bits, "mxf4nvf4", 4)
        and not scaled.decode(bits, "mxf4nvf4", 4).reserved
    )
    mixed = scaled.decode(MX8 | 1 << 29 | 2 << 4 | 4, "mxf8f6f4", 1, sparse=True)
    assert str(mixed) == (
        "kind::mxf8f6f4: D f32 (128 × 64) = A e4m3, K-major · B e2m3, K-major; k = 64, A sparse, "
        "selector 0; scales ue8m0, ids 1, 2"
    )
    assert (mixed.dense_k, mixed.packed, mixed.a_id, mixed.b_id) == (32, False, 1, 2)


# -- in words --------------------------------------------------------------------------------


def test_the_fields_of_a_plain_descriptor() -> None:
    bits = I8 | 5 | 1 << 3 | 1 << 15 | 2 << 30
    assert words.fields(bits, "i8") == [
        (0, 2, "sparsity selector", "1"), (2, 1, "sparse A", "1"), (3, 1, "saturate", "1"),
        (4, 2, "type of D", "2: s32"), (7, 3, "type of A", "0: u8"), (10, 3, "type of B", "1: s8"),
        (13, 1, "negate A", "0"), (14, 1, "negate B", "0"), (15, 1, "A is M-major", "1"),
        (16, 1, "B is N-major", "0"), (17, 6, "N", "64"), (24, 5, "M", "128"),
        (30, 2, ".ws: most columns to shift", "16"),
    ]  # fmt: skip
    shifts = [words.fields(F16 | each << 30, "f16")[-1][3] for each in range(4)]
    assert shifts == ["0", "8", "16", "32"]


def test_the_fields_of_a_scaled_descriptor() -> None:
    assert words.fields(MX4 | 1 << 14 | 2 << 29 | 1 << 4 | 1 << 31 | 7 << 7, "mxf4") == [
        (0, 2, "sparsity selector", "0"), (2, 1, "sparse A", "0"), (4, 2, "id of B's scales", "1"),
        (7, 3, "type of A", "7: none such"), (10, 2, "type of B", "1: e2m1"),
        (13, 1, "negate A", "0"),
        (14, 1, "negate B", "1"), (15, 1, "A is M-major", "0"), (16, 1, "B is N-major", "0"),
        (17, 6, "N", "64"), (23, 1, "type of scales", "1: ue8m0"), (27, 2, "M", "128"),
        (29, 2, "id of A's scales", "2"), (31, 1, "K is 96", "1"),
    ]  # fmt: skip
    assert (10, 3, "type of B", "3: e2m3") in words.fields(MX8, "mxf8f6f4")
    assert (23, 1, "type of scales", "0: ue4m3") in words.fields(NV4, "mxf4nvf4")


def test_who_takes_a_descriptor() -> None:
    takes, refuses = words.forms(F16, "f16")
    assert [each.partition(": ")[0] for each in takes] == ["cta_group::1", "cta_group::2", ".ws"]
    assert refuses == []
    takes, refuses = words.forms(F16 | 4, "f16")
    assert [each.partition(": ")[0] for each in takes] == [
        ".sp, cta_group::1", ".sp, cta_group::2", ".ws.sp"
    ]  # fmt: skip
    takes, refuses = words.forms(shaped("f16", 32, 64), "f16")
    assert [each.partition(": ")[0] for each in takes] == [".ws"]
    assert refuses == ["cta_group::1: M = 32; with cta_group::1 it is 64 or 128",
                       "cta_group::2: M = 32; with cta_group::2 it is 128 or 256"]  # fmt: skip
    takes, refuses = words.forms(MX8, "mxf8f6f4")
    assert [each.partition(": ")[0] for each in takes] == [
        "cta_group::1, 1 scale a row", "cta_group::2, 1 scale a row"
    ]  # fmt: skip
    takes, refuses = words.forms(NV4, "mxf4nvf4")
    assert [each.partition(": ")[0] for each in takes] == [
        "cta_group::1, 4 scales a row", "cta_group::2, 4 scales a row"
    ]  # fmt: skip
    assert [each.partition(": ")[0] for each in refuses] == [
        "cta_group::1, 2 scales a row", "cta_group::2, 2 scales a row"
    ]  # fmt: skip


def test_a_descriptor_is_explained() -> None:
    lines = words.explain(F16, "f16").splitlines()
    assert lines[0] == f"tcgen05 instruction descriptor {F16:#010x} of kind::f16"
    assert f"  bits   0-1  {'sparsity selector':<28} 0" in lines
    assert f"  bits     2  {'sparse A':<28} 0" in lines
    assert f"  bits 17-22  {'N':<28} 64" in lines
    assert lines[-3].startswith("  cta_group::1: kind::f16: D f32 (128 × 64)")
    assert not any("wrong" in line for line in lines)
    wrong = words.explain(F16 | 1 << 6, "f16").splitlines()
    assert wrong[-3:] == [f"  wrong for {each}: bits 6-6 must be 0"
                          for each in ("cta_group::1", "cta_group::2", ".ws")]  # fmt: skip


def test_all_kinds_that_take_a_descriptor() -> None:
    assert words.KINDS == ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")
    kinds = re.findall(r"of kind::(\w+)\n", words.survey(MX4))
    assert kinds == ["mxf8f6f4", "mxf4", "mxf4nvf4"]
    none = words.survey(1 << 6).splitlines()
    assert none[0] == "no kind of tcgen05.mma takes the instruction descriptor 0x00000040:"
    assert [line.partition(",")[0] for line in none[1:]] == [
        f"  kind::{each}" for each in words.KINDS
    ]
    assert none[1] == "  kind::f16, cta_group::1: bits 6-6 must be 0"


def test_the_tables_of_kinds() -> None:
    assert plain.DEPTH == {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32}
    assert scaled.K == {"mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}
    assert scaled.SCALES == {1: ("ue8m0",), 2: ("ue8m0",), 4: ("ue8m0", "ue4m3")}
    assert scaled.IDS == {1: (0, 1, 2, 3), 2: (0, 2), 4: (0,)}
    assert scaled.VECTORS == {
        "mxf8f6f4": {"": 1, "scale_vec::1X": 1, "block32": 1},
        "mxf4": {"": 2, "scale_vec::2X": 2, "block32": 2},
        "mxf4nvf4": {"scale_vec::2X": 2, "block32": 2, "scale_vec::4X": 4, "block16": 4},
    }
