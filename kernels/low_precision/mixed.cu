// Elements of two formats in one product: kind::mxf8f6f4 takes any of its five types for A, and any
// for B. A number has a byte in shared memory, whether of four, six or eight bits; the copy engine
// unpacks. One slot, and one thread that asks for everything: nothing overlaps here.
#include "ptx_block_scales.cuh"
#include "tensor_map.cuh"

constexpr int TILE = 128;                        // rows of A and of B
constexpr int TILE_K = 128;                      // a slice: rows of 128 bytes
constexpr int STEP = 32, STEPS = TILE_K / STEP;  // what one instruction takes of it: one scale
constexpr int ATOM = 512;                        // bytes: four scales, 128 along k, for 128 rows
constexpr int THREADS = 128;                     // 4 warps, one for each quarter
constexpr int COLUMNS = 256;                     // 128 of the sum, 4 for A's scales, 4 for B's

// The types, as the instruction descriptor numbers them: 0 e4m3, 1 e5m2, 3 e2m3, 4 e3m2, 5 e2m1.
__device__ int bits(int type) { return type == 5 ? 4 : type > 1 ? 6 : 8; }

// Of a slice, at its barrier: a copy that unpacks counts the bits that it reads, not the room.
__device__ int slice_bytes(int type_a, int type_b) {
    return TILE * TILE_K * (bits(type_a) + bits(type_b)) / 8 + 2 * ATOM;
}

struct Shared {
    alignas(1024) unsigned char a[TILE * TILE_K], b[TILE * TILE_K];
    unsigned char a_scales[ATOM], b_scales[ATOM];
    unsigned long long full, empty, done;
    unsigned tensor_memory;  // its address
};

// The instruction descriptor for the step of a slice: its scale is the step's byte of each word, by
// the scale factor ids, bits 29-30 for A and 4-5 for B; bit 23: scales of ue8m0.
__device__ unsigned instruction(int step, int type_a, int type_b) {
    return step << 4 | type_a << 7 | type_b << 10 | TILE / 8 << 17 | 1 << 23 | TILE / 128 << 27 |
           step << 29;
}

// tcgen05.mma.kind::mxf8f6f4.block_scale, 9.7.16.10.9.1: d += a · b over 32 of k, each element
// times its block's scale; with `accumulate` false d = a · b. sm_100a.
__device__ void multiply(unsigned d, unsigned long long a, unsigned long long b,
                         unsigned instruction, unsigned a_scales, unsigned b_scales,
                         bool accumulate) {
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %6, 0;\n"
                 "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X "
                 "[%0], %1, %2, %3, [%4], [%5], p; }"
                 :: "r"(d), "l"(a), "l"(b), "r"(instruction), "r"(a_scales), "r"(b_scales),
                    "r"(int(accumulate)) : "memory");
#endif
}

__global__ void __launch_bounds__(THREADS)
matmul(const __grid_constant__ CUtensorMap A,  // (m, k); boxes of 128 × 128
       const __grid_constant__ CUtensorMap B,  // (n, k)
       const unsigned char* a_scales,          // atoms: (rows / 128, slices, ATOM), rounded up
       const unsigned char* b_scales,
       float* C,  // (m, n)
       int m, int n, int slices,
       int type_a, int type_b) {
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    __shared__ Shared s;
    const int t = threadIdx.x, warp = t / 32;
    if (t == 0) {
        ptx::mbarrier_init(&s.full, 1);
        ptx::mbarrier_init(&s.empty, 1);
        ptx::mbarrier_init(&s.done, 1);
        ptx::fence_mbarrier_init();
    }
    __syncwarp();  // a warp allocates together
    if (warp == 0) ptx::tcgen05_alloc<COLUMNS>(&s.tensor_memory);
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // the others see the address and the barriers
    ptx::tcgen05_fence_after_thread_sync();
    const unsigned sum = s.tensor_memory, for_a = sum + TILE, for_b = for_a + 4;
    if (t == 0) {
        for (int slice = 0; slice < slices; ++slice) {
            ptx::mbarrier_wait(&s.empty, slice % 2 ^ 1);
            ptx::mbarrier_arrive_expect_tx(&s.full, slice_bytes(type_a, type_b));
            ptx::cp_async_bulk_tensor_load(s.a, A, slice * TILE_K, blockIdx.y * TILE, &s.full);
            ptx::cp_async_bulk_tensor_load(s.b, B, slice * TILE_K, blockIdx.x * TILE, &s.full);
            ptx::cp_async_bulk_load(s.a_scales,
                                    a_scales + (size_t(blockIdx.y) * slices + slice) * ATOM, ATOM,
                                    &s.full);
            ptx::cp_async_bulk_load(s.b_scales,
                                    b_scales + (size_t(blockIdx.x) * slices + slice) * ATOM, ATOM,
                                    &s.full);
            ptx::mbarrier_wait(&s.full, slice % 2);
            ptx::tcgen05_cp_scales(for_a, s.a_scales);  // in order before the products
            ptx::tcgen05_cp_scales(for_b, s.b_scales);
            for (int step = 0; step < STEPS; ++step)  // 32 along k are 32 bytes
                multiply(sum, ptx::tcgen05_descriptor_128B(s.a) + 2 * step,
                         ptx::tcgen05_descriptor_128B(s.b) + 2 * step,
                         instruction(step, type_a, type_b), for_a, for_b, slice + step > 0);
            ptx::tcgen05_commit(&s.empty);
        }
        ptx::tcgen05_commit(&s.done);
    }
    __syncwarp();
    ptx::mbarrier_wait(&s.done, 0);
    ptx::tcgen05_fence_after_thread_sync();
    const int row = blockIdx.y * TILE + t;
    for (int first = 0; first < TILE; first += 32) {
        unsigned r[32];
        ptx::tcgen05_ld_32x32b_x32(r, sum + (warp * 32 << 16) + first);
        ptx::tcgen05_wait_ld();
        const int col = blockIdx.x * TILE + first;
        for (int j = 0; j < 32; ++j)
            if (row < m && col + j < n) C[size_t(row) * n + col + j] = __uint_as_float(r[j]);
    }
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // everybody has read
    ptx::tcgen05_fence_after_thread_sync();
    if (warp == 0) {
        ptx::tcgen05_relinquish_alloc_permit();
        ptx::tcgen05_dealloc<COLUMNS>(sum);
    }
#endif
}
