// A matrix times a vector, y = A · x: a warp adds up one row.
#include <cuda_bf16.h>
constexpr int THREADS = 256;         // of a block: 8 warps
constexpr int ROWS = THREADS / 32;   // of a block, one a warp

template <class Number>              // float or __nv_bfloat16
__global__ void __launch_bounds__(THREADS)
matvec(int M, int K,
       const Number* __restrict__ A,  // (M, K), row-major
       const Number* __restrict__ x,  // (K)
       float* __restrict__ y)         // (M), f32 in any case
{
    const int row = blockIdx.x * ROWS + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    if (row >= M) return;  // the last block may have rows to spare
    float sum = 0;
    #pragma unroll 8  // eight loads on their way before the first is needed
    for (int k = lane; k < K; k += 32)
        sum += float(A[size_t(row) * K + k]) * float(x[k]);
    for (int step = 16; step > 0; step /= 2)  // 32 sums to 1
        sum += __shfl_down_sync(0xffffffff, sum, step);
    if (lane == 0) y[row] = sum;
}

template <class Number>
void launch(int M, int K, const Number* A, const Number* x, float* y) {
    matvec<<<(M + ROWS - 1) / ROWS, THREADS>>>(M, K, A, x, y);
}

#include "measuring/matvec.cuh"
