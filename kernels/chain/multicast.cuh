// A commit that tells several blocks of a cluster, for products of one block.
#pragma once
#include "ptx_sm100.cuh"

namespace ptx {

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM100_ALL)

// tcgen05.commit with .multicast::cluster, 9.7.16.12.1: the barrier at this address gets an arrival
// in each block of the cluster whose bit is set in the mask. sm_100a.
__device__ inline void tcgen05_commit_to(unsigned long long* barrier, unsigned short mask) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster"
                 ".multicast::cluster.b64 [%0], %1;"
                 :: "r"(shared_address(barrier)), "h"(mask) : "memory");
}

#endif

}  // namespace ptx
