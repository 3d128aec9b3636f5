// A batch of f32 products C = A · B whose left operand is read where it lies, by strides, or from
// tiles that were packed in the order in which the kernel reads them. Nothing else differs.
#pragma once
#include "check.cuh"

// Element (m, k) of A number b is A[m · sm + k · sk + b · sb]: any layout with three strides.
// B (batch, K, N) and C (batch, M, N) are row-major, one after the other.
struct Batch {
    const float* A;
    const float* B;
    float* C;
    int M, N, K, batch;
    size_t sm, sk, sb;
};

constexpr int BM = 128, BN = 128, BK = 16;  // a block's part of C, and how deep its tiles are
constexpr int WM = 32, WN = 64;             // a warp's part
constexpr int T = 8;                        // rows and columns of a thread, in groups of four
constexpr int THREADS = BM / T * (BN / T);  // 256
constexpr int STRIDE = BM + 4;              // of a row of A's tile: read without bank conflicts

__host__ __device__ constexpr int tiles(int size, int tile) { return (size + tile - 1) / tile; }

// Floats of the packed operand: whole tiles, k-major, each BK × BM.
inline size_t packed_size(const Batch& p) {
    return size_t(p.batch) * tiles(p.M, BM) * tiles(p.K, BK) * BM * BK;
}

__device__ __forceinline__ float left(const Batch& p, int m, int k, int b) {
    return m < p.M && k < p.K ? p.A[m * p.sm + k * p.sk + b * p.sb] : 0;
}
__device__ __forceinline__ float right(const Batch& p, int k, int n, int b) {
    return k < p.K && n < p.N ? p.B[(size_t(b) * p.K + k) * p.N + n] : 0;
}

// Packs A. A block takes some rows of a tile; and where the batch is the dimension without gaps
// (sb = 1), those rows of EACH neighbouring products, so that it needs all of what it reads. A warp
// stores EACH products × 32/EACH places along k (or 16 × 2 along m) at once: each in its own bank.
constexpr int PACKERS = 256;
template <int EACH> struct Piece {
    static constexpr int ROWS = EACH == 1 ? BM : PACKERS / EACH;
    static constexpr int K_STRIDE = ROWS + (EACH == 1 ? 2 : EACH), STRIDE = BK * K_STRIDE + 1;
};
template <int EACH>
__global__ void __launch_bounds__(PACKERS) pack(Batch p, float* packed) {
    using P = Piece<EACH>;
    constexpr int ROWS = P::ROWS;
    __shared__ float piece[EACH * P::STRIDE];  // (product, k, m)
    const int k0 = blockIdx.x * BK, m0 = blockIdx.y * ROWS, b0 = blockIdx.z * EACH;
#pragma unroll
    for (int i = threadIdx.x; i < EACH * BK * ROWS; i += PACKERS) {
        const int b = i % EACH, k = i / EACH % BK, m = i / EACH / BK;
        piece[b * P::STRIDE + k * P::K_STRIDE + m] =
            b0 + b < p.batch ? left(p, m0 + m, k0 + k, b0 + b) : 0;
    }
    __syncthreads();
    for (int b = 0; b < EACH && b0 + b < p.batch; ++b) {
        const size_t tile = (size_t(b0 + b) * tiles(p.M, BM) + m0 / BM) * gridDim.x + blockIdx.x;
#pragma unroll
        for (int i = threadIdx.x; i < BK * ROWS; i += PACKERS)
            packed[(tile * BK + i / ROWS) * BM + m0 % BM + i % ROWS] =
                piece[b * P::STRIDE + i / ROWS * P::K_STRIDE + i % ROWS];
    }
}

// C = A · B with A read by strides (packed is not looked at) or from packed tiles.
template <bool PACKED>
__global__ void __launch_bounds__(THREADS, 2) product(Batch p, const float* packed) {
    __shared__ __align__(16) float a[BK][STRIDE], b[BK][BN];  // (k, m) and (k, n)
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, batch = blockIdx.z, t = threadIdx.x;
    const int warp = t / 32, lane = t % 32;
    const int y = warp % (BM / WM) * WM + lane / 8 * 4;  // of the first group of four rows
    const int x = warp / (BM / WM) * WN + lane % 8 * 4;  // and columns
    const float4* from = reinterpret_cast<const float4*>(
        packed + (size_t(batch) * gridDim.y + blockIdx.y) * tiles(p.K, BK) * (BK * BM));
    float sum[T][T] = {};
    for (int k0 = 0; k0 < p.K; k0 += BK) {
        if (PACKED) {  // a tile is 8 KiB without gaps, in the order of the tile in shared memory
#pragma unroll
            for (int i = t; i < BK * BM / 4; i += THREADS)
                *reinterpret_cast<float4*>(&a[i / (BM / 4)][i % (BM / 4) * 4]) = from[i];
            from += BK * BM / 4;
        } else {
#pragma unroll
            for (int i = t; i < BK * BM; i += THREADS)
                a[i % BK][i / BK] = left(p, row0 + i / BK, k0 + i % BK, batch);
        }
#pragma unroll
        for (int i = t; i < BK * BN; i += THREADS)
            b[i / BN][i % BN] = right(p, k0 + i / BN, col0 + i % BN, batch);
        __syncthreads();  // the tiles are there
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float u[T], v[T];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                *reinterpret_cast<float4*>(u + i * 4) =
                    *reinterpret_cast<float4*>(&a[k][y + i * WM / 2]);
                *reinterpret_cast<float4*>(v + i * 4) =
                    *reinterpret_cast<float4*>(&b[k][x + i * WN / 2]);
            }
#pragma unroll
            for (int i = 0; i < T; ++i)
#pragma unroll
                for (int j = 0; j < T; ++j) sum[i][j] += u[i] * v[j];
        }
        __syncthreads();  // nobody needs them any more
    }
    for (int i = 0; i < T; ++i)
        for (int j = 0; j < T; ++j) {
            const int row = row0 + y + i / 4 * (WM / 2) + i % 4;
            const int col = col0 + x + j / 4 * (WN / 2) + j % 4;
            if (row < p.M && col < p.N) p.C[(size_t(batch) * p.M + row) * p.N + col] = sum[i][j];
        }
}

template <int EACH> void launch_pack(const Batch& p, float* packed, cudaStream_t stream) {
    constexpr int ROWS = Piece<EACH>::ROWS;
    const dim3 grid(tiles(p.K, BK), tiles(p.M, BM) * (BM / ROWS), tiles(p.batch, EACH));
    pack<EACH><<<grid, PACKERS, 0, stream>>>(p, packed);
}
inline void launch_pack(const Batch& p, float* packed, cudaStream_t stream = 0) {
    const int together = p.sb == 1 ? p.batch : 1;
    if (together > 4) launch_pack<8>(p, packed, stream);
    else if (together > 2) launch_pack<4>(p, packed, stream);
    else if (together > 1) launch_pack<2>(p, packed, stream);
    else launch_pack<1>(p, packed, stream);
}
inline void launch_product(const Batch& p, const float* packed, cudaStream_t stream = 0) {
    const dim3 grid(tiles(p.N, BN), tiles(p.M, BM), p.batch);
    if (packed) product<true><<<grid, THREADS, 0, stream>>>(p, packed);
    else product<false><<<grid, THREADS, 0, stream>>>(p, nullptr);
}
