"""Cluster launch control, each rule named after its section of the PTX ISA.

There was no Blackwell to compare with.
"""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.emulator import EmulatorError, Run
from phasebit.emulator.errors import Fault
from phasebit.launching.launch import Module
from tests.emulator.tensor_ptx import HEAD

SCHEDULES = ("eager", "late", "random")
PERSISTENT = HEAD + """
.visible .entry kernel(.param .u64 out, .param .u32 width, .param .u32 height)
{
    .reg .pred %p<9>; .reg .b32 %r<30>; .reg .b64 %rd<9>; .reg .b128 %q;
    .shared .align 16 .b8 answer[16]; .shared .align 8 .b64 come;
    ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [width]; ld.param.u32 %r2, [height];
    mov.u32 %r3, %tid.x; setp.eq.u32 %p1, %r3, 0;
    mov.u32 %r4, %cluster_ctarank; setp.eq.u32 %p2, %r4, 0; and.pred %p2, %p1, %p2;
    mov.u32 %r5, %ctaid.x; mov.u32 %r6, %ctaid.y; mov.u32 %r7, %ctaid.z; mov.u32 %r8, 0;
    sub.u32 %r5, %r5, %r4;
    @%p1 mbarrier.init.shared::cta.b64 [come], 1;
    @%p1 fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
WORK:
    @!%p1 bra ASKED;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [come], 16;
    @!ASKER bra ASKED;
    clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytesMULTICAST.b128
        [answer], [come];
ASKED:
    mad.lo.u32 %r10, %r7, %r2, %r6; mad.lo.u32 %r10, %r10, %r1, %r5; add.u32 %r10, %r10, %r4;
    shl.b32 %r10, %r10, 5; add.u32 %r10, %r10, %r3; mul.wide.u32 %rd2, %r10, 4;
    add.u64 %rd2, %rd1, %rd2; mov.u32 %r11, %ctaid.x;
    atom.global.add.u32 %r12, [%rd2], 1;
WAIT:
    mbarrier.try_wait.parity.acquire.SCOPE.shared::cta.b64 %p3, [come], %r8; @!%p3 bra WAIT;
    xor.b32 %r8, %r8, 1;
    ld.shared.b128 %q, [answer];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p4, %q;
    @!%p4 bra END;
    QUERY
    fence.proxy.async.shared::cta;
    barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
    bra WORK;
END:
    barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
    ret;
}
"""
"""Each block marks its tile, and then those of the clusters that it takes over."""

V4 = "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r5, %r6, %r7, _}, %q;"
ONES = "".join(
    f"clusterlaunchcontrol.query_cancel.get_first_ctaid::{d}.b32.b128 %r{r}, %q;"
    for d, r in zip("xyz", (5, 6, 7), strict=True)
)


def steal(
    grid: tuple[int, int, int], cluster: int = 1, query: str = V4, text: str = PERSISTENT,
    **more: object,
) -> tuple[np.ndarray, Run]:  # type: ignore[type-arg]
    """How often each thread's place was marked, and the run."""
    everywhere = cluster > 1
    for old, new in (("MULTICAST", ".multicast::cluster::all" if everywhere else ""),
                     ("ASKER", "%p2"), ("SCOPE", "cluster"), ("QUERY", query)):  # fmt: skip
        text = text.replace(old, new)
    x, y, z = grid
    out = np.zeros((z, y, x, 32), np.uint32)
    run = Module(text)["kernel"].launch(
        grid, 32, [out, x, y], cluster=cluster, **more,  # type: ignore[arg-type]
    )
    return out, run


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("grid", "cluster"), [((7, 1, 1), 1), ((3, 4, 2), 1), ((6, 3, 1), 2),
                                               ((8, 2, 1), 4), ((1, 1, 1), 1)])  # fmt: skip
def test_9_7_13_17_every_block_is_done_once(
    grid: tuple[int, int, int], cluster: int, seed: int, schedule: str
) -> None:
    """No two answers name one cluster; what nobody takes over starts as ever."""
    out, run = steal(grid, cluster, schedule=schedule, seed=seed)
    assert (out == 1).all()
    assert not run.findings, run.findings[0]
    out, _ = steal(grid, cluster, schedule=schedule, seed=seed, check=False)
    assert (out == 1).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_9_7_13_18_each_coordinate_by_itself(schedule: str) -> None:
    out, run = steal((3, 4, 2), query=ONES, schedule=schedule)
    assert (out == 1).all() and not run.findings


def test_few_blocks_do_the_work_of_all() -> None:
    """The atomics tell nothing of it, but the number of groups that began does."""
    text = PERSISTENT.replace("atom.global.add.u32 %r12, [%rd2], 1;",
                              "add.u32 %r11, %r11, 1; st.global.u32 [%rd2], %r11;")  # fmt: skip
    out, _ = steal((40, 1, 1), text=text, schedule="late")
    assert set(np.unique(out)) == {1, 2}


@pytest.mark.parametrize("seed", range(4))
def test_some_answers_are_no_without_need_but_not_all(seed: int) -> None:
    """Under the schedule ``random``: who gets a "no" makes room for a block that starts as ever."""
    text = PERSISTENT.replace("atom.global.add.u32 %r12, [%rd2], 1;",
                              "add.u32 %r11, %r11, 1; st.global.u32 [%rd2], %r11;")  # fmt: skip
    out, _ = steal((40, 1, 1), text=text, schedule="random", seed=seed)
    assert 2 < len(np.unique(out)) < 40


FENCE = "    fence.proxy.async.shared::cta;\n"


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("cluster", [1, 2])
def test_9_7_13_17_the_next_answer_is_written_through_another_proxy(
    cluster: int, schedule: str
) -> None:
    """A meeting of all threads is not enough: who read the last answer says so by a proxy fence."""
    text = PERSISTENT.replace(FENCE, "")
    assert text != PERSISTENT
    out, run = steal((8, 1, 1), cluster, text=text, schedule=schedule)
    assert (out == 1).all()
    assert {f.rule for f in run.findings} == {"missing-proxy-fence"}
    assert "the answer of thread" in str(run.findings[0])


@pytest.mark.parametrize("guilty", [0, 1])
@pytest.mark.parametrize("cluster", [1, 2])
def test_9_7_13_17_who_has_read_the_answer_without_a_fence_is_named(
    cluster: int, guilty: int
) -> None:
    """One thread, of the last block of the first or of the second cluster."""
    block = cluster * (guilty + 1) - 1
    text = PERSISTENT.replace("WORK:", f"""
    mov.u32 %r21, %ctaid.x; setp.eq.u32 %p6, %r21, {block}; setp.eq.u32 %p7, %r3, 21;
    and.pred %p6, %p6, %p7;
WORK:""", 1).replace(FENCE, f"    @!%p6{FENCE[3:]}")
    out, run = steal((8, 1, 1), cluster, text=text, schedule="eager")
    assert (out == 1).all()
    (said,) = {finding.message for finding in run.findings}
    assert said.startswith(
        f"the answer of thread 0 of block {cluster * guilty} writes answer[0 bytes in] through the "
        "async proxy: `clusterlaunchcontrol.try_cancel."
    )
    assert f"; thread 21 of block {block} has read the one before it through the generic" in said
    assert "no fence.proxy.async lies between: `ld.shared.b128 %q, [answer]`" in said


@pytest.mark.parametrize("there", [0, 8])
def test_9_7_13_17_the_word_that_was_read_without_a_fence_is_named(there: int) -> None:
    late = f"    ld.shared.u32 %r22, [answer+{there}];\n"
    out, run = steal((8, 1, 1), text=PERSISTENT.replace(FENCE, FENCE + late), schedule="late")
    assert (out == 1).all()
    (said,) = {finding.message for finding in run.findings}
    assert f" writes answer[{there} bytes in] through the async proxy: " in said
    assert f"no fence.proxy.async lies between: `ld.shared.u32 %r22, [answer+{there}]`" in said


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("cluster", [1, 2])
def test_9_7_13_4_the_fence_of_one_direction(cluster: int, schedule: str) -> None:
    """As in the CUDA programming guide: release by the readers, acquire by who asks."""
    text = PERSISTENT.replace(
        FENCE, "    fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;\n"
    ).replace("    @!ASKER", "    fence.proxy.async::generic.acquire.sync_restrict::shared::cluster"
              ".cluster;\n    @!ASKER")  # fmt: skip
    assert text.count("sync_restrict") == 2
    out, run = steal((8, 1, 1), cluster, text=text, schedule=schedule)
    assert (out == 1).all() and not run.findings


@pytest.mark.parametrize("fence", ["async::generic.acquire.sync_restrict::shared::cta.cluster",
                                   "async::generic.release.cluster",
                                   "async.release.sync_restrict::shared::cta.cluster"])
def test_9_7_13_4_there_are_two_fences_of_one_direction(fence: str) -> None:
    with pytest.raises(EmulatorError, match="sync_restrict::shared::cta or"):
        steal((2, 1, 1), text=PERSISTENT.replace(FENCE, f"    fence.proxy.{fence};\n"))


LOOK = "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p4, %q;"


def test_9_7_13_18_an_answer_without_a_block_is_not_asked_for_it() -> None:
    with pytest.raises(Fault, match="ask is_canceled first"):
        steal((5, 1, 1), text=PERSISTENT.replace(LOOK, "setp.eq.u32 %p4, 0, 0;"))


@pytest.mark.parametrize("query", [V4, ONES])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_9_7_13_18_the_block_may_be_asked_for_before_the_answer_is_looked_at(
    schedule: str, query: str
) -> None:
    """As compilers do: what they get of a "no" they do not use."""
    both = query + LOOK
    text = PERSISTENT.replace(f"{LOOK}\n    @!%p4 bra END;\n    QUERY", f"{both} @!%p4 bra END;")
    assert text != PERSISTENT
    out, run = steal((3, 4, 2), text=text, schedule=schedule)
    assert (out == 1).all() and not run.findings


def test_9_7_13_18_the_block_of_a_no_is_in_no_grid() -> None:
    with pytest.raises(Fault, match="near no array"):
        steal((5, 1, 1), text=PERSISTENT.replace("@!%p4 bra END;", ""))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_9_7_13_17_nobody_asks_again_after_a_no(schedule: str) -> None:
    text = PERSISTENT.replace("@!%p4 bra END;\n    QUERY", "add.u32 %r20, %r20, 1; "
                              "setp.gt.u32 %p5, %r20, 9; @%p5 bra END;")  # fmt: skip
    text = text.replace("mov.u32 %r8, 0;", "mov.u32 %r8, 0; mov.u32 %r20, 0;")
    _, run = steal((5, 1, 1), text=text, schedule=schedule)
    assert any("has seen that there is none left" in h.message and h.line for h in run.findings)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_9_7_13_17_the_answer_is_read_before_it_has_come(schedule: str) -> None:
    text = PERSISTENT.replace("@!%p3 bra WAIT;", "").replace("%p3, [come], %r8", "%p3, [come], 1")
    text = text.replace("    bra WORK;", "    bra END;")
    _, run = steal((5, 1, 1), text=text.replace("@!%p4 bra END;\n    QUERY", ""),
                   schedule=schedule)  # fmt: skip
    assert any(h.kind == "async" and "answer" in h.message for h in run.findings), run.findings
