// Rung e. A micro-kernel: MR x NR elements of C stay in registers while both operands come from
// packed panels. One panel of A (MR x kc) stays in the L1 cache, one block of B (kc x nc) in L2.
#include "gemm/panels.h"

static thread_local Buffer buffer_a, buffer_b;  // for one block of A, one of B

#ifndef OWN_MICRO  // a reader's own comes before this file
// c (MR, NR) += alpha a b, with a panel of A, a (kc, MR), and one of B, b (kc, NR).
__attribute__((noinline)) static void micro(int64_t kc, const float* __restrict a,
                                            const float* __restrict b, float alpha,
                                            float* __restrict c, int64_t ldc) {
    Vector sum[MR][kVectors] = {};
    for (int64_t p = 0; p < kc; p++, a += MR, b += NR) {
        const Vector left = *(const Vector*)b, right = *(const Vector*)(b + kWidth);
#pragma GCC unroll 16
        for (int i = 0; i < MR; i++) {
            sum[i][0] += a[i] * left;
            sum[i][1] += a[i] * right;
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++) {
        *(Vector*)(c + i * ldc) += alpha * sum[i][0];
        *(Vector*)(c + i * ldc + kWidth) += alpha * sum[i][1];
    }
}
#endif

// The same where C has only rows x columns left: through a whole tile of its own.
static void edge(int64_t rows, int64_t columns, int64_t kc, const float* a, const float* b,
                 float alpha, float* c, int64_t ldc) {
    float tile[MR * NR] = {};
    micro(kc, a, b, alpha, tile, NR);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) c[i * ldc + j] += tile[i * NR + j];
}

// C = alpha A B + beta C. a (m, k), b (k, n), c (m, n), each row by row, with lda, ldb, ldc floats
// from one row to the next. block: {mc, kc, nc}.
extern "C" void gemm(int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
                     const float* b, int64_t ldb, float beta, float* c, int64_t ldc,
                     const int64_t* block) {
    const int64_t MC = block[0], KC = block[1], NC = block[2];
    scale(m, n, beta, c, ldc);
    if (alpha == 0) return;  // BLAS: then A and B are not read
    float* const panels_a = buffer_a.reserve(round_up(std::min(m, MC), MR) * std::min(k, KC));
    float* const panels_b = buffer_b.reserve(round_up(std::min(n, NC), NR) * std::min(k, KC));
    for (int64_t p0 = 0; p0 < k; p0 += KC) {
        const int64_t kc = std::min(KC, k - p0);
        for (int64_t i0 = 0; i0 < m; i0 += MC) {
            const int64_t mc = std::min(MC, m - i0);
            pack_a(mc, kc, a + i0 * lda + p0, lda, panels_a);
            for (int64_t j0 = 0; j0 < n; j0 += NC) {
                const int64_t nc = std::min(NC, n - j0);
                pack_b(kc, nc, b + p0 * ldb + j0, ldb, panels_b);
                for (int64_t i = 0; i < mc; i += MR)
                    for (int64_t j = 0; j < nc; j += NR) {
                        const float* pa = panels_a + i * kc;
                        const float* pb = panels_b + j * kc;
                        float* tile = c + (i0 + i) * ldc + j0 + j;
                        if (i + MR <= mc && j + NR <= nc)
                            micro(kc, pa, pb, alpha, tile, ldc);
                        else
                            edge(std::min<int64_t>(MR, mc - i), std::min<int64_t>(NR, nc - j), kc,
                                 pa, pb, alpha, tile, ldc);
                    }
            }
        }
    }
}

// The packing alone, as gemm does it: what remains when the multiplication is left out.
extern "C" void packing(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda,
                        const float* b, int64_t ldb, const int64_t* block) {
    const int64_t MC = block[0], KC = block[1], NC = block[2];
    float* const panels_a = buffer_a.reserve(round_up(std::min(m, MC), MR) * std::min(k, KC));
    float* const panels_b = buffer_b.reserve(round_up(std::min(n, NC), NR) * std::min(k, KC));
    for (int64_t p0 = 0; p0 < k; p0 += KC) {
        const int64_t kc = std::min(KC, k - p0);
        for (int64_t i0 = 0; i0 < m; i0 += MC) {
            pack_a(std::min(MC, m - i0), kc, a + i0 * lda + p0, lda, panels_a);
            for (int64_t j0 = 0; j0 < n; j0 += NC)
                pack_b(kc, std::min(NC, n - j0), b + p0 * ldb + j0, ldb, panels_b);
        }
    }
}

// Rows and columns of C that the micro-kernel makes.
extern "C" int64_t tile_rows() { return MR; }
extern "C" int64_t tile_columns() { return NR; }
