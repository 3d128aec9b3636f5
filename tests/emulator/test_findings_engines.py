"""Mistakes around barriers, the copy engine and tensor memory that an audit of the checker missed.

Each program has numbered places, as in test_wgmma_findings: a mistake leaves a line out, or puts
another there, and is found at its line under every schedule; without it, nothing is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import phasebit as pb
from phasebit.emulator.checker import tensor_checks
from phasebit.emulator.errors import EmulatorError
from phasebit.emulator.numbers.swizzle import NONE
from phasebit.emulator.tensor_core.matrix_descriptors import encode
from phasebit.launching.launch import Module
from tests.emulator.tensor_ptx import HEAD as SM_100A
from tests.emulator.wgmma_cases import HEAD as SM_90A

SCHEDULES = [("eager", 0), ("late", 0), ("random", 1)]

WAIT = "{0}: mbarrier.try_wait.parity.shared::cta.b64 %p2, [{1}], {2}; @!%p2 bra {0};"
LOAD = ("@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [tile], [%rd1], 256, [full];")  # fmt: skip
EXPECT = "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 256;"

RELAY = (
    SM_90A,
    64,
    {
        "signature": ".visible .entry k(.param .u64 x, .param .u64 y) {",
        "registers": ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>; .reg .f32 %f<9>;",
        "shared": ".shared .align 128 .b8 tile[256]; .shared .align 8 .b64 full;",
        "begin": "ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; mov.u32 %r1, %tid.x;",
        "mine": "shl.b32 %r2, %r1, 2; cvt.u64.u32 %rd3, %r2; setp.eq.u32 %p1, %r1, 0;",
        "places": "add.u64 %rd4, %rd1, %rd3; mov.u32 %r3, tile; add.u32 %r3, %r3, %r2;",
        "init": "@%p1 mbarrier.init.shared::cta.b64 [full], 1;",
        "value": "cvt.rn.f32.u32 %f1, %r1;",
        "made": "st.global.f32 [%rd4], %f1;",
        "global fence": "fence.proxy.async;",
        "barrier": "bar.sync 0;",
        "only": "",
        "expect": EXPECT,
        "load": LOAD,
        "later": "",
        "wait": WAIT.format("A", "full", 0),
        "add": "ld.shared.f32 %f1, [%r3]; add.f32 %f1, %f1, %f1; st.shared.f32 [%r3], %f1;",
        "fence": "fence.proxy.async.shared::cta;",
        "added": "bar.sync 0;",
        "store": "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [tile], 256;",
        "commit": "@%p1 cp.async.bulk.commit_group;",
        "stored": "@%p1 cp.async.bulk.wait_group 0;",
        "expect again": EXPECT,
        "again": LOAD,
        "wait again": WAIT.format("B", "full", 1),
        "passed": "bar.sync 0;",
        "gone": "@%p1 mbarrier.inval.shared::cta.b64 [full];",
        "end": "bar.sync 0; ret; }",
    },
)
"""Numbers are made in global memory, doubled on their way, and loaded once more."""

MMA = "@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r5], %rd5, %rd6, {0}, {1};"
COMMIT = ("@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];"
          " ")  # fmt: skip
WIDE, NARROW = (1 << 4 | n // 8 << 17 | 8 << 24 for n in (32, 16))

PRODUCT = SM_100A, 128, {
    "signature": ".visible .entry k(.param .u64 x, .param .u64 y) {",
    "registers": ".reg .b32 %r<20>; .reg .b64 %rd<9>; .reg .pred %p<9>;",
    "shared": ".shared .align 1024 .b8 tile[6144]; .shared .align 8 .b64 done; .shared .b32 at;",
    "begin": "ld.param.u64 %rd2, [y]; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0;",
    "warp": "setp.lt.u32 %p4, %r1, 32; setp.ne.u32 %p5, %r1, %r1; not.pred %p6, %p5;",
    "alloc": "@!%p4 bra NEXT;",
    "more": "",
    "allocate": "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [at], 64;",
    "init": "NEXT: @%p1 mbarrier.init.shared::cta.b64 [done], 1;",
    "place": "mov.u32 %r2, tile; mov.u32 %r3, 0; shl.b32 %r4, %r1, 4; add.u32 %r4, %r2, %r4;",
    "fill": "FILL: st.shared.v4.u32 [%r4], {%r3, %r3, %r3, %r3}; add.u32 %r4, %r4, 2048;"
            " add.u32 %r6, %r2, 6144; setp.lt.u32 %p3, %r4, %r6; @%p3 bra FILL;",
    "fence": "fence.proxy.async.shared::cta; bar.sync 0; ld.shared.u32 %r5, [at];",
    "a": f"shr.u32 %r2, %r2, 4; cvt.u64.u32 %rd4, %r2; add.u64 %rd5, %rd4, "
         f"{encode(0, 128, 256, NONE, 'tcgen05')};",
    "b": "add.u64 %rd6, %rd5, 256; add.u32 %r7, %r5, 32; mov.u32 %r8, 0;"
         " shr.u32 %r11, %r1, 5; shl.b32 %r11, %r11, 21; add.u32 %r9, %r7, %r11;",
    "a there": "tcgen05.st.sync.aligned.32x32b.x8.b32 [%r9], {%r8, %r8, %r8, %r8, %r8, %r8, %r8,"
               " %r8}; tcgen05.wait::st.sync.aligned;",
    "before": "tcgen05.fence::before_thread_sync;",
    "sync": "bar.sync 0;",
    "after": "tcgen05.fence::after_thread_sync;",
    "first": MMA.format(WIDE, "%p5"),
    "between": "",
    "second": MMA.format(WIDE, "%p6"),
    "third": "",
    "commit": COMMIT,
    "wait": WAIT.format("W", "done", 0),
    "behind": "tcgen05.fence::after_thread_sync;",
    "result": "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r10}, [%r9];"
              " tcgen05.wait::ld.sync.aligned; tcgen05.fence::before_thread_sync;",
    "read": "bar.sync 0; @!%p4 bra END;",
    "free": "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r5, 64;",
    "end": "END: ret; }",
}  # fmt: skip
"""Two products of zeros into one sum; the warps also put zeros where A may lie, in 32-39."""
IN_TENSOR = MMA.format(WIDE, "%p6").replace("%rd5", "[%r7]")
SHIFT = "@%p1 tcgen05.shift.cta_group::1.down [%r7];"
COPY = "@%p1 tcgen05.cp.cta_group::1.128x256b [%r7], %rd5;"


@dataclass(frozen=True)
class Mistake:
    """``edits``: place -> the line there; ``at``: the place that is named."""

    name: str
    program: tuple[str, int, dict[str, str]]
    edits: dict[str, str]
    words: str
    at: str


MISTAKES = [
    Mistake("a copy of what threads stored in global memory", RELAY, {"global fence": ""},
            "no fence.proxy.async of global memory", "load"),
    Mistake("a fence of shared memory only", RELAY,
            {"global fence": "fence.proxy.async.shared::cta;"},
            "no fence.proxy.async of global memory", "load"),
    Mistake("nothing in the bulk group", RELAY, {"store": ""}, "is a store to global", "commit"),
    Mistake("a store over a live barrier", RELAY,
            {"passed": "bar.sync 0; @%p1 st.shared.u32 [full], %r1;"}, "a live mbarrier", "passed"),
    Mistake("a load of a live barrier", RELAY,
            {"passed": "bar.sync 0; @%p1 ld.shared.u32 %r4, [full];"}, "a live mbarrier", "passed"),
    Mistake("invalidated while others wait", RELAY, {"passed": ""}, "invalidates mbarrier", "gone"),
    Mistake("sums over A", PRODUCT, {"second": IN_TENSOR.replace("[%r5]", "[%r7]")},
            "over its own A", "second"),
    Mistake("another shape in between", PRODUCT, {"third": MMA.format(NARROW, "%p6")},
            "a product of another shape", "third"),
    Mistake("A is a sum not waited for", PRODUCT,
            {"third": IN_TENSOR.replace("[%r7]", "[%r5]").replace("[%r5], [", "[%r7], [", 1)},
            "puts the two in order", "third"),
    Mistake("a shift after a copy", PRODUCT, {"between": COPY, "third": SHIFT},
            "puts the two in order", "third"),
    Mistake("no fence before the barrier", PRODUCT, {"before": "", "second": IN_TENSOR},
            "before_thread_sync before", "second"),
    Mistake("no fence behind the barrier", PRODUCT, {"after": "", "second": IN_TENSOR},
            "after_thread_sync behind", "second"),
    Mistake("a larger allocation after a smaller one", PRODUCT,
            {"more": "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [at], 32;"
                     " ld.shared.u32 %r12, [at];",
             "free": PRODUCT[2]["free"]
                     + " tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r12, 32;"},
            "after its block asked for 32", "allocate"),
    Mistake("a commit for pairs", PRODUCT,
            {"commit": COMMIT.replace("cta_group::1", "cta_group::2")},
            "all must be for the same", "commit"),
]  # fmt: skip

RIGHT = [
    ("a copy, and doubled in place", RELAY, {}),
    ("two products", PRODUCT, {}),
    ("A in tensor memory", PRODUCT, {"second": IN_TENSOR}),
    ("a product after a copy", PRODUCT, {"between": COPY, "second": IN_TENSOR}),
    ("a shift after a product, and one after it", PRODUCT,
     {"between": SHIFT.replace("7", "5"), "second": MMA.format(WIDE, "%p6")}),
    ("another shape elsewhere", PRODUCT,
     {"third": MMA.format(NARROW, "%p5").replace("[%r5]", "[%r7]")}),
]  # fmt: skip


def run(
    program: tuple[str, int, dict[str, str]], edits: dict[str, str], schedule: str, seed: int
) -> tuple[list[str], dict[str, int]]:
    """What is found, and the line of each place."""
    head, threads, lines = program
    text, places = head.splitlines(), {}
    for name, line in (lines | edits).items():
        text.append(line)
        places[name] = len(text)
    x, y = np.zeros(64, np.float32), np.zeros(64, np.float32)
    try:
        done = Module("\n".join(text))["k"].launch(1, threads, [x, y], schedule=schedule, seed=seed)
    except EmulatorError as error:
        return [Exception.__str__(error), *(h.message for h in error.findings)], places
    return [h.message for h in done.findings], places


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: f"{s[0]}{s[1]}")
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.name.replace(" ", "-"))
def test_found(mistake: Mistake, schedule: tuple[str, int]) -> None:
    found, places = run(mistake.program, mistake.edits, *schedule)
    mine = [m for m in found if mistake.words in m]
    assert mine, found
    assert f"PTX line {places[mistake.at]}" in mine[0]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: f"{s[0]}{s[1]}")
@pytest.mark.parametrize(("name", "program", "edits"), RIGHT, ids=[r[0] for r in RIGHT])
def test_right(
    name: str, program: tuple[str, int, dict[str, str]], edits: dict[str, str],
    schedule: tuple[str, int],
) -> None:  # fmt: skip
    assert run(program, edits, *schedule)[0] == []


# -- a tensor map that the kernel changes ------------------------------------------

REPLACE = "tensormap.replace.tile.global_address.global.b1024.b64 [%rd1], %rd2;"
MAPS = SM_90A, 1, {
    "signature": ".visible .entry k(.param .u64 map, .param .u64 x, .param .u64 other) {",
    "registers": ".reg .b64 %rd<9>; .reg .pred %p<9>;",
    "shared": ".shared .align 128 .b8 tile[256]; .shared .align 8 .b64 full;",
    "begin": "ld.param.u64 %rd1, [map]; ld.param.u64 %rd2, [x]; ld.param.u64 %rd3, [other];",
    "init": "mbarrier.init.shared::cta.b64 [full], 1; fence.mbarrier_init.release.cluster;",
    "change": REPLACE,
    "release": "fence.proxy.tensormap::generic.release.gpu;",
    "acquire": "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;",
    "expect": "mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 256;",
    "load": "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
            " [tile], [%rd1, {0}], [full];",
    "wait": WAIT.format("A", "full", 0),
    "end": "ret; }",
}  # fmt: skip


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        ({}, ""),
        ({"release": ""}, "generic.release"),
        ({"acquire": ""}, "generic.acquire of that address"),
        ({"acquire": MAPS[2]["acquire"].replace("rd1", "rd3")}, "generic.acquire of that address"),
        ({"acquire": "", "change": MAPS[2]["acquire"] + REPLACE}, "generic.acquire of that"),
    ],
)
def test_a_changed_map_is_released_and_acquired(edits: dict[str, str], words: str) -> None:
    head, _, lines = MAPS
    text = head.splitlines() + list((lines | edits).values())
    x = np.zeros(64, np.float32)
    image = np.frombuffer(pb.TensorMap(x, (64,)).at(1 << 40).encode(), np.uint8).copy()
    found = Module("\n".join(text))["k"].launch(1, 1, [image, x, image.copy()]).findings
    if not words:
        assert not found, found[0]
    else:
        assert words in found[0].message and found[0].line == text.index(lines["load"]) + 1


# -- and a few more ----------------------------------------------------------------


def launch(text: str, args: list[Any], threads: int = 32, **more: Any) -> list[str]:
    return [h.message for h in Module(text)["k"].launch(1, threads, args, **more).findings]


def test_bytes_that_nobody_announced_are_told_with_the_copy() -> None:
    edits = {"expect again": "@%p1 mbarrier.arrive.shared::cta.b64 _, [full];", "wait again": "",
             "gone": ""}  # fmt: skip
    found, places = run(RELAY, edits, "eager", 0)
    (left,) = [m for m in found if "256 not announced" in m]
    assert f"PTX line {places['again']}" in left


def test_bytes_announced_when_nothing_keeps_the_phase_open() -> None:
    half = LOAD.replace("256", "128")
    rest = half.replace("[tile]", "[tile+128]").replace("[%rd1]", "[%rd1+128]")
    late = "@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [full], 128;"
    edits = {"expect": EXPECT.replace("256", "128"), "load": f"{half} {rest}", "later": late}
    found, places = run(RELAY, edits, "late", 0)
    assert "announces bytes" in found[0] and f"PTX line {places['later']}" in found[0]
    edits |= {"expect": late + " " + edits["expect"], "later": ""}
    assert run(RELAY, edits, "late", 0)[0] == []


@pytest.mark.parametrize(("give_back", "words"), [(40, ""), (0, "have not given back enough")])
def test_registers_that_nobody_gave_back(give_back: int, words: str) -> None:
    """9.7.19.5: 3 × 128 threads begin with at most 168 each."""
    giving = f"setmaxnreg.dec.sync.aligned.u32 {give_back};" if give_back else ""
    text = (
        SM_90A
        + f"""
    .visible .entry k() {{ .reg .pred %p<2>; .reg .b32 %r<2>; mov.u32 %r1, %tid.x;
        setp.ge.u32 %p1, %r1, 128;
        @%p1 bra MORE; {giving} ret;
    MORE: setmaxnreg.inc.sync.aligned.u32 232; ret; }}"""
    )
    found = launch(text, [], 384)
    assert all(words in m for m in found) and bool(found) == bool(words), found


@pytest.mark.parametrize("seed", range(6))
def test_9_7_19_5_registers_are_given_back_right_after(seed: int) -> None:
    """Who asks for more before another has given back waits a moment, not for ever."""
    text = (
        SM_90A
        + """
    .visible .entry k() { .reg .pred %p<3>; .reg .b32 %r<2>; mov.u32 %r1, %tid.x;
        setp.lt.u32 %p1, %r1, 256; setp.lt.u32 %p2, %r1, 128;
        @%p1 bra LATER; setmaxnreg.inc.sync.aligned.u32 240; bra MEET;
    LATER: setmaxnreg.dec.sync.aligned.u32 40;
    MEET: bar.sync 0;
        @%p2 bra END; @!%p1 bra LESS; setmaxnreg.inc.sync.aligned.u32 240; bra END;
    LESS: setmaxnreg.dec.sync.aligned.u32 GIVEN;
    END: ret; }"""
    )
    for less, words in ((24, []), (232, ["setmaxnreg.inc 240 waits for ever"])):
        found = [
            one.message.split(":")[0]
            for one in Module(text.replace("GIVEN", str(less)))["k"].launch(
                1, 384, [], schedule="random", seed=seed
            ).findings
        ]  # fmt: skip
        assert found == words


ASKED = {
    "wait": "setp.eq.u32 %p7, %r1, 32; @!%p7 bra REST; " + WAIT.format("W", "done", 0),
    "gone": "mbarrier.inval.shared::cta.b64 [done]; REST: bar.sync 0;",
}


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_9_7_13_15_10_who_saw_the_phase_complete_may_invalidate(schedule: str, seed: int) -> None:
    """What one thread has asked for, another has waited for: a commit's arrival, a copy's bytes."""
    lines = dict(PRODUCT[2])
    behind = {name: lines.pop(name) for name in list(lines)[list(lines).index("wait") :]}
    product = (*PRODUCT[:2], lines | ASKED | {k: v for k, v in behind.items() if k != "wait"})
    assert run(product, {}, schedule, seed)[0] == []
    too_early = {"wait": "setp.eq.u32 %p7, %r1, 32; @!%p7 bra REST;"}
    found, places = run(product, too_early, schedule, seed)
    mine = [one for one in found if "asked for may still arrive there" in one]
    assert mine and f"PTX line {places['commit']}" in mine[0]

    relay = dict(RELAY[2])
    relay |= {
        "wait": "setp.eq.u32 %p3, %r1, 32; @!%p3 bra REST; " + WAIT.format("A", "full", 0),
        "add": "mbarrier.inval.shared::cta.b64 [full]; REST: bar.sync 0; " + relay["add"],
        "expect again": "", "again": "", "wait again": "", "passed": "", "gone": "",
    }  # fmt: skip
    assert run((*RELAY[:2], relay), {}, schedule, seed)[0] == []


GENERIC = "mov.u64 %rd7, done; cvta.shared.u64 %rd7, %rd7; " + COMMIT.replace("[done]", "[%rd7]")


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_9_7_16_12_1_a_commit_with_a_generic_address(schedule: str, seed: int) -> None:
    """ThunderKittens does so: it is said, and the kernel goes on."""
    (found,), places = run(PRODUCT, {"commit": GENERIC}, schedule, seed)
    assert "gives the generic address 0x" in found and f"PTX line {places['commit']}" in found


@pytest.mark.parametrize(
    ("program", "edits", "at"),
    [
        (PRODUCT, {"wait": "@%p1 mbarrier.inval.shared::cta.b64 [done];"}, "commit"),
        (RELAY, {"wait again": "@%p1 mbarrier.inval.shared::cta.b64 [full];", "gone": ""}, "again"),
    ],
    ids=["commit", "copy"],
)
def test_what_arrives_in_vain_is_named_by_who_asked_for_it(
    program: tuple[str, int, dict[str, str]], edits: dict[str, str], at: str
) -> None:
    """Not by the instruction at which the threads are by then."""
    found, places = run(program, edits, "late", 0)
    assert "not initialised" in found[0] and f"PTX line {places[at]}" in found[0], found[0]


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_9_7_9_27_2_1_a_group_may_be_empty_after_a_map_was_acquired(
    schedule: str, seed: int
) -> None:
    """Triton's kernels close one and wait for it, where they have made a tensor map."""
    acquired = "@%p1 fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;"
    assert run(RELAY, {"store": acquired}, schedule, seed)[0] == []
    twice = {"store": acquired, "stored": "@%p1 cp.async.bulk.commit_group;"}
    (found,) = run(RELAY, twice, schedule, seed)[0]
    assert "is a store to global" in found


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
def test_9_7_16_10_5_a_warp_may_load_its_quarter_of_64_rows(schedule: str, seed: int) -> None:
    """Half of its threads get nothing, for nothing is there: the sums of a product of 64 rows."""
    rows_64 = WIDE - (8 << 24) + (4 << 24)
    edits = {
        "first": MMA.format(rows_64, "%p5"), "second": MMA.format(rows_64, "%p6"),
        "behind": "tcgen05.fence::after_thread_sync; add.u32 %r13, %r5, %r11;",
        "result": PRODUCT[2]["result"].replace("[%r9]", "[%r13]"),
    }  # fmt: skip
    assert run(PRODUCT, edits, schedule, seed)[0] == []
    beside = {"behind": edits["behind"] + " add.u32 %r13, %r13, 50;"}
    (found,) = run(PRODUCT, edits | beside, schedule, seed)[0]
    assert "nobody has written all of it" in found


def test_a_copy_to_a_peer_whose_barrier_may_not_be_there() -> None:
    text = (
        SM_90A
        + """
    .visible .entry k() { .reg .b32 %r<9>; .reg .pred %p<2>;
        .shared .align 8 .b64 full; .shared .align 8 .b32 x;
        mbarrier.init.shared::cta.b64 [full], 1;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 4;
        SYNC
        mov.u32 %r1, %cluster_ctarank; xor.b32 %r1, %r1, 1; mov.u32 %r2, full; mov.u32 %r3, x;
        mapa.shared::cluster.u32 %r4, %r2, %r1; mapa.shared::cluster.u32 %r5, %r3, %r1;
        st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r5], %r1, [%r4];
    A: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [full], 0; @!%p1 bra A;
    ret; }"""
    )
    both = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
    for sync, right in ((both, True), ("bar.sync 0;", False)):
        found = Module(text.replace("SYNC", sync))["k"].launch(2, 1, [], cluster=2).findings
        assert right is not any("nothing orders the two" in h.message for h in found), found


@pytest.mark.parametrize(("most", "named"), [(3, 3), (2, 2), (1, 1)])
def test_of_many_products_that_may_still_read_the_newest_are_remembered(
    most: int, named: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor_checks, "MANY", most)
    overwritten = "@%p1 st.shared.u32 [tile], %r8;"
    edits = {"between": MMA.format(WIDE, "%p6"), "third": overwritten}
    found, places = run(PRODUCT, edits, "late", 0)
    newest = [places[name] for name in ("first", "between", "second")][-named:]
    mine = [m for m in found if "a tensor operation of thread 0 of block 0 may still read it" in m]
    assert [int(m.rpartition(" ")[2]) for m in mine] == newest


def test_products_that_everybody_has_waited_for_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two before the wait, two behind it; a store may come over those that are known."""
    monkeypatch.setattr(tensor_checks, "MANY", 2)
    behind = "bar.sync 0; " + MMA.format(WIDE, "%p6")
    edits = {"behind": f"tcgen05.fence::after_thread_sync; {behind}",
             "result": f"@%p1 st.shared.u32 [tile], %r8; {PRODUCT[2]['result']}"}  # fmt: skip
    found, places = run(PRODUCT, edits, "late", 0)
    mine = [m for m in found if "may still read it" in m]
    assert [int(m.rpartition(" ")[2]) for m in mine] == [places["behind"]]


HALF = "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd2+{0}], [tile+{0}], 128;"
COMMIT_GROUP = "@%p1 cp.async.bulk.commit_group;"


@pytest.mark.parametrize(("thread", "copy"), [(5, "store"), (37, "commit"), (31, "store"),
                                              (32, "commit")])  # fmt: skip
def test_of_several_copies_that_may_still_read_the_one_is_named(thread: int, copy: str) -> None:
    """Threads 0 to 31 have the words of the first, 32 to 63 those of the second."""
    over = f"setp.eq.u32 %p3, %r1, {thread}; @%p3 st.shared.f32 [%r3], %f1; "
    edits = {"store": HALF.format(0), "commit": HALF.format(128) + COMMIT_GROUP,
             "stored": f"{over} {RELAY[2]['stored']}"}  # fmt: skip
    found, places = run(RELAY, edits, "late", 0)
    mine = [m for m in found if "a bulk copy of thread 0 of block 0 may still read it" in m]
    (said,) = mine
    assert said.startswith(f"thread {thread} of block 0 writes tile[{4 * thread} bytes in]: ")
    assert said.endswith(f" at PTX line {places[copy]}")


REDUCE = "@%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd2], [tile], 256;"


@pytest.mark.parametrize(("access", "found"), [
    ("ld.global.u32 %r4, [%rd2+20];", True), ("st.global.u32 [%rd2+20], %r1;", True),
    ("red.global.add.u32 [%rd2+20], 1;", False), ("atom.global.add.u32 %r4, [%rd2+20], 1;", False),
("ld.relaxed.gpu.global.u32 %r4, [%rd2+20];", True),
])  # fmt: skip
def test_9_7_9_25_4_2_reductions_may_meet_with_each_other(access: str, found: bool) -> None:
    own = f"@%p1 {access} "
    edits = {"store": REDUCE, "stored": own + RELAY[2]["stored"]}
    said, places = run(RELAY, edits, "late", 0)
    mine = [m for m in said if "may not have written it yet" in m]
    assert bool(mine) == found, said
    assert all(f"PTX line {places['store']}" in m for m in mine)


@pytest.mark.parametrize(("closing", "found"), [(1, False), (2, False), (3, True)])
def test_threads_that_close_an_empty_group_have_each_acquired_a_map(
    closing: int, found: bool
) -> None:
    fence = "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;"
    acquired = f"setp.lt.u32 %p3, %r1, 2; @%p3 {fence}"
    close = f"setp.lt.u32 %p4, %r1, {closing}; @%p4 cp.async.bulk.commit_group;"
    said, _ = run(RELAY, {"store": acquired, "commit": close}, "late", 0)
    assert [m for m in said if "is a store to global" in m] == said and bool(said) == found


@pytest.mark.parametrize(("offset", "copy"), [(20, "store"), (148, "commit")])
@pytest.mark.parametrize("op", ["ld.global.u32 %r4, [%rd2+{0}];", "st.global.u32 [%rd2+{0}], %r1;"])
def test_of_several_copies_that_may_still_write_the_one_is_named(
    op: str, offset: int, copy: str
) -> None:
    edits = {"store": HALF.format(0), "commit": HALF.format(128) + COMMIT_GROUP,
             "stored": f"@%p1 {op.format(offset)} {RELAY[2]['stored']}"}  # fmt: skip
    found, places = run(RELAY, edits, "late", 0)
    (said,) = [m for m in found if "may not have written it yet" in m]
    verb = "reads" if "ld" in op else "writes"
    assert said.startswith(f"thread 0 of block 0 {verb} argument 1[{offset} bytes in]: ")
    assert said.endswith(f" at PTX line {places[copy]}")


HALVES = "tcgen05.st.sync.aligned.16x64b.x1.b32 [%r9], {%r8}; tcgen05.wait::st.sync.aligned;"
WHOLE = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r10}, [%r9]; tcgen05.wait::ld.sync.aligned;"


def test_half_a_quarter_that_threads_have_stored_is_not_the_whole() -> None:
    """Only of what a product of 64 rows leaves alone nothing is said."""
    found, places = run(PRODUCT, {"a there": HALVES + WHOLE}, "late", 0)
    assert found and all("nobody has written all of it" in m for m in found)
    assert f"PTX line {places['a there']}" in found[0]


def test_what_a_copy_reads_while_threads_store_it_is_named() -> None:
    found, places = run(RELAY, {"barrier": ""}, "late", 0)
    (said,) = [m for m in found if "reads argument 0" in m and "nothing orders the two" in m]
    assert said.startswith("thread 0 of block 0 reads argument 0[4 bytes in]: `@%p1 cp.async.bulk.")
    assert "; thread 1 of block 0 wrote it, and nothing orders the two: " in said
    assert said.endswith(f" at PTX line {places['made']}")
