// PTX instructions of cluster launch control: a running block takes over the tile of one that has
// not started.
#pragma once
#include "ptx_sm90.cuh"

namespace ptx {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 1000

// clusterlaunchcontrol.try_cancel, 9.7.13.17: asks that a block which has not started be cancelled.
// The answer, 16 bytes, comes to shared memory; the barrier counts them. sm_100.
__device__ inline void try_cancel(uint4* answer, unsigned long long* barrier) {
    asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta"
                 ".mbarrier::complete_tx::bytes.b128 [%0], [%1];"
                 :: "r"(shared_address(answer)), "r"(shared_address(barrier)) : "memory");
}

// The same for a cluster, which is cancelled whole: the answer comes to that place in all blocks of
// the asker's cluster, and is counted at the barrier of each. sm_100.
__device__ inline void try_cancel_for_cluster(uint4* answer, unsigned long long* barrier) {
    asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta"
                 ".mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [%0], [%1];"
                 :: "r"(shared_address(answer)), "r"(shared_address(barrier)) : "memory");
}

// clusterlaunchcontrol.query_cancel, 9.7.13.18: blockIdx.x of the block that was cancelled, -1 if
// none was. After a -1 a block asks no more. sm_100.
__device__ inline int cancelled(const uint4* answer) {
    int x;
    asm volatile("{ .reg .b128 answer; .reg .pred yes;\n"
                 "ld.shared.b128 answer, [%1];\n"
                 "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 yes, answer;\n"
                 "mov.b32 %0, -1;\n"
                 "@yes clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %0, answer; }"
                 : "=r"(x) : "r"(shared_address(answer)) : "memory");
    return x;
}

#endif

}  // namespace ptx
