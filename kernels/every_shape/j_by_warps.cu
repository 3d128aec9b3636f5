// The same, each warp for itself at the end: it brings its rows of C out through shared memory of
// its own. With TAIL > 0 left columns leave while the last TAIL steps of the others are multiplied.
#include "every_shape/product.cuh"

constexpr int GROUPS = 2, BN = 256, SLOTS = 4, TAIL = 2;
constexpr bool EARLY = true;  // a launch may begin before the one before it has ended
constexpr int BM = 64 * GROUPS;  // GROUPS warp groups multiply 64 rows each
constexpr int CONSUMERS = 128 * GROUPS, THREADS = CONSUMERS + 32;
constexpr int LEFT = TAIL ? over(BN, 32) * 16 : BN;  // columns that leave first
static_assert(TAIL < SLOTS, "the last steps keep their slots");

// Columns that a warp brings out at a time: 64 where there is room for them beside the slots.
constexpr int ROOM = 227 * 1024 - SLOTS * (sizeof(Stage<BM, BN>) + 16);
constexpr int WIDE = ROOM >= CONSUMERS * (64 + 8) ? 64 : 32, PITCH = WIDE + 8;

struct Ring {
    Stage<BM, BN> stage[SLOTS];
    alignas(16) bf16 c[CONSUMERS / 32][16 * PITCH];
    unsigned long long full[SLOTS], empty[SLOTS];
};
static_assert(sizeof(Ring) <= 227 * 1024, "more than a block can have");

// The producer, one thread: steps `from` to `to` - 1.
__device__ void produce(Ring& ring, const CUtensorMap& A, const CUtensorMap& B, int row, int col,
                        int from, int to) {
    int s = from % SLOTS;
    bool phase = from / SLOTS % 2;
    for (int step = from; step < to; ++step, advance<SLOTS>(s, phase)) {
        ptx::mbarrier_wait(&ring.empty[s], !phase);
        ptx::mbarrier_arrive_expect_tx(&ring.full[s], (BM + BN) * BK * sizeof(bf16));
        ptx::cp_async_bulk_tensor_load(ring.stage[s].a, A, step * BK, row, &ring.full[s]);
        ptx::cp_async_bulk_tensor_load(ring.stage[s].b, B, step * BK, col, &ring.full[s]);
    }
}

// Columns FROM to TO - 1 of a warp's 16 rows of the tile, WIDE of them at a time: through shared
// memory, so that neighbouring threads write neighbouring bytes.
template <int FROM, int TO>
__device__ void store(Ring& ring, const float (&sums)[BN / 2], bf16* C, int M, int N, int row,
                      int col) {
    constexpr int COLS = TO - FROM < WIDE ? TO - FROM : WIDE;
    const int lane = threadIdx.x % 32, top = row + threadIdx.x / 32 * 16;
    bf16* mine = ring.c[threadIdx.x / 32];
    __syncwarp();  // nobody reads the part before any more
#pragma unroll
    for (int i = 0; i < COLS / 2; i += 2)
        *reinterpret_cast<__nv_bfloat162*>(mine + (lane / 4 + i / 2 % 2 * 8) * PITCH + i / 4 * 8 +
                                           lane % 4 * 2) =
            __floats2bfloat162_rn(sums[FROM / 2 + i], sums[FROM / 2 + i + 1]);
    __syncwarp();
#pragma unroll
    for (int i = lane; i < 16 * COLS / 8; i += 32) {  // 16 bytes each
        const int r = i / (COLS / 8), c = i % (COLS / 8) * 8;
        if (top + r < M && col + FROM + c < N)
            *reinterpret_cast<uint4*>(C + size_t(top + r) * N + col + FROM + c) =
                *reinterpret_cast<const uint4*>(mine + r * PITCH + c);
    }
    if constexpr (TO - FROM > WIDE) store<FROM + WIDE, TO>(ring, sums, C, M, N, row, col);
}

// Begin the products of columns FROM to TO - 1 from slot s.
template <int FROM, int TO>
__device__ void multiply(const Ring& ring, float (&sums)[BN / 2], int group, int s, bool add) {
    auto& mine = reinterpret_cast<float (&)[(TO - FROM) / 2]>(sums[FROM / 2]);
    begin_multiply<TO - FROM>(mine, ring.stage[s].a + group * 64 * BK,
                              ring.stage[s].b + FROM * BK, add);
}

// The sums of columns FROM to TO - 1 are there: what reads them stays behind this line.
template <int FROM, int TO> __device__ void made(float (&sums)[BN / 2]) {
#pragma unroll
    for (int i = FROM / 2; i < TO / 2; ++i) asm volatile("" : "+f"(sums[i]) :: "memory");
}

// A consumer, one warp group. A slot is given back when the multiplication after it has begun; the
// last TAIL + 1 are wanted by nobody.
__device__ void consume(Ring& ring, int group, int steps, bf16* C, int M, int N, int row, int col) {
    float sums[BN / 2];
    int s = 0, before = 0;
    bool phase = false;
    const int whole = steps - TAIL;
#pragma unroll 1  // or ptxas lets no product overlap another
    for (int step = 0; step < whole; ++step, advance<SLOTS>(s, phase)) {
        ptx::mbarrier_wait(&ring.full[s], phase);
        ptx::wgmma_fence();
        multiply<0, BN>(ring, sums, group, s, step > 0);
        ptx::wgmma_wait_group<1>();
        if (step > 0 && threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&ring.empty[before]);
        before = s;
    }
    if constexpr (TAIL > 0) {
        finish_multiply(sums);  // or ptxas lets no product overlap another
        int at[SLOTS];  // in which slots they are
#pragma unroll
        for (int i = 0; i < TAIL; ++i, advance<SLOTS>(s, phase)) {
            ptx::mbarrier_wait(&ring.full[s], phase);
            at[i] = s;
        }
        ptx::wgmma_fence();
#pragma unroll
        for (int i = 0; i < TAIL; ++i)
            multiply<0, LEFT>(ring, sums, group, at[i], i > 0 || whole > 0);
#pragma unroll
        for (int i = 0; i < TAIL; ++i)
            multiply<LEFT, BN>(ring, sums, group, at[i], i > 0 || whole > 0);
    }
    ptx::wgmma_wait_group<TAIL>();  // the left columns are done
    made<0, LEFT>(sums);
    store<0, LEFT>(ring, sums, C, M, N, row, col);
    if constexpr (LEFT < BN) {
        ptx::wgmma_wait_group<0>();
        made<LEFT, BN>(sums);
        store<LEFT, BN>(ring, sums, C, M, N, row, col);
    }
}

__global__ void __launch_bounds__(THREADS)
matmul(const __grid_constant__ CUtensorMap A,  // (M, K) in boxes of BM × BK
       const __grid_constant__ CUtensorMap B,  // (N, K) in boxes of BN × BK
       bf16* C,                                // (M, N)
       int M, int N, int K)
{
    extern __shared__ __align__(1024) char memory[];
    Ring& ring = *reinterpret_cast<Ring*>(memory);
    const int rows = over(M, BM), steps = max(over(K, BK), TAIL);
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
        consume(ring, threadIdx.x / 128, steps, C, M, N, row, col);
    }
}

void launch(const Product& p) {
    start(matmul, over(p.M, BM) * over(p.N, BN), THREADS, sizeof(Ring), p.stream, EARLY, 1,
          operand(p.A, p.M, p.K, BM), operand(p.B, p.N, p.K, BN), p.C, p.M, p.N, p.K);
}

#include "every_shape/harness.cuh"
