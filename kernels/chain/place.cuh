// Where a role is in a ring: Part I's rule for going on, and the wait with which a producer ends.
#pragma once
#include "ptx_sm100.cuh"

template <int SLOTS> struct Place {
    int slot = 0, phase = 0;
    __device__ void advance() {
        if (++slot == SLOTS) slot = 0, phase ^= 1;
    }
};

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM100_ALL)

// A producer's tail: every slot is empty, so no arrival is on its way to this block any more.
template <int SLOTS> __device__ void tail(unsigned long long (&empty)[SLOTS], Place<SLOTS> at) {
    for (int slot = 0; slot < SLOTS; ++slot, at.advance())
        ptx::mbarrier_wait(&empty[at.slot], at.phase ^ 1);
}

#endif
