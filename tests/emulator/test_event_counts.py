"""Counts of what happens at barriers, in copies and in the tensor core, to the last one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from phasebit.launching.launch import Module
from tests.emulator.tensor_kernels import Gemm

TEXT = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
{
    .shared .align 8 .b64 full; .shared .align 128 .b8 tile[1024];
    .reg .b32 %r<20>; .reg .b64 %d<20>; .reg .pred %p<9>; .reg .f32 %f<9>;
    ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; setp.lt.u32 %p2, %r1, 16;
    shl.b32 %r2, %r1, 4; mov.u32 %r3, tile; add.u32 %r3, %r3, %r2; cvt.u64.u32 %d2, %r2;
    add.u64 %d2, %d1, %d2;
    @%p1 mbarrier.init.shared.b64 [full], 64;
    bar.sync 0;
    BODY
    ret;
}
"""
WAIT = "L{0}: mbarrier.try_wait.parity.shared.b64 %p4, [full], {0}; @!%p4 bra L{0}; "
ARRIVE = "mbarrier.arrive.shared.b64 %d5, [full]; "


def counters(body: str, **options: Any) -> dict[str, int]:
    """What a body counts beyond the kernel without one."""

    def of(text: str) -> dict[str, int]:
        memory = np.zeros(1024, np.uint32)
        run = Module(TEXT.replace("BODY", text))["k"].launch(1, 64, [memory], **options)
        assert not run.findings, run.findings[0]
        return dict(run.counters)

    before = of("")
    return {name: value - before.get(name, 0) for name, value in of(body).items()
            if value != before.get(name, 0)}  # fmt: skip


@pytest.mark.parametrize(("body", "counted"), [
    ("bar.sync 0; ", {"barrier.syncs": 64}),
    ("bar.warp.sync 0xffffffff;", {"barrier.warp_syncs": 64}),
    ("@%p2 bra A; add.u32 %r4, %r1, 1; bra B; A: add.u32 %r4, %r1, 2; B:", {"branch.divergent": 1}),
    (ARRIVE + WAIT.format(0), {"mbarrier.arrivals": 64}),
    (ARRIVE + WAIT.format(0) + ARRIVE + WAIT.format(1), {"mbarrier.arrivals": 128}),
    ("cp.async.ca.shared.global [%r3], [%d2], 16; cp.async.wait_all; ", {"cp_async.bytes": 1024}),
    ("@%p2 cp.async.ca.shared.global [%r3], [%d2], 4; cp.async.wait_all; ", {"cp_async.bytes": 64}),
    ("@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [full], 48; @%p1 "
     "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%d1], 48, [full]; "
     + ARRIVE + WAIT.format(0), {"cp_async_bulk.bytes": 48}),
])  # fmt: skip
def test_what_is_counted(body: str, counted: dict[str, int]) -> None:
    found = counters(body)
    assert {name: found.get(name) for name in counted} == counted
    others = {"barrier.syncs", "barrier.warp_syncs", "branch.divergent", "mbarrier.arrivals",
              "cp_async.bytes", "cp_async_bulk.bytes"} - set(counted)  # fmt: skip
    assert {name for name in others if name in found} <= {"mbarrier.arrivals", "branch.divergent"}


OF_SHARED = "l1tex__data_{}_mem_shared_op_{}.sum"


@pytest.mark.parametrize(("body", "op", "requests", "wavefronts", "conflicts", "nbytes"), [
    ("st.shared.u32 [%r3], %r1;", "st", 2, 8, 6, 256),  # each fourth bank
    ("mov.u32 %r4, tile; shl.b32 %r5, %r1, 2; add.u32 %r4, %r4, %r5; st.shared.u32 [%r4], %r1;",
     "st", 2, 2, 0, 256),
    ("st.shared.v4.u32 [%r3], {%r1, %r1, %r1, %r1};", "st", 2, 8, 0, 1024),
    ("st.shared.u32 [%r3], %r1; st.shared.u32 [%r3+4], %r1;", "st", 2, 8, 4, 512),  # joined
])  # fmt: skip
def test_requests_to_shared_memory(
    body: str, op: str, requests: int, wavefronts: int, conflicts: int, nbytes: int
) -> None:
    found = counters(body)
    assert found[f"smsp__sass_inst_executed_op_shared_{op}.sum"] == requests
    assert found[OF_SHARED.format("pipe_lsu_wavefronts", op)] == wavefronts
    assert found.get(OF_SHARED.format("bank_conflicts_pipe_lsu", op), 0) == conflicts
    assert found["bytes.shared.store"] == nbytes


def test_waits_are_counted_and_those_that_blocked() -> None:
    found = counters(ARRIVE + WAIT.format(0))
    assert found["mbarrier.waits"] == 1 and not found.get("mbarrier.waits_that_blocked")
    apart = WAIT.replace("L{0}", "M{0}").format(0)
    found = counters(
        f"setp.lt.u32 %p3, %r1, 32; @%p3 bra A; {ARRIVE}{apart} bra B; "
        f"A: {ARRIVE}{WAIT.format(0)} B:"
    )
    assert found["mbarrier.waits"] == 2 and found["mbarrier.waits_that_blocked"] == 1


@pytest.mark.parametrize("steps", [1, 3])
def test_products_of_the_tensor_core_and_what_goes_there_and_back(steps: int) -> None:
    gemm = Gemm("f16", 128, 64, "f16", "f16", "f32", steps=steps, width=2)
    a, b = (np.zeros((rows, 16 * steps), np.uint16) for rows in (128, 64))
    _, run = gemm.run(a, b)
    found = run.counters
    assert found["tcgen05.mma"] == steps and found["tcgen05.allocations"] == 1
    assert found["tcgen05.ld.registers"] % 128 == 0 and found["tcgen05.ld.registers"] >= 128 * 64


def test_other_instructions_of_the_tensor_core_are_no_products() -> None:
    assert "tcgen05.mma" not in counters("bar.sync 0;")
    gemm = Gemm("f16", 128, 64, "f16", "f16", "f32", steps=1, width=2)
    _, run = gemm.run(*(np.zeros((rows, 16), np.uint16) for rows in (128, 64)))
    assert run.counters["tcgen05.mma"] == 1  # the commit, the fences and the waits are none
