// What cuda::barrier does not offer, for a barrier in shared memory: a wait that reads no clock,
// and an arrival of copies. GPUs before sm_80 have no such barriers; there cuda::barrier is made
// of ordinary instructions, and so is this.
#pragma once
#include <cuda/barrier>

using barrier = cuda::barrier<cuda::thread_scope_block>;

// Wait until the phase of this parity is complete; "the phase before the first" is one of parity
// 1 that is. (cuda::barrier's own wait_parity also reads the clock each time it is called.)
__device__ inline void wait(barrier& b, int parity) {
#if __CUDA_ARCH__ >= 800
    const unsigned address = __cvta_generic_to_shared(cuda::device::barrier_native_handle(b));
    unsigned complete = 0;
    while (!complete)
        asm volatile(  // PTX ISA 9.7.13.15.16
            "{ .reg .pred p;\n\t"
#if __CUDA_ARCH__ >= 900
            "mbarrier.try_wait.parity.shared.b64 p, [%1], %2;\n\t"  // may suspend the thread
#else
            "mbarrier.test_wait.parity.shared.b64 p, [%1], %2;\n\t"
#endif
            "selp.u32 %0, 1, 0, p; }"
            : "=r"(complete) : "r"(address), "r"(parity) : "memory");
#else
    b.wait_parity(parity);
#endif
}

// One arrival for this thread, when the copies that it has started so far have landed.
__device__ inline void arrive_when_copied(barrier& b) {
#if __CUDA_ARCH__ >= 800
    const unsigned address = __cvta_generic_to_shared(cuda::device::barrier_native_handle(b));
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];"  // PTX ISA 9.7.13.15.15
                 :: "r"(address) : "memory");
#else
    (void)b.arrive();  // its copies were ordinary loads and stores: they have landed
#endif
}
