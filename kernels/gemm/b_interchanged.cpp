// Rung b. The two inner loops change places: the innermost walks along rows of B and C.
#include "gemm/gemm.h"

// C = alpha A B + beta C. a (m, k), b (k, n), c (m, n), each row by row, with lda, ldb, ldc floats
// from one row to the next. block: {mc, kc, nc}, not used on this rung.
extern "C" void gemm(int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
                     const float* b, int64_t ldb, float beta, float* c, int64_t ldc,
                     const int64_t* block) {
    (void)block;
    scale(m, n, beta, c, ldc);
    if (alpha == 0) return;  // BLAS: then A and B are not read
    for (int64_t i = 0; i < m; i++)
        for (int64_t p = 0; p < k; p++) {
            const float factor = alpha * a[i * lda + p];
            for (int64_t j = 0; j < n; j++) c[i * ldc + j] += factor * b[p * ldb + j];
        }
}
