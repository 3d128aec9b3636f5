// Few tiles and a long K: the blocks of a cluster make one tile together, each a part of K, and
// send each other their sums into shared memory. Each finishes some columns of C.
#include "every_shape/product.cuh"

constexpr int SPLIT = 2, GROUPS = 2, BN = 128, SLOTS = 5;  // SPLIT blocks make a tile
constexpr bool EARLY = true;  // a launch may begin before the one before it has ended
constexpr int BM = 64 * GROUPS, PART = BN / SPLIT;  // columns of C that a block finishes
constexpr int CONSUMERS = 128 * GROUPS, THREADS = CONSUMERS + 32;
constexpr int PITCH = PART + 8;  // of a part of C in shared memory: no bank is asked twice

struct Ring {
    union {
        Stage<BM, BN> stage[SLOTS];
        bf16 c[BM * PITCH];  // when all has been multiplied
    };
    float4 sums[SPLIT - 1][PART / 8][CONSUMERS];  // from each other block, for each thread here
    unsigned long long full[SLOTS], empty[SLOTS], given;  // given: the sums are here
};
static_assert(sizeof(Ring) <= 227 * 1024, "more than a block can have");

// The producer, one thread: steps `from` to `to` - 1 of those that begin at step `first` of K.
__device__ void produce(Ring& ring, const CUtensorMap& A, const CUtensorMap& B, int row, int col,
                        int first, int from, int to) {
    int s = from % SLOTS;
    bool phase = from / SLOTS % 2;
    for (int step = from; step < to; ++step, advance<SLOTS>(s, phase)) {
        const int k = (first + step) * BK;
        ptx::mbarrier_wait(&ring.empty[s], !phase);
        ptx::mbarrier_arrive_expect_tx(&ring.full[s], (BM + BN) * BK * sizeof(bf16));
        ptx::cp_async_bulk_tensor_load(ring.stage[s].a, A, k, row, &ring.full[s]);
        ptx::cp_async_bulk_tensor_load(ring.stage[s].b, B, k, col, &ring.full[s]);
    }
}

// A consumer, one warp group. A slot is given back when the multiplication after it has begun.
__device__ void multiply(Ring& ring, float (&sums)[BN / 2], int group, int steps) {
    int s = 0, before = 0;
    bool phase = false;
    if (steps == 0) for (float& sum : sums) sum = 0;
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

// st.async, 9.7.9.12: store into the shared memory of the block of this rank in the cluster, at the
// same place as here; its barrier counts the bytes. sm_90.
__device__ void send(float4* place, float4 value, unsigned long long* barrier, int rank) {
    asm volatile("{ .reg .b32 there, counts; mapa.shared::cluster.u32 there, %0, %2;\n"
                 "mapa.shared::cluster.u32 counts, %1, %2;\n"
                 "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32"
                 " [there], {%3, %4, %5, %6}, [counts]; }"
                 :: "r"(ptx::shared_address(place)), "r"(ptx::shared_address(barrier)), "r"(rank),
                    "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w) : "memory");
}

// A thread sends its sums of the columns that others finish, adds what it is sent to the rest, and
// lays that into rows. (Registers have no index: each part of them has code of its own.)
__device__ void join(Ring& ring, float (&sums)[BN / 2], int rank) {
    const int t = threadIdx.x;
#pragma unroll
    for (int to = 0; to < SPLIT; ++to) {
        if (to == rank) continue;
        float4(&place)[PART / 8][CONSUMERS] = ring.sums[rank - (rank > to)];
        const float* d = sums + to * PART / 2;
#pragma unroll
        for (int i = 0; i < PART / 8; ++i, d += 4)
            send(&place[i][t], make_float4(d[0], d[1], d[2], d[3]), &ring.given, to);
    }
    ptx::bar_sync(1, CONSUMERS);  // nobody multiplies from the slots any more
    ptx::mbarrier_wait_cluster(&ring.given, 0);
#pragma unroll
    for (int mine = 0; mine < SPLIT; ++mine) {
        if (mine != rank) continue;
        float* d = sums + mine * PART / 2;
#pragma unroll
        for (int i = 0; i < PART / 8; ++i, d += 4) {
            for (auto& from : ring.sums) {
                const float4 other = from[i][t];
                d[0] += other.x, d[1] += other.y, d[2] += other.z, d[3] += other.w;
            }
            bf16* c = ring.c + (t / 32 * 16 + t % 32 / 4) * PITCH + i * 8 + t % 4 * 2;
            *reinterpret_cast<__nv_bfloat162*>(c) = __floats2bfloat162_rn(d[0], d[1]);
            *reinterpret_cast<__nv_bfloat162*>(c + 8 * PITCH) = __floats2bfloat162_rn(d[2], d[3]);
        }
    }
}

// A part of C from shared memory: neighbouring threads write neighbouring bytes.
__device__ void store(const Ring& ring, bf16* C, int M, int N, int row, int col) {
    ptx::bar_sync(1, CONSUMERS);
    for (int i = threadIdx.x; i < BM * PART / 8; i += CONSUMERS) {  // 16 bytes each
        const int r = i / (PART / 8), c = i % (PART / 8) * 8;
        if (row + r < M && col + c < N)
            *reinterpret_cast<uint4*>(C + size_t(row + r) * N + col + c) =
                *reinterpret_cast<const uint4*>(ring.c + r * PITCH + c);
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
    const int rows = over(M, BM), rank = blockIdx.x % SPLIT, tile = blockIdx.x / SPLIT;
    const int row = tile % rows * BM, col = tile / rows * BN;
    const int first = over(K, BK) * rank / SPLIT;
    const int steps = over(K, BK) * (rank + 1) / SPLIT - first;
    const int filled = min(steps, SLOTS);  // slots that nobody has to give back
    if (threadIdx.x == CONSUMERS) {
        for (int s = 0; s < SLOTS; ++s) {
            ptx::mbarrier_init(&ring.full[s], 1);
            ptx::mbarrier_init(&ring.empty[s], CONSUMERS / 32);
        }
        ptx::mbarrier_init(&ring.given, 1);
        ptx::fence_mbarrier_init();
        ptx::mbarrier_arrive_expect_tx(&ring.given, sizeof ring.sums);
        ptx::prefetch_tensormap(A);
        ptx::prefetch_tensormap(B);
        ptx::griddepcontrol_wait();  // the launch before has ended
        produce(ring, A, B, row, col, first, 0, filled);
    }
    __syncthreads();        // this block sees the barriers
    ptx::cluster_arrive();  // the others may send
    ptx::griddepcontrol_wait();
    ptx::griddepcontrol_launch_dependents();  // the next may come
    if (threadIdx.x >= CONSUMERS) {
        if (threadIdx.x == CONSUMERS) produce(ring, A, B, row, col, first, filled, steps);
        __syncwarp();
        ptx::cluster_wait();
    } else {
        float sums[BN / 2];
        multiply(ring, sums, threadIdx.x / 128, steps);
        ptx::cluster_wait();  // they are there: long since
        join(ring, sums, rank);
        store(ring, C, M, N, row, col + rank * PART);
    }
}

void launch(const Product& p) {
    start(matmul, over(p.M, BM) * over(p.N, BN) * SPLIT, THREADS, sizeof(Ring), p.stream, EARLY,
          SPLIT, operand(p.A, p.M, p.K, BM), operand(p.B, p.N, p.K, BN), p.C, p.M, p.N, p.K);
}

#include "every_shape/harness.cuh"
