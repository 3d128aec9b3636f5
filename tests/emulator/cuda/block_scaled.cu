// C = A · Bᵀ of NVFP4: numbers of 4 bits (e2m1), 16 neighbours along k share a scale (ue4m3).
// A thread loads slices of A, B and their scales into a ring of slots; another copies the scales to
// tensor memory and multiplies; all fetch the sum.  One block for each 128 × 128 tile of C.
#include "ptx_sm100.cuh"

constexpr int M = 128, N = 128, K = 256;  // a slice: 256 numbers, rows of 128 bytes
constexpr int STEP = 64, STEPS = K / STEP;  // what one instruction takes
constexpr int SLOTS = 2, THREADS = 128;
constexpr int ATOM = 512;                   // bytes: four scales of each of 128 rows
constexpr unsigned COLUMNS = 256;           // 128 of D, then for each slot 16 + 16 of scales
constexpr unsigned BYTES = (M + N) * K / 2 + 2 * STEPS * ATOM;

struct Slot {
    alignas(1024) unsigned char a[M * K / 2], b[N * K / 2];
    unsigned char a_scales[STEPS][ATOM], b_scales[STEPS][ATOM];
};

// Instruction descriptor, 9.7.16.4.2: e2m1 · e2m1, K-major, scales ue4m3 with id 0.
constexpr unsigned INSTRUCTION = 1 << 7 | 1 << 10 | N / 8 << 17 | M / 128 << 27;

// 32 rows of 16 bytes without swizzle, the next eight rows 128 bytes further, version 1.
__device__ inline unsigned long long describe_scales(const void* atom) {
    return (ptx::shared_address(atom) & 0x3FFFF) >> 4 | 1ull << 16 | 128ull / 16 << 32 | 1ull << 46;
}

__device__ inline void copy_scales(unsigned column, const void* atom) {
    asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;"
                 :: "r"(column), "l"(describe_scales(atom)) : "memory");
}

__device__ inline void multiply(unsigned d, const void* a, const void* b, unsigned a_scales,
                                unsigned b_scales, bool accumulate) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %6, 0;\n"
                 "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X "
                 "[%0], %1, %2, %3, [%4], [%5], p; }"
                 :: "r"(d), "l"(ptx::tcgen05_descriptor_128B(a)),
                    "l"(ptx::tcgen05_descriptor_128B(b)), "r"(INSTRUCTION), "r"(a_scales),
                    "r"(b_scales), "r"(int(accumulate)) : "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS)
block_scaled(const __grid_constant__ CUtensorMap A,  // (m, k), packed; boxes of 128 × 256
             const __grid_constant__ CUtensorMap B,  // (n, k), packed
             const unsigned char* a_scales,  // (m / 128, k / 64) atoms of 512 bytes
             const unsigned char* b_scales,  // (n / 128, k / 64)
             float* C,                       // (m, n)
             int n, int slices)              // slices: k / 256
{
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    extern __shared__ __align__(1024) unsigned char room[];
    Slot* slots = reinterpret_cast<Slot*>(room);
    __shared__ unsigned long long full[SLOTS], empty[SLOTS], done;
    __shared__ unsigned address;
    const int warp = threadIdx.x / 32;
    if (warp == 2) ptx::tcgen05_alloc<COLUMNS>(&address);
    if (threadIdx.x == 0) {
        for (int i = 0; i < SLOTS; ++i) {
            ptx::mbarrier_init(&full[i], 1);
            ptx::mbarrier_init(&empty[i], 1);
        }
        ptx::mbarrier_init(&done, 1);
        ptx::fence_mbarrier_init();
    }
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();
    ptx::tcgen05_fence_after_thread_sync();
    const unsigned sum = address;
    if (threadIdx.x == 0) {  // the loader
        for (int i = 0; i < slices; ++i) {
            Slot& slot = slots[i % SLOTS];
            unsigned long long* barrier = &full[i % SLOTS];
            ptx::mbarrier_wait(&empty[i % SLOTS], i / SLOTS % 2 ^ 1);
            ptx::mbarrier_arrive_expect_tx(barrier, BYTES);
            ptx::cp_async_bulk_tensor_load(slot.a, A, i * K, blockIdx.y * M, barrier);
            ptx::cp_async_bulk_tensor_load(slot.b, B, i * K, blockIdx.x * N, barrier);
            const size_t first = size_t(STEPS) * ATOM;
            ptx::cp_async_bulk_load(slot.a_scales, a_scales + (blockIdx.y * slices + i) * first,
                                    first, barrier);
            ptx::cp_async_bulk_load(slot.b_scales, b_scales + (blockIdx.x * slices + i) * first,
                                    first, barrier);
        }
    } else if (threadIdx.x == 32) {  // the one that multiplies
        for (int i = 0; i < slices; ++i) {
            const Slot& slot = slots[i % SLOTS];
            const unsigned scales = sum + N + i % SLOTS * 32;
            ptx::mbarrier_wait(&full[i % SLOTS], i / SLOTS % 2);
            ptx::tcgen05_fence_after_thread_sync();
            for (int s = 0; s < STEPS; ++s) {
                copy_scales(scales + 4 * s, slot.a_scales[s]);
                copy_scales(scales + 16 + 4 * s, slot.b_scales[s]);
            }
            for (int s = 0; s < STEPS; ++s)
                multiply(sum, slot.a + s * STEP / 2, slot.b + s * STEP / 2, scales + 4 * s,
                         scales + 16 + 4 * s, i + s > 0);
            ptx::tcgen05_commit(&empty[i % SLOTS]);
        }
        ptx::tcgen05_commit(&done);
    }
    __syncwarp();
    ptx::mbarrier_wait(&done, 0);
    ptx::tcgen05_fence_after_thread_sync();
    float* row = C + size_t(blockIdx.y * M + threadIdx.x) * n + blockIdx.x * N;
    for (int first = 0; first < N; first += 32) {
        unsigned r[32];
        ptx::tcgen05_ld_32x32b_x32(r, sum + (warp * 32 << 16) + first);
        ptx::tcgen05_wait_ld();
        for (int j = 0; j < 32; ++j) row[first + j] = __uint_as_float(r[j]);
    }
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();
    if (warp == 2) {
        ptx::tcgen05_relinquish_alloc_permit();
        ptx::tcgen05_dealloc<COLUMNS>(sum);
    }
#endif
}
