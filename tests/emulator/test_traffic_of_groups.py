"""What instructions cost: atomics, copies, warps that are not full, who reads the result."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.checker.traffic import Traffic
from phasebit.emulator.machine.accesses import ABSENT
from phasebit.emulator.machine.counters import Counters
from phasebit.launching.launch import Module

TEXT = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
{
    .shared .align 16 .b32 tile[256];
    .reg .b32 %r<20>; .reg .b64 %d<20>; .reg .pred %p<9>; .reg .f32 %f<9>;
    ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 31;
    shl.b32 %r3, %r1, 2; mov.u32 %r4, tile; add.u32 %r5, %r4, %r3; cvt.u64.u32 %d2, %r3;
    add.u64 %d3, %d1, %d2; shl.b64 %d5, %d2, 2; add.u64 %d4, %d1, %d5;
    shl.b32 %r6, %r1, 7; and.b32 %r6, %r6, 1023; add.u32 %r6, %r4, %r6; mov.f32 %f1, 0f3F800000;
    setp.lt.u32 %p1, %r2, 10; st.shared.u32 [%r5], 0;
    bar.sync 0;
    BODY
    ret;
}
"""
INSTRUCTIONS = "smsp__sass_inst_executed_op_{}.sum"
REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum"
SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum"
WAVES = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"


def counted(body: str, threads: int = 64) -> dict[str, int]:
    """What a body counts beyond the kernel without one."""

    def of(text: str) -> dict[str, int]:
        memory = np.zeros(4096, np.uint32)
        run = Module(TEXT.replace("BODY", text))["k"].launch(1, threads, [memory])
        return dict(run.counters)

    before = of("")
    return {name: value - before.get(name, 0) for name, value in of(body).items()
            if value != before.get(name, 0)}  # fmt: skip


def global_(name: str, requests: int, sectors: int, atomics: int) -> dict[str, int]:
    return {
        INSTRUCTIONS.format(f"global_{name}"): requests, REQUESTS.format(name): requests,
        SECTORS.format(name): sectors, "atomics.global": atomics,
    }  # fmt: skip


def shared(waves: int, conflicts: int, atomics: int, requests: int = 2) -> dict[str, int]:
    found = {INSTRUCTIONS.format("shared_atom"): requests, WAVES.format("atom"): waves,
             CONFLICTS.format("atom"): conflicts, "atomics.shared": atomics}  # fmt: skip
    return {name: value for name, value in found.items() if value}


USE = " st.global.u32 [%d3], %r7;"


@pytest.mark.parametrize(("body", "cost"), [
    ("red.global.add.u32 [%d1], 1;", global_("red", 2, 64, 64)),  # all at one word
    ("red.global.add.u32 [%d3], 1;", global_("red", 2, 8, 64)),
    ("red.global.add.u32 [%d4], 1;", global_("red", 2, 32, 64)),
    ("@%p1 red.global.add.u32 [%d1], 1;", global_("red", 2, 20, 20)),
    ("atom.global.add.u32 %r7, [%d3], 1;", global_("red", 2, 8, 64)),  # nobody reads the result
    ("atom.global.exch.b32 %r7, [%d3], 1;", global_("atom", 2, 8, 64)),
    ("atom.global.cas.b32 %r7, [%d3], 0, 1;", global_("atom", 2, 8, 64)),
    ("@%p1 atom.global.add.f32 %f2, [%d1], %f1;", global_("red", 2, 20, 20)),
    ("red.global.v4.f32.add [%d4], {%f1, %f1, %f1, %f1};", global_("red", 2, 32, 256)),
    ("red.global.add.u64 [%d4], 1;", global_("red", 2, 32, 64)),
    ("atom.shared.add.u32 %r7, [%r5], 1;", shared(2, 0, 64)),
    ("red.shared.add.u32 [%r4], 1;", shared(64, 62, 64)),
    ("@%p1 red.shared.add.u32 [%r4], 1;", shared(20, 18, 20)),
    ("red.shared.add.u32 [%r6], 1;", shared(64, 62, 64)),  # different words of one bank
    ("atom.shared.cas.b32 %r7, [%r5], 0, 1;", shared(4, 0, 64)),
    ("atom.shared.cas.b32 %r7, [%r4], 0, 1;", shared(128, 124, 64)),
    ("atom.shared.exch.b32 %r7, [%r5], 1;", shared(2, 0, 64)),
])  # fmt: skip
def test_atomics(body: str, cost: dict[str, int]) -> None:
    found = counted(body)
    kinds = ("_atom", "_red", "atomics.")
    assert {name: value for name, value in found.items() if any(k in name for k in kinds)} == cost


def test_an_atomic_whose_result_is_read_stays_one() -> None:
    found = counted("atom.global.add.u32 %r7, [%d3], 1;" + USE)
    assert {name: found[name] for name in global_("atom", 0, 0, 0)} == global_("atom", 2, 8, 64)
    assert not any("_red" in name for name in found)
    again = counted("@%p1 atom.global.add.u32 %r7, [%d3], 1; @%p1" + USE)
    assert again[REQUESTS.format("atom")] == 2 and again[SECTORS.format("atom")] == 4


@pytest.mark.parametrize(("body", "threads", "requests", "sectors", "nbytes"), [
    ("cp.async.ca.shared.global [%r5], [%d3], 4; cp.async.wait_all;", 64, 2, 8, 256),
    ("@%p1 cp.async.ca.shared.global [%r5], [%d3], 4; cp.async.wait_all;", 64, 2, 4, 80),
    ("cp.async.ca.shared.global [%r5], [%d3], 4; cp.async.wait_all;", 40, 2, 5, 160),
])  # fmt: skip
def test_copies_count_as_loads_but_for_their_instruction(
    body: str, threads: int, requests: int, sectors: int, nbytes: int
) -> None:
    found = counted(body, threads)
    assert found[INSTRUCTIONS.format("ldgsts")] == found[REQUESTS.format("ld")] == requests
    assert found[SECTORS.format("ld")] == sectors and found["bytes.global.load"] == nbytes
    assert INSTRUCTIONS.format("global_ld") not in found


@pytest.mark.parametrize(("body", "threads", "requests", "sectors", "nbytes"), [
    ("ld.global.u32 %r7, [%d3];", 64, 2, 8, 256), ("ld.global.u32 %r7, [%d3];", 40, 2, 5, 160),
    ("@%p1 ld.global.u32 %r7, [%d3];", 64, 2, 4, 80), ("ld.global.u32 %r7, [%d4];", 64, 2, 32, 256),
    ("ld.global.v4.u32 {%r7, %r8, %r9, %r10}, [%d4];", 64, 2, 32, 1024),
    ("ld.global.u32 %r7, [%d3]; ld.global.u32 %r8, [%d3+16];", 64, 4, 18, 512),
    ("ld.global.u32 %r7, [%d3]; ld.global.u32 %r8, [%d3+32];", 64, 4, 16, 512),
])  # fmt: skip
def test_loads_of_warps(body: str, threads: int, requests: int, sectors: int, nbytes: int) -> None:
    found = counted(body, threads)
    assert found[INSTRUCTIONS.format("global_ld")] == found[REQUESTS.format("ld")] == requests
    assert found[SECTORS.format("ld")] == sectors and found["bytes.global.load"] == nbytes


@pytest.mark.parametrize(("body", "threads", "requests", "waves", "conflicts", "nbytes"), [
    ("ld.shared.u32 %r7, [%r5];", 64, 2, 2, 0, 256),
    ("ld.shared.u32 %r7, [%r5];", 40, 2, 2, 0, 160),
    ("ld.shared.u32 %r7, [%r6];", 64, 2, 16, 14, 256),
    ("@%p1 ld.shared.u32 %r7, [%r6];", 64, 2, 16, 14, 80),
    ("ld.shared.u32 %r7, [%r5]; ld.shared.u32 %r8, [%r5+32];", 64, 4, 4, 0, 512),
    ("ld.shared.v2.u32 {%r7, %r8}, [%r4];", 64, 2, 2, 0, 512),
    ("ld.volatile.shared.u32 %r7, [%r4]; ld.volatile.shared.u32 %r8, [%r4+4];", 64, 4, 4, 0, 512),
    ("ld.shared.u32 %r7, [%r4]; ld.shared.u32 %r8, [%r4+4];", 64, 2, 2, 0, 512),  # joined
])  # fmt: skip
def test_shared_loads_of_warps(
    body: str, threads: int, requests: int, waves: int, conflicts: int, nbytes: int
) -> None:
    found = counted(body, threads)
    assert found[INSTRUCTIONS.format("shared_ld")] == requests
    assert found[WAVES.format("ld")] == waves and found.get(CONFLICTS.format("ld"), 0) == conflicts
    assert found["bytes.shared.load"] == nbytes


def group(lanes: list[int], threads: int, whole: bool = False) -> Any:
    warps = -(-threads // 32)
    numbers = np.arange(4 * threads)
    batch = SimpleNamespace(
        threads=threads, warps=warps, warp_of=numbers // threads * warps + numbers % threads // 32
    )
    return SimpleNamespace(
        batch=batch, lanes=np.array(lanes), n=len(lanes), whole=whole,
        spread=lambda value: np.broadcast_to(value, len(lanes)),
    )  # fmt: skip


@pytest.mark.parametrize(("lanes", "threads", "whole", "rows"), [
    ([*range(64)], 64, True, 2), ([*range(64)], 64, False, 2), ([*range(32, 64)], 64, True, 1),
    ([3, 40], 64, False, 2), ([5, 6, 100], 64, False, 2), ([*range(40)], 40, True, 2),
    ([39, 40, 41, 79], 40, False, 3), ([*range(0, 64, 2)], 64, True, 2),
])  # fmt: skip
def test_a_row_for_each_warp_that_takes_part(
    lanes: list[int], threads: int, whole: bool, rows: int
) -> None:
    traffic = Traffic(None, Counters())  # type: ignore[arg-type]
    g = group(lanes, threads, whole)
    table = traffic.warps(g, np.array([1000 + lane for lane in lanes]))
    assert table.shape == (rows, 32)
    assert sorted(table[table != ABSENT].tolist()) == [1000 + lane for lane in lanes]
    warps = sorted({int(g.batch.warp_of[lane]) for lane in lanes})
    for lane in lanes:
        row = warps.index(int(g.batch.warp_of[lane]))
        assert table[row, lane % threads % 32] == 1000 + lane
    assert (traffic.warps(g, 7)[table != ABSENT] == 7).all()
