"""The softmax of *Attention*'s kernel c in a kernel of its own: by one group, by two, and beside
products that need the registers' ports and the issue slots, too."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from phasebit import toolchain

PASSES = 512
"""How often each contender makes its softmax."""

ROLES = ("NOTHING", "SOFTMAX", "MAXIMA", "BESIDE", "PRODUCTS")
"""What a group may do, in the order of the kernel's ``Role``."""
ALONE = {
    "one group": ("SOFTMAX", "NOTHING"),
    "one group, its maxima and their exchange": ("MAXIMA", "NOTHING"),
    "two groups": ("SOFTMAX", "SOFTMAX"),
    "beside its own product": ("BESIDE", "NOTHING"),
    "beside the other group's products": ("SOFTMAX", "PRODUCTS"),
    "beside its own and the other group's products": ("BESIDE", "PRODUCTS"),
    "two groups, each beside its own product": ("BESIDE", "BESIDE"),
    "products alone": ("PRODUCTS", "NOTHING"),
}
"""Contender -> what the first and the second group do."""
_ALONE = """\
#include "attention/attention.cuh"

// The softmax of kernel c for 64 queries and 128 keys, again and again, by one group or two; or
// what may stand beside it. Cycles are those between two readings of the clock around it.
enum Role { NOTHING, SOFTMAX, MAXIMA, BESIDE, PRODUCTS };
struct Tiles {
    alignas(1024) bf16 q[64 * 128];
    bf16 k[128 * 128], v[128 * 128];
};

template <int ROLE>
__device__ void work(const Tiles& s, int passes, float factor, float* sums, long long* cycles) {
    float o[64] = {}, scores[64], shrink[2];
    unsigned p[8][4] = {};
    Softmax softmax;
#pragma unroll
    for (int i = 0; i < 64; ++i) scores[i] = (threadIdx.x * 37 + i * 11) % 64 / 16.0f;
    long long spent = 0;
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass) {
        settle(scores);
        if (ROLE == BESIDE) {
            settle(o);
            settle(p);
            ptx::wgmma_fence();
            begin_output<128, 128>(o, p, s.v);
        }
        const long long begin = clock64();
        if (ROLE == PRODUCTS) {
            settle(o);
            settle(p);
            ptx::wgmma_fence();
            begin_scores<128, 64, 128>(scores, s.q, s.k);
            begin_output<128, 128>(o, p, s.v);
            ptx::wgmma_wait_group<0>();
            settle(o);
        } else if (ROLE == MAXIMA) {
            float high[2];
            softmax.highest(scores, high);
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                high[h] = fmaxf(high[h], __shfl_xor_sync(~0u, high[h], 1));
                softmax.top[h] = fmaxf(high[h], __shfl_xor_sync(~0u, high[h], 2));
            }
            settle(softmax.top);
        } else {
            softmax.step(scores, shrink, factor);
            settle(softmax.sum);
        }
        settle(scores);
        spent += clock64() - begin;
        if (ROLE == BESIDE) {
            ptx::wgmma_wait_group<0>();
            settle(o);
        }
    }
    sums[0] = softmax.sum[0], sums[1] = softmax.sum[1];
    sums[2] = o[0] + o[63], sums[3] = scores[0];
    if (threadIdx.x % 128 == 0) *cycles = spent;
}

template <int FIRST, int SECOND>
__global__ void __launch_bounds__(256, 1)
softmax_alone(int passes, float factor,
              float* sums,         // (blocks, 256, 4)
              long long* cycles)   // (blocks, 2)
{
    extern __shared__ __align__(1024) char memory[];
    Tiles& s = *reinterpret_cast<Tiles*>(memory);
    for (int i = threadIdx.x; i < int(sizeof(Tiles) / sizeof(int)); i += 256)
        reinterpret_cast<int*>(memory)[i] = 0;
    ptx::fence_proxy_async_shared();
    __syncthreads();
    const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);
    sums += 4 * (256 * blockIdx.x + threadIdx.x);
    cycles += 2 * blockIdx.x + group;
    // Products beside a softmax go on until it is done.
    const int first = FIRST == PRODUCTS ? 3 * passes : passes;
    const int second = SECOND == PRODUCTS ? 3 * passes : passes;
    if (group == 0 && FIRST != NOTHING) work<FIRST>(s, first, factor, sums, cycles);
    if (group == 1 && SECOND != NOTHING) work<SECOND>(s, second, factor, sums, cycles);
}
"""


def text() -> str:
    """The softmax alone, with a function for each contender of :data:`ALONE`."""
    cases = "\n".join(
        f"    if (which == {i}) kernel = softmax_alone<{first}, {second}>;"
        for i, (first, second) in enumerate(ALONE.values())
    )
    return f"""{_ALONE}
extern "C" void softmax_alone_of(int which, int blocks, int passes, float factor, float* sums,
                                 long long* cycles) {{
    void (*kernel)(int, float, float*, long long*) = nullptr;
{cases}
    const int bytes = sizeof(Tiles);
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    float* there;
    long long* spent;
    CHECK(cudaMalloc(&there, blocks * 256 * 4 * sizeof *there));
    CHECK(cudaMalloc(&spent, blocks * 2 * sizeof *spent));
    CHECK(cudaMemset(there, 0, blocks * 256 * 4 * sizeof *there));
    CHECK(cudaMemset(spent, 0, blocks * 2 * sizeof *spent));
    for (int i = 0; i < 2; ++i) kernel<<<blocks, 256, bytes>>>(passes, factor, there, spent);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(sums, there, blocks * 256 * 4 * sizeof *there, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(cycles, spent, blocks * 2 * sizeof *spent, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(there));
    CHECK(cudaFree(spent));
}}
"""


def first_sums(factor: float) -> Any:
    """The sums of each thread's two rows after one softmax of :data:`ALONE`: (256, 2)."""
    thread, i = np.arange(256)[:, None], np.arange(64)[None]
    scores = (thread * 37 + i * 11) % 64 / 16.0
    rows = np.stack([scores[:, i[0] // 2 % 2 == h] for h in (0, 1)], 1)  # (256, 2, 32)
    top = rows.max(2).reshape(64, 4, 2).max(1).repeat(4, 0)
    return np.exp2(factor * (rows - top[:, :, None])).sum(2)


def measured(library: ctypes.CDLL, blocks: int) -> dict[str, list[float]]:
    """Contender -> cycles of one pass, of each group that has something to do."""
    factor = 0.127
    sums, cycles = np.zeros((blocks, 256, 4), np.float32), np.zeros((blocks, 2), np.int64)

    def run(which: int, passes: int) -> None:
        library.softmax_alone_of(
            which, blocks, passes, ctypes.c_float(factor), sums.ctypes.data_as(ctypes.c_void_p),
            cycles.ctypes.data_as(ctypes.c_void_p),
        )  # fmt: skip

    found = {}
    for which, (name, roles) in enumerate(ALONE.items()):
        run(which, 1)
        for group, role in enumerate(roles):
            mine = sums[:, 128 * group : 128 * group + 128, :2]
            right = first_sums(factor)[128 * group : 128 * group + 128]
            if role in ("SOFTMAX", "BESIDE") and np.abs(mine / right - 1).max() > 1e-4:
                raise toolchain.CudaError(f"the softmax alone, {name}, is wrong")
        run(which, PASSES)
        each = cycles.mean(0) / PASSES / [3 if role == "PRODUCTS" else 1 for role in roles]
        found[name] = [
            round(float(x), 1) for x, role in zip(each, roles, strict=True) if role != "NOTHING"
        ]
    return found
