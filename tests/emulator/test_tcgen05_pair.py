"""``cta_group::2``, each rule named after its section of the PTX ISA.

There was no Blackwell to compare with: these are the words of the PTX ISA, and layouts as CuTe
publishes them.  Whole numbers, so that rounding plays no part.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from phasebit.emulator.errors import EmulatorError
from phasebit.emulator.numbers import swizzle
from tests.emulator.pair_kernels import PairGemm
from tests.emulator.tensor_ptx import run
from tests.emulator.test_tcgen05_mma import codes

Array = NDArray[Any]
SCHEDULES = ("eager", "late", "random")
KINDS = [
    ("f16", "f16", "f16", "f32", 2), ("f16", "bf16", "bf16", "f32", 2),
    ("f16", "f16", "f16", "f16", 2), ("tf32", "tf32", "tf32", "f32", 4),
    ("f8f6f4", "e4m3", "e5m2", "f32", 1), ("i8", "s8", "u8", "s32", 1),
]  # fmt: skip


def numbers(cells: Array, d: str) -> Array:
    """Cells of D as numbers."""
    cells = np.ascontiguousarray(cells)
    if d == "f16":
        return cells.astype(np.uint16).view(np.float16).astype(np.float64)
    return cells.view(np.int32 if d == "s32" else np.float32).astype(np.float64)


def check(gemm: PairGemm, a: str, b: str, d: str, adds: bool = False, **more: Any) -> None:
    rng = np.random.default_rng(gemm.m + gemm.n)
    bits_a, value_a = codes(rng, a, (gemm.m, gemm.k))
    bits_b, value_b = codes(rng, b, (gemm.n, gemm.k))
    right = gemm.placed(value_a @ value_b.T)
    old = None
    if adds:
        old = rng.integers(-9, 10, (2, 128, 256)).astype(np.float32)
        right = right + old[:, :, : right.shape[2]]
        old = old.astype(np.int32).view(np.uint32) if d == "s32" else old.view(np.uint32)
    cells, found = gemm.run(bits_a, bits_b, old, **more)
    for first in range(0, len(cells), 2):
        pair = cells[first : first + 2, :, : right.shape[2]]
        assert np.array_equal(numbers(pair, d), right)
    assert not found.findings, found.findings[0]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("m", [128, 256])
@pytest.mark.parametrize(("kind", "a", "b", "d", "width"), KINDS)
def test_9_7_16_10_9_1_every_kind_on_a_pair(
    kind: str, a: str, b: str, d: str, width: int, m: int, schedule: str
) -> None:
    check(PairGemm(kind, m, 64, a, b, d, width=width), a, b, d, schedule=schedule)


@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize(("m", "n"), [(256, 16), (256, 256), (128, 16), (128, 48), (128, 256)])
def test_9_7_16_10_5_where_the_rows_of_d_lie_in_a_pair(m: int, n: int, adds: bool) -> None:
    """Layouts A (M = 256) and B (M = 128)."""
    check(PairGemm("f16", m, n, "f16", "f16", "f32", width=2), "f16", "f16", "f32", adds)


@pytest.mark.parametrize("pattern", [swizzle.B32, swizzle.B64, swizzle.B128], ids=lambda p: p.name)
def test_9_7_16_4_1_a_descriptor_holds_in_both_blocks(pattern: swizzle.Swizzle) -> None:
    gemm = PairGemm("f16", 256, 64, "bf16", "bf16", "f32", width=2, pattern=pattern)
    check(gemm, "bf16", "bf16", "f32")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_9_7_16_5_either_block_may_issue(schedule: str) -> None:
    gemm = PairGemm("f16", 256, 64, "f16", "f16", "f32", width=2, issuer=1)
    check(gemm, "f16", "f16", "f32", schedule=schedule)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_pairs_do_not_meet(schedule: str) -> None:
    gemm = PairGemm("f16", 128, 32, "f16", "f16", "f32", width=2)
    check(gemm, "f16", "f16", "f32", pairs=3, schedule=schedule)


FILL = "\n".join(
    "mov.u32 %r40, %r1; mad.lo.u32 %r40, %r60, 1024, %r40;" if i == 0 else
    f"add.u32 %r4{i}, %r40, {i};" for i in range(8)
) + "add.u32 %r20, %r5, 128; add.u32 %r50, %r4, 128;" + (
    "tcgen05.st.sync.aligned.32x32b.x8.b32 [%r20], {%r40,%r41,%r42,%r43,%r44,%r45,%r46,%r47};"
)  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("m", [128, 256])
def test_9_7_16_10_5_a_from_the_tensor_memory_of_a_pair(m: int, schedule: str) -> None:
    """With M = 128 the lanes that hold a half of N take A from themselves, as in CuTe."""
    wait = "tcgen05.wait::st.sync.aligned;"
    changes = {wait: FILL + wait, "A_OPERAND": "[%r50]"}
    gemm = PairGemm("f16", m, 32, "f16", "f16", "f32", width=2, changes=changes)
    lanes = np.arange(128, dtype=np.uint32)[:, None] + np.arange(8, dtype=np.uint32)
    both = np.stack([lanes, lanes + 1024])
    a = both.view(np.uint16).view(np.float16).astype(np.float64)  # subnormal, exact
    bits, b = codes(np.random.default_rng(3), "f16", (32, gemm.k))
    cells, found = gemm.run(np.zeros((m, gemm.k), np.uint16), bits, schedule=schedule)
    assert not found.findings, found.findings[0]
    if m == 256:
        assert np.array_equal(numbers(cells[:, :, :32], "f32"), a @ b.T)
    else:
        assert np.array_equal(numbers(cells[:, :64, :16], "f32"), a[:, :64] @ b[:16].T)
        assert np.array_equal(numbers(cells[:, 64:, :16], "f32"), a[:, 64:] @ b[16:].T)


@pytest.mark.parametrize("m", [128, 256])
def test_9_7_16_10_9_1_disable_output_lane_of_a_pair(m: int) -> None:
    """Eight words: four for the lanes of the leader, four for those of the other block."""
    setting = "".join(f"mov.u32 %r{80 + i}, 0;" for i in range(8)) + (
        "mov.u32 %r80, 5; mov.u32 %r83, 2; mov.u32 %r86, -1; mov.u32 %r87, 8;"
    )
    masks = "{" + ", ".join(f"%r{80 + i}" for i in range(8)) + "},"
    gemm = PairGemm("f16", m, 32, "f16", "f16", "f32", width=2,
                    changes={"MASKS": masks, "SETTING": setting})  # fmt: skip
    one = np.full((m, 16), 0x3C00, np.uint16)
    old = np.full((2, 128, 256), 7, np.float32).view(np.uint32)
    cells, found = gemm.run(one, one[:32], old)
    kept = np.zeros((2, 128), bool)
    kept[0, [0, 2, 97]] = True
    kept[1, [*range(64, 96), 99]] = True
    assert not found.findings
    assert np.array_equal(cells[:, :, 0].view(np.float32), np.where(kept, 7, 23))


WRONG = [
    ("a mask of four words", {"MASKS": "{%r81, %r82, %r83, %r84},"}, "takes a mask of 8 words"),
    ("M of one block", {"ld.param.u32 %r6, [idesc];":
                        "ld.param.u32 %r6, [idesc]; xor.b32 %r6, %r6, 0x14000000;"},
     "with cta_group::2 it is 128 or 256"),
    ("both groups", {"tcgen05.mma.cta_group::2.kind": "tcgen05.mma.cta_group::1.kind"},
     "all must be for the same"),
    ("other numbers of columns", {"[slot], 256;": "[slot], %r62;",
                                  "setp.eq.u32 %p1, %r2, 0;":
                                  "setp.eq.u32 %p1, %r2, 0; shl.b32 %r62, 128, %r60;"},
     "both blocks of a pair must ask for the same number"),
    ("only one block allocates", {"@!%p1 bra START;": "setp.ne.u32 %p6, %r60, 0; @%p6 bra END;"
                                  "@!%p1 bra START;"},
     "the other block of the pair at tcgen05.alloc[^;]*\n.*its peer, block 1, has left the kernel"),
    ("only one block gives back", {"@!%p1 bra END;": "@!%p1 bra END; setp.ne.u32 %p6, %r60, 0;"
                                   "@%p6 bra END;"}, "its peer, block 1, has left the kernel"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "says"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_9_7_16_7_1_what_a_pair_must_agree_on(changes: dict[str, str], says: str) -> None:
    gemm = PairGemm("f16", 256, 32, "f16", "f16", "f32", width=2, changes=changes)
    zero = np.zeros((256, 16), np.uint16)
    with pytest.raises(EmulatorError, match=says):
        gemm.run(zero, zero[:32])


def test_9_7_16_5_a_pair_needs_a_cluster() -> None:
    gemm = PairGemm("f16", 256, 32, "f16", "f16", "f32", width=2)
    zero = np.zeros((2, 128, 256), np.uint32)
    with pytest.raises(EmulatorError, match="its cluster of 1 has none"):
        run(gemm.text, zero, zero, zero, *gemm.descriptors, gemm.idesc, 0, blocks=2)


MEETING = "    barrier.cluster.arrive.release.aligned;\n    barrier.cluster.wait.acquire.aligned;\n"
ALONE = {f"{MEETING}    @!%p1 bra START;": "    @!%p1 bra START;"}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_9_7_16_7_1_a_pair_allocates_before_its_blocks_have_met(schedule: str) -> None:
    """Each block must know that the other runs; nothing else is wrong with it."""
    zero = np.zeros((256, 16), np.uint16)
    for changes, rules in (ALONE, {"tensor-memory-pair-peer-unknown"}), ({}, set()):
        gemm = PairGemm("f16", 256, 32, "f16", "f16", "f32", width=2, changes=changes)
        _, found = gemm.run(zero, zero[:32], np.zeros((2, 128, 256), np.uint32), schedule=schedule)
        assert {finding.rule for finding in found.findings} == rules


LEAVES = {
    "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 "
    "[done], %h1;": "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [done];",
    "WAIT:\n": "WAIT: setp.ne.u32 %p6, %r60, 0; @%p6 bra AFTER;\nLOOP:\n", "@!%p3 bra WAIT;":
    "@!%p3 bra LOOP;", "mov.u32 %r20, %r5; mov.u32 %r21, 0;\nNEW":
    "AFTER: mov.u32 %r20, %r5; mov.u32 %r21, 0;\nNEW",
}  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_9_7_16_12_1_the_other_block_does_not_wait(schedule: str) -> None:
    """A commit without multicast tells the leader only; the other block reads too early."""
    gemm = PairGemm("f16", 256, 32, "f16", "f16", "f32", width=2, changes=LEAVES)
    one = np.full((256, 16), 0x3C00, np.uint16)
    _, found = gemm.run(one, one[:32], np.zeros((2, 128, 256), np.uint32), schedule=schedule)
    assert any("a tensor operation of thread 0 of block 0 writes it" in h.message and
               "block 1 reads tensor memory" in h.message for h in found.findings)  # fmt: skip


NO_WAIT = {
    "WAIT:\n": "WAIT: setp.ne.u32 %p6, %r60, 0; @%p6 bra AFTER;\nLOOP:\n", "@!%p3 bra WAIT;":
    "@!%p3 bra LOOP;", "@!%p1 bra END;": "AFTER:\n@!%p1 bra END;",
}  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_9_7_16_5_a_block_leaves_while_the_tensor_core_works_with_it(schedule: str) -> None:
    """Its half of A and B, its half of D, and its barrier: all are still used."""
    gemm = PairGemm("f16", 256, 32, "f16", "f16", "f32", width=2, changes=NO_WAIT)
    one = np.full((256, 16), 0x3C00, np.uint16)
    try:
        _, found = gemm.run(one, one[:32], np.zeros((2, 128, 256), np.uint32), schedule=schedule)
        findings = found.findings
    except EmulatorError as error:
        findings = error.findings
    for what in ("reads its shared memory", "arrives at an mbarrier in its shared memory"):
        mine = [h for h in findings if h.kind == "cluster" and what in h.message]
        assert mine and mine[0].line, (what, findings)
        assert "block 1 may leave the kernel before a tensor operation of thread 0 of block 0" in (
            mine[0].message
        )
