// Rung c. Shared tiles: a block copies a square of A and one of B to shared memory, and each
// element that was fetched once is used 32 times.
#include "tiling_on_the_gpu/product.cuh"
constexpr int SIDE = 32;  // of a block's square of C, and of the tiles

__global__ void __launch_bounds__(SIDE * SIDE) shared_tile(Product g) {
    __shared__ float a[SIDE][SIDE], b[SIDE][SIDE];  // (m, k) and (k, n)
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * SIDE + y, col = blockIdx.x * SIDE + x;
    float sum = 0;
    for (int k0 = 0; k0 < g.K; k0 += SIDE) {
        a[y][x] = element(g.A, g.M, g.K, g.lda, row, k0 + x);
        b[y][x] = element(g.B, g.K, g.N, g.ldb, k0 + y, col);
        __syncthreads();  // the tiles are there
        for (int k = 0; k < SIDE; ++k) sum += a[y][k] * b[k][x];
        __syncthreads();  // nobody needs them any more
    }
    store(g, row, col, sum);
}

void launch(const Product& g) {
    shared_tile<<<dim3(blocks(g.N, SIDE), blocks(g.M, SIDE)), dim3(SIDE, SIDE)>>>(g);
}

#ifndef OWN_MAIN
#include "gemm.cuh"
#endif
