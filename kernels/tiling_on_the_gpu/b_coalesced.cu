// Rung b. Coalesced: neighbouring threads take neighbouring columns, so that a warp reads one row of
// B at a time, and writes one row of C.
#include "tiling_on_the_gpu/product.cuh"
constexpr int SIDE = 32;  // of a block's square of C

__global__ void __launch_bounds__(SIDE * SIDE) coalesced(Product g) {
    const int row = blockIdx.y * SIDE + threadIdx.y;
    const int col = blockIdx.x * SIDE + threadIdx.x;
    float sum = 0;
    if (row < g.M && col < g.N)
        for (int k = 0; k < g.K; ++k)
            sum += g.A[size_t(row) * g.lda + k] * g.B[size_t(k) * g.ldb + col];
    store(g, row, col, sum);
}

void launch(const Product& g) {
    coalesced<<<dim3(blocks(g.N, SIDE), blocks(g.M, SIDE)), dim3(SIDE, SIDE)>>>(g);
}

#ifndef OWN_MAIN
#include "gemm.cuh"
#endif
