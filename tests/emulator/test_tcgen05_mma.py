"""tcgen05.mma and commit, each rule named after its section of the PTX ISA.

There was no Blackwell to compare with: these are the words of the PTX ISA, and layouts as CuTe
publishes them.  Whole numbers, so that rounding plays no part, unless a test says otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from phasebit.emulator.errors import EmulatorError, Fault
from phasebit.emulator.numbers import swizzle
from phasebit.emulator.numbers.formats import decode, encode
from phasebit.emulator.tensor_core.tensor_mma import rows
from tests.emulator.tensor_kernels import Gemm

Array = NDArray[Any]
SCHEDULES = ("eager", "late", "random")


def codes(rng: np.random.Generator, kind: str, shape: tuple[int, int]) -> tuple[Array, Array]:
    """Random small whole numbers: their bits, and their values."""
    if kind in ("u8", "s8"):
        low = -128 if kind == "s8" else 0
        values = rng.integers(low, low + 256, shape)
        return values.astype(np.uint8), values.astype(np.float64)
    values = rng.integers(-2, 3, shape).astype(np.float64)
    return encode(kind, values), values


def product(
    kind: str, m: int, n: int, a: str, b: str, d: str, **more: Any
) -> tuple[Array, Array, Any]:
    """D's cells as numbers in the order of its rows, what they should be, and the run."""
    schedule = more.pop("schedule", "late")
    adds = more.pop("adds", False)
    gemm = Gemm(kind, m, n, a, b, d, **more)
    rng = np.random.default_rng(m + n + gemm.steps)
    bits_a, value_a = codes(rng, a, (m, gemm.k * gemm.steps))
    bits_b, value_b = codes(rng, b, (n, gemm.k * gemm.steps))
    right = value_a @ value_b.T
    old = None
    if adds:
        old = np.zeros((128, 256), np.float32)
        old[rows(m, False), :n] = rng.integers(-9, 10, (m, n))
        right = right + old[rows(m, False), :n]
        old = old.astype(np.int32).view(np.uint32) if d == "s32" else old.view(np.uint32)
    cells, found = gemm.run(bits_a, bits_b, old, schedule=schedule)
    mine = np.ascontiguousarray(cells[rows(m, False), :n])
    if d == "f16":
        numbers = mine.astype(np.uint16).view(np.float16).astype(np.float64)
    else:
        numbers = mine.view(np.int32 if d == "s32" else np.float32).astype(np.float64)
    return numbers, right, found


KINDS = [
    ("f16", "f16", "f16", "f32", 2), ("f16", "bf16", "bf16", "f32", 2),
    ("f16", "f16", "f16", "f16", 2), ("tf32", "tf32", "tf32", "f32", 4),
    ("f8f6f4", "e4m3", "e5m2", "f32", 1), ("f8f6f4", "e5m2", "e5m2", "f16", 1),
    ("i8", "s8", "u8", "s32", 1), ("i8", "u8", "u8", "s32", 1),
]  # fmt: skip
PATTERNS = [swizzle.NONE, swizzle.B32, swizzle.B64, swizzle.B128]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("kind", "a", "b", "d", "width"), KINDS)
def test_9_7_16_10_9_1_every_kind(
    kind: str, a: str, b: str, d: str, width: int, schedule: str
) -> None:
    """kind::f16, tf32, f8f6f4, i8: two steps, K-major, rows of 64 bytes."""
    numbers, right, found = product(
        kind, 128, 64, a, b, d, width=width, steps=2, pattern=swizzle.B64, schedule=schedule
    )
    assert np.array_equal(numbers, right)
    assert not found.findings, found.findings[0]


@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize(("m", "n"), [(128, 16), (128, 256), (64, 8), (64, 24), (64, 256)])
def test_9_7_16_10_5_where_the_rows_of_d_lie(m: int, n: int, adds: bool) -> None:
    """M = 128: row m in lane m; M = 64: lane m % 16 + 32 (m / 16)."""
    numbers, right, found = product("f16", m, n, "f16", "f16", "f32", width=2, adds=adds)
    assert np.array_equal(numbers, right)
    assert not found.findings, found.findings[0]


@pytest.mark.parametrize(("mn_a", "mn_b"), [(False, False), (True, False), (False, True),
                                            (True, True)])  # fmt: skip
@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.name)
def test_9_7_16_3_3_every_swizzle_and_major(
    pattern: swizzle.Swizzle, mn_a: bool, mn_b: bool
) -> None:
    steps = max(1, pattern.span // 32)
    numbers, right, found = product(
        "f16", 128, 64, "bf16", "bf16", "f32", width=2, steps=steps, pattern=pattern, mn_a=mn_a,
        mn_b=mn_b,
    )  # fmt: skip
    assert np.array_equal(numbers, right)
    assert not found.findings, found.findings[0]


def test_9_7_16_4_2_negation() -> None:
    numbers, right, _ = product("f16", 64, 8, "f16", "f16", "f32", width=2, negate_a=True)
    assert np.array_equal(numbers, -right)
    numbers, right, _ = product("f16", 64, 8, "f16", "f16", "f32", width=2, negate_a=True,
                                negate_b=True)  # fmt: skip
    assert np.array_equal(numbers, right)


@pytest.mark.parametrize("saturate", [False, True])
def test_9_7_16_4_2_integers_wrap_or_saturate(saturate: bool) -> None:
    gemm = Gemm("i8", 64, 8, "s8", "s8", "s32", saturate=saturate)
    ones = np.ones((64, 32), np.uint8)
    old = np.full((128, 256), 2**31 - 5, np.uint32)
    cells, _ = gemm.run(ones, ones[:8], old)
    right = 2**31 - 1 if saturate else (2**31 - 5 + 32) - 2**32
    assert (cells[rows(64, False), :8].view(np.int32) == right).all()


@pytest.mark.parametrize("scale", [1, 3, 15])
def test_9_7_16_10_9_1_scale_input_d(scale: int) -> None:
    """D is divided by 2 to the power of scale-input-d before the products are added."""
    gemm = Gemm("f16", 64, 8, "f16", "f16", "f32", width=2, changes={"SCALE": f", {scale}"})
    zero = np.zeros((64, 16), np.uint16)
    old = np.full((128, 256), 96, np.float32)
    cells, _ = gemm.run(zero, zero[:8], old.view(np.uint32))
    assert (cells[rows(64, False), :8].view(np.float32) == 96 / 2**scale).all()


def test_9_7_16_10_9_1_disable_output_lane() -> None:
    """A bit of the mask keeps its lane as it was."""
    mask = "{%r31, %r32, %r33, %r34},"
    setting = "mov.u32 %r31, 5; mov.u32 %r32, 0; mov.u32 %r33, -1; mov.u32 %r34, 2;"
    gemm = Gemm("f16", 128, 16, "f16", "f16", "f32", width=2,
                changes={"MASKS": mask, "A_IN_TENSOR": setting})  # fmt: skip
    one = np.full((128, 16), 0x3C00, np.uint16)
    cells, found = gemm.run(one, one[:16], np.full((128, 256), 7, np.float32).view(np.uint32))
    kept = np.zeros(128, bool)
    kept[[0, 2, *range(64, 96), 97]] = True
    assert not found.findings
    assert np.array_equal(cells[:, 0].view(np.float32), np.where(kept, 7, 23))


FILL = "\n".join(
    "mov.u32 %r40, %r1; add.u32 %r20, %r5, 256;" if i == 0 else
    f"add.u32 %r4{i}, %r40, {i};" for i in range(8)
) + "tcgen05.st.sync.aligned.32x32b.x8.b32 [%r20], {%r40,%r41,%r42,%r43,%r44,%r45,%r46,%r47};"
FILL += "add.u32 %r50, %r4, 256;"


def from_tensor_memory(m: int = 128, shifted: bool = False) -> Gemm:
    """A whose row i holds the bits of i to i + 7 in eight columns: two f16 elements share one."""
    changes = {"A_IN_TENSOR": FILL, "A_OPERAND": "[%r50]"}
    if shifted:
        changes["kind::f16"] = "kind::f16.ashift"
    return Gemm("f16", m, 16, "f16", "f16", "f32", width=2, changes=changes)


@pytest.mark.parametrize("shifted", [False, True], ids=["as it lies", "ashift"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_9_7_16_10_9_1_a_from_tensor_memory(schedule: str, shifted: bool) -> None:
    """With .ashift each row but the last is the next lane's, over the quarters' borders too."""
    lanes = np.arange(128, dtype=np.uint32)
    if shifted:
        lanes = np.minimum(lanes + 1, np.uint32(127))
    registers = lanes[:, None] + np.arange(8, dtype=np.uint32)
    a = registers.view(np.uint16).view(np.float16).astype(np.float64)  # subnormal, exact
    bits, b = codes(np.random.default_rng(3), "f16", (16, 16))
    gemm = from_tensor_memory(shifted=shifted)
    cells, found = gemm.run(np.zeros((128, 16), np.uint16), bits, schedule=schedule)
    assert not found.findings, found.findings[0]
    assert np.array_equal(cells[:, :16].view(np.float32), a @ b.T)


def test_9_7_16_10_9_1_what_ashift_is_not_for() -> None:
    """M is 128, or 256 of a pair, and A lies in tensor memory."""
    zero = np.zeros((128, 16), np.uint16)
    for gemm in (
        from_tensor_memory(64, shifted=True),
        Gemm("f16", 128, 16, "f16", "f16", "f32", width=2,
             changes={"kind::f16": "kind::f16.ashift"}),
    ):  # fmt: skip
        with pytest.raises(Fault, match="ashift is for A in tensor memory, 128 rows in a block"):
            gemm.run(zero[: gemm.m], zero[:16])


@pytest.mark.parametrize("kind", ["e2m1", "e2m3", "e3m2"])
def test_9_7_16_3_2_narrow_elements_lie_in_slots_of_16_bytes(kind: str) -> None:
    """16 elements at the beginning of each 16 bytes; what follows is not looked at."""
    width = 4 if kind == "e2m1" else 6
    rng = np.random.default_rng(4)
    number = rng.integers(0, 1 << width, (64, 2, 16))
    bits = (number[..., None] >> np.arange(width) & 1).astype(np.uint8).reshape(64, 2, -1)
    data = np.packbits(bits, axis=-1, bitorder="little")
    slots = rng.integers(0, 256, (64, 2, 16), np.uint8)
    slots[..., : data.shape[-1]] = data
    gemm = Gemm("f8f6f4", 64, 8, kind, "e4m3", "f32")
    ones = encode("e4m3", np.ones((8, 32)))
    cells, _ = gemm.run(slots.reshape(64, 32), ones)
    right = decode(kind, number.astype(np.uint8)).reshape(64, 32).sum(axis=1)
    assert np.array_equal(cells[rows(64, False), 0].view(np.float32), right)


def slots(codes: Array, width: int, rng: np.random.Generator) -> Array:
    """Bytes [..., 16 n] of slots, from codes: 16 along the last extent lie in one."""
    groups = codes.reshape(*codes.shape[:-1], -1, 16)
    bits = (groups[..., None] >> np.arange(width) & 1).astype(np.uint8)
    data = np.packbits(bits.reshape(*groups.shape[:-1], -1), axis=-1, bitorder="little")
    whole = rng.integers(0, 256, groups.shape, np.uint8)  # nobody looks at the gaps
    whole[..., : 2 * width] = data
    return whole.reshape(codes.shape)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.name)
@pytest.mark.parametrize("kind", ["e2m1", "e2m3", "e3m2"])
def test_9_7_16_10_1_narrow_elements_may_be_transposed(
    kind: str, pattern: swizzle.Swizzle
) -> None:
    """kind::f8f6f4 transposes A and B, of whatever type: 16 neighbours in M or N lie in a slot."""
    width = 4 if kind == "e2m1" else 6
    rng = np.random.default_rng(width)
    m, n, steps = 128, 128, max(pattern.span // 32, 1)  # K-major, a row is as long as the span
    for mn_a, mn_b in ((True, True), (True, False), (False, True)):
        a, b = (rng.integers(0, 1 << width, (rows_of, 32 * steps)) for rows_of in (m, n))
        right = decode(kind, a.astype(np.uint8)) @ decode(kind, b.astype(np.uint8)).T
        gemm = Gemm("f8f6f4", m, n, kind, kind, "f32", steps=steps, pattern=pattern,
                    mn_a=mn_a, mn_b=mn_b)  # fmt: skip
        given = [slots(x.T, width, rng).T if mn else slots(x, width, rng)
                 for x, mn in ((a, mn_a), (b, mn_b))]  # fmt: skip
        cells, found = gemm.run(*given)
        assert not found.findings, found.findings
        assert np.array_equal(cells[:, :n].view(np.float32), right)


def test_the_arithmetic_is_the_tensor_core_model_where_sums_are_rounded() -> None:
    """2**25 + 1 + … is cut off, 25 bits below the largest exponent: assumed, not measured."""
    gemm = Gemm("f16", 64, 8, "bf16", "bf16", "f32", width=2)
    a = np.ones((64, 16))
    a[:, 0] = 2.0**30
    cells, _ = gemm.run(encode("bf16", a), encode("bf16", np.ones((8, 16))))
    assert (cells[rows(64, False), :8].view(np.float32) == 2.0**30).all()


WRONG: list[tuple[str, str, str]] = [
    ("ld.param.u64 %rd4, [adesc];", "ld.param.u64 %rd4, [adesc]; xor.b64 %rd4, %rd4, 1<<46;",
     "version 0: this is a Hopper descriptor"),
    ("ld.param.u32 %r6, [idesc];", "ld.param.u32 %r6, [idesc]; xor.b32 %r6, %r6, 4;", "sparse"),
    ("ld.param.u32 %r6, [idesc];", "ld.param.u32 %r6, [idesc]; or.b32 %r6, %r6, 0x380;",
     "type 7 of A is none of kind::f16"),
    ("ld.param.u32 %r6, [idesc];", "ld.param.u32 %r6, [idesc]; xor.b32 %r6, %r6, 0x04000000;",
     "M = "),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "says"), WRONG, ids=lambda x: x[-24:])
def test_9_7_16_4_wrong_descriptors_are_explained(old: str, new: str, says: str) -> None:
    new = new.replace("1<<46", str(1 << 46))
    gemm = Gemm("f16", 128, 16, "f16", "f16", "f32", width=2, changes={old: new})
    zero = np.zeros((128, 16), np.uint16)
    with pytest.raises(EmulatorError, match=says):
        gemm.run(zero, zero[:16])


PLANTED: list[tuple[str, dict[str, str], str, str]] = [
    ("no proxy fence", {"fence.proxy.async.shared::cta;": ""}, "proxy", "fence.proxy.async"),
    ("no wait for the commit", {"WAIT:\n": "bra AFTER;\nWAIT:\n",
                                "mov.u32 %r20, %r5; mov.u32 %r21, 0;\nNEW":
                                "AFTER: mov.u32 %r20, %r5; mov.u32 %r21, 0;\nNEW"},
     "async", "has not waited for an mbarrier at which a tcgen05.commit"),
    ("committed too early",
     {"STEP:\n": "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];\n"
      "STEP:\n",
      "@%p3 bra STEP;\n    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 "
      "[done];": "@%p3 bra STEP;"}, "async", "tcgen05.commit after it"),
    ("operand overwritten", {"WAIT:\n": "st.shared.u32 [tile+16], %r1;\nWAIT:\n"},
     "async", "may still read it"),
    ("no wait for the store", {"tcgen05.wait::st.sync.aligned;": ""}, "async",
     "has not executed tcgen05.wait::st"),
    ("no wait for the load", {"tcgen05.wait::ld.sync.aligned;": ""}, "async",
     "has not executed tcgen05.wait::ld"),
    ("no barrier after the stores", {"tcgen05.fence::before_thread_sync;\n    bar.sync 0;\n    "
     "tcgen05.fence::after_thread_sync;\n    @!%p2": "@!%p2"}, "race", "nothing orders the two"),
    ("leaked", {"tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 512;": ""}, "tensor",
     "leaves the kernel with 512 columns"),
    ("every thread of a warp multiplies", {"@!%p2 bra WAIT;\n    setp.ne": "@!%p1 bra WAIT;\n    "
     "setp.ne", "mbarrier.init.shared::cta.b64 [done], 1": "mbarrier.init.shared::cta.b64 [done],"
     " 32"}, "tensor", "let one thread do it"),
]  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("changes", "kind", "says"), [p[1:] for p in PLANTED],
                         ids=[p[0] for p in PLANTED])  # fmt: skip
def test_9_7_16_6_planted_mistakes_are_found(
    changes: dict[str, str], kind: str, says: str, schedule: str
) -> None:
    gemm = Gemm("f16", 128, 16, "f16", "f16", "f32", width=2, changes=changes)
    one = np.full((128, 16), 0x3C00, np.uint16)
    old = np.zeros((128, 256), np.uint32)
    _, found = gemm.run(one, one[:16], old, schedule=schedule)
    assert any(h.kind == kind and says in h.message for h in found.findings), found.findings
    assert all(h.line for h in found.findings if h.kind != "tensor")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_9_7_16_7_1_deallocated_while_a_product_is_under_way(schedule: str) -> None:
    changes = {"@!%p2 bra WAIT;": "@!%p2 bra OTHER;", "END:\n": "bra END;\nOTHER:\n"
               "setp.ne.u32 %p5, %r2, 1; @%p5 bra WAIT;\n"
               "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 512;\nEND:\n"}  # fmt: skip
    gemm = Gemm("f16", 128, 16, "f16", "f16", "f32", width=2, changes=changes)
    one = np.full((128, 16), 0x3C00, np.uint16)
    with pytest.raises(EmulatorError, match="deallocate") as caught:
        gemm.run(one, one[:16], schedule=schedule)
    assert any("deallocates" in h.message for h in caught.value.findings)


def test_9_7_16_12_1_a_commit_publishes_what_came_before_it() -> None:
    """Two commits, one before the products and one after: the first phase says nothing of them."""
    early = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];\nSTEP:\n"
    gemm = Gemm("f16", 128, 16, "f16", "f16", "f32", width=2, changes={"STEP:\n": early})
    one = np.full((128, 16), 0x3C00, np.uint16)
    _, found = gemm.run(one, one[:16])
    assert found.findings
    assert all("tcgen05.commit after it" in h.message for h in found.findings)


def test_the_late_schedule_reads_operands_late() -> None:
    """What was overwritten too early is multiplied, as it might be on a GPU."""
    changes = {"WAIT:\n": "st.shared.u32 [tile], %r40;\nWAIT:\n"}
    gemm = Gemm("f16", 128, 16, "f16", "f16", "f32", width=2, changes=changes)
    one = np.full((128, 16), 0x3C00, np.uint16)
    late, _ = gemm.run(one, one[:16], schedule="late", check=False)
    eager, _ = gemm.run(one, one[:16], schedule="eager", check=False)
    assert late[0, 0] != eager[0, 0] and late[1, 0] == eager[1, 0]


@pytest.mark.parametrize("schedule", ["late", "eager", "random"])
@pytest.mark.parametrize(("where", "rules"), [
    ("before", ["missing-tcgen05-commit"]), ("after", []), ("beside", []),
])  # fmt: skip
def test_9_7_16_6_threads_that_overwrite_an_operand_wait_for_the_commit(
    where: str, rules: list[str], schedule: str
) -> None:
    """What the product reads may be written again when an mbarrier has said that it has."""
    store = "@%p2 st.shared.u32 [tile], %r1;\n"
    commit = "    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];\n"
    changes = {"before": {commit: commit + store},
               "after": {"    @!%p1 bra END;\n": store + "    @!%p1 bra END;\n"},
               "beside": {commit: commit + store.replace("[tile]", "[tile+14000]")}}  # fmt: skip
    gemm = Gemm("f16", 128, 64, "f16", "f16", "f32", width=2, changes=changes[where])
    text = gemm.text if where != "beside" else gemm.text.replace(
        f"tile[{gemm.shared}]", f"tile[{gemm.shared + 8192}]")  # fmt: skip
    gemm.text = text
    a, b = (np.ones((rows, 16), np.float16).view(np.uint16) for rows in (128, 64))
    _, ran = gemm.run(a, b, schedule=schedule)
    assert sorted({finding.rule for finding in ran.findings}) == rules
