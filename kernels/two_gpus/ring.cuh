// What the two products share: the ring of *The ring at full width*, boxes of C and all, and what
// its roles need in order to hear from another GPU, and to tell it.
#pragma once
#include "hopper_ring/product.cuh"

// One GPU's part of a product that two compute together, and its ends of the ring between them. M is
// that of both GPUs' rows: even, and each has half of them.
struct Share {
    const bf16* A;
    const bf16* B;           // (N, K)
    bf16* C;
    int M, N, K;
    int device;              // 0: the upper half of the rows is this GPU's; 1: the lower
    unsigned turn;           // from 1, the same on both GPUs; each launch has the next one
    int multiprocessors;
    bf16* there;             // a slot in the peer's memory, of this turn: this GPU writes it
    unsigned* there_full;    // its flags, with the peer
    const bf16* here;        // a slot here: the peer writes it
    const unsigned* full;    // its flags, here
    const unsigned* counts;  // what the peer's flags come to in this turn, where copies raise them
    bf16* leaving;           // a slot here, of this turn, from which copies take what they send
    unsigned* made;          // counts of what lies there, over all turns
    cudaStream_t stream;

    int rows() const { return M / 2; }
};

constexpr int CONSUMERS = GROUPS * 128, THREADS = CONSUMERS + 128;
constexpr int BOX_ROWS = 16, BOX_COLS = 64;  // of C

template <int SLOTS, int BOXES> struct Ring {
    Stage stage[SLOTS];
    struct alignas(1024) {
        bf16 box[BOXES][BOX_ROWS * BOX_COLS];  // of a warp: some are stored while one is filled
    } boxes[CONSUMERS / 32];
    unsigned long long full[SLOTS], empty[SLOTS];
};

inline CUtensorMap boxes_of(const bf16* C, int rows, int N) {
    return tensor_map_2d(C, rows, N, BOX_ROWS, BOX_COLS, CU_TENSOR_MAP_SWIZZLE_128B);
}

namespace ptx {

// st.release, ld.acquire and red.release, 9.7.9.12, 9.7.9.8 and 9.7.13.8, with .sys scope: who sees
// the flag, on whichever GPU, sees what was written before it. sm_70.
__device__ inline void store_release_sys(unsigned* flag, unsigned value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" :: "l"(flag), "r"(value) : "memory");
}
__device__ inline unsigned load_acquire_sys(const unsigned* flag) {
    unsigned value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
}
__device__ inline void add_release_sys(unsigned* flag, unsigned value) {
    asm volatile("red.release.sys.global.add.u32 [%0], %1;" :: "l"(flag), "r"(value) : "memory");
}

// fence.proxy.async, 9.7.13.4: what this thread sees in global memory, the copies that it asks for
// from now on see too. sm_90.
__device__ inline void fence_proxy_async_global() {
    asm volatile("fence.proxy.async.global;" ::: "memory");
}

}  // namespace ptx

template <int SLOTS, int BOXES> __device__ void begin_ring(Ring<SLOTS, BOXES>& ring) {
    for (int s = 0; s < SLOTS; ++s) {
        ptx::mbarrier_init(&ring.full[s], 1);
        ptx::mbarrier_init(&ring.empty[s], CONSUMERS / 32);
    }
    ptx::fence_mbarrier_init();
}

// The producer, one thread: the tiles along K of one tile of C, from these rows of A and of B.
template <int SLOTS, int BOXES>
__device__ void produce(Ring<SLOTS, BOXES>& ring, const CUtensorMap& A, const CUtensorMap& B,
                        int row, int col, int K, int& s, bool& phase) {
    for (int k = 0; k < K; k += BK, advance<SLOTS>(s, phase)) {
        ptx::mbarrier_wait(&ring.empty[s], !phase);
        ptx::mbarrier_arrive_expect_tx(&ring.full[s], sizeof(Stage));
        ptx::cp_async_bulk_tensor_load(ring.stage[s].a, A, k, row, &ring.full[s]);
        ptx::cp_async_bulk_tensor_load(ring.stage[s].b, B, k, col, &ring.full[s]);
    }
}

// A consumer, one warp group: 64 rows of one tile of C.
template <int SLOTS, int BOXES>
__device__ void multiply(Ring<SLOTS, BOXES>& ring, Sums& sums, int K, int& s, bool& phase) {
    for (int k = 0; k < K; k += BK, advance<SLOTS>(s, phase)) {
        ptx::mbarrier_wait(&ring.full[s], phase);
        ptx::wgmma_fence();
        begin_multiply(sums, ring.stage[s], threadIdx.x / 128, k > 0);
        ptx::wgmma_wait_group<0>();
        if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&ring.empty[s]);
    }
}

__device__ inline unsigned pack(float low, float high) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const unsigned&>(both);
}

// A warp stores its 16 rows of a tile of C, from row `row` and column `col` on.
template <int SLOTS, int BOXES>
__device__ void store(Ring<SLOTS, BOXES>& ring, const Sums& sums, const CUtensorMap& C, int row,
                      int col) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int part = 0; part < BN / BOX_COLS; ++part) {
        bf16* box = ring.boxes[threadIdx.x / 32].box[part % BOXES];
        if (lane == 0) ptx::cp_async_bulk_wait_group_read<BOXES - 1>();  // this box has been read
        __syncwarp();
#pragma unroll
        for (int j = 0; j < BOX_COLS / 16; ++j) {  // the lane's row, 16 bytes of it
            const float* d = sums + part * 32 + j * 8;
            ptx::stmatrix_x4(box + lane % 16 * BOX_COLS + ((2 * j + lane / 16) ^ lane % 8) * 8,
                             pack(d[0], d[1]), pack(d[2], d[3]), pack(d[4], d[5]),
                             pack(d[6], d[7]));
        }
        ptx::fence_proxy_async_shared();  // the engine sees what this lane has stored,
        __syncwarp();                     // and the others
        if (lane == 0) {
            ptx::cp_async_bulk_tensor_store(C, col + part * BOX_COLS, row, box);
            ptx::cp_async_bulk_commit_group();
        }
    }
}
