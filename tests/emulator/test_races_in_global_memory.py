"""Who is named in a race in global memory: of two blocks, of one, and which of several readers.

Each thread waits until the one before it has made its access, and learns nothing by that: a relaxed
load of a counter.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from phasebit.launching.launch import Module

KERNEL = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p)
{
    .reg .b32 %r<20>; .reg .b64 %d<9>; .reg .pred %p<9>;
    ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.b32 %r3, 7;
    mad.lo.u32 %r4, %r2, 64, %r1;
    TURNS
    ret;
}
"""
TURN = """
    setp.ne.u32 %p1, %r4, {thread}; @%p1 bra NEXT{turn};
WAIT{turn}:
    ld.relaxed.gpu.global.u32 %r5, [%d1+80]; setp.ne.u32 %p2, %r5, {turn}; @%p2 bra WAIT{turn};
    {access}
    st.relaxed.gpu.global.u32 [%d1+80], {next};
NEXT{turn}:
"""
STORE, LOAD = "st.global.u32 [%d1+40], %r3;", "ld.global.u32 %r6, [%d1+40];"
ADD, LOOK = "atom.global.add.u32 %r6, [%d1+40], 1;", "ld.relaxed.gpu.global.u32 %r6, [%d1+40];"
PUT = "st.relaxed.gpu.global.u32 [%d1+40], %r3;"
VERBS = {STORE: ("writes", "wrote"), LOAD: ("reads", "read"), ADD: ("writes", "wrote"),
         LOOK: ("reads", "read"), PUT: ("writes", "wrote")}  # fmt: skip


def found(*turns: tuple[int, str]) -> list[tuple[str, str]]:
    """Threads, counted through the grid of three blocks, and their accesses, one after another."""
    text = "".join(
        TURN.format(thread=thread, turn=turn, next=turn + 1, access=access)
        for turn, (thread, access) in enumerate(turns)
    )
    memory = np.zeros(64, np.uint32)
    run = Module(KERNEL.replace("TURNS", text))["k"].launch(3, 64, [memory])
    return [(each.rule, re.sub(r" at PTX line \d+", "", each.message)) for each in run.findings]


def race(
    second: tuple[int, str], first: tuple[int, str], rule: str = "race"
) -> tuple[str, str]:
    (later, two), (earlier, one) = second, first
    return rule, (
        f"thread {later % 64} of block {later // 64} {VERBS[two][0]} argument 0[40 bytes in]: "
        f"`{two[:-1]}`; thread {earlier % 64} of block {earlier // 64} {VERBS[one][1]} it, and "
        f"nothing orders the two: `{one[:-1]}`"
    )


PAIRS = [(69, 101), (69, 150), (150, 69), (3, 150), (37, 3)]


@pytest.mark.parametrize(("one", "two", "rule"), [
    (STORE, LOAD, "race"), (LOAD, STORE, "race"), (STORE, STORE, "race-equal-stores"),
    (LOAD, LOAD, ""), (ADD, ADD, ""), (ADD, LOAD, "race-beside-atomics"), (ADD, STORE, "race"),
    (LOAD, ADD, "race-beside-atomics"), (STORE, ADD, "race"), (LOOK, PUT, ""), (PUT, LOOK, ""),
    (LOOK, STORE, "race"), (STORE, LOOK, "race"), (PUT, LOAD, "race-beside-atomics"),
    (LOAD, PUT, "race-beside-atomics"), (PUT, STORE, "race-equal-stores"), (STORE, PUT, "race"),
])  # fmt: skip
def test_the_two_are_named(one: str, two: str, rule: str) -> None:
    for earlier, later in PAIRS:
        said = found((earlier, one), (later, two))
        assert said == ([race((later, two), (earlier, one), rule)] if rule else [])


@pytest.mark.parametrize(("readers", "writer", "named"), [
    ((69, 70, 150), 151, 150), ((69, 70), 70, 69), ((69, 150), 150, 69), ((150, 69), 69, 150),
    ((69, 150, 70), 70, 150), ((69, 70, 69), 69, 70), ((69, 69), 69, None), ((3, 69), 3, 69),
])  # fmt: skip
def test_a_reader_before_the_last_one_is_remembered(
    readers: tuple[int, ...], writer: int, named: int | None
) -> None:
    """The last one, another of its block, and one of another block."""
    said = found(*((each, LOAD) for each in readers), (writer, STORE))
    assert said[:1] == ([race((writer, STORE), (named, LOAD))] if named is not None else [])


def test_of_a_strong_and_a_weak_access_at_once_the_weak_one_is_told() -> None:
    both = "ld.global.v2.u32 {%r6, %r7}, [%d1+40];"
    strong, weak = PUT, STORE.replace("+40", "+44")
    (said,) = found((69, strong), (150, weak), (101, both))
    assert said[0] == "race" and "argument 0[44 bytes in]" in said[1]
    assert "; thread 22 of block 2 wrote it" in said[1]
    (said,) = found((69, strong), (101, both))
    assert said[0] == "race-beside-atomics" and "argument 0[40 bytes in]" in said[1]


def test_stores_of_other_values_are_a_race() -> None:
    other = "st.global.u32 [%d1+40], 8;"
    ((rule, _),) = found((69, STORE), (150, other))
    assert rule == "race"
    ((rule, _),) = found((69, STORE), (150, STORE), (3, "add.u32 %r3, %r3, 0;"))
    assert rule == "race-equal-stores"


def test_of_several_words_the_first_is_told_with_its_own_store() -> None:
    both = "ld.global.v2.u32 {%r6, %r7}, [%d1+40];"
    other = "st.global.u32 [%d1+44], %r4;"
    for first, second in (((69, STORE), (150, other)), ((150, other), (69, STORE))):
        (said,) = found(first, second, (101, both))
        assert said == ("race", race((101, LOAD), (69, STORE))[1].replace(LOAD[:-1], both[:-1]))
