"""Races of which hardware makes nothing: equal stores, and plain loads beside atomics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phasebit.emulator import Finding, Module, rulebook
from phasebit.emulator.checker.races import Races

TEXT = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .pred %p<3>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<4>;
    .shared .align 4 .b8 a[256];
    ld.param.u64 %rd1, [out];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u64 %rd2, a;
    mov.u32 %r1, %tid.x;
    mov.u32 %r5, 5;
    setp.ge.u32 %p1, %r1, 32;
    setp.eq.u32 %p2, %r1, 0;
    @%p1 bra OTHER;
    FIRST
    bra DONE;
OTHER:
    SECOND
DONE:
    ret;
}
"""
STORE = "st.SPACE.u32 [AT], %r5;"
LAST = "setp.eq.u32 %p2, %r1, 31;"
ATOMIC = "atom.SPACE.add.u32 %r3, [AT], 1;"


def findings(space: str, first: str, second: str) -> list[Finding]:
    at = {"shared": "a", "global": "%rd1"}[space]
    text = TEXT.replace("FIRST", first).replace("SECOND", second)
    text = text.replace("SPACE", space).replace("AT]", f"{at}]")
    out = np.zeros(64, np.uint32)
    found = Module(text)["k"].launch(1, 64, [out]).findings
    return [each for each in found if each.rule != "uninitialised-read"]


@pytest.mark.parametrize("space", ["shared", "global"])
def test_stores_of_one_value_are_of_another_grade(space: str) -> None:
    (found,) = findings(space, STORE, STORE)
    assert (found.rule, found.grade, found.kind) == (
        "race-equal-stores", rulebook.NO_PROMISE, "race"
    )  # fmt: skip
    assert "nothing orders the two" in found.message


@pytest.mark.parametrize("space", ["shared", "global"])
def test_stores_of_two_values_are_a_race(space: str) -> None:
    (found,) = findings(space, STORE, STORE.replace("%r5", "%r1"))[:1]
    assert (found.rule, found.grade) == ("race", rulebook.CAN_CORRUPT)


@pytest.mark.parametrize("space", ["shared", "global"])
@pytest.mark.parametrize(("bits", "rules"), [
    ("and.b32 %r5, %r1, 0; or.b32 %r5, %r5, 0x7fffffff;", []),
    ("or.b32 %r5, %r1, 0x3f800000;", ["race-in-one-store"]),
    # all but the last thread store a NaN; it is the last that stays
    (f"{LAST} mov.b32 %r5, 0x7fffffff; @%p2 mov.b32 %r5, 0x3f800000;", ["race-in-one-store"]),
    (f"{LAST} mov.b32 %r5, 0x80000000; @%p2 mov.b32 %r5, 0;", ["race-in-one-store"]),
])  # fmt: skip
def test_a_nan_that_all_threads_store_is_no_other_value(
    space: str, bits: str, rules: list[str]
) -> None:
    store = STORE.replace("u32", "f32")
    assert [each.rule for each in findings(space, f"{bits}\n{store}", "")] == rules


@pytest.mark.parametrize(("last", "rule"), [(5, "race-equal-stores"), (6, "race")])
def test_once_different_is_a_race_though_equal_at_first(last: int, rule: str) -> None:
    store = "st.shared.u32 [%r7], %r5;\nadd.u32 %r7, %r7, 4;\n"
    begin = f"mov.u32 %r7, a;\nmov.u32 %r6, 0;\nLOOP: {store}"
    end = "add.u32 %r6, %r6, 1;\nsetp.lt.u32 %p2, %r6, 2;\n@%p2 bra LOOP;\n"
    other = f"{begin}mov.u32 %r5, {last};\n{end}".replace("LOOP", "AGAIN")
    assert [each.rule for each in findings("shared", begin + end, other)] == [rule]


@pytest.mark.parametrize("space", ["shared", "global"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_plain_load_beside_an_atomic_is_of_another_grade(space: str, turned: bool) -> None:
    load = "ld.SPACE.u32 %r4, [AT];"
    sides = (load, ATOMIC) if turned else (ATOMIC, load)
    (found,) = findings(space, *sides)
    assert (found.rule, found.grade) == ("race-beside-atomics", rulebook.NO_PROMISE)


@pytest.mark.parametrize("space", ["shared", "global"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_plain_store_beside_an_atomic_is_a_race(space: str, turned: bool) -> None:
    store = STORE.replace("%r5", "%r1").replace("st.", "@%p2 st.")  # of one thread alone
    store = store.replace("@%p2", "@%p1") if turned else store
    sides = (ATOMIC, store) if turned else (store, ATOMIC)
    assert {each.rule for each in findings(space, *sides)} - {"race-in-one-store"} == {"race"}


@pytest.mark.parametrize(("resident", "next_block", "over"), [
    (1, 4, False), (0, 3, False), (1, 3, False), (0, 4, True), (0, 5, True),
])  # fmt: skip
def test_a_launch_is_over_when_its_last_block_has_left(
    resident: int, next_block: int, over: bool
) -> None:
    """Only then what it has written counts for the next one."""
    machine = SimpleNamespace(next_block=next_block, blocks=4)
    races: Any = SimpleNamespace(shadows=dict.fromkeys(range(resident)), machine=machine)
    assert Races.over.fget(races) is over  # type: ignore[attr-defined]
