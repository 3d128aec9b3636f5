// A wait that gives up: it prints who waits for what, and stops the kernel.
#pragma once
#include <cstdio>
#include "warp_specialisation/ring.cuh"

constexpr int MOST_POLLS = 1 << 20;  // far more than any tile of these kernels takes

// As `wait`, but it asks without being suspended (PTX ISA 9.7.13.15.16, test_wait), so that it can
// count. `what` and `slot` name the barrier in the message; lane 0 prints for its warp.
__device__ inline void wait_or_stop(Barrier& barrier, int parity, const char* what, int slot) {
    for (int polls = 0; polls < MOST_POLLS; ++polls) {
        int complete;
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2;\n\t"
                     "selp.s32 %0, 1, 0, p; }"
                     : "=r"(complete) : "r"(shared(&barrier)), "r"(parity) : "memory");
        if (complete) return;
    }
    if (threadIdx.x % 32 == 0)
        printf("warp %d waits for parity %d of %s[%d]\n", int(threadIdx.x / 32), parity, what, slot);
    __trap();
}
