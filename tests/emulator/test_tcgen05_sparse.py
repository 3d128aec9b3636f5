"""tcgen05.mma.sp, each rule named after its section of the PTX ISA; whole numbers, exact.

There was no Blackwell: these are the words of the PTX ISA, and the layouts of CUTLASS and JAX.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from phasebit import process, toolchain
from phasebit.emulator.errors import EmulatorError, IllegalMetadata
from phasebit.emulator.numbers.formats import encode
from phasebit.emulator.numbers.sparse import LISTED
from tests.emulator.scaled_kernels import numbers
from tests.emulator.sparse_kernels import BITS, Sparse

Array = NDArray[Any]


def values(rng: np.random.Generator, kind: str, shape: tuple[int, int]) -> tuple[Array, Array]:
    """Random small whole numbers: codes, and what they are."""
    if kind in ("s8", "u8"):
        found = rng.integers(0 if kind == "u8" else -9, 9, shape)
        return found.astype(np.uint8), found.astype(float)
    if BITS[kind] < 8:
        codes = rng.integers(0, 1 << BITS[kind], shape).astype(np.uint8)
        return codes, numbers(codes, kind)
    found = rng.integers(-3, 4, shape).astype(float)
    if kind == "tf32":
        return found.astype(np.float32).view(np.uint32), found
    return encode(kind, found), found


def spread(stored: Array, bits: Array, chunk: int) -> Array:
    """A with its zeros, one chunk at a time."""
    whole = np.zeros((len(stored), 2 * stored.shape[1]))
    half = chunk // 2
    for row, index in np.ndindex(*bits.shape):
        mine, nibble = stored[row, index * half :][:half], int(bits[row, index])
        at = whole[row, index * chunk :][:chunk]
        if chunk == 2:
            at[int(nibble == 0b1110)] = mine[0]
            continue
        wide = chunk // 4
        for place, some in ((nibble & 3, mine[:wide]), (nibble >> 2, mine[wide:])):
            at[place * wide : place * wide + wide] = some
    return whole


def data(case: Sparse, seed: int = 0) -> tuple[Array, Array, Array, Array, Array]:
    """Codes of A and B, metadata, and A (m, K), B (n, K) as numbers."""
    rng = np.random.default_rng([seed, case.m, case.n, case.steps, *case.a.encode()])
    k = case.k * case.steps
    a, left = values(rng, case.a, (case.m, k // 2))
    b, right = values(rng, case.b, (case.n, k))
    legal = (0b0100, 0b1110) if case.chunk == 2 else LISTED
    bits = rng.choice(legal, (case.m, k // case.chunk))
    return a, b, bits, spread(left, bits, case.chunk), right


def right(case: Sparse, seed: int = 0, adds: bool = False, **more: Any) -> None:
    """Is the product of the kernel that of NumPy?"""
    a, b, bits, whole, across = data(case, seed)
    wanted, old = whole @ across.T, None
    form = np.int32 if case.d == "s32" else np.float32
    if adds:
        before = np.random.default_rng(9).integers(-99, 99, wanted.shape)
        placed = case.placed(before.astype(form))
        old = np.zeros((case.group, 128, 256), np.uint32)
        old[:, :, : placed.shape[2]] = placed.view(np.uint32)
        wanted = wanted + before
    cells, found = case.run(a, b, bits, old=old, **more)
    assert not found.findings, found.findings[0]
    placed = case.placed(wanted.astype(form))
    got = cells[:, :, : placed.shape[2]]
    if case.d == "f16":
        got = got.astype(np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
    assert np.array_equal(np.ascontiguousarray(got).view(form), placed)


KINDS = [
    ("f16", "f16", "f16", "f32"), ("f16", "bf16", "bf16", "f32"), ("f16", "f16", "f16", "f16"),
    ("tf32", "tf32", "tf32", "f32"), ("f8f6f4", "e4m3", "e5m2", "f32"),
    ("f8f6f4", "e2m1", "e3m2", "f32"), ("f8f6f4", "e2m3", "e4m3", "f32"),
    ("i8", "s8", "u8", "s32"), ("i8", "u8", "s8", "s32"),
]  # fmt: skip


@pytest.mark.parametrize("m", [128, 64])
@pytest.mark.parametrize(("kind", "a", "b", "d"), KINDS)
def test_9_7_16_10_8_every_kind_and_type(kind: str, a: str, b: str, d: str, m: int) -> None:
    right(Sparse(kind, m, 16, a, b, d))


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize(("kind", "a", "steps"), [("f16", "bf16", 4), ("tf32", "tf32", 3),
                                                  ("f8f6f4", "e4m3", 2)])  # fmt: skip
def test_9_7_16_10_8_4_a_selector_for_each_of_two_columns(
    kind: str, a: str, steps: int, schedule: str
) -> None:
    right(Sparse(kind, 128, 24, a, a, steps=steps), schedule=schedule)


@pytest.mark.parametrize("kind", ["f16", "i8"])
def test_9_7_16_10_8_5_metadata_begin_at_the_lane_of_d(kind: str) -> None:
    a, d = ("f16", "f32") if kind == "f16" else ("s8", "s32")
    right(Sparse(kind, 64, 8, a, a, d, lane=16))
    wrong = Sparse(kind, 64, 8, a, a, d, lane=16, changes={
        f"add.u32 %r34, %r4, {256 + (16 << 16)};": "add.u32 %r34, %r4, 256;"})  # fmt: skip
    with pytest.raises(EmulatorError, match="metadata begin at lane 0; they begin where D does"):
        right(wrong)


@pytest.mark.parametrize(("kind", "a", "d"), [("f16", "f16", "f32"), ("i8", "s8", "s32")])
def test_9_7_16_10_9_2_a_from_tensor_memory_and_d_that_is_added(kind: str, a: str, d: str) -> None:
    right(Sparse(kind, 128, 16, a, a, d, in_tensor=True), adds=True)


@pytest.mark.parametrize("m", [256, 128])
@pytest.mark.parametrize(("kind", "a", "d"), [("f16", "f16", "f32"), ("f8f6f4", "e4m3", "f32"),
                                              ("i8", "s8", "s32")])  # fmt: skip
def test_9_7_16_10_5_pairs(kind: str, a: str, d: str, m: int) -> None:
    """M = 256: layout A; 128: C, half of the lanes of each block, and not B as without .sp."""
    right(Sparse(kind, m, 32, a, a, d, group=2), adds=True)


@pytest.mark.parametrize(("m", "n"), [(32, 64), (64, 128), (128, 64)])
@pytest.mark.parametrize(("kind", "a", "d"), [("f16", "bf16", "f32"), ("i8", "s8", "s32")])
def test_9_7_16_10_9_4_weight_stationary(kind: str, a: str, d: str, m: int, n: int) -> None:
    right(Sparse(kind, m, n, a, a, d, banks=128 // m), adds=True)


FORMS = [
    ("mxf8f6f4", "e4m3", 1, ".block_scale.scale_vec::1X", 2),
    ("mxf8f6f4", "e2m1", 1, ".block_scale", 1),
    ("mxf4", "e2m1", 2, ".block_scale", 2),
    ("mxf4nvf4", "e2m1", 2, ".block_scale.scale_vec::2X", 1),
    ("mxf4nvf4", "e2m1", 4, ".block_scale.scale_vec::4X", 1),
]  # fmt: skip


def scaled(case: Sparse) -> None:
    a, b, bits, whole, across = data(case)
    rng = np.random.default_rng(1)
    many = case.per_row * case.steps
    scales = tuple(rng.integers(126, 129, (rows, many)).astype(np.uint8)
                   for rows in (case.m, case.n))  # fmt: skip
    wide = [np.repeat(2.0 ** (s.astype(float) - 127), case.k * case.steps // many, axis=1)
            for s in scales]  # fmt: skip
    wanted = (whole * wide[0]) @ (across * wide[1]).T
    cells, found = case.run(a, b, bits, scales)
    assert not found.findings, found.findings[0]
    got = np.ascontiguousarray(cells[:, :, : case.n]).view(np.float32)
    assert np.array_equal(got, case.placed(wanted.astype(np.float32)))


@pytest.mark.parametrize(("kind", "a", "per_row", "word", "steps"), FORMS)
def test_9_7_16_10_9_2_block_scales_are_for_twice_as_many_columns(
    kind: str, a: str, per_row: int, word: str, steps: int
) -> None:
    scaled(Sparse(kind, 128, 16, a, a, steps=steps, per_row=per_row, word=word))


def test_9_7_16_10_9_2_block_scales_of_a_pair() -> None:
    scaled(Sparse("mxf4", 256, 32, "e2m1", "e2m1", group=2, per_row=2, word=".block_scale"))


def test_an_infinity_that_meets_only_zeros_left_out_does_not_show() -> None:
    """As on an H200's mma.sp; here it is assumed."""
    case = Sparse("f16", 128, 8, "f16", "f16")
    a, b, bits, *_ = data(case)
    bits[:] = 0b0100  # the places 0 and 1
    b[:, 3] = 0x7C00
    cells, _ = case.run(a, b, bits)
    assert np.isfinite(cells[:, :, :8].view(np.float32)).all()
    bits[5, 0] = 0b1101
    cells, _ = case.run(a | 1, b, bits)
    shown = ~np.isfinite(cells[0, :, :8].view(np.float32)).all(axis=1)
    assert shown.tolist() == [row == 5 for row in range(128)]


@pytest.mark.parametrize("nibble", sorted(set(range(16)) - set(LISTED)))
def test_9_7_16_10_8_2_metadata_that_are_not_listed(nibble: int) -> None:
    case = Sparse("f8f6f4", 128, 8, "e4m3", "e4m3")
    a, b, bits, *_ = data(case)
    bits[77, 13] = nibble
    with pytest.raises(IllegalMetadata, match=f"row 77 has {nibble:04b} for chunk 13"):
        case.run(a, b, bits)


def test_0000_may_stand_for_a_chunk_of_zeros_and_for_no_other() -> None:
    """So CUTLASS's compressor writes it: of two zeros the places make no difference."""
    case = Sparse("f8f6f4", 128, 8, "e4m3", "e4m3")
    a, b, bits, *_ = data(case)
    right, _ = case.run(zeroed(a), b, bits)
    bits[77, 13] = 0
    cells, found = case.run(zeroed(a), b, bits)
    assert not found.findings
    assert np.array_equal(cells, right)
    with pytest.raises(IllegalMetadata, match="row 77 has 0000 for chunk 13"):
        case.run(a | 1, b, bits)


def zeroed(a: Any) -> Any:
    """What is stored for chunk 13 of row 77, two elements, becomes 0 and -0."""
    changed = a.copy()
    changed[77, 26:28] = 0, 0x80
    return changed


def test_9_7_16_10_8_1_metadata_of_tf32() -> None:
    case = Sparse("tf32", 128, 8, "tf32", "tf32")
    a, b, bits, *_ = data(case)
    bits[3, 1] = 0b1000
    with pytest.raises(IllegalMetadata, match=r"row 3 has 1000 for chunk 1.*0100, 1110"):
        case.run(a, b, bits)


CP = "tcgen05.cp.cta_group::1.128x128b [%r34], %rd7;"
ODD = {"add.u32 %r34, %r4, 256;\n    add.u32 %r37": "add.u32 %r34, %r4, 257;\n    add.u32 %r37"}
WRONG = [
    (ODD, 0, "metadata begin at column 257; they begin at an even one"),
    ({}, 4, "bit 2 says that A is dense, and this is .sp"),
    ({}, 2, "bits 0-1 are 2; the sparsity selector is 0 or 1"),
    ({"add.u32 %r34, %r4, 256;\n    add.u32 %r37":
      "add.u32 %r34, %r4, 512;\n    add.u32 %r37"}, 0, "beyond tensor memory"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "flipped", "message"), WRONG,
                         ids=["odd", "dense", "selector", "beyond"])  # fmt: skip
def test_9_7_16_4_what_is_refused(changes: dict[str, str], flipped: int, message: str) -> None:
    case = Sparse("f16", 128, 8, "f16", "f16", changes=changes, flipped=flipped)
    a, b, bits, *_ = data(case)
    with pytest.raises(EmulatorError, match=message):
        case.run(a, b, bits)


@pytest.mark.parametrize("kind, a, d", [("i8", "s8", "s32"), ("f8f6f4", "e4m3", "f32")])
def test_9_7_16_10_8_4_5_other_kinds_have_no_selector(kind: str, a: str, d: str) -> None:
    case = Sparse(kind, 128, 8, a, a, d, flipped=1)
    given = data(case)
    with pytest.raises(EmulatorError, match="bits 0-1 are 1; the sparsity selector is 0 here"):
        case.run(*given[:3])


def test_9_7_16_2_1_what_shapes_there_are() -> None:
    for case, message in [
        (Sparse("mxf4", 128, 32, "e2m1", "e2m1", group=2, per_row=2, word=".block_scale"),
         "M = 128, bits 27-28 times 128; with block scales it is 256"),
        (Sparse("f16", 128, 256, "f16", "f16", banks=1), "and N is 64 or 128"),
    ]:  # fmt: skip
        a, b, bits, *_ = data(case)
        scales = tuple(np.full((rows, 2), 127, np.uint8) for rows in (case.m, case.n))
        with pytest.raises(EmulatorError, match=message):
            case.run(a, b, bits, scales if case.per_row else ())


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize(("changes", "rule"), [
    ({CP: ""}, "uninitialised-tensor-memory"),
    ({"add.u32 %r36, %r4, 0;": "add.u32 %r36, %r4, 252;"}, "product-over-operand"),
    ({CP: "", "    tcgen05.wait::st.sync.aligned;\n":
      "    add.u32 %r34, %r5, 256; mov.u32 %r20, 0x44444444;\n"
      "    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r34], %r20;\n"}, "missing-tcgen05-wait"),
    ({"WAIT:\n    mbarrier": "WAIT:\n    setp.ne.u32 %p6, %r2, 1; @%p6 bra GO;\n"
      "    add.u32 %r34, %r5, 256; mov.u32 %r20, 0x44444444;\n"
      "    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r34], %r20;\n"
      "    tcgen05.wait::st.sync.aligned;\nGO:\n    mbarrier"}, "missing-tcgen05-commit"),
], ids=["nobody wrote them", "sums over them", "not waited for", "overwritten"])  # fmt: skip
def test_9_7_16_6_metadata_are_read_as_all_tensor_memory(
    changes: dict[str, str], rule: str, schedule: str
) -> None:
    case = Sparse("f16", 128, 8, "f16", "f16", changes=changes)
    a, b, bits, *_ = data(case)
    try:
        _, found = case.run(a, b, bits, schedule=schedule)
        rules = [f.rule for f in found.findings]
    except EmulatorError as error:
        rules = [f.rule for f in error.findings]
    assert rule in rules, rules


TEXTS = {
    **{f"{kind} {a} {m}": Sparse(kind, m, 16, a, b, d) for kind, a, b, d in KINDS
       for m in (64, 128)},
    "A in tensor memory": Sparse("f16", 128, 16, "f16", "f16", in_tensor=True),
    "pair": Sparse("f16", 256, 32, "f16", "f16", group=2),
    "ws": Sparse("i8", 32, 64, "s8", "s8", "s32", banks=4),
    **{f"{kind}{word}": Sparse(kind, 128, 16, a, a, per_row=n, word=word)
       for kind, a, n, word, _ in FORMS},
}  # fmt: skip


@pytest.mark.nvcc
def test_ptxas_takes_all_of_it(tmp_path: Path) -> None:
    for name, case in TEXTS.items():
        a, b, bits, *_ = data(case)
        scales = tuple(np.full((rows, max(case.per_row, 1)), 127, np.uint8)
                       for rows in (case.m, case.n)) if case.per_row else ()  # fmt: skip
        sizes = [len(part) for part in case.parts(a, b, bits, scales, 0)]
        path = tmp_path / "kernel.ptx"
        path.write_text(case.text([0] * len(sizes), sizes, 8192))
        command = toolchain.nvcc_command("cubin", "sm_100a")
        done = process.run([*command, path, "-o", tmp_path / "kernel.cubin"], timeout=60)
        assert done.ok and not done.stderr, (name, done.stderr)
