"""Blocks of a cluster that reach each other's shared memory: what orders them, who is named.

In PTX, so that no compiler is needed. Of four blocks the third one tells and the fourth hears, in
the first cluster of three or in the last one. Source: PTX ISA 5.1.7, 8.5, 8.8, 9.7.13.3, 9.7.13.15.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from phasebit.emulator.errors import EmulatorError
from phasebit.launching.launch import Module

MEET = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
KERNEL = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 x)
{
    .reg .b32 %r<20>; .reg .b64 %rd<9>; .reg .pred %p<9>;
    .shared .align 16 .b32 tile[64]; .shared .align 8 .b64 full; .shared .align 4 .b32 flag;
    ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank;
    mov.u32 %r14, %clusterid.x; mul.wide.u32 %rd2, %r14, 256; add.u64 %rd1, %rd1, %rd2;
    setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r2, 2; setp.eq.u32 %p3, %r2, 3;
    setp.eq.u32 %p4, %r1, 37; setp.ne.u32 %p5, %r14, CLUSTER; mov.u32 %r3, 3;
    mov.u32 %r4, tile; shl.b32 %r5, %r1, 2; add.u32 %r4, %r4, %r5;
    mapa.shared::cluster.u32 %r6, %r4, %r3; mov.u32 %r7, full;
    mapa.shared::cluster.u32 %r8, %r7, %r3; mov.u32 %r9, 7;
    mov.u32 %r11, flag; mapa.shared::cluster.u32 %r12, %r11, %r3;
    st.shared.u32 [%r4], %r9; @%p1 st.shared.u32 [flag], 0;
    @%p1 mbarrier.init.shared::cta.b64 [full], 64;
    FENCE
    BEGIN
    @%p5 bra LAST; @%p2 bra TELL; @%p3 bra HEAR; bra LAST;
TELL:
    ONE
    bra LAST;
HEAR:
    TWO
LAST:
    END
    ret;
}
"""
INIT = "@%p1 fence.mbarrier_init.release.cluster;"
PUT, GET = "@%p4 st.shared::cluster.u32 [%r6], %r1;", "@%p4 ld.shared::cluster.u32 %r10, [%r6];"
ADD = "@%p4 atom.shared::cluster.add.u32 %r10, [%r6], 1;"
LOAD, STORE = "ld.shared.u32 %r10, [%r4];", "st.shared.u32 [%r4], %r9;"
ARRIVAL = "mbarrier.arrive.{}.shared::cluster.b64 _, [%r8];"
WAIT = "W: mbarrier.try_wait.parity.{}.shared::cta.b64 %p6, [full], 0; @!%p6 bra W;"
SEND = "@%p4 st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r6], %r1, [%r8];"
EXPECT = "@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [full], 4;"
TELLS = "@%p4 st.{}.shared::cluster.u32 [%r12], 1;"
HEARS = "A: ld.{}.shared.u32 %r13, [flag]; setp.eq.u32 %p7, %r13, 0; @%p7 bra A;"
TELLS_ALL = "@%p4 st.{}.global.u32 [%rd1], 1;"
HEARS_ALL = "A: ld.{}.global.u32 %r13, [%rd1]; setp.eq.u32 %p7, %r13, 0; @%p7 bra A;"
RELEASE, ACQUIRE = ARRIVAL.format("release.cluster"), WAIT.format("acquire.cluster")
NEAR, NEAR_WAIT = ARRIVAL.format("release.cta"), WAIT.format("acquire.cta")
ONE_TELLS = "@%p1 st.relaxed.cluster.shared::cluster.u32 [%r12], 1;"
WAIT_ONE = "@%p1 mbarrier.arrive.release.cta.shared::cta.b64 %rd3, [full], 63; " + ACQUIRE
TOLD_ON = (  # thread 37 looks, and tells its block
    "@%p4 bra A; bra B; " + HEARS.format("acquire.cluster") + "st.release.cta.global.u32 [%rd1+4], "
    "1; B: ld.acquire.cta.global.u32 %r13, [%rd1+4]; setp.eq.u32 %p7, %r13, 0; @%p7 bra B; "
)
THERE = "mov.u32 %r15, 2; mapa.shared::cluster.u32 %r16, %r11, %r15; "
"""The flag of the block that tells."""


def found(
    tell: str, hear: str, cluster: int = 0, schedule: str = "late", begin: str = MEET,
    end: str = MEET, fence: str = INIT,
) -> list[tuple[str, str]]:  # fmt: skip
    """Rules, and what is said but for the places; blocks T, which tells, and H, which hears."""
    text = KERNEL
    for name, part in {"CLUSTER": str(cluster), "ONE": tell, "TWO": hear, "BEGIN": begin,
                       "END": end, "FENCE": fence}.items():  # fmt: skip
        text = text.replace(name, part)
    memory = np.zeros(256, np.uint32)
    try:
        run = Module(text)["k"].launch(12, 64, [memory], cluster=4, schedule=schedule)
        findings = run.findings
    except EmulatorError as error:
        findings = [*error.findings, error.finding]
    said = []
    for each in findings:
        assert each.at is None or each.at == each.places[0], each.at
        message = re.sub(r" at PTX line \d+", "", each.message)
        for block, name in ((4 * cluster + 2, "T"), (4 * cluster + 3, "H")):
            message = re.sub(rf"\bblock {block}\b", f"block {name}", message)
        said.append((each.rule, message))
    return sorted(said)


def race(hear: str, verb: str, tell: str, did: str) -> tuple[str, str]:
    return "race", (
        f"thread 37 of block H {verb} tile[148 bytes in]: `{hear[:-1]}`; thread 37 of block T "
        f"{did} it, and nothing orders the two: `{tell[:-1]}`"
    )


def narrow(by: str) -> tuple[str, str]:
    return "narrow-scope", (
        f"thread 37 of block H reads tile[148 bytes in]: `{LOAD[:-1]}`; thread 37 of block T wrote "
        f"it: `{PUT[:-1]}`; what tells of it has .cta scope, which orders within a block, not from "
        f"one to another: `{by}`"
    )


def untold(more: str = "") -> tuple[str, str]:
    rule, text = race(LOAD, "reads", PUT, "wrote")
    return rule, text + more


def leaves(who: str, verb: str, what: str, by: str) -> tuple[str, str]:
    return "block-leaves-too-early", (
        f"block H may leave the kernel before {who} {verb} its {what}: `{by[:-1]}`; nothing orders "
        "the two: let the cluster wait for all before a block ends"
    )


ORDERED = [
    (PUT + RELEASE, ACQUIRE + LOAD), (GET + RELEASE, ACQUIRE + STORE),
    (ADD + RELEASE, ACQUIRE + LOAD), (STORE + RELEASE, ACQUIRE + STORE),
    (ADD, "@%p4 atom.shared.add.u32 %r10, [%r4], 1;"),
    (PUT + "bar.sync 0;" + RELEASE, ACQUIRE + "bar.sync 0;" + LOAD),
    (PUT + TELLS.format("release.cluster"),
     "@%p4 bra A; bra OVER;" + HEARS.format("acquire.cluster") + LOAD + "OVER:"),
    (PUT + "fence.acq_rel.cluster;" + TELLS.format("relaxed.cluster"),
     HEARS.format("relaxed.cluster") + "fence.acq_rel.cluster;" + LOAD),
    (PUT + "fence.acq_rel.gpu;" + TELLS_ALL.format("relaxed.gpu"),
     HEARS_ALL.format("relaxed.gpu") + "fence.acq_rel.gpu;" + LOAD),
    (PUT + TELLS_ALL.format("release.cluster"), HEARS_ALL.format("acquire.cluster") + LOAD),
    (PUT + "fence.acq_rel.cluster;" + ARRIVAL.format("release.cta"), ACQUIRE + LOAD),
    (SEND + RELEASE, ACQUIRE + LOAD),
    (PUT + TELLS.format("release.cluster"),
     HEARS.format("acquire.cta") + "fence.acq_rel.cluster;" + LOAD),
    (PUT + TELLS.format("release.cluster"),
     HEARS.format("relaxed.cluster") + "fence.acq_rel.cta; fence.acq_rel.cluster;" + LOAD),
    (PUT + TELLS.format("release.cluster"),
     HEARS.format("relaxed.cluster") + "fence.acq_rel.cta; bar.sync 0;" + LOAD),
    (PUT + "fence.acq_rel.cluster; bar.sync 0; fence.acq_rel.cta;" + ONE_TELLS,
     HEARS.format("acquire.cluster") + LOAD),
    (PUT + "fence.acq_rel.cluster; bar.sync 0; @%p1 " + NEAR, WAIT_ONE + LOAD),
    (PUT + "fence.acq_rel.cluster; bar.sync 0; fence.acq_rel.cta; @%p1 " + NEAR,
     WAIT_ONE + LOAD),
    (PUT + TELLS.format("release.cluster"), TOLD_ON + "ld.shared.u32 %r10, [tile+148];"),
    (PUT + "fence.acq_rel.cta; " + TELLS.format("release.cluster"),
     HEARS.format("acquire.cluster") + "fence.acq_rel.cta;" + LOAD),
    # within a block it is enough: thread 0 writes, its own block reads
    ("", "@%p1 st.shared.u32 [tile+148], 5; @%p1 st.release.cta.shared.u32 [flag], 1; "
     + HEARS.format("acquire.cta") + "ld.shared.u32 %r10, [tile+148];"),
    ("", "@%p1 st.shared.u32 [tile+148], 5; fence.acq_rel.cta; @%p1 st.relaxed.cta.shared.u32 "
     "[flag], 1; " + HEARS.format("relaxed.cta") + "fence.acq_rel.cta; ld.shared.u32 %r10, "
     "[tile+148];"),
    ("", "@%p1 st.shared.u32 [tile+148], 5; @%p1 st.release.cluster.shared.u32 [flag], 1; "
     + HEARS.format("acquire.cta") + "ld.shared.u32 %r10, [tile+148];"),
]  # fmt: skip
ANNOUNCED = f"@%p5 bra ON; @%p3 bra MORE; bra ON; MORE: {EXPECT} ON: {MEET}"


@pytest.mark.parametrize("cluster", [0, 2])
@pytest.mark.parametrize(("tell", "hear"), ORDERED)
def test_what_orders_blocks_of_a_cluster(tell: str, hear: str, cluster: int) -> None:
    assert found(tell, hear, cluster, begin=ANNOUNCED if SEND in tell else MEET) == []


RELAXED = ARRIVAL.format("relaxed.cluster")
WRONG = [
    (PUT, LOAD, untold()), (PUT, STORE, race(STORE, "writes", PUT, "wrote")),
    (GET, STORE, race(STORE, "writes", GET, "read")),
    (PUT + "bar.sync 0;", "bar.sync 0;" + LOAD, untold()),
    (PUT + NEAR, ACQUIRE + LOAD, narrow(NEAR[:-1])),
    (PUT + RELEASE, NEAR_WAIT + LOAD, narrow(NEAR_WAIT.split(";")[0][3:])),
    (PUT + RELAXED, ACQUIRE + LOAD,
     untold(f"; its arrival after that is .relaxed, and tells of nothing before: "
            f"`{RELAXED[:-1]}`")),
    (RELAXED + PUT, ACQUIRE + LOAD, untold()),
    (PUT + TELLS.format("release.cta"), HEARS.format("acquire.cluster") + LOAD,
     narrow(TELLS.format("release.cta")[:-1])),
    (PUT + TELLS_ALL.format("release.cta"), HEARS_ALL.format("acquire.gpu") + LOAD,
     narrow(TELLS_ALL.format("release.cta")[:-1])),
    (PUT + TELLS.format("release.cluster"), HEARS.format("acquire.cta") + LOAD,
     narrow("ld.acquire.cta.shared.u32 %r13, [flag]")),
    (PUT + TELLS.format("release.cluster"),
     HEARS.replace("ld.{}.shared.u32 %r13, [flag]",
                   "atom.acquire.cta.shared.add.u32 %r13, [flag], 0") + LOAD,
     narrow("atom.acquire.cta.shared.add.u32 %r13, [flag], 0")),
    (PUT + "@%p4 st.release.cluster.shared.u32 [flag], 1;",
     THERE + HEARS.format("acquire.cta").replace("shared.u32", "shared::cluster.u32").replace(
         "[flag]", "[%r16]") + LOAD, narrow("ld.acquire.cta.shared::cluster.u32 %r13, [%r16]")),
    (PUT + TELLS_ALL.format("release.gpu"), HEARS_ALL.format("acquire.cta") + LOAD,
     narrow("ld.acquire.cta.global.u32 %r13, [%rd1]")),
    (PUT + TELLS.format("release.cluster"), HEARS.format("relaxed.cta") + "bar.sync 0;" + LOAD,
     narrow("ld.relaxed.cta.shared.u32 %r13, [flag]")),
    (PUT + TELLS.format("release.cluster"),
     HEARS.format("relaxed.cluster") + "fence.acq_rel.cta;" + LOAD, narrow("fence.acq_rel.cta")),
    (PUT + "fence.acq_rel.cta;" + TELLS.format("relaxed.cluster"),
     HEARS.format("acquire.cluster") + LOAD, narrow("fence.acq_rel.cta")),
    (PUT + "fence.acq_rel.cta; bar.sync 0;" + ONE_TELLS,
     HEARS.format("acquire.cluster") + LOAD, narrow("fence.acq_rel.cta")),
    (PUT + "fence.acq_rel.cta;" + NEAR, ACQUIRE + LOAD, narrow(NEAR[:-1])),
    (PUT + TELLS.format("relaxed.cluster"), HEARS.format("acquire.cluster") + LOAD, untold()),
    (PUT + TELLS.format("release.cluster"), HEARS.format("relaxed.cluster") + LOAD, untold()),
    (SEND, LOAD, ("missing-mbarrier-wait",
     f"thread 37 of block H reads tile[148 bytes in]: `{LOAD[:-1]}`; a bulk copy writes it, and "
     f"this thread has not waited for mbarrier full of rank 3: `{SEND[:-1]}`")),
]  # fmt: skip


@pytest.mark.parametrize("cluster", [0, 2])
@pytest.mark.parametrize(("tell", "hear", "wrong"), WRONG)
def test_what_does_not_order_them_is_said_of_the_two(
    tell: str, hear: str, wrong: tuple[str, str], cluster: int
) -> None:
    """Where a copy is under way, it also outlives the block that it writes to."""
    said = found(tell, hear, cluster, begin=ANNOUNCED if SEND in tell else MEET)
    assert [each for each in said if each[0] != "block-leaves-too-early"] == [wrong]
    assert len(said) == (2 if SEND in tell else 1)


@pytest.mark.parametrize("first", [0, 33])
def test_of_several_words_the_first_is_told_with_its_threads(first: int) -> None:
    put = f"setp.ge.u32 %p8, %r1, {first}; @%p8 {PUT[5:]}"
    wrong = untold()[1].replace("thread 37", f"thread {first}").replace("148", str(4 * first))
    said = found(put, LOAD, 2)
    assert said == [("race", wrong.replace("@%p4 st", "@%p8 st"))]


def test_the_operation_that_told_of_the_write_is_named_not_the_last_one() -> None:
    """The block that hears also tells another of something, with too small a scope."""
    back = "mov.u32 %r15, 2; mapa.shared::cluster.u32 %r16, %r7, %r15; "
    also = "mbarrier.arrive.release.cta.shared::cluster.b64 _, [%r16]; "
    for cluster in (0, 2):
        said = found(PUT + NEAR, ACQUIRE + back + also + LOAD, cluster)
        assert said == [narrow(NEAR[:-1])]


FIRST = "thread 37 of block T"
ENDS = [
    (PUT, "", leaves(FIRST, "writes", "tile[148 bytes in]", PUT)),
    (PUT, "ret;", leaves(FIRST, "writes", "tile[148 bytes in]", PUT)),
    (GET, "", leaves(FIRST, "uses", "tile[148 bytes in]", GET)),
    (RELEASE, "", leaves("thread 0 of block T", "uses", "full[0 bytes in]", RELEASE)),
    (f"@%p4 bra SENDS; bra LAST; SENDS: {RELEASE}", "",
     leaves(FIRST, "uses", "full[0 bytes in]", RELEASE)),
    (SEND, "",
     leaves("a bulk copy that mbarrier full of rank 3 counts", "writes", "tile[148 bytes in]",
            SEND)),
    (HEARS_ALL.format("acquire.gpu") + PUT, "@%p1 st.release.gpu.global.u32 [%rd1], 1; ret;",
     ("access-to-departed-block",
      f"{FIRST} reaches into the shared memory of block H, which has left the kernel: {PUT[:-1]}; "
      "let the cluster wait for all before a block ends")),
]  # fmt: skip


@pytest.mark.parametrize("cluster", [0, 2])
@pytest.mark.parametrize(("tell", "hear", "wrong"), ENDS)
def test_a_block_leaves_while_others_use_its_shared_memory(
    tell: str, hear: str, wrong: tuple[str, str], cluster: int
) -> None:
    said = found(tell, hear, cluster, begin=ANNOUNCED if SEND in tell else MEET, end="")
    assert said == [wrong]
    ordered = tell + RELEASE, hear + ACQUIRE
    if hear == "" and SEND not in tell and RELEASE not in tell:
        assert found(*ordered, cluster, end="") == []


LOOSE = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;"


@pytest.mark.parametrize("cluster", [0, 2])
@pytest.mark.parametrize("loose", ["bar.sync 0;", LOOSE])
def test_9_7_13_4_a_barrier_is_there_for_others_when_its_initialisation_is_fenced(
    loose: str, cluster: int
) -> None:
    """``fence.mbarrier_init`` and a relaxed arrival are enough; one of the two alone is not."""
    unknown = "race", (
        f"thread 0 of block T reads full[0 bytes in]: `{RELEASE[:-1]}`; thread 0 of block H wrote "
        "it, and nothing orders the two: `@%p1 mbarrier.init.shared::cta.b64 [full], 64`"
    )
    said = found(RELEASE, "bar.sync 0;" + ACQUIRE, cluster, begin=loose)
    assert said == ([] if loose == LOOSE else [unknown])
    assert unknown in found(RELEASE, "bar.sync 0;" + ACQUIRE, cluster, begin=loose, fence="")


BULK = ("@%p4 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r17], [tile]"
        ", 16, [%r8];")  # fmt: skip
TARGET = "mov.u32 %r15, tile; mapa.shared::cluster.u32 %r17, %r15, %r3; "
MORE = ANNOUNCED.replace("[full], 4;", "[full], 16;")


@pytest.mark.parametrize("cluster", [0, 2])
@pytest.mark.parametrize("back", [True, False])
def test_a_block_leaves_while_its_copy_to_another_may_still_read(back: bool, cluster: int) -> None:
    """It cannot wait at the other block's barrier, but that one can say that they have come."""
    fence = "fence.proxy.async.shared::cta; "
    tell, hear = TARGET + fence + BULK + RELEASE, "bar.sync 0; " + ACQUIRE
    if back:
        hear += " mov.u32 %r15, 2; mapa.shared::cluster.u32 %r16, %r7, %r15; " \
                "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r16];"  # fmt: skip
        tell += " V: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p6, [full], 0; " \
                "@!%p6 bra V;"  # fmt: skip
    said = found(tell, hear, cluster, begin=MORE, end="")
    mine = [text for rule, text in said if rule == "bulk-in-flight-at-exit"]
    assert bool(mine) != back
    assert all(
        one.startswith("block T leaves the kernel while a bulk copy of thread 37 of block T may "
                       "still read its shared memory: ") for one in mine
    )  # fmt: skip
