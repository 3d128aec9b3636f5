// The epilogue is a chain of small steps on the sums, in registers, before the copy engine stores
// the tile; and while one warp group is at its epilogue, the other multiplies.
constexpr int TEAM = 1;  // warp groups that share a tile
constexpr int BN = 128;  // columns of a tile of C
constexpr int SLOTS = 6;
constexpr int BOXES = 2;  // of a warp
#include "epilogues_and_groups/ring.cuh"
#include "epilogues_and_groups/steps.cuh"

#ifndef STEPS
#define STEPS Alpha, RowScale, Bias, Gelu, Residual, Amax
#endif

// The tiles of C (M, N), numbered down its columns of tiles.
struct Tiles {
    int M, N, K;
    __device__ int rows() const { return over(M, BM); }
    __device__ int count() const { return rows() * over(N, BN); }
    __device__ int row(int number) const { return number % rows() * BM; }
    __device__ int col(int number) const { return number / rows() * BN; }
};

// The producer, one thread. The ring knows nothing of where a tile of C ends.
__device__ void produce(Ring& ring, const CUtensorMap& A, const CUtensorMap& B, Tiles tiles) {
    int at = 0;
    for (int n = blockIdx.x; n < tiles.count(); n += gridDim.x)
        for (int k = 0; k < tiles.K; k += BK, ++at) {
            Stage& to = take(ring, at);
            ptx::cp_async_bulk_tensor_load(to.a, A, k, tiles.row(n), &ring.full[slot(at)]);
            ptx::cp_async_bulk_tensor_load(to.b, B, k, tiles.col(n), &ring.full[slot(at)]);
        }
}

// A consumer, one warp group. Where the two take turns, the slots of the other's tile are passed
// over.
__device__ void consume(Ring& ring, const CUtensorMap& C, Tiles tiles, Given given) {
    const int warp = threadIdx.x / 32, group = warp / 4, steps = over(tiles.K, BK);
    int at = 0, tile = 0;
    for (int n = blockIdx.x; n < tiles.count(); n += gridDim.x, ++tile) {
        if (tile % TURNS != group % TURNS) {
            at += steps;
            continue;
        }
        Sums sums;
        multiply(ring, sums, group, tile, at, steps);
#pragma unroll
        for (int h = 0; h < HALVES; ++h)
            store<BN>(ring.boxes[warp], C, tiles.row(n) + row_of(warp, h), tiles.col(n),
                      [&](int i, int row, int col) {
                          const float2 x{sums[h][i], sums[h][i + 1]};
                          if (row >= tiles.M || col >= tiles.N) return x;  // it is not stored
                          return Chain<STEPS>::apply(x, row, col, given);
                      });
    }
    finish(given);
    ptx::cp_async_bulk_wait_group_read<0>();  // shared memory must stay until it has been read
}

__global__ void __launch_bounds__(THREADS, 1)
matmul(const __grid_constant__ CUtensorMap A,  // (M, K) in boxes of BM × BK
       const __grid_constant__ CUtensorMap B,  // (N, K) in boxes of BN × BK
       const __grid_constant__ CUtensorMap C,  // (M, N) in boxes of BOX_ROWS × BOX_COLS
       Tiles tiles, const float* bias, const float* row_scale, const bf16* residual,
       unsigned* amax, float alpha, float beta)
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
        if (threadIdx.x == CONSUMERS) produce(ring, A, B, tiles);
    } else {
        ptx::setmaxnreg_inc<232>();
        consume(ring, C, tiles,
                {tiles.M, tiles.N, bias, row_scale, residual, amax, alpha, beta});
    }
}

// The same steps apart from the product, on the result (M, N) in memory: two numbers a thread.
template <class Step>
__global__ void apart(bf16* C, Tiles tiles, const float* bias, const float* row_scale,
                      const bf16* residual, unsigned* amax, float alpha, float beta) {
    Given given{tiles.M, tiles.N, bias, row_scale, residual, amax, alpha, beta};
    const size_t i = 2 * (blockIdx.x * size_t(blockDim.x) + threadIdx.x);
    if (i < size_t(tiles.M) * tiles.N) {
        auto& at = *reinterpret_cast<__nv_bfloat162*>(C + i);
        at = __float22bfloat162_rn(
            Step::apply(__bfloat1622float2(at), int(i / tiles.N), int(i % tiles.N), given));
    }
    finish(given);
}
#define APART(Step)                                                                       \
    template __global__ void apart<Step>(bf16*, Tiles, const float*, const float*,        \
                                         const bf16*, unsigned*, float, float)
APART(Alpha);
APART(RowScale);
APART(Bias);
APART(Gelu);
APART(Residual);
APART(Amax);
