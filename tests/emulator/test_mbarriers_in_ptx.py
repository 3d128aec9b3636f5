"""mbarriers instruction by instruction: counts, phases, bytes, and what is said of misuse."""

from __future__ import annotations

import re

import numpy as np
import pytest

from phasebit.emulator.errors import EmulatorError
from phasebit.launching.launch import Module

TEXT = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p)
{
    .shared .align 8 .b64 full; .shared .align 8 .b64 pair[2]; .shared .align 16 .b8 tile[64];
    .reg .b32 %r<20>; .reg .b64 %d<20>; .reg .pred %p<9>;
    ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.u32 %r5, 0;
    setp.lt.u32 %p2, %r1, 32; mov.u32 %r8, pair;
    @%p1 mbarrier.init.shared.b64 [full], COUNT;
    @%p1 mbarrier.init.shared.b64 [%r8+8], 3;
    bar.sync 0;
    BODY
    mul.wide.u32 %d2, %r1, 4; add.u64 %d2, %d1, %d2; st.global.u32 [%d2], %r5;
    ret;
}
"""
DONE = "mbarrier.test_wait.parity.shared.b64 %p4, [{}], {}; selp.u32 %r6, 1, 0, %p4; "
NOTE = "shl.b32 %r5, %r5, 1; or.b32 %r5, %r5, %r6; "
WAIT = "L{0}: mbarrier.try_wait.parity.shared.b64 %p4, [{1}], {2}; @!%p4 bra L{0};"
ARRIVE, ONE = "mbarrier.arrive.shared.b64 %d5, [full]; ", "@%p1 {} "


def ran(
    body: str, count: int = 1, threads: int = 1, seed: int = 0, schedule: str = "late"
) -> list[int]:
    out = np.zeros(threads, np.uint32)
    text = TEXT.replace("COUNT", str(count)).replace("BODY", body)
    run = Module(text)["k"].launch(1, threads, [out], schedule=schedule, seed=seed)
    assert [finding.rule for finding in run.findings] == []
    return out.tolist()


def looks(*parities: int, name: str = "full") -> str:
    return "".join(DONE.format(name, parity) + NOTE for parity in parities)


@pytest.mark.parametrize(("body", "count", "bits"), [
    (looks(1, 0), 1, "10"),  # the phase before the first counts as complete
    (ARRIVE + looks(0, 1), 1, "10"), (ARRIVE + looks(0) + ARRIVE + looks(1), 1, "11"),
    (ARRIVE + looks(0), 2, "0"), (ARRIVE + ARRIVE + looks(0), 2, "1"),
    ("mbarrier.arrive.shared.b64 %d5, [full], 3; " + looks(0), 3, "1"),
    ("mbarrier.arrive.shared.b64 %d5, [full], 2; " + looks(0), 3, "0"),
    ("mbarrier.arrive.noComplete.shared.b64 %d5, [full], 2; " + looks(0) + ARRIVE + looks(0), 3,
     "01"),
    ("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [full], 8; " + ARRIVE + looks(0), 1, "0"),
    ("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [full], 8; " + ARRIVE + looks(0) +
     "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [full], 8; " + looks(0), 1, "01"),
    ("mbarrier.arrive.expect_tx.shared.b64 %d5, [full], 8; " + looks(0) +
     "mbarrier.complete_tx.shared::cta.b64 [full], 3; " + looks(0) +
     "mbarrier.complete_tx.shared::cta.b64 [full], 5; " + looks(0), 1, "001"),
    ("mbarrier.arrive_drop.shared.b64 %d5, [full]; "
     + looks(0) + ARRIVE + looks(0) + ARRIVE + looks(1),
     2, "011"),
    ("mbarrier.arrive.shared.b64 %d5, [%r8+8], 3; " + looks(0, name="%r8+8") + looks(0), 1, "10"),
])  # fmt: skip
def test_9_7_13_15_when_a_phase_is_complete(body: str, count: int, bits: str) -> None:
    (found,) = ran(body, count)
    assert f"{found:0{len(bits)}b}" == bits


def test_9_7_13_15_16_tokens_name_their_phase_and_say_how_many_are_missing() -> None:
    pending = "mbarrier.pending_count.b64 %r7, {}; shl.b32 %r5, %r5, 4; or.b32 %r5, %r5, %r7; "
    arrivals = "".join(f"mbarrier.arrive.shared.b64 %d{n}, [full]; " for n in (5, 6, 7))
    (found,) = ran(arrivals + "".join(pending.format(f"%d{n}") for n in (5, 6, 7)), 3)
    assert found == 0x321
    test = "mbarrier.test_wait.shared.b64 %p4, [full], %d{}; selp.u32 %r6, 1, 0, %p4; " + NOTE
    again = ARRIVE.replace("5", "6")
    (found,) = ran(ARRIVE + test.format(5) + again + test.format(5) + test.format(6), 2)
    assert found == 0b011


@pytest.mark.parametrize("schedule", ["late", "eager", "random"])
def test_all_threads_arrive_and_wait_phase_after_phase(schedule: str) -> None:
    body = "".join(
        ARRIVE + WAIT.format(i, "full", i % 2) + " add.u32 %r5, %r5, 1; " for i in range(3)
    )
    for seed in range(3):
        assert ran(body, 96, 96, seed, schedule) == [3] * 96


@pytest.mark.parametrize(("body", "count", "says"), [
    ("mbarrier.init.shared.b64 [full], 0;", 1,
     "full: init(0) on a live barrier; a live barrier must be "
     "invalidated before it is initialised again (PTX ISA 9.7.13.15.9); made with a count of 1 "),
    ("mbarrier.arrive.shared.b64 %d5, [full], 3;", 2,
     "full: arrive of 3 with 2 of 2 pending in phase 0; the pending count lies between 0 and "),
    ("mbarrier.inval.shared.b64 [full]; " + ARRIVE, 1, "full: arrive(1) on a barrier that is not "
     "initialised; a barrier must be initialised before any other operation (PTX ISA 9.7.13.15.3)"),
    ("mbarrier.inval.shared.b64 [full]; " + looks(0), 1,
     "full: test_wait.parity(0) on a barrier that is not initialised; "),
    ("mbarrier.arrive.noComplete.shared.b64 %d5, [full], 2;", 2,
     "full: arrive.noComplete(2) with 2 pending; an arrival with .noComplete must not complete "),
    ("mbarrier.arrive.shared.b64 %d5, [%r8];", 1,
     "pair: arrive(1) on a barrier that is not initialised; "),
    ("mbarrier.arrive.shared.b64 %d5, [%r8+4];", 1,
     "invalid shared access by all threads of block 0: "
     "address 12 (pair+4) is misaligned: not a multiple of 8; "),
])  # fmt: skip
def test_what_an_mbarrier_does_not_take(body: str, count: int, says: str) -> None:
    text = TEXT.replace("COUNT", str(count)).replace("BODY", body)
    with pytest.raises(EmulatorError) as raised:
        Module(text)["k"].launch(1, 1, [np.zeros(1, np.uint32)])
    said = str(raised.value)
    assert said.removeprefix("all threads of block 0: ").startswith(says)
    assert said.endswith("at PTX line 14") and "all threads of block 0" in said


@pytest.mark.parametrize(("body", "found"), [
    ("mbarrier.arrive.shared.b64 %d5, [%r8];", ["reads pair[0 bytes in], which nobody has"]),
    ("st.shared.u64 [tile+48], %d1; mbarrier.arrive.shared.b64 %d5, [tile+48];", []),
    ("mbarrier.inval.shared.b64 [full]; " + ARRIVE, []),
])  # fmt: skip
def test_a_use_before_the_initialisation_reads_the_barrier_s_own_words(
    body: str, found: list[str]
) -> None:
    text = TEXT.replace("COUNT", "1").replace("BODY", body)
    run = Module(text)["k"].launch(1, 1, [np.zeros(1, np.uint32)], on_fault="report")
    *before, last = run.findings
    assert last.rule == "uninitialised-mbarrier" and len(before) == len(found)
    assert all(says in each.message for says, each in zip(found, before, strict=True))


def deadlock(body: str, count: int, threads: int = 64) -> str:
    text = TEXT.replace("COUNT", str(count)).replace("BODY", body)
    with pytest.raises(EmulatorError) as raised:
        Module(text)["k"].launch(1, threads, [np.zeros(threads, np.uint32)])
    return str(raised.value)


def test_a_wait_that_never_ends_says_what_is_missing() -> None:
    said = deadlock("@%p2 " + ARRIVE + WAIT.format(0, "full", 0), 64)
    assert "wait for phase 0 of mbarrier full: " in said
    assert re.search(
        r"full is in phase 0 \(parity 0\) with 32 of 64 arrivals pending; arrived in this phase: "
        r"warp 0 of block 0; could still arrive: warp 1 of block 0", said,
    )  # fmt: skip


def test_who_left_without_arriving_is_counted() -> None:
    said = deadlock("@!%p2 ret; " + WAIT.format(0, "full", 0), 1)
    assert (
        "with 1 of 1 arrivals pending; nobody has arrived in this phase; could still arrive: "
        "warp 0 of block 0; 32 threads left the kernel without arriving"
    ) in said
    one = deadlock("setp.eq.u32 %p3, %r1, 63; @%p3 ret; " + WAIT.format(0, "full", 0), 1)
    assert "; 1 thread left the kernel without arriving" in one


COPY = ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%d1], 16, "
        "[full]; ")  # fmt: skip
EXPECT = "mbarrier.arrive.expect_tx.shared.b64 %d5, [full], {}; "


@pytest.mark.parametrize(("body", "says"), [
    (EXPECT.format(24), "24 bytes announced and 0 come: 24 too many announced"),
    (EXPECT.format(24) + COPY, "24 bytes announced and 16 come: 8 too many announced"),
    (EXPECT.format(16) + COPY, ""),
])  # fmt: skip
def test_bytes_that_do_not_come(body: str, says: str) -> None:
    text = TEXT.replace("COUNT", "1").replace("BODY", body + WAIT.format(0, "full", 0))
    memory = np.zeros(16, np.uint32)
    if not says:
        Module(text)["k"].launch(1, 1, [memory])
        return
    with pytest.raises(EmulatorError) as raised:
        Module(text)["k"].launch(1, 1, [memory])
    said = str(raised.value)
    assert says in said and "; announced: 24 by `mbarrier.arrive.expect_tx" in said
    assert "with 0 of 1 arrivals pending" in said


@pytest.mark.parametrize(("body", "count", "rule"), [
    ("@%p1 mbarrier.init.shared.b64 [full], 64; bar.sync 0; " + ARRIVE, 64,
     "mbarrier-initialised-again"),
    (ARRIVE + " bar.sync 0; " + ARRIVE, 64, "mbarrier-phase-unseen"),
    (ARRIVE + WAIT.format(0, "full", 0) + ARRIVE + WAIT.format(1, "full", 1), 64, ""),
    (ARRIVE + WAIT.format(0, "full", 0) + " @%p1 mbarrier.inval.shared.b64 [full];", 64,
     "mbarrier-invalidated-in-use"),
    (ARRIVE + WAIT.format(0, "full", 0) + " bar.sync 0; @%p1 mbarrier.inval.shared.b64 [full];",
     64, ""),
])  # fmt: skip
def test_9_7_13_15_misuse_that_no_machine_stops(body: str, count: int, rule: str) -> None:
    text = TEXT.replace("COUNT", str(count)).replace("BODY", body)
    run = Module(text)["k"].launch(1, 64, [np.zeros(64, np.uint32)])
    assert {finding.rule for finding in run.findings} == ({rule} if rule else set())


@pytest.mark.parametrize(("body", "said"), [
    ("ld.shared.u32 %r5, [tile+8];", "reads tile[8 bytes in]"),
    ("atom.shared.add.u32 %r5, [tile+8], 1;", "reads tile[8 bytes in]"),
    ("atom.shared.add.u64 %d5, [tile+8], 1;", "reads tile[8 bytes in]"),
    ("st.shared.u32 [tile+8], 1; atom.shared.add.u64 %d5, [tile+8], 1;", "reads tile[12 bytes in]"),
    ("st.shared.u32 [tile+4], 1; ld.shared.v2.u32 {%r5, %r6}, [tile];", "reads tile[0 bytes in]"),
    ("st.shared.v2.u32 [tile+8], {1, 1}; atom.shared.add.u64 %d5, [tile+8], 1;", ""),
])  # fmt: skip
def test_words_of_shared_memory_that_nobody_has_written(body: str, said: str) -> None:
    text = TEXT.replace("COUNT", "1").replace("BODY", body)
    found = Module(text)["k"].launch(1, 1, [np.zeros(1, np.uint32)]).findings
    assert [each.rule for each in found] == ["uninitialised-read"] * bool(said)
    assert not said or f"all threads of block 0 {said}, which nobody has written" in (
        found[0].message
    )
