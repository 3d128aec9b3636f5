// Matrix multiplication in blocks, as Lam, Rothberg and Wolf 1991 study it: a block of B is used by
// every row of A while it stays in the cache.
#include <algorithm>

#include "watch.h"

// C += A B, all (n, n) with ld floats from row to row; b is taken in blocks of rows x columns.
template <class Array>
static void multiply(int64_t n, int64_t ld, int64_t rows, int64_t columns, Array a, Array b,
                     Array c) {
    for (int64_t k0 = 0; k0 < n; k0 += rows)
        for (int64_t j0 = 0; j0 < n; j0 += columns)
            for (int64_t i = 0; i < n; i++)
                for (int64_t k = k0; k < std::min(k0 + rows, n); k++) {
                    const float factor = a[i * ld + k];
                    for (int64_t j = j0; j < std::min(j0 + columns, n); j++)
                        c[i * ld + j] += factor * b[k * ld + j];
                }
}

extern "C" void blocked(int64_t n, int64_t ld, int64_t block, const float* a, const float* b,
                        float* c) {
    multiply<float*>(n, ld, block, block, const_cast<float*>(a), const_cast<float*>(b), c);
}

// The same with blocks of any shape, watched. at (3): the bytes at which a, b and c lie. levels (count, 4) and counts
// (1 + count): see Memory.
extern "C" void watched(int64_t n, int64_t ld, int64_t rows, int64_t columns, const float* a,
                        const float* b, float* c, const int64_t* at, int64_t count,
                        const int64_t* levels, int64_t* counts) {
    Memory memory(count, levels);
    multiply(n, ld, rows, columns, Watched<float>(memory, const_cast<float*>(a), at[0]),
             Watched<float>(memory, const_cast<float*>(b), at[1]),
             Watched<float>(memory, c, at[2]));
    memory.report(counts);
}
