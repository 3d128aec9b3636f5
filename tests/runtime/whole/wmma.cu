// Tensor cores through the C++ interface: 64x64x64 halves, compared with the processor.
#include <cmath>
#include <cstdio>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
using namespace nvcuda;

constexpr int N = 64;

__global__ void matmul(const half *a, const half *b, float *c) {
    int warp = threadIdx.x / 32, row = blockIdx.x * 16, column = warp * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    for (int k = 0; k < N; k += 16) {
        wmma::load_matrix_sync(fa, a + row * N + k, N);
        wmma::load_matrix_sync(fb, b + column * N + k, N);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(c + row * N + column, fc, N, wmma::mem_row_major);
}

int main() {
    half *a, *b;
    float *c;
    cudaMallocManaged(&a, N * N * sizeof(half));
    cudaMallocManaged(&b, N * N * sizeof(half));
    cudaMallocManaged(&c, N * N * sizeof(float));
    for (int i = 0; i < N * N; i++) {
        a[i] = __float2half(float(i % 13 - 6));
        b[i] = __float2half(float(i % 7 - 3));
    }
    matmul<<<N / 16, N / 16 * 32>>>(a, b, c);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    int wrong = 0;
    for (int row = 0; row < N; row++)
        for (int column = 0; column < N; column++) {
            float sum = 0;
            for (int k = 0; k < N; k++)
                sum += __half2float(a[row * N + k]) * __half2float(b[column * N + k]);
            wrong += c[row * N + column] != sum;
        }
    printf("wrong %d\n", wrong);
}
