// The ring of *Barriers* on a GPU: its barriers and copies, one PTX instruction a function.
#pragma once
#include <cstdint>

using Barrier = uint64_t;  // an mbarrier, in shared memory (PTX ISA 9.7.13.15)

__device__ inline uint32_t shared(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }

// Phase 0 begins and waits for this many arrivals.
__device__ inline void init(Barrier& barrier, int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(shared(&barrier)), "r"(arrivals)
                 : "memory");
}

// One arrival in the current phase: what this thread did before is published.
__device__ inline void arrive(Barrier& barrier) {
    asm volatile("{ .reg .b64 token; mbarrier.arrive.shared.b64 token, [%0]; }"
                 :: "r"(shared(&barrier)) : "memory");
}

// Go on when the phase of this parity is complete; the one before phase 0 counts as complete.
__device__ inline void wait(Barrier& barrier, int parity) {
    int complete;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2;\n\t"
                     "selp.s32 %0, 1, 0, p; }"
                     : "=r"(complete) : "r"(shared(&barrier)), "r"(parity) : "memory");
    } while (!complete);
}

// Where a role stands in the ring, and one step further: the rule of *Barriers*.
struct Place {
    int slot = 0, phase = 0;
};

__device__ inline Place advance(Place at, int slots) {
    return at.slot + 1 < slots ? Place{at.slot + 1, at.phase} : Place{0, at.phase ^ 1};
}

// Barrier `number` of the block, 1 to 15, for `threads` threads; __syncthreads is number 0.
__device__ inline void sync(int number, int threads) {
    asm volatile("bar.sync %0, %1;" :: "r"(number), "r"(threads) : "memory");
}

// Start to copy 16 bytes from global to shared memory, close a group of such copies, and wait
// until at most `Pending` groups of this thread are under way (PTX ISA 9.7.9.25.3).
__device__ inline void copy16(void* to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(shared(to)), "l"(from)
                 : "memory");
}

__device__ inline void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int Pending> __device__ void wait_copies() {
    asm volatile("cp.async.wait_group %0;" :: "n"(Pending) : "memory");
}
