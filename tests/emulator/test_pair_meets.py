"""A pair's tensor memory goes back once its blocks have met (PTX ISA 9.7.16.7.1, 9.7.13.3).

A barrier of the cluster keeps the threads together whatever its arrival orders: CUTLASS's compiler
puts one with .relaxed before the columns go back.
"""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.launching.launch import compile

pytestmark = pytest.mark.nvcc
KERNEL = """
#include "ptx_sm100.cuh"
__global__ void __cluster_dims__(2) idle(unsigned* out) {
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    __shared__ unsigned address;
    asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;");
    FIRST
    if (threadIdx.x < 32) ptx::tcgen05_alloc<64, 2>(&address);
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();
    ptx::tcgen05_fence_after_thread_sync();
    out[blockIdx.x * 64 + threadIdx.x] = (address & 0xffff) < 512;
    LAST
    if (threadIdx.x < 32) {
        ptx::tcgen05_relinquish_alloc_permit<2>();
        ptx::tcgen05_dealloc<64, 2>(address);
    }
#endif
}
"""
ARRIVE = 'asm volatile("barrier.cluster.arrive.relaxed.aligned;");'
WAIT = 'asm volatile("barrier.cluster.wait.aligned;");'


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize(("first", "last", "found"), [
    ("", ARRIVE + WAIT, False),
    ("", "", True),
    (ARRIVE, WAIT, True),  # arrived before the columns were asked for
])  # fmt: skip
def test_blocks_that_have_met_since(first: str, last: str, found: bool, schedule: str) -> None:
    kernel = compile(KERNEL.replace("FIRST", first).replace("LAST", last), "sm_100a")["idle"]
    out = np.zeros(128, np.uint32)
    told = kernel.launch(2, 64, [out], schedule=schedule, cluster=2)
    rules = {one.rule for one in told.findings}
    assert rules == ({"tensor-memory-pair-freed-early"} if found else set()) and out.all()
