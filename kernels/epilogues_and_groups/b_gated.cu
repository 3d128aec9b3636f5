// Two products side by side in one tile, and one result: SwiGLU, silu(A · gateᵀ) ∘ (A · upᵀ). A
// thread holds sums of both at the same place, so they meet in its registers.
constexpr int TEAM = 1;  // warp groups that share a tile
constexpr int BN = 128;  // columns of a tile of C
constexpr int SLOTS = 6;
constexpr int BOXES = 2;  // of a warp
#include "epilogues_and_groups/ring.cuh"

constexpr int WIDE = BN / 2;  // columns of the result in a tile

__device__ void produce(Ring& ring, const CUtensorMap& A, const CUtensorMap& B, int M, int H,
                        int K) {
    const int rows = over(M, BM);
    int at = 0;
    for (int n = blockIdx.x; n < rows * over(H, WIDE); n += gridDim.x)
        for (int k = 0; k < K; k += BK, ++at) {
            Stage& to = take(ring, at);
            const int col = n / rows * WIDE;
            ptx::cp_async_bulk_tensor_load(to.a, A, k, n % rows * BM, &ring.full[slot(at)]);
            // Columns of the gate, then the same ones of up.
            ptx::cp_async_bulk_tensor_load(to.b, B, k, col, &ring.full[slot(at)]);
            ptx::cp_async_bulk_tensor_load(to.b + WIDE * BK, B, k, H + col, &ring.full[slot(at)]);
        }
}

__device__ void consume(Ring& ring, const CUtensorMap& C, int M, int H, int K) {
    const int warp = threadIdx.x / 32, group = warp / 4, steps = over(K, BK), rows = over(M, BM);
    int at = 0, tile = 0;
    for (int n = blockIdx.x; n < rows * over(H, WIDE); n += gridDim.x, ++tile) {
        if (tile % TURNS != group % TURNS) {
            at += steps;
            continue;
        }
        Sums sums;
        multiply(ring, sums, group, tile, at, steps);
#pragma unroll
        for (int h = 0; h < HALVES; ++h)
            store<WIDE>(ring.boxes[warp], C, n % rows * BM + row_of(warp, h), n / rows * WIDE,
                        [&](int i, int, int) {
                            auto gated = [&](int j) {  // 64 columns on are 32 sums on
                                const float gate = sums[h][j];
                                return gate / (1 + __expf(-gate)) * sums[h][j + WIDE / 2];
                            };
                            return float2{gated(i), gated(i + 1)};
                        });
    }
    ptx::cp_async_bulk_wait_group_read<0>();  // shared memory must stay until it has been read
}

__global__ void __launch_bounds__(THREADS, 1)
matmul(const __grid_constant__ CUtensorMap A,  // (M, K) in boxes of BM × BK
       const __grid_constant__ CUtensorMap B,  // (2H, K), gate over up, in boxes of WIDE × BK
       const __grid_constant__ CUtensorMap C,  // (M, H) in boxes of BOX_ROWS × BOX_COLS
       int M, int H, int K)
{
    extern __shared__ __align__(1024) char memory[];
    Ring& ring = *reinterpret_cast<Ring*>(memory);
    if (threadIdx.x == 0) {
        begin_ring(ring);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();  // the others see the barriers
    if (threadIdx.x >= CONSUMERS) {
        ptx::setmaxnreg_dec<40>();  // registers for the consumers' sums
        if (threadIdx.x == CONSUMERS) produce(ring, A, B, M, H, K);
    } else {
        ptx::setmaxnreg_inc<232>();
        consume(ring, C, M, H, K);
    }
}
