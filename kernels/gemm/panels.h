// Panels: blocks of A and B copied in the order in which the micro-kernel reads them.
#pragma once
#include "gemm/gemm.h"

#if defined(__AVX512F__)  // 32 registers of 16 floats: 14 x 2 sums, 2 for B, 1 for A
constexpr int kWidth = 16, MR = 14;
#elif defined(__AVX__)  // 16 registers of 8 floats: 6 x 2 sums, 2 for B, 1 for A
constexpr int kWidth = 8, MR = 6;
#else  // 16 registers or more of 4 floats
constexpr int kWidth = 4, MR = 6;
#endif
constexpr int kVectors = 2, NR = kVectors * kWidth;  // the micro-kernel makes MR x NR of C

typedef float Vector __attribute__((vector_size(4 * kWidth), aligned(4), may_alias));

// a (mc, kc), lda floats from row to row, becomes panels of MR rows: to (mc / MR, kc, MR). A last
// panel is filled up with zeros.
inline void pack_a(int64_t mc, int64_t kc, const float* a, int64_t lda, float* to) {
    for (int64_t i = 0; i < mc; i += MR, to += MR * kc)
        for (int64_t p = 0; p < kc; p++)
            for (int64_t r = 0; r < MR; r++) to[p * MR + r] = i + r < mc ? a[(i + r) * lda + p] : 0;
}

// b (kc, nc), ldb floats from row to row, becomes panels of NR columns: to (nc / NR, kc, NR). A
// last panel is filled up with zeros.
inline void pack_b(int64_t kc, int64_t nc, const float* b, int64_t ldb, float* to) {
    for (int64_t j = 0; j < nc; j += NR, to += NR * kc) {
        const int64_t width = std::min<int64_t>(NR, nc - j);
        for (int64_t p = 0; p < kc; p++) {
            std::copy(b + p * ldb + j, b + p * ldb + j + width, to + p * NR);
            std::fill(to + p * NR + width, to + (p + 1) * NR, 0.0f);
        }
    }
}

inline int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }
