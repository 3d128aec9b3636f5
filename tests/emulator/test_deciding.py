"""Which registers and loads decide where a loop goes: what its branch and its addresses need."""

from __future__ import annotations

from typing import Any

import pytest

from phasebit.emulator.machine.deciding import Deciding, deciding
from tests.emulator.machines import machine

LOOK = "ld.volatile.global.u32 %r5, [%rd1]; setp.eq.u32 %p1, %r5, 0;"
AGAIN = "@%p1 bra L; ret;"


def loop(body: str, values: tuple[str, ...] = (), *, whole: bool = False) -> tuple[Any, Deciding]:
    """Of a loop at ``L``: its program, and what decides in its blocks (``whole``: in all)."""
    program = machine(body, check=False).program
    blocks = range(len(program.blocks)) if whole else [
        at for at, block in enumerate(program.blocks)
        if any(each <= at for each in block.successors) or (
            any(at < each for each in block.successors) and at > 0
        )
    ]  # fmt: skip
    every = [each for block in program.blocks for each in block.instructions]
    stored = frozenset(each for each in every if each.text.startswith(values)) if values else ()
    return program, deciding(program, frozenset(blocks), frozenset(stored))


def names(program: Any, found: Deciding, at: int = 1) -> list[str]:
    return [program.kernel.registers[index].name for index in found.registers[at]]


def loads(found: Deciding) -> list[str]:
    return sorted(each.text.split()[0] for each in found.loads)


@pytest.mark.parametrize(("body", "deciders", "looks"), [
    (f"L: {LOOK} {AGAIN}", ["%rd1"], ["ld.volatile.global.u32"]),
    (f"L: {LOOK} add.u32 %r3, %r3, 1; {AGAIN}", ["%rd1"], ["ld.volatile.global.u32"]),
    (f"L: add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 9; {AGAIN}", ["%r3"], []),
    (f"L: setp.lt.u32 %p1, %r3, %r4; add.u32 %r3, %r4, 1; {AGAIN}", ["%r3", "%r4"], []),
    (f"L: mov.u32 %r3, %r1; setp.lt.u32 %p1, %r3, 9; {AGAIN}", ["%r1"], []),
    (f"L: {LOOK} st.volatile.global.u32 [%rd2], %r3; {AGAIN}", ["%rd1", "%rd2"],
     ["ld.volatile.global.u32"]),
    (f"L: {LOOK} ld.volatile.global.u32 %r6, [%rd2]; st.volatile.global.u32 [%rd3], %r6; {AGAIN}",
     ["%rd1", "%rd2", "%rd3"], ["ld.volatile.global.u32"]),
    (f"L: ld.volatile.global.u64 %rd2, [%rd1]; ld.volatile.global.u32 %r5, [%rd2]; "
     f"setp.eq.u32 %p1, %r5, 0; {AGAIN}", ["%rd1"],
     ["ld.volatile.global.u32", "ld.volatile.global.u64"]),
    (f"L: {LOOK} red.global.add.u32 [%rd2], %r3; {AGAIN}", ["%rd1", "%rd2"],
     ["ld.volatile.global.u32"]),
    (f"L: {LOOK} atom.global.add.u32 %r6, [%rd2], %r3; {AGAIN}", ["%rd1", "%rd2"],
     ["ld.volatile.global.u32"]),
    (f"L: atom.global.exch.b32 %r6, [%rd2], %r3; setp.eq.u32 %p1, %r6, 0; {AGAIN}",
     ["%r3", "%rd2"], ["atom.global.exch.b32"]),
    (f"L: {LOOK} nanosleep.u32 %r3; {AGAIN}", ["%rd1"], ["ld.volatile.global.u32"]),
    (f"L: shfl.sync.idx.b32 %r6, %r3, %r4, 31, -1; setp.eq.u32 %p1, %r6, 0; {AGAIN}",
     ["%r3", "%r4"], []),
    (f"L: {LOOK} shfl.sync.idx.b32 %r6, %r3, %r4, 31, -1; {AGAIN}", ["%r3", "%r4", "%rd1"],
     ["ld.volatile.global.u32"]),
])  # fmt: skip
def test_what_the_branch_and_the_addresses_need(
    body: str, deciders: list[str], looks: list[str]
) -> None:
    program, found = loop(f"mov.u32 %r3, 0; mov.u32 %r4, 0; mov.u64 %rd2, %rd1; {body}")
    assert sorted(names(program, found)) == deciders and loads(found) == looks
    assert not found.noticed and not found.clocked


def test_what_is_stored_decides_where_somebody_looks_for_it() -> None:
    body = f"mov.u32 %r3, 0; L: {LOOK} add.u32 %r4, %r3, 1; st.volatile.global.u32 [%rd1+4], %r4;"
    program, found = loop(f"{body} {AGAIN}", ("st.",))
    assert sorted(names(program, found)) == ["%r3", "%rd1"]
    program, found = loop(f"{body} {AGAIN}", ("ld.",))
    assert names(program, found) == ["%rd1"]
    body = f"mov.u32 %r3, 0; L: {LOOK} red.global.add.u32 [%rd1+4], %r3; {AGAIN}"
    program, found = loop(body, ("red",))
    assert sorted(names(program, found)) == ["%r3", "%rd1"]


def test_a_guard_decides_and_so_does_what_it_lets_pass() -> None:
    body = f"mov.u32 %r3, 0; setp.eq.u32 %p2, %r3, 0; L: {LOOK} @%p2 mov.u32 %r4, 5; {AGAIN}"
    program, found = loop(body)
    assert "%rd1" in names(program, found)
    body = f"""mov.u32 %r3, 0; setp.eq.u32 %p2, %r3, 0; L: {LOOK}
        @%p2 st.volatile.global.u32 [%rd1+4], %r3; {AGAIN}"""
    program, found = loop(body)
    assert sorted(names(program, found)) == ["%p2", "%rd1"]


def test_of_blocks_that_did_not_run_nothing_decides() -> None:
    body = f"mov.u32 %r3, 0; mov.u32 %r4, 0; L: {LOOK} @%p1 bra L; setp.eq.u32 %p2, %r4, 0; " \
           "@%p2 bra L; ret;"  # fmt: skip
    program = machine(body, check=False).program
    loop_alone = deciding(program, frozenset({1}), frozenset())
    both = deciding(program, frozenset({1, 2}), frozenset())
    assert names(program, loop_alone) == ["%rd1"] and [*loop_alone.registers] == [1]
    assert sorted(names(program, both)) == ["%r4", "%rd1"]
    assert names(program, both, 2) and sorted(both.registers) == [1, 2]


@pytest.mark.parametrize(("read", "clocked"), [
    ("mov.u32 %r6, %clock;", True), ("mov.u64 %rd4, %clock64; cvt.u32.u64 %r6, %rd4;", True),
    ("mov.u64 %rd4, %globaltimer; cvt.u32.u64 %r6, %rd4;", True),
    ("mov.u32 %r6, %laneid;", False), ("mov.u32 %r7, %clock; mov.u32 %r6, 0;", False),
])  # fmt: skip
def test_a_clock_decides_where_somebody_asks_for_it(read: str, clocked: bool) -> None:
    _, found = loop(f"L: {read} setp.lt.u32 %p1, %r6, 9; {AGAIN}")
    assert found.clocked is clocked


@pytest.mark.parametrize(("step", "noticed"), [
    ("bar.sync 0;", False), ("mbarrier.init.shared.b64 [bar], 1;", True),
    ("bar.arrive 1, 96;", True),
    ("membar.gl;", False), ("ld.shared.u32 %r6, [bar];", False), ("nanosleep.u32 9;", False),
    ("vote.sync.any.pred %p2, %p1, -1;", False), ("activemask.b32 %r6;", True),
    ("atom.shared.add.u32 %r6, [bar], 1;", False), ("mul.lo.u32 %r6, %r1, 3;", False),
])  # fmt: skip
def test_what_others_notice_of_a_loop(step: str, noticed: bool) -> None:
    _, found = loop(f"L: {LOOK} {step} {AGAIN}")
    assert found.noticed is noticed


def test_the_end_of_a_kernel_is_noticed() -> None:
    assert loop(f"L: {LOOK} {AGAIN}", whole=True)[1].noticed
    assert not loop(f"L: {LOOK} {AGAIN}")[1].noticed
