// The micro-kernel with any tile: ROWS rows by VECTORS vectors of C. To find the best, and to see
// what happens when the sums no longer fit into the registers.
#include "gemm/panels.h"

#ifndef ROWS
#define ROWS MR
#endif
#ifndef VECTORS
#define VECTORS kVectors
#endif
constexpr int COLUMNS = VECTORS * kWidth;

// c (ROWS, COLUMNS) += a b, with panels a (kc, ROWS) and b (kc, COLUMNS).
__attribute__((noinline)) static void micro(int64_t kc, const float* __restrict a,
                                            const float* __restrict b, float* __restrict c,
                                            int64_t ldc) {
    Vector sum[ROWS][VECTORS] = {};
    for (int64_t p = 0; p < kc; p++, a += ROWS, b += COLUMNS) {
        Vector row[VECTORS];
#pragma GCC unroll 8
        for (int j = 0; j < VECTORS; j++) row[j] = *(const Vector*)(b + j * kWidth);
#pragma GCC unroll 32
        for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 8
            for (int j = 0; j < VECTORS; j++) sum[i][j] += a[i] * row[j];
    }
#pragma GCC unroll 32
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 8
        for (int j = 0; j < VECTORS; j++) *(Vector*)(c + i * ldc + j * kWidth) += sum[i][j];
}

// One panel of A, a (kc, ROWS), times each of `panels` panels of B, b (panels, kc, COLUMNS):
// c (ROWS, panels * COLUMNS) grows by the products.
extern "C" void panels(int64_t panels, int64_t kc, const float* a, const float* b, float* c) {
    for (int64_t j = 0; j < panels; j++)
        micro(kc, a, b + j * kc * COLUMNS, c + j * COLUMNS, panels * COLUMNS);
}

extern "C" int64_t tile_rows() { return ROWS; }
extern "C" int64_t tile_columns() { return COLUMNS; }
