"""tcgen05.fence (PTX ISA 9.7.16.11.1) and the patterns of 9.7.16.6.4: who must fence, and where.

CuTe DSL and Triton emit no tcgen05.fence at all.  So each half is asked for only in programs that
have that half.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.pair_kernels import PairGemm
from tests.emulator.tensor_kernels import Gemm

SCHEDULES = ("eager", "late", "random")
BEFORE, AFTER = "tcgen05.fence::before_thread_sync;", "tcgen05.fence::after_thread_sync;"
MEET = f"{BEFORE}\n    bar.sync 0;\n    {AFTER}\n    @!%p2"
READ = f"{AFTER}\n    mov.u32 %r20, %r5; mov.u32 %r21, 0;\nNEW"
LAST = f"{BEFORE}\n    bar.sync 0;\n    @!%p1"


def gemm(changes: dict[str, str], schedule: str, pair: bool = False) -> list[tuple[str, int, str]]:
    """Kind, line and message of what is found in a product with these lines changed."""
    one = np.full((256 if pair else 128, 16), 0x3C00, np.uint16)
    if pair:
        product = PairGemm("f16", 256, 32, "f16", "f16", "f32", width=2, changes=changes)
        _, run = product.run(one, one[:32], np.zeros((2, 128, 256), np.uint32), schedule=schedule)
    else:
        single = Gemm("f16", 128, 16, "f16", "f16", "f32", width=2, changes=changes)
        _, run = single.run(one, one[:16], np.zeros((128, 256), np.uint32), schedule=schedule)
    return [(h.kind, h.line, h.message) for h in run.findings]


MISSING = [
    ("stores, then a barrier, then a product", MEET, MEET.replace(BEFORE, ""), "before", "st.sync"),
    ("behind the barrier", MEET, MEET.replace(AFTER, ""), "after", "st.sync"),
    ("behind the wait for a commit", READ, READ.replace(AFTER, ""), "after", "mma"),
]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("old", "new", "half", "other"), [m[1:] for m in MISSING],
                         ids=[m[0] for m in MISSING])  # fmt: skip
def test_9_7_16_11_1_a_missing_fence_is_found(
    old: str, new: str, half: str, other: str, schedule: str
) -> None:
    found = gemm({old: new}, schedule)
    assert found and all(kind == "tensor" and line for kind, line, _ in found), found
    assert all(f"no tcgen05.fence::{half}_thread_sync" in text for _, _, text in found), found
    assert all(f"`tcgen05.{other}" in text for _, _, text in found), found


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("pair", [False, True])
def test_9_7_16_6_4_with_its_fences_a_product_is_clean(pair: bool, schedule: str) -> None:
    assert not gemm({}, schedule, pair)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_9_7_16_11_1_also_where_a_cluster_waits(schedule: str) -> None:
    changes = {f"{BEFORE}\n    barrier.cluster": "barrier.cluster"}
    found = gemm(changes, schedule, pair=True)
    assert found and all("no tcgen05.fence::before" in text for _, _, text in found), found


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_program_without_fences_is_held_to_the_barriers_alone(schedule: str) -> None:
    """As CuTe DSL and Triton emit it."""
    meet = MEET.replace(BEFORE, "").replace(AFTER, "")
    changes = {MEET: meet, READ: READ.replace(AFTER, ""), LAST: LAST.replace(BEFORE, "")}
    assert not gemm(changes, schedule)


RELAXED = (
    f"{BEFORE}\n    mbarrier.arrive.relaxed.cluster.shared::cta.b64 _, [met];\nMEET: "
    "mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 %p6, [met], 0; @!%p6 bra MEET;\n"
    f"    {AFTER}\n    @!%p2"
)
SETUP = {
    ".shared .align 4 .b32 slot;": ".shared .align 4 .b32 slot; .shared .align 8 .b64 met;",
    "mbarrier.init.shared::cta.b64 [done], 1;":
    "mbarrier.init.shared::cta.b64 [done], 1; mbarrier.init.shared::cta.b64 [met], 128;",
}  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_9_7_16_6_4_relaxed_barriers_are_enough_between_fences(schedule: str) -> None:
    """As in the PTX ISA's own examples."""
    assert not gemm({**SETUP, MEET: RELAXED}, schedule)
    found = gemm({**SETUP, MEET: RELAXED.replace(BEFORE, "")}, schedule)
    assert any("nothing orders the two" in text for _, _, text in found), found


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_9_7_16_11_1_a_fence_on_the_wrong_side_does_not_help(schedule: str) -> None:
    wrong = MEET.replace(BEFORE, "").replace(AFTER, f"{BEFORE} {AFTER}")
    assert gemm({MEET: wrong}, schedule)
