"""Accesses that a launch keeps to be drawn: one for each instruction and warp, as the counters."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from phasebit.emulator.machine.accesses import Access, Accesses
from phasebit.launching.launch import Module

TEXT = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y)
{
    .shared .align 16 .b32 tile[128];
    .reg .b64 %d<9>; .reg .b32 %r<20>; .reg .pred %p;
    ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 64, %r1;
    mul.wide.u32 %d3, %r3, 8; add.u64 %d4, %d1, %d3;
    ld.global.v2.u32 {%r4, %r5}, [%d4];
    mov.u32 %r6, tile; shl.b32 %r7, %r1, 3; add.u32 %r6, %r6, %r7;
    st.shared.u32 [%r6], %r4;
    st.shared.u32 [%r6+4], %r5;
    bar.sync 0;
    and.b32 %r8, %r1, 1; setp.eq.u32 %p, %r8, 0;
    @!%p bra END;
    mul.wide.u32 %d5, %r3, 4; add.u64 %d6, %d2, %d5;
    st.global.u32 [%d6+256], %r4;
END:
    ret;
}
"""
LANE = np.arange(32)


def test_each_request_says_who_where_and_how_much() -> None:
    x, y = np.arange(256, dtype=np.uint32), np.zeros(256, np.uint32)
    run = Module(TEXT)["k"].launch(2, 64, [x, y], accesses=True)
    assert not run.findings
    seen = [(a.space, a.op, a.size, a.block, a.warp, a.array) for a in run.accesses]
    warps = [(block, warp) for block in range(2) for warp in range(2)]
    assert sorted(seen) == sorted(
        each for block, warp in warps for each in (
            ("global", "load", 8, block, warp, "argument 0"),
            ("shared", "store", 8, block, warp, "shared memory"),  # two words, joined
            ("global", "store", 4, block, warp, "argument 1"),
        )
    )  # fmt: skip
    for access in run.accesses:
        first = 64 * access.block + 32 * access.warp
        addresses = access.addresses.tolist()
        if access.space == "shared":
            assert addresses == (8 * (LANE + 32 * access.warp)).tolist()
        elif access.op == "load":
            assert addresses == (8 * (LANE + first)).tolist()
            assert access.lanes == [*range(32)]
        else:
            assert access.lanes == [*range(0, 32, 2)]
            assert [addresses[lane] for lane in access.lanes] == [
                256 + 4 * (first + lane) for lane in access.lanes
            ]
    assert run.accesses[0].op == "load" and run.accesses[-1].space == "global"
    assert {access.line for access in run.accesses} == {None}


def test_accesses_through_one_register_share_an_index_and_stay_as_they_are() -> None:
    instruction, chosen = object(), SimpleNamespace(options={"space": "shared"})
    made = Accesses.of([(8, 8), (0, 4), (8, 4)], -8, 4, instruction, chosen,
    3)  # type: ignore[arg-type]
    assert made == Accesses((4, 5, 2), 4, ((4, 8), (2, 4), (4, 4)), 3, "weak", "cta", "shared")
    strong = SimpleNamespace(options={"sem": "acquire", "scope": "gpu"})
    other = Accesses.of([(0, 4)], 0, 4, instruction, strong, 1)  # type: ignore[arg-type]
    assert (other.sem, other.scope, other.space) == ("acquire", "gpu", "generic")
    for field in ("words", "width", "sem"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(made, field, 1)
    access = Access("global", "load", 4, 0, 0, LANE, "a", None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        access.size = 8  # type: ignore[misc]
    assert access != Access("global", "load", 4, 0, 0, LANE, "a", None)
