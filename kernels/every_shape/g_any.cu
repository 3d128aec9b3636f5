// Any M, N and K: where the rows of A and B begin at addresses that the copy engine refuses, they
// are copied into rows that it takes. And C = alpha · A · Bᵀ + beta · C, in any type.
#define OUT float
#define ANY
#include "every_shape/product.cuh"

constexpr int GROUPS = 1, BN = 128, SLOTS = 8;  // GROUPS warp groups multiply 64 rows each
constexpr bool EARLY = true;  // a launch may begin before the one before it has ended
constexpr int BM = 64 * GROUPS;
constexpr int CONSUMERS = 128 * GROUPS, THREADS = CONSUMERS + 32;
constexpr int PITCH = BN + 8;  // of the tile of sums in shared memory

struct Ring {
    union {
        Stage<BM, BN> stage[SLOTS];
        float c[BM * PITCH];  // when all has been multiplied
    };
    unsigned long long full[SLOTS], empty[SLOTS];
};
static_assert(sizeof(Ring) <= 227 * 1024, "more than a block can have");

// The producer, one thread.
__device__ void produce(Ring& ring, const CUtensorMap& A, const CUtensorMap& B, int row, int col,
                        int steps) {
    int s = 0;
    bool phase = false;
    for (int step = 0; step < steps; ++step, advance<SLOTS>(s, phase)) {
        ptx::mbarrier_wait(&ring.empty[s], !phase);
        ptx::mbarrier_arrive_expect_tx(&ring.full[s], (BM + BN) * BK * sizeof(bf16));
        ptx::cp_async_bulk_tensor_load(ring.stage[s].a, A, step * BK, row, &ring.full[s]);
        ptx::cp_async_bulk_tensor_load(ring.stage[s].b, B, step * BK, col, &ring.full[s]);
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

__device__ void set(float& c, float x) { c = x; }
__device__ void set(bf16& c, float x) { c = __float2bfloat16(x); }
__device__ void set(__half& c, float x) { c = __float2half(x); }

// The tile of C, element by element: its rows may begin anywhere. Where beta is 0, C is not read:
// what stood there may be a NaN.
__device__ void store(Ring& ring, const float (&sums)[BN / 2], Out* C, int M, int N, int row,
                      int col, float alpha, float beta) {
    const int t = threadIdx.x;
    ptx::bar_sync(1, CONSUMERS);  // nobody multiplies from the slots any more
    for (int i = 0; i < BN / 2; i += 2)
        *reinterpret_cast<float2*>(ring.c + (t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8) * PITCH +
                                   i / 4 * 8 + t % 4 * 2) = make_float2(sums[i], sums[i + 1]);
    ptx::bar_sync(1, CONSUMERS);
    for (int i = t; i < BM * BN; i += CONSUMERS) {
        const int r = i / BN, c = i % BN;
        if (row + r >= M || col + c >= N) continue;
        Out& to = C[size_t(row + r) * N + col + c];
        const float x = alpha * ring.c[r * PITCH + c];
        set(to, beta == 0 ? x : x + beta * float(to));
    }
}

// Rows of K into rows of `wide`, a multiple of 8; a thread writes 16 bytes.
__global__ void pad(const bf16* from, bf16* to, int rows, int K, int wide) {
    const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x, row = i / (wide / 8);
    const int k = i % (wide / 8) * 8;
    if (row >= rows) return;
    alignas(16) bf16 eight[8];
    for (int j = 0; j < 8; ++j) eight[j] = k + j < K ? from[row * K + k + j] : bf16(0.0f);
    *reinterpret_cast<uint4*>(to + row * wide + k) = *reinterpret_cast<const uint4*>(eight);
}

__global__ void __launch_bounds__(THREADS)
matmul(const __grid_constant__ CUtensorMap A,  // (M, K) in boxes of BM × BK
       const __grid_constant__ CUtensorMap B,  // (N, K) in boxes of BN × BK
       Out* C,                                 // (M, N)
       int M, int N, int K, float alpha, float beta)
{
    extern __shared__ __align__(1024) char memory[];
    Ring& ring = *reinterpret_cast<Ring*>(memory);
    if (threadIdx.x == 0) {
        for (int s = 0; s < SLOTS; ++s) {
            ptx::mbarrier_init(&ring.full[s], 1);
            ptx::mbarrier_init(&ring.empty[s], CONSUMERS / 32);
        }
        ptx::fence_mbarrier_init();
        ptx::prefetch_tensormap(A);
        ptx::prefetch_tensormap(B);
    }
    __syncthreads();  // the others see the barriers
    ptx::griddepcontrol_wait();               // the launch before has ended
    ptx::griddepcontrol_launch_dependents();  // the next may come
    const int rows = over(M, BM), steps = over(K, BK);
    const int row = blockIdx.x % rows * BM, col = blockIdx.x / rows * BN;
    if (threadIdx.x >= CONSUMERS) {
        if (threadIdx.x == CONSUMERS) produce(ring, A, B, row, col, steps);
    } else {
        float sums[BN / 2];
        multiply(ring, sums, threadIdx.x / 128, steps);
        store(ring, sums, C, M, N, row, col, alpha, beta);
    }
}

void launch(const Product& p) {
    const bf16 *A = p.A, *B = p.B;
    const int wide = over(p.K, 8) * 8;
    if (wide != p.K) {
        bf16* ends = p.padded + size_t(p.M) * wide;
        pad<<<over(p.M * (wide / 8), 256), 256, 0, p.stream>>>(A, p.padded, p.M, p.K, wide);
        pad<<<over(p.N * (wide / 8), 256), 256, 0, p.stream>>>(B, ends, p.N, p.K, wide);
        A = p.padded, B = ends;
    }
    start(matmul, over(p.M, BM) * over(p.N, BN), THREADS, sizeof(Ring), p.stream, EARLY, 1,
          operand(A, p.M, wide, BM), operand(B, p.N, wide, BN), p.C, p.M, p.N, wide, p.alpha,
          p.beta);
}

#include "every_shape/harness.cuh"
