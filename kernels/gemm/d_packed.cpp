// Rung d. Packing: the block of B is copied into one piece of memory, in the order of its use.
#include "gemm/gemm.h"

// C = alpha A B + beta C. a (m, k), b (k, n), c (m, n), each row by row, with lda, ldb, ldc floats
// from one row to the next. block: {mc, kc, nc}; mc is not used on this rung.
extern "C" void gemm(int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
                     const float* b, int64_t ldb, float beta, float* c, int64_t ldc,
                     const int64_t* block) {
    const int64_t KC = block[1], NC = block[2];
    scale(m, n, beta, c, ldc);
    if (alpha == 0) return;  // BLAS: then A and B are not read
    static thread_local Buffer buffer;
    float* const packed = buffer.reserve(std::min(k, KC) * std::min(n, NC));  // without gaps
    for (int64_t p0 = 0; p0 < k; p0 += KC)
        for (int64_t j0 = 0; j0 < n; j0 += NC) {
            const int64_t p1 = std::min(p0 + KC, k), j1 = std::min(j0 + NC, n), width = j1 - j0;
            for (int64_t p = p0; p < p1; p++)
                std::copy(b + p * ldb + j0, b + p * ldb + j1, packed + (p - p0) * width);
            for (int64_t i = 0; i < m; i++)
                for (int64_t p = p0; p < p1; p++) {
                    const float factor = alpha * a[i * lda + p];
                    const float* row = packed + (p - p0) * width;
                    for (int64_t j = 0; j < width; j++) c[i * ldc + j0 + j] += factor * row[j];
                }
        }
}
