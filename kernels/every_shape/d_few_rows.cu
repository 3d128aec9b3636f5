// The same with operands exchanged, for fewer rows than a warp group multiplies: Cᵀ = B · Aᵀ.
// Weights give the 64 rows of the instruction, the few rows of A its N, which may be 16.
#include "every_shape/product.cuh"

constexpr int GROUPS = 2, BN = 16, SLOTS = 10;  // GROUPS warp groups multiply 64 rows each
constexpr bool EARLY = true;  // a launch may begin before the one before it has ended
constexpr int BM = 64 * GROUPS;
constexpr int CONSUMERS = 128 * GROUPS, THREADS = CONSUMERS + 32;
constexpr int PITCH = BM + 8;  // of the tile of C in shared memory: no bank is asked twice

struct Ring {
    union {
        Stage<BM, BN> stage[SLOTS];
        bf16 c[BN * PITCH];  // when all has been multiplied
    };
    unsigned long long full[SLOTS], empty[SLOTS];
};
static_assert(sizeof(Ring) <= 227 * 1024, "more than a block can have");

// The producer, one thread: steps `from` to `to` - 1.
__device__ void produce(Ring& ring, const CUtensorMap& A, const CUtensorMap& B, int row, int col,
                        int from, int to) {
    int s = from % SLOTS;
    bool phase = from / SLOTS % 2;
    const auto first = ptx::evict_first(), last = ptx::evict_last();
    for (int step = from; step < to; ++step, advance<SLOTS>(s, phase)) {
        ptx::mbarrier_wait(&ring.empty[s], !phase);
        ptx::mbarrier_arrive_expect_tx(&ring.full[s], (BM + BN) * BK * sizeof(bf16));
        ptx::load_box(ring.stage[s].a, A, step * BK, row, &ring.full[s], first);
        ptx::load_box(ring.stage[s].b, B, step * BK, col, &ring.full[s], last);
    }
}

// A consumer, one warp group. A slot is given back when the multiplication after it has begun.
__device__ void multiply(Ring& ring, float (&sums)[BN / 2], int group, int steps) {
    int s = 0, before = 0;
    bool phase = false;
#pragma unroll 1  // or ptxas lets no product overlap another
    for (int step = 0; step < steps; ++step, advance<SLOTS>(s, phase)) {
        ptx::mbarrier_wait(&ring.full[s], phase);
        ptx::wgmma_fence();
        begin_multiply<BN>(sums, ring.stage[s].a + group * 64 * BK, ring.stage[s].b, step > 0);
        ptx::wgmma_wait_group<1>();
        if (step > 0 && threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&ring.empty[before]);
        before = s;
    }
    finish_multiply(sums);  // the last slot is wanted by nobody
}

// The tile of Cᵀ (M, N) through shared memory, where it becomes one of C (N, M).
__device__ void store(Ring& ring, const float (&sums)[BN / 2], bf16* C, int M, int N, int row,
                      int col) {
    const int t = threadIdx.x;
    ptx::bar_sync(1, CONSUMERS);  // nobody multiplies from the slots any more
    for (int i = 0; i < BN / 2; ++i)
        ring.c[(i / 4 * 8 + t % 4 * 2 + i % 2) * PITCH + t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8] =
            __float2bfloat16(sums[i]);
    ptx::bar_sync(1, CONSUMERS);
    for (int i = t; i < BM * BN / 8; i += CONSUMERS) {  // 16 bytes each
        const int c = i / (BM / 8), r = i % (BM / 8) * 8;
        if (row + r < M && col + c < N)
            *reinterpret_cast<uint4*>(C + size_t(col + c) * M + row + r) =
                *reinterpret_cast<const uint4*>(ring.c + c * PITCH + r);
    }
}

__global__ void __launch_bounds__(THREADS)
matmul(const __grid_constant__ CUtensorMap A,  // (M, K) in boxes of BM × BK
       const __grid_constant__ CUtensorMap B,  // (N, K) in boxes of BN × BK
       bf16* C,                                // (N, M): Cᵀ is (M, N)
       int M, int N, int K)
{
    extern __shared__ __align__(1024) char memory[];
    Ring& ring = *reinterpret_cast<Ring*>(memory);
    const int rows = over(M, BM), steps = over(K, BK);
    const int row = blockIdx.x % rows * BM, col = blockIdx.x / rows * BN;
    const int filled = min(steps, SLOTS);  // slots that nobody has to give back
    if (threadIdx.x == CONSUMERS) {
        for (int s = 0; s < SLOTS; ++s) {
            ptx::mbarrier_init(&ring.full[s], 1);
            ptx::mbarrier_init(&ring.empty[s], CONSUMERS / 32);
        }
        ptx::fence_mbarrier_init();
        ptx::prefetch_tensormap(A);
        ptx::prefetch_tensormap(B);
        ptx::griddepcontrol_wait();  // the launch before has ended
        produce(ring, A, B, row, col, 0, filled);
    }
    __syncthreads();  // the others see the barriers
    ptx::griddepcontrol_wait();
    ptx::griddepcontrol_launch_dependents();  // the next may come
    if (threadIdx.x >= CONSUMERS) {
        if (threadIdx.x == CONSUMERS) produce(ring, A, B, row, col, filled, steps);
    } else {
        float sums[BN / 2];
        multiply(ring, sums, threadIdx.x / 128, steps);
        store(ring, sums, C, M, N, row, col);
    }
}

void launch(const Product& p) {
    start(matmul, over(p.N, BM) * over(p.M, BN), THREADS, sizeof(Ring), p.stream, EARLY, 1,
          operand(p.B, p.N, p.K, BM), operand(p.A, p.M, p.K, BN), p.C, p.N, p.M, p.K);
}

#include "every_shape/harness.cuh"
