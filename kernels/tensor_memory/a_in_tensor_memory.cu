// The second product of attention, O = P · V, with P in tensor memory: each thread has a row of
// scores in registers, makes weights of it, and puts them where the tensor core reads A.
#include "ptx_tensor_memory.cuh"
#include <cuda_bf16.h>

constexpr int ROWS = 128, KEYS = 64, DEPTH = 64;  // P (ROWS, KEYS), V (KEYS, DEPTH)
constexpr int STEP = 16;                          // keys that one product takes
constexpr int THREADS = ROWS;                     // a thread for each row, 4 warps
constexpr int O = 0, P = DEPTH;                   // columns: O has 64, P 32, two weights each

// V, turned: row d of the tile holds 64 keys, 128 bytes, swizzled.
__device__ void turn(__nv_bfloat16* tile, const __nv_bfloat16* V) {
    for (int i = threadIdx.x; i < DEPTH * KEYS; i += THREADS) {
        const int d = i / KEYS, key = i % KEYS;
        tile[d * KEYS + ((key / 8 ^ d % 8) * 8 + key % 8)] = V[key * DEPTH + d];
    }
}

__global__ void __launch_bounds__(THREADS)
weigh(const float* S,          // (ROWS, KEYS): scores, as powers of two
      const __nv_bfloat16* V,  // (KEYS, DEPTH)
      float* out)              // (ROWS, DEPTH): Σ 2^S[i][k] · V[k][d], the weights as bf16
{
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    __shared__ alignas(1024) __nv_bfloat16 v[DEPTH * KEYS];
    __shared__ unsigned long long done;
    __shared__ unsigned address;
    const int t = threadIdx.x, warp = t / 32;
    if (warp == 0) ptx::tcgen05_alloc<128>(&address);
    if (t == 0) {
        ptx::mbarrier_init(&done, 1);
        ptx::fence_mbarrier_init();
    }
    turn(v, V);
    ptx::fence_proxy_async_shared();  // the tensor core sees V
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();
    ptx::tcgen05_fence_after_thread_sync();
    const unsigned base = address, mine = base + (warp * 32 << 16);
    unsigned weights[KEYS / 2];
    for (int j = 0; j < KEYS / 2; ++j) {
        const __nv_bfloat162 two = __floats2bfloat162_rn(exp2f(S[t * KEYS + 2 * j]),
                                                         exp2f(S[t * KEYS + 2 * j + 1]));
        weights[j] = reinterpret_cast<const unsigned&>(two);
    }
    ptx::tcgen05_st_32x32b_x32(mine + P, weights);
    ptx::tcgen05_wait_st();
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // all of P is there
    ptx::tcgen05_fence_after_thread_sync();
    if (t == 0) {
        for (int step = 0; step < KEYS / STEP; ++step)  // 16 weights are 8 columns
            ptx::tcgen05_mma_f16_from_tensor_memory(
                base + O, base + P + STEP / 2 * step, ptx::tcgen05_descriptor_128B(v) + 2 * step,
                ptx::tcgen05_bf16_f32(ROWS, DEPTH), step > 0);
        ptx::tcgen05_commit(&done);
    }
    ptx::mbarrier_wait(&done, 0);
    ptx::tcgen05_fence_after_thread_sync();
    for (int first = 0; first < DEPTH; first += 32) {
        unsigned r[32];
        ptx::tcgen05_ld_32x32b_x32(r, mine + O + first);
        ptx::tcgen05_wait_ld();
        for (int j = 0; j < 32; ++j) out[t * DEPTH + first + j] = __uint_as_float(r[j]);
    }
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // all have fetched
    ptx::tcgen05_fence_after_thread_sync();
    if (warp == 0) {
        ptx::tcgen05_relinquish_alloc_permit();
        ptx::tcgen05_dealloc<128>(base);
    }
#endif
}
