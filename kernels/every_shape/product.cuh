// What the products of *Past the vendor* share: what they are asked for, loads that say how long
// their bytes are wanted, launches that begin before the one before them has ended.
#pragma once
#include "every_shape/wgmma.cuh"
#include "tensor_map.cuh"
#include <algorithm>

using bf16 = __nv_bfloat16;
#ifndef OUT  // the type of C
#define OUT bf16
#endif
using Out = OUT;
#ifndef ACROSS_A  // 1: what is given of A, or B, is its transpose: M, or N, runs along the rows
#define ACROSS_A 0
#endif
#ifndef ACROSS_B
#define ACROSS_B 0
#endif

// C (M, N) = A (M, K) · B (N, K)ᵀ, all row-major without gaps; N and K are multiples of 8, so that
// every row begins at a multiple of 16 bytes, as the copy engine demands. The last three are for
// g_any alone, which wants no such multiples and computes alpha · A · Bᵀ + beta · C.
struct Product {
    const bf16* A;
    const bf16* B;
    Out* C;
    int M, N, K;
    int multiprocessors;
    float* partial;   // PARTIAL floats for sums of a part of K; what they are does not matter
    unsigned* ready;  // READY flags, all 0 before and after
    cudaStream_t stream;
    bf16* padded = nullptr;  // room for A and B with rows of K rounded up to 8
    float alpha = 1, beta = 0;
};
constexpr size_t PARTIAL = 132 * 128 * 256, READY = 132 * 2;

constexpr int BK = 64;  // the depth of a slot: 128 bytes, a row of the swizzle

// The tiles of A and B that are multiplied together, as the copy engine leaves them.
template <int BM, int BN> struct Stage {
    alignas(1024) bf16 a[BM * BK];  // the swizzle looks at the address: its pattern has 1024 bytes
    alignas(1024) bf16 b[BN * BK];
};

template <bool ACROSS = false>
CUtensorMap operand(const bf16* matrix, int rows, int K, int box_rows) {
    return ACROSS ? tensor_map_2d(matrix, K, rows, BK, 64, CU_TENSOR_MAP_SWIZZLE_128B)
                  : tensor_map_2d(matrix, rows, K, box_rows, BK, CU_TENSOR_MAP_SWIZZLE_128B);
}

// Begin sums = (without `add`) or += 64 rows of a, times all BN rows of b; one group.
template <int BN>
__device__ inline void begin_multiply(float (&sums)[BN / 2], const bf16* a, const bf16* b,
                                      bool add) {
    constexpr int A = ACROSS_A, B = ACROSS_B;
    const auto x = A ? ptx::descriptor_across(a) : ptx::descriptor_128B(a);
    const auto y = B ? ptx::descriptor_across(b) : ptx::descriptor_128B(b);
    for (int k = 0; k < BK / 16; ++k)  // 16 along K are 32 bytes of a row, or 16 lines
        ptx::wgmma<BN, A, B>(sums, x + (A ? 128 : 2) * k, y + (B ? 128 : 2) * k, add || k > 0);
    ptx::wgmma_commit_group();
}

// All products are done: what comes after this line, and reads the sums, stays after it. (The
// compiler does not know that the multiplications still write these registers.)
template <int COUNT> __device__ inline void finish_multiply(float (&sums)[COUNT]) {
    ptx::wgmma_wait_group<0>();
    for (float& sum : sums) asm volatile("" : "+f"(sum) :: "memory");
}

__host__ __device__ constexpr int over(int a, int b) { return (a + b - 1) / b; }

// The next slot of a ring; each time around, the phases' parity flips.
template <int SLOTS> __device__ inline void advance(int& slot, bool& phase) {
    if (++slot == SLOTS) slot = 0, phase = !phase;
}

namespace ptx {

// bar.sync, 9.7.13.1: a barrier of `threads` threads of the block, by number; 0 is __syncthreads.
__device__ inline void bar_sync(int number, int threads) {
    asm volatile("bar.sync %0, %1;" :: "r"(number), "r"(threads) : "memory");
}

// createpolicy.fractional, 9.7.9.18: a policy for the L2 cache. evict_first: gone before others,
// for bytes that are read once; evict_last: after others. sm_80.
__device__ inline unsigned long long evict_first() {
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
__device__ inline unsigned long long evict_last() {
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// cp.async.bulk.tensor.2d with .L2::cache_hint, 9.7.9.27.1.2. sm_90.
__device__ inline void load_box(void* shared, const CUtensorMap& map, int x, int y,
                                unsigned long long* barrier, unsigned long long policy) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;"
                 :: "r"(shared_address(shared)), "l"(&map), "r"(x), "r"(y),
                    "r"(shared_address(barrier)), "l"(policy) : "memory");
}

// st.release and ld.acquire, 9.7.9.12 and 9.7.9.8, for all of the GPU: who sees the flag sees what
// was written before it. sm_70.
__device__ inline void store_release(unsigned* flag, unsigned value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(flag), "r"(value) : "memory");
}
__device__ inline unsigned load_acquire(const unsigned* flag) {
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
}

// griddepcontrol.wait, 9.7.13.13: the launch before this one has ended, and what it wrote is seen.
// Where the launch did not ask to begin early, that is so already. sm_90.
__device__ inline void griddepcontrol_wait() {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

// griddepcontrol.launch_dependents, 9.7.13.13: as far as this block cares, the next launch may
// put its blocks where there is room. sm_90.
__device__ inline void griddepcontrol_launch_dependents() {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace ptx

// Launch a kernel with `shared` bytes of dynamic shared memory; with `early` its blocks may come
// before the launch before it has ended, with `cluster` > 1 in clusters.
template <class... Parameters, class... Arguments>
void start(void (*kernel)(Parameters...), int blocks, int threads, int shared, cudaStream_t stream,
           bool early, int cluster, const Arguments&... arguments) {
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    cudaLaunchAttribute asked[2];
    asked[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    asked[0].val.programmaticStreamSerializationAllowed = early;
    asked[1].id = cudaLaunchAttributeClusterDimension;
    asked[1].val.clusterDim = {unsigned(cluster), 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = blocks, config.blockDim = threads;
    config.dynamicSmemBytes = shared, config.stream = stream;
    config.attrs = asked, config.numAttrs = cluster > 1 ? 2 : 1;
    CHECK(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...));
}
