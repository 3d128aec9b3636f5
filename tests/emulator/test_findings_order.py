"""Order through memory: idioms of real programs are clean, and each without its fence is not.

A kernel's text holds its fence as ``FENCE``: left in, it is correct; taken out, it is a race.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

from phasebit.emulator import Run
from phasebit.launching.launch import Module, compile

pytestmark = pytest.mark.nvcc

SCHEDULES = [("late", 0), *(("random", seed) for seed in range(3))]
BLOCKS, THREADS = 6, 64

IDIOMS = {
    # CUDA programming guide, "Memory Fence Functions": the reader has a barrier, but no fence
    "the last block sums": """
        __shared__ bool last;
        if (t == 0) {
            data[blockIdx.x] = b + 1;
            FENCE;
            last = atomicAdd(flag, 1) == gridDim.x - 1;
        }
        __syncthreads();
        if (last) out[t] = data[t % gridDim.x];""",
    "all threads fence, one tells": """
        __shared__ bool last;
        data[i] = i;
        FENCE;
        __syncthreads();
        if (t == 0) last = atomicAdd(flag, 1) == gridDim.x - 1;
        __syncthreads();
        if (last) for (int k = t; k < n; k += 64) out[k] = data[k];""",
    "a lock": """
        if (t == 0) {
            while (atomicCAS(flag, 0, 1)) {}
            __threadfence();
            data[0] = b ? data[0] + 1 : data[0] + 2;
            FENCE;
            atomicExch(flag, 0);
        }""",
    "a lock that is taken without a fence": """
        if (t == 0) {
            while (atomicCAS(flag, 0, 1)) {}
            FENCE;
            data[0] = data[0] + 1;
            __threadfence();
            atomicExch(flag, 0);
        }""",
    "from block to block": """
        volatile int* ready = flag;
        if (t == 0 && b) {
            while (!ready[b - 1]) {}
            __threadfence();
        }
        __syncthreads();
        data[i] = b ? data[i - 64] + 1 : t;
        __syncthreads();
        if (t == 0) { FENCE; ready[b] = 1; }""",
    "a message that passes through a block": """
        volatile int* ready = flag;
        if (b == 0) data[t] = t;
        __syncthreads();
        if (t == 0) {
            if (b) { while (!ready[b - 1]) {} __threadfence(); }
            FENCE;
            ready[b] = 1;
        }
        __syncthreads();
        if (b == 5) out[t] = data[t];""",
    "warps of a block": """
        volatile __shared__ int ready;
        __shared__ int tile[32];
        if (t == 0) ready = 0;
        __syncthreads();
        if (t < 32) {
            tile[t] = i;
            __syncwarp();
            if (t == 0) { FENCE_BLOCK; ready = 1; }
        } else {
            while (!ready) {}
            __threadfence_block();
            out[i] = tile[t - 32];
        }""",
    "look back": """
        if (t == 0) {
            data[b] = b;
            FENCE;
            atomicExch(flag + b, 1);
            int sum = 0;
            for (int k = b - 1; k >= 0; --k) {
                while (atomicAdd(flag + k, 0) == 0) {}
                __threadfence();
                sum += data[k];
            }
            out[b] = sum;
        }""",
}

CLEAN = {
    "release and acquire": """
        cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);
        if (b == 0) data[t] = t;
        __syncthreads();
        if (t == 0) {
            if (b == 0) ready.store(1, cuda::memory_order_release);
            else while (!ready.load(cuda::memory_order_acquire)) {}
        }
        __syncthreads();
        if (b) out[i] = data[t];""",
    "slots given out by an atomic": """
        const int slot = atomicAdd(flag, 1);
        data[slot] = i;""",
    "status and value in one word": """
        if (t == 0) {
            volatile int* status = data;
            status[b] = 256 + b;
            int sum = 0;
            for (int k = b - 1; k >= 0; --k) {
                int seen = 0;
                while (seen == 0) seen = status[k];
                sum += seen - 256;
            }
            out[b] = sum;
        }""",
    "volatile sums within a warp": """
        __shared__ volatile int tile[64];
        tile[t] = i;
        __syncthreads();
        if (t < 32) for (int k = 32; k; k /= 2) tile[t] += tile[t + k];
        if (t == 0) out[b] = tile[0];""",
}

MISTAKES = {
    "only the one that waited may read": """
        volatile int* ready = flag;
        if (b == 0) {
            data[t] = t;
            __threadfence();
            __syncthreads();
            if (t == 0) ready[0] = 1;
        } else {
            if (t == 0) { while (!ready[0]) {} __threadfence(); }
            if (t >= 32) out[i] = data[t];
        }""",
    "a release that ends at the block": """
        cuda::atomic_ref<int, cuda::thread_scope_block> near(*flag);
        cuda::atomic_ref<int, cuda::thread_scope_device> far(*flag);
        if (b == 0) data[t] = t;
        __syncthreads();
        if (t == 0) {
            if (b == 0) near.store(1, cuda::memory_order_release);
            else while (!far.load(cuda::memory_order_acquire)) {}
        }
        __syncthreads();
        if (b) out[i] = data[t];""",
}


@functools.cache
def module(fences: bool) -> Module:
    text = "#include <cuda/atomic>\n"
    text += f"#define FENCE {'__threadfence()' if fences else ''}\n"
    text += f"#define FENCE_BLOCK {'__threadfence_block()' if fences else ''}\n"
    text += "".join(
        f'extern "C" __global__ void {name(what)}(int* data, int* flag, int* out, int n) {{\n'
        f"    const int t = threadIdx.x, b = blockIdx.x, i = b * 64 + t;{body}\n}}\n"
        for what, body in (IDIOMS | CLEAN | MISTAKES).items()
    )
    return compile(text, "sm_80", ["-lineinfo"])


def name(what: str) -> str:
    return what.replace(" ", "_").replace(",", "")


def launch(what: str, schedule: tuple[str, int], fences: bool = True) -> Run:
    data, flag, out = (np.zeros(BLOCKS * THREADS, np.int32) for _ in range(3))
    return module(fences)[name(what)].launch(
        BLOCKS, THREADS, [data, flag, out, BLOCKS * THREADS], schedule=schedule[0],
        seed=schedule[1], max_steps=200_000,
    )  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: f"{s[0]}{s[1]}")
class TestOrder:
    @pytest.mark.parametrize("what", [*IDIOMS, *CLEAN])
    def test_clean(self, what: str, schedule: tuple[str, int]) -> None:
        assert not launch(what, schedule).findings

    @pytest.mark.parametrize("what", [*IDIOMS, *MISTAKES])
    def test_found(self, what: str, schedule: tuple[str, int]) -> None:
        findings = launch(what, schedule, fences=what in MISTAKES).findings
        assert {finding.kind for finding in findings} == {"race"}
