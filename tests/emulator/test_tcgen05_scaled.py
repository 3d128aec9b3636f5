"""tcgen05.mma with block scales, each rule named after its section of the PTX ISA.

There was no Blackwell to compare with: these are the words of the PTX ISA and the layouts that
CUTLASS publishes, against a reference that lays everything out number by number.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from phasebit.edits import replace_once
from phasebit.emulator.errors import EmulatorError
from phasebit.emulator.tensor_core import block_scales, scaled_descriptors
from phasebit.emulator.tensor_core.instruction_descriptors import InstructionDescriptorError
from tests.emulator.pair_kernels import PairGemm
from tests.emulator.scaled_kernels import WIDTH, Scaled, numbers, reference, scale_bytes

Array = NDArray[Any]
SCHEDULES = ("eager", "late", "random")


def data(case: Scaled, seed: int, low: int = 126, high: int = 129) -> tuple[Array, ...]:
    """Random codes and scales; the sums are exact in f32."""
    rng = np.random.default_rng(seed)
    found = []
    for rows, kind in ((128, case.a), (case.n, case.b)):
        codes = np.arange(1 << WIDTH[kind])
        values = numbers(codes, kind)
        plain = codes[(np.abs(values) <= 6) & (values * 4 % 1 == 0)]
        found.append(rng.choice(plain, (rows, case.k)).astype(np.uint8))
    for rows in (128, case.n):
        shape = rows, case.per_row * case.steps
        if case.scale == "ue8m0":
            scales = rng.integers(low, high + 1, shape)
        else:
            scales = rng.choice([0x30, 0x34, 0x38, 0x3C, 0x40, 0x00], shape)
        found.append(scales.astype(np.uint8))
    return tuple(found)


def right(case: Scaled, seed: int = 0, **more: Any) -> bool:
    given = data(case, seed)
    found, run = case.run(*given, **more)
    assert not run.findings, run.findings[0]
    return np.array_equal(found, reference(case, *given))


TYPES = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")


@pytest.mark.parametrize(("a", "b"), [*itertools.product(TYPES, TYPES)])
def test_9_7_16_10_9_1_mxf8f6f4_every_pair_of_types(a: str, b: str) -> None:
    assert right(Scaled("mxf8f6f4", 16, a, b, 1))


FORMS = [
    ("mxf8f6f4", 1, "ue8m0", "block_scale"), ("mxf8f6f4", 1, "ue8m0", "block_scale.scale_vec::1X"),
    ("mxf8f6f4", 1, "ue8m0", "block_scale.block32"), ("mxf4", 2, "ue8m0", "block_scale"),
    ("mxf4", 2, "ue8m0", "block_scale.scale_vec::2X"), ("mxf4", 2, "ue8m0", "block_scale.block32"),
    ("mxf4nvf4", 2, "ue8m0", "block_scale.scale_vec::2X"),
    ("mxf4nvf4", 2, "ue8m0", "block_scale.block32"),
    ("mxf4nvf4", 4, "ue8m0", "block_scale.scale_vec::4X"),
    ("mxf4nvf4", 4, "ue4m3", "block_scale.block16"),
    ("mxf4nvf4", 4, "ue4m3", "block_scale.scale_vec::4X.collector::a::fill"),
]  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("kind", "per_row", "scale", "word"), FORMS, ids=[
    f"{f[0]} {f[2]} {f[3].removeprefix('block_scale')}" for f in FORMS
])  # fmt: skip
def test_9_7_16_10_9_1_every_size_of_block(
    kind: str, per_row: int, scale: str, word: str, schedule: str
) -> None:
    """Three steps along k: the scale factor ids 0, 1, 2 of 1X, and 0, 2, 0 of 2X."""
    element = "e4m3" if kind == "mxf8f6f4" else "e2m1"
    case = Scaled(kind, 24, element, element, per_row, scale, steps=3, word=word)
    assert right(case, 1, schedule=schedule)


@pytest.mark.parametrize("n", [8, 48, 128, 136, 192, 256])
def test_9_7_16_10_7_scales_of_every_n(n: int) -> None:
    """Column r / 32 has the scales of row r."""
    assert right(Scaled("mxf4", n, "e2m1", "e2m1", 2, steps=2), n)


@pytest.mark.parametrize("per_row", [1, 2, 4])
def test_9_7_16_10_7_a_scale_id_selects_the_byte(per_row: int) -> None:
    """Each step along k uses its own byte: with one wrong the product is."""
    kind = "mxf8f6f4" if per_row == 1 else "mxf4nvf4"
    element = "e5m2" if per_row == 1 else "e2m1"
    steps = 2 * 4 // per_row
    case = Scaled(kind, 16, element, element, per_row, steps=steps)
    assert right(case, 7)


def test_9_7_16_10_9_1_d_is_added_and_signs_are_changed() -> None:
    case = Scaled("mxf4", 16, "e2m1", "e2m1", 2, negate_a=True)
    given = data(case, 5)
    old = np.zeros((128, 256), np.float32)
    old[:, :16] = np.random.default_rng(6).integers(-99, 99, (128, 16))
    found, _ = case.run(*given, old=old)
    assert np.array_equal(found, old[:, :16] + reference(case, *given))
    both = Scaled("mxf4", 16, "e2m1", "e2m1", 2, negate_a=True, negate_b=True)
    assert right(both, 5)


def test_5_2_3_ue8m0_255_is_nan_and_the_rest_powers_of_two() -> None:
    case = Scaled("mxf8f6f4", 8, "e4m3", "e4m3", 1)
    a, b, sa, sb = data(case, 2)
    a[:], b[:] = 0x38, 0x38  # 1.0
    sa[:, 0] = 127
    sb[:, 0] = [0, 1, 100, 127, 128, 200, 249, 255]
    found, _ = case.run(a, b, sa, sb)
    assert np.array_equal(found[0, :7], 32 * np.exp2(sb[:7, 0].astype(float) - 127))
    assert np.isnan(found[:, 7]).all()


def test_sums_that_are_rounded_follow_the_model() -> None:
    """Far apart, small terms are cut off, as the tensor core's model has it: an assumption."""
    case = Scaled("mxf4", 8, "e2m1", "e2m1", 2)
    a, b, sa, sb = data(case, 2)
    a[:], b[:] = 2, 2  # 1.0
    sa[:], sb[:] = 127, 127
    sa[:, 1] = 127 + 30
    found, _ = case.run(a, b, sa, sb)
    assert (found == 32 * 2.0**30).all()


@pytest.mark.parametrize("rows", [32, 128, 256])
def test_9_7_16_10_7_the_layouts_are_those_of_cutlass(rows: int) -> None:
    """Shared memory: Sm1xxBlockScaledBasicChunk.  Tensor memory: ((32, 4), 4) : ((lane, column),
    byte), repeated every 32 lanes (tmem_sf_frg)."""
    rng = np.random.default_rng(rows)
    scales = rng.integers(0, 256, (rows, 4), np.uint8)
    cells = np.zeros((128, block_scales.columns(rows)), np.uint32)
    for row, j, quarter in itertools.product(range(rows), range(4), range(4)):
        cells[32 * quarter + row % 32, row // 32] |= np.uint32(int(scales[row, j]) << 8 * j)
    assert np.array_equal(np.tile(block_scales.words(scales), (4, 1)), cells)
    for first, count in ((0, 4), (1, 1), (3, 1), (2, 2)):
        found = block_scales.read(cells, rows, first, count, "A", "here")
        assert np.array_equal(found, scales[:, first : first + count])
    if rows % 128 == 0:
        assert block_scales.atoms(scales).tobytes() == scale_bytes(scales)


# -- A in tensor memory ---------------------------------------------------------------


@pytest.mark.parametrize(("kind", "a"), [("mxf8f6f4", "e2m1"), ("mxf8f6f4", "e3m2"),
                                         ("mxf8f6f4", "e2m3"), ("mxf8f6f4", "e4m3"),
                                         ("mxf4", "e2m1")])  # fmt: skip
def test_9_7_16_10_4_a_in_tensor_memory(kind: str, a: str) -> None:
    """A byte each, 4 bits in its middle; or eight numbers of 4 bits in a word."""
    per_row = 1 if kind == "mxf8f6f4" else 2
    fill = "ld.param.u64 %rd14, [old]; mul.wide.u32 %rd15, %r1, 1024;\n"
    fill += "add.u64 %rd14, %rd14, %rd15; ld.global.v4.u32 {%r40, %r41, %r42, %r43}, [%rd14+512];\n"
    fill += "ld.global.v4.u32 {%r44, %r45, %r46, %r47}, [%rd14+528]; add.u32 %r20, %r5, 400;\n"
    fill += "tcgen05.st.sync.aligned.32x32b.x8.b32 [%r20], {%r40,%r41,%r42,%r43,%r44,%r45,%r46,"
    fill += "%r47}; add.u32 %r50, %r4, 400;"
    case = Scaled(kind, 16, a, "e4m3" if per_row == 1 else "e2m1", per_row,
                  changes={"MORE": fill, "A_OPERAND": "[%r50]"})  # fmt: skip
    given = data(case, 9)
    rows = []
    for row in given[0].tolist():
        if kind == "mxf4":
            rows.append(bytes(x | y << 4 for x, y in zip(row[::2], row[1::2], strict=True)))
        else:
            rows.append(bytes(code << (2 if a == "e2m1" else 0) for code in row))
    old = np.zeros((128, 256), np.uint32)
    old[:, 128:136] = np.frombuffer(b"".join(rows), np.uint32).reshape(128, 8)
    found, run = case.run(*given, old=old.view(np.float32))
    assert not run.findings, run.findings[0]
    assert np.array_equal(found, reference(case, *given))


# -- pairs of blocks ------------------------------------------------------------------


def paired(m: int, n: int, spoil: tuple[int, int, int] | None = None, **more: Any) -> bool:
    """A product of mxf8f6f4 on a pair; the scales are stored by the threads, A's in the columns
    from 136 on, B's from 160 on.  ``spoil``: a cell (block, lane, column) to be changed."""
    setting = "add.u32 %r40, %r4, 136; add.u32 %r41, %r4, 160;"
    gemm = PairGemm("f8f6f4", m, n, "e4m3", "e4m3", "f32", changes={"SETTING": setting})
    gemm.idesc = scaled_descriptors.encode("mxf8f6f4", n, "e4m3", "e4m3", m=m, a_id=1, b_id=2)
    old, new = "kind::f8f6f4 [%r4], %rd4, %rd5, %r6,  %p5", "kind::mxf8f6f4.block_scale"
    new = f"{new} [%r4], %rd4, %rd5, %r6, [%r40], [%r41], %p5"
    gemm.text = replace_once(gemm.text, old, new)
    case = Scaled("mxf8f6f4", n, "e4m3", "e4m3", 1)
    rng = np.random.default_rng(m + n)
    codes = np.array([0x00, 0x38, 0xB8, 0x40, 0xC0, 0x30], np.uint8)  # 0, 1, -1, 2, -2, 0.5
    a, b = rng.choice(codes, (m, 32)), rng.choice(codes, (n, 32))
    sa, sb = (rng.integers(126, 129, (rows, 1)).astype(np.uint8) for rows in (m, n))
    cells = np.zeros((2, 128, 256, 4), np.uint8)
    for block, quarter in itertools.product(range(2), range(4)):
        for row in range(m // 2):
            place = block, 32 * quarter + row % 32, 136 + row // 32, 1
            cells[place] = sa[block * m // 2 + row, 0]
        for row in range(n):  # M = 128: the upper quarters have the second half of N
            half, there = divmod(row, n // 2) if m == 128 else (quarter // 2, row)
            if half == quarter // 2:
                cells[block, 32 * quarter + there % 32, 160 + there // 32, 2] = sb[row, 0]
    if spoil:
        cells[spoil] ^= 1
    found, run = gemm.run(a, b, cells.view(np.uint32)[..., 0], **more)
    assert not run.findings, run.findings[0]
    right = gemm.placed(reference(case, a, b, sa, sb))
    return np.array_equal(found.view(np.float32)[:, :, : right.shape[2]], right)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("m", "n"), [(256, 16), (256, 96), (256, 128), (128, 32), (128, 64),
                                      (128, 224)])  # fmt: skip
def test_9_7_16_10_7_scales_for_a_pair_of_blocks(m: int, n: int, schedule: str) -> None:
    """Each block has the scales of its rows of A, and of all of B; M = 128 splits those of B."""
    assert paired(m, n, schedule=schedule)


@pytest.mark.parametrize(("m", "place"), [(256, (1, 40, 137)), (256, (0, 100, 161)),
                                          (128, (0, 97, 160))])  # fmt: skip
def test_9_7_16_10_7_a_quarter_of_a_pair_that_differs(m: int, place: tuple[int, int, int]) -> None:
    with pytest.raises(EmulatorError, match="not the same in all quarters"):
        paired(m, 64, spoil=place)


# -- what goes wrong ------------------------------------------------------------------

CASE = ("mxf4", 16, "e2m1", "e2m1", 2)


def planted(changes: dict[str, str], case: Scaled | None = None, **more: Any) -> Any:
    case = case or Scaled(*CASE)
    case.changes = changes
    return case.run(*data(case, 3), **more)


COPY_A = "tcgen05.cp.cta_group::1.32x128b.warpx4 [%r34], %rd7;"


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_scales_that_nobody_copied_are_found(schedule: str) -> None:
    _, found = planted({COPY_A: ""}, schedule=schedule)
    assert [h.kind for h in found.findings] == ["uninitialised"]
    assert all("takes scales from tensor memory" in h.message for h in found.findings)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_9_7_16_6_scales_copied_by_another_thread_must_be_waited_for(schedule: str) -> None:
    """Only copies of the thread that multiplies come before its products without a wait."""
    text, *_ = Scaled(*CASE).kernel()
    begin = text.index("add.u32 %r30, %r4, 256; add.u32 %r31, %r4, 320;")
    end = text.index("\n    ld.global.u64 %rd5, [%rd4+0]")
    copies = text[begin:end]
    changes = {
        copies: "add.u32 %r30, %r4, 256; add.u32 %r31, %r4, 320;",
        "    @!%p2 bra WAIT;\n": f"setp.eq.u32 %p6, %r1, 32; @!%p6 bra NOT;\n{copies}\nNOT:\n"
        "    @!%p2 bra WAIT;\n",
    }
    _, found = planted(changes, schedule=schedule)
    says = [h.message for h in found.findings if h.kind == "async"]
    assert any("takes scales from" in s and "operation of thread 32" in s for s in says)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_9_7_16_8_5_scales_stored_by_threads_must_be_waited_for(schedule: str) -> None:
    store = "add.u32 %r20, %r5, 256; mov.u32 %r40, 0x7f7f7f7f;\n" \
            "tcgen05.st.sync.aligned.32x32b.x4.b32 [%r20], {%r40, %r40, %r40, %r40};"  # fmt: skip
    changes = {"MORE": store, "tcgen05.wait::st.sync.aligned;": "", COPY_A: ""}
    _, found = planted(changes, schedule=schedule)
    assert any(h.kind == "async" and "takes scales from" in h.message
               and "tcgen05.wait::st" in h.message for h in found.findings)  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_scales_overwritten_before_the_product_has_read_them(schedule: str) -> None:
    """A later copy of the same thread is in order; a store of other threads is not."""
    later = "bra AFTER;\nAFTER:\nadd.u32 %r20, %r5, 256;\n" \
            "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r20], {%r1};\nWAIT:\n"  # fmt: skip
    changes = {"@!%p2 bra WAIT;": "@!%p2 bra AFTER;", "WAIT:\n": later,
               "@!%p3 bra WAIT;": "@!%p3 bra WAIT;"}  # fmt: skip
    _, found = planted(changes, schedule=schedule)
    assert any(h.kind == "async" and "writes tensor memory" in h.message
               and "reads it" in h.message for h in found.findings), found.findings  # fmt: skip


def test_a_scale_is_missing_in_three_quarters() -> None:
    """64x128b.warpx2 instead of 32x128b.warpx4: other rows' bytes come to the other quarters."""
    with pytest.raises(EmulatorError, match="not the same in all quarters"):
        planted({"32x128b.warpx4": "64x128b.warpx2::02_13"})


def test_a_wrong_scale_id_makes_a_wrong_product() -> None:
    case = Scaled("mxf8f6f4", 16, "e4m3", "e4m3", 1, steps=2)
    given = data(case, 3)
    assert np.array_equal(case.run(*given)[0], reference(case, *given))
    case.changes = {"tcgen05.mma": "and.b32 %r6, %r6, 0x9fffffff; tcgen05.mma"}
    assert not np.array_equal(case.run(*given)[0], reference(case, *given))


def test_scales_of_the_wrong_type_are_said() -> None:
    case = Scaled("mxf4nvf4", 16, "e2m1", "e2m1", 4, "ue4m3")
    a, b, sa, sb = data(case, 3)
    with pytest.raises(EmulatorError, match=r"ue4m3 has no sign.*is it a ue8m0\?"):
        case.run(a, b, sa + np.uint8(0x80), sb)


WRONG: list[tuple[str, tuple[Any, ...], str]] = [
    ("xor.b32 %r6, %r6, 4", CASE, "sparse"),
    ("or.b32 %r6, %r6, 0x20000000", CASE, "scale factor id of A, bits 29-30, is 1; with 2"),
    ("or.b32 %r6, %r6, 0x30", CASE, "scale factor id of B, bits 4-5, is 3; with 2"),
    ("or.b32 %r6, %r6, 0x20", ("mxf4nvf4", 16, "e2m1", "e2m1", 4, "ue4m3"), "id of B.*it is 0"),
    ("xor.b32 %r6, %r6, 0x800000", CASE, "bit 23 says scales of ue4m3"),
    ("or.b32 %r6, %r6, 0x80000000", CASE, "K = 96, which only sm_103a has"),
    ("or.b32 %r6, %r6, 0x380", CASE, "type 7 of A is none of kind::mxf4"),
    ("xor.b32 %r6, %r6, 0x18000000", CASE, "M = 256"),
    ("or.b32 %r6, %r6, 0x8000", CASE,
     "bit 15 says that A of e2m1 is M-major; kind::mxf4 transposes neither"),
    ("or.b32 %r6, %r6, 0x10000", ("mxf4nvf4", 16, "e2m1", "e2m1", 4, "ue4m3"),
     "bit 16 says that B of e2m1 is N-major; kind::mxf4nvf4 .* clear it .*Transpose and Negate"),
    ("or.b32 %r6, %r6, 0x10000", ("mxf8f6f4", 24, "e2m1", "e2m1", 1), "N = 24; with an N-major B"),
    ("mov.b32 %r6, 0x08040010", ("mxf8f6f4", 16, "e4m3", "e4m3", 1), "looks like .*kind::f8f6f4"),
    ("add.u32 %r32, %r32, 0x200000", CASE, "the scales of A begin at lane 32"),
    ("mov.b32 %r33, 511", ("mxf4", 48, "e2m1", "e2m1", 2), "reaches beyond tensor memory"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "of", "says"), WRONG, ids=[w[2][:30] for w in WRONG])
def test_9_7_16_4_2_wrong_descriptors_are_explained(
    line: str, of: tuple[Any, ...], says: str
) -> None:
    with pytest.raises(EmulatorError, match=says):
        planted({"    tcgen05.mma": f"    {line}; tcgen05.mma"}, Scaled(*of))


def test_9_7_16_10_9_1_a_size_that_the_kind_has_not() -> None:
    with pytest.raises(EmulatorError, match="kind::mxf4 has no scale_vec::4X"):
        planted({}, Scaled(*CASE, word="block_scale.scale_vec::4X"))
    with pytest.raises(EmulatorError, match="block_scale without its size"):
        planted({}, Scaled("mxf4nvf4", 16, "e2m1", "e2m1", 4, word="block_scale"))


def test_the_upper_two_bits_of_an_address_do_not_count() -> None:
    """CUTLASS keeps the scale factor id there."""
    case = Scaled(*CASE)
    case.changes = {"    tcgen05.mma": "    or.b32 %r32, %r32, 0x80000000; tcgen05.mma"}
    assert right(case, 3)


@pytest.mark.parametrize("kind, per_row", [("mxf4", 2), ("mxf4nvf4", 4)])
def test_9_7_16_4_2_bit_12_must_be_0_and_is_taken_for_it(kind: str, per_row: int) -> None:
    """Of 4-bit elements: a note of the weaker grade, and the same product; of others a type's."""
    case = Scaled(kind, 16, "e2m1", "e2m1", per_row)
    change = {"    tcgen05.mma": "    or.b32 %r6, %r6, 0x1000; tcgen05.mma"}
    got, run = planted(change, case)
    assert [(each.rule, each.grade) for each in run.findings] == [
        ("reserved-descriptor-bit", "no promise")]  # fmt: skip
    assert "bit 12 is reserved" in str(run.findings[0])
    wanted, clean = planted({}, case)
    assert not clean.findings and np.array_equal(got, wanted)


@pytest.mark.parametrize("kind", ["mxf4", "mxf4nvf4"])
def test_bit_12_says_nothing_of_a_dense_product(kind: str) -> None:
    """CUTLASS's primitives set it, as the version of a sparsity that is not asked for."""
    bits = scaled_descriptors.encode(kind, 64, "e2m1", "e2m1")
    marked = bits | 1 << 12
    assert scaled_descriptors.decode(marked, kind, 2) == scaled_descriptors.decode(bits, kind, 2)
    with pytest.raises(InstructionDescriptorError, match="bit 12"):
        scaled_descriptors.decode(marked | 1 << 2, kind, 2, sparse=True)
