"""A launch in which every thread spins for ever is called a livelock at once; no other one is."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from phasebit.emulator import Deadlock, Fault, LaunchError, Livelock, Module, StepLimit
from phasebit.emulator.capabilities import MOST_MULTIPROCESSORS
from phasebit.emulator.machine.starting_order import StartingOrder

HEAD = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .shared .align 8 .b64 bar;
    ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r7, %tid.x; mov.u32 %r8, %ctaid.x;
"""
LOOK = "ld.volatile.global.u32 %r1, [%rd1]; setp.eq.u32 %p1, %r1, 0;"
SET = "st.volatile.global.u32 [%rd1], 1;"

LIVELOCKS = {
    "a loop": "L: bra L;",
    "a flag": f"L: {LOOK} @%p1 bra L; ret;",
    "a sleeper": "L: nanosleep.u32 1000; bra L;",
    "sleeping longer and longer": f"""mov.u32 %r2, 8;
        L: {LOOK} @!%p1 bra END; nanosleep.u32 %r2; setp.ge.u32 %p2, %r2, 64; @%p2 bra L;
        shl.b32 %r2, %r2, 1; bra L; END: ret;""",
    "a lock that is taken": """L: atom.global.cas.b32 %r1, [%rd1], 1, 2;
        setp.ne.u32 %p1, %r1, 1; @%p1 bra L; ret;""",
    "every other turn": f"""mov.u32 %r2, 0; L: {LOOK} xor.b32 %r2, %r2, 1; @%p1 bra L;
        st.global.u32 [%rd1+4], %r2; ret;""",
    "one waits for the other": f"""setp.ge.u32 %p2, %r7, 32; @%p2 bra B;
        A: {LOOK} @%p1 bra A; st.volatile.global.u32 [%rd1+4], 1; ret;
        B: ld.volatile.global.u32 %r1, [%rd1+4]; setp.eq.u32 %p1, %r1, 0; @%p1 bra B; {SET} ret;""",
    "some spin, some wait": f"""setp.ne.u32 %p2, %r7, 3; @%p2 bra END;
        L: {LOOK} @%p1 bra L; END: bar.sync 0; {SET} ret;""",
    "a test that fails": f"""mov.u32 %r2, bar; setp.ne.u32 %p2, %r7, 0; @%p2 bra L;
        mbarrier.init.shared.b64 [%r2], 2;
        T: mbarrier.test_wait.parity.shared.b64 %p1, [%r2], 0; @!%p1 bra T; {SET} ret;
        L: {LOOK} @%p1 bra L; ret;""",
    "turns counted for nobody": "mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1; bra L;",
    "turns counted for the end": f"""mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1; {LOOK} @%p1 bra L;
        st.global.u32 [%rd1+4], %r2; ret;""",
    "the same is stored": f"""L: {LOOK} mov.u32 %r2, 5; st.volatile.global.u32 [%rd1+4], %r2;
        @%p1 bra L; ret;""",
    "a count is stored where nobody looks": f"""mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1;
        st.volatile.global.u32 [%rd1+4], %r2; {LOOK} @%p1 bra L; ret;""",
    "an atomic counts for nobody": f"""L: red.global.add.u32 [%rd1+4], 1; {LOOK} @%p1 bra L;
        ret;""",
    "each counts and waits for the other": f"""mov.u32 %r2, 0; setp.ge.u32 %p2, %r7, 32;
        @%p2 bra B;
        A: add.u32 %r2, %r2, 1; {LOOK} @%p1 bra A; st.volatile.global.u32 [%rd1+4], 1; ret;
        B: add.u32 %r2, %r2, 3; ld.volatile.global.u32 %r1, [%rd1+4]; setp.eq.u32 %p1, %r1, 0;
        @%p1 bra B; {SET} ret;""",
    "a count behind a guard that never lets": f"""mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1; {LOOK}
        @!%p1 st.global.u32 [%rd1+4], %r2; bra L;""",
}
"""What never ends."""

ENDINGS = {
    "counted": f"""mov.u32 %r2, 0; L: {LOOK} add.u32 %r2, %r2, 1;
        setp.lt.and.u32 %p2, %r2, 3000, %p1; @%p2 bra L; {SET} ret;""",
    "timed": f"""mov.u64 %rd2, %clock64; L: {LOOK} mov.u64 %rd3, %clock64; sub.u64 %rd3, %rd3, %rd2;
        setp.lt.and.u64 %p2, %rd3, 9000, %p1; @%p2 bra L; {SET} ret;""",
    "another warp is slow": f"""setp.ge.u32 %p2, %r7, 32; @%p2 bra B;
        mov.u32 %r2, 0; A: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 3000; @%p1 bra A; {SET} ret;
        B: {LOOK} @%p1 bra B; ret;""",
    "another warp sleeps": f"""setp.ge.u32 %p2, %r7, 32; @%p2 bra B;
        nanosleep.u32 1000000; {SET} ret;
        B: {LOOK} @%p1 bra B; ret;""",
    "the last block": f"""setp.eq.u32 %p2, %r8, 39; @%p2 bra B;
        L: {LOOK} @%p1 bra L; ret; B: {SET} ret;""",
    "an atomic counts down": """setp.ne.u32 %p2, %r7, 0; @%p2 bra B;
        A: atom.global.add.u32 %r1, [%rd1], 1; setp.lt.u32 %p1, %r1, 3000; @%p1 bra A; ret;
        B: ld.volatile.global.u32 %r1, [%rd1]; setp.lt.u32 %p1, %r1, 3000; @%p1 bra B; ret;""",
    "a copy is under way": """mov.u32 %r2, bar; mov.u32 %r3, 7; st.shared.u32 [%r2], 0;
        st.global.u32 [%rd1], 5; cp.async.ca.shared.global [%r2], [%rd1], 4;
        L: ld.volatile.shared.u32 %r1, [%r2]; setp.eq.u32 %p1, %r1, 0; @%p1 bra L; ret;""",
    "a test gives up": f"""mov.u32 %r2, bar; setp.ne.u32 %p2, %r7, 0; @%p2 bra L;
        mbarrier.init.shared.b64 [%r2], 2; mov.u32 %r3, 0;
        T: mbarrier.test_wait.parity.shared.b64 %p1, [%r2], 0; add.u32 %r3, %r3, 1;
        setp.lt.u32 %p2, %r3, 20; @!%p1 bra AGAIN; {SET} ret; AGAIN: @%p2 bra T; {SET} ret;
        L: {LOOK} @%p1 bra L; ret;""",
    "counted in memory": f"""L: ld.volatile.global.u32 %r1, [%rd1+4]; add.u32 %r1, %r1, 1;
        st.volatile.global.u32 [%rd1+4], %r1; setp.lt.u32 %p1, %r1, 3000; @%p1 bra L; {SET} ret;""",
    "counted in shared memory": f"""mov.u32 %r2, bar; mov.u32 %r1, 0; st.shared.u32 [%r2], %r1;
        bar.sync 0; L: ld.volatile.shared.u32 %r1, [%r2]; add.u32 %r1, %r1, 1;
        st.volatile.shared.u32 [%r2], %r1; setp.lt.u32 %p1, %r1, 3000; @%p1 bra L; {SET} ret;""",
    "counted for another warp": f"""setp.ge.u32 %p2, %r7, 32; @%p2 bra B; mov.u32 %r2, 0;
        A: add.u32 %r2, %r2, 1; st.volatile.global.u32 [%rd1+4], %r2; {LOOK} @%p1 bra A; ret;
        B: {LOOK} @!%p1 ret; ld.volatile.global.u32 %r1, [%rd1+4]; setp.lt.u32 %p1, %r1, 3000;
        @%p1 bra B; {SET} ret;""",
    "stored with its neighbour": f"""setp.ge.u32 %p2, %r7, 32; @%p2 bra B; mov.u32 %r2, 0;
        A: add.u32 %r2, %r2, 1; mov.b64 %rd2, {{0, %r2}}; st.volatile.global.u64 [%rd1], %rd2;
        setp.lt.u32 %p1, %r2, 4000; @%p1 bra A; {SET} ret;
        B: ld.volatile.global.u32 %r1, [%rd1+4]; setp.lt.u32 %p1, %r1, 3000; @%p1 bra B; ret;""",
    "an atomic counts for another": f"""setp.ge.u32 %p2, %r7, 32; @%p2 bra B;
        A: red.global.add.u32 [%rd1+4], 1; {LOOK} @%p1 bra A; ret;
        B: ld.volatile.global.u32 %r1, [%rd1+4]; setp.lt.u32 %p1, %r1, 3000; @%p1 bra B;
        {SET} ret;""",
    "a count that is stored shows late": f"""setp.ge.u32 %p2, %r7, 32; @%p2 bra B; mov.u32 %r2, 0;
        A: add.u32 %r2, %r2, 1; shr.u32 %r3, %r2, 11; st.volatile.global.u32 [%rd1+4], %r3;
        {LOOK} @%p1 bra A; ret;
        B: {LOOK} @!%p1 ret; ld.volatile.global.u32 %r1, [%rd1+4]; setp.eq.u32 %p1, %r1, 0;
        @%p1 bra B; {SET} ret;""",
    "a count in an atomic shows late": f"""mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1;
        shr.u32 %r3, %r2, 11; red.global.max.u32 [%rd1], %r3; {LOOK} @%p1 bra L; ret;""",
    "a guard counts": f"""mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1; setp.eq.u32 %p2, %r2, 3000;
        @%p2 st.volatile.global.u32 [%rd1], 1; {LOOK} @%p1 bra L; ret;""",
    "a count is handed on": f"""mov.u32 %r2, 0; mov.u32 %r3, 0; mov.u32 %r4, 0;
        L: mov.u32 %r4, %r3; mov.u32 %r3, %r2; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r4, 3000;
        @%p1 bra L; {SET} ret;""",
    "an address counts": f"""mov.u64 %rd2, 0; mov.u32 %r2, 0; mov.u64 %rd4, 3000;
        L: add.u64 %rd2, %rd2, 1; shr.u64 %rd3, %rd2, 11; shl.b64 %rd3, %rd3, 2;
        add.u64 %rd3, %rd1, %rd3; st.volatile.global.u32 [%rd1+4], 1;
        ld.volatile.global.u32 %r1, [%rd3]; setp.eq.u32 %p1, %r1, 0; @%p1 bra L; {SET} ret;""",
    "a lane hears of another's count": f"""mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1;
        shfl.sync.idx.b32 %r3, %r2, 5, 31, -1; setp.lt.u32 %p1, %r3, 3000; @%p1 bra L;
        {SET} ret;""",
    "all lanes agree on a count": f"""mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1;
        setp.lt.u32 %p2, %r2, 3000; vote.sync.any.pred %p1, %p2, -1; @%p1 bra L; {SET} ret;""",
}
"""What ends, since something still happens, or since it gives up."""


def launch(body: str, grid: int = 1, block: int = 64, **mode: object) -> np.ndarray:
    out = np.zeros(2, np.uint32)
    Module(f"{HEAD}{body}\n}}")["k"].launch(grid, block, [out], **mode)  # type: ignore[arg-type]
    return out


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("what", LIVELOCKS)
def test_a_livelock_is_one_at_once(what: str, check: bool, schedule: str) -> None:
    with pytest.raises(Livelock) as caught:
        launch(LIVELOCKS[what], check=check, schedule=schedule, max_steps=20_000)
    assert caught.value.finding.rule == "livelock" and "PTX line" in str(caught.value)


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("what", ENDINGS)
def test_what_ends_is_none(what: str, check: bool, schedule: str) -> None:
    blocks = 40 if what == "the last block" else 2
    assert launch(ENDINGS[what], blocks, check=check, schedule=schedule)[0]


COUNT = f"""add.u32 %r2, %r2, 1; {LOOK} setp.lt.and.u32 %p1, %r2, 1000000, %p1;"""
TWO_COUNT = f"""mov.u32 %r2, 0; setp.ge.u32 %p2, %r7, 32; @%p2 bra B; {{}}
    A: {COUNT} @%p1 bra A; ret;
    B: {COUNT} @%p1 bra B; ret;"""
"""Two warps in loops that end after many turns at the latest; and what a third thread does."""

BESIDE = {
    "waits for a copy": f""".shared .align 4 .b32 box; setp.ne.u32 %p2, %r7, 0; @%p2 bra A;
        mov.u32 %r3, bar; mov.u32 %r4, box; mbarrier.init.shared.b64 [%r3], 1;
        cp.async.ca.shared.global [%r4], [%rd1+4], 4;
        cp.async.mbarrier.arrive.noinc.shared.b64 [%r3];
        T: mbarrier.try_wait.parity.shared.b64 %p1, [%r3], 0; @!%p1 bra T; {SET} ret;""",
    "sleeps": f"setp.ne.u32 %p2, %r7, 0; @%p2 bra A; nanosleep.u32 1000; {SET} ret;",
    "has not started": f"""setp.ne.u32 %p2, %r7, 0; @%p2 bra A;
        setp.ne.u32 %p2, %r8, 159; @%p2 bra A; {SET} ret;""",
}


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("what", BESIDE)
def test_time_passes_for_others_while_two_groups_count_their_looks(
    what: str, check: bool, schedule: str
) -> None:
    grid = 160 if what == "has not started" else 1
    body = TWO_COUNT.format(BESIDE[what])
    assert launch(body, grid, check=check, schedule=schedule, max_steps=40_000)[0]


def test_who_looks_where_and_who_waits() -> None:
    with pytest.raises(Livelock) as caught:
        launch(LIVELOCKS["some spin, some wait"])
    _, spinning, waiting = str(caught.value).splitlines()
    assert spinning.startswith("  thread 3 of block 0 at `ld.volatile.global.u32 %r1, [%rd1]` at")
    assert waiting.startswith("  threads 0-2, 4-63 of block 0 wait for barrier 0")


def test_a_count_that_decides_meets_the_limit_of_turns() -> None:
    with pytest.raises(StepLimit, match="larger max_steps") as caught:
        launch(
            "mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r2, -1; @%p1 bra L; ret;",
            max_steps=20_000,
        )
    assert not isinstance(caught.value, Livelock)


@pytest.mark.parametrize("check", [True, False])
def test_many_blocks_that_spin_are_one_livelock(check: bool) -> None:
    with pytest.raises(Livelock, match="and threads of"):
        launch(LIVELOCKS["turns counted for the end"], 500, check=check, max_steps=50_000)


# -- a grid takes no memory ----------------------------------------------------------------------

MOST = 2**31 - 1
MISSED = "setp.lt.u32 %p1, %r7, 32; @%p1 bra B; bar.sync 1, 1024; ret; B: bar.sync 0, 64; ret;"


@pytest.mark.parametrize("check", [True, False])
def test_blocks_are_made_as_they_are_needed(check: bool) -> None:
    tracemalloc.start()
    with pytest.raises(Fault, match="trap executed"):
        launch("setp.lt.u32 %p1, %r8, 8; @%p1 ret; trap;", MOST, 1024, check=check)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20


@pytest.mark.parametrize(
    ("body", "error"), [(MISSED, Deadlock), (LIVELOCKS["a flag"], Livelock)]
)
def test_no_more_blocks_are_there_than_a_gpu_holds(body: str, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        launch(body, MOST, 1024, check=False)
    waiting = MOST - 2 * MOST_MULTIPROCESSORS
    assert f"{waiting} more blocks wait for room" in str(caught.value)


def test_a_cooperative_grid_fits_on_some_gpu() -> None:
    with pytest.raises(LaunchError, match="run at once, and no GPU of sm_90a holds more than 384"):
        launch("ret;", 385, 1024, cooperative=True)


@pytest.mark.parametrize(
    ("grid", "cluster"),
    [
        ((5, 3, 2), (1, 1, 1)),
        ((8, 1, 1), (4, 1, 1)),
        ((4, 6, 4), (2, 3, 2)),
        ((2, 4, 3), (1, 4, 1)),
    ],
)
def test_clusters_start_together(grid: tuple[int, int, int], cluster: tuple[int, int, int]) -> None:
    expected = [
        (x + i) + grid[0] * ((y + j) + grid[1] * (z + k))
        for z in range(0, grid[2], cluster[2])
        for y in range(0, grid[1], cluster[1])
        for x in range(0, grid[0], cluster[0])
        for k in range(cluster[2])
        for j in range(cluster[1])
        for i in range(cluster[0])
    ]
    order = StartingOrder(grid, cluster)
    assert order.blocks(0, len(expected)).tolist() == expected
    assert order.blocks(3, 4).tolist() == expected[3:7] and order[5] == expected[5]
