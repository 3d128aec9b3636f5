// Rung a. The definition: a thread makes an element of C. Neighbouring threads take neighbouring
// rows, as one writes it first.
#include "tiling_on_the_gpu/product.cuh"
constexpr int SIDE = 32;  // of a block's square of C

__global__ void __launch_bounds__(SIDE * SIDE) naive(Product g) {
    const int row = blockIdx.y * SIDE + threadIdx.x;
    const int col = blockIdx.x * SIDE + threadIdx.y;
    float sum = 0;
    if (row < g.M && col < g.N)
        for (int k = 0; k < g.K; ++k)
            sum += g.A[size_t(row) * g.lda + k] * g.B[size_t(k) * g.ldb + col];
    store(g, row, col, sum);
}

void launch(const Product& g) {
    naive<<<dim3(blocks(g.N, SIDE), blocks(g.M, SIDE)), dim3(SIDE, SIDE)>>>(g);
}

#ifndef OWN_MAIN
#include "gemm.cuh"
#endif
