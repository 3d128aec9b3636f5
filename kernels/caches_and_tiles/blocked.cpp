// Matrix multiplication in blocks, as Lam, Rothberg and Wolf 1991 study it: a square block of B
// is used by every row of A while it stays in the cache.
#include <algorithm>

#include "watch.h"

// C += A B, all (n, n) with ld floats from row to row; b is taken in blocks of block x block.
template <class Array>
static void multiply(int64_t n, int64_t ld, int64_t block, Array a, Array b, Array c) {
    for (int64_t k0 = 0; k0 < n; k0 += block)
        for (int64_t j0 = 0; j0 < n; j0 += block)
            for (int64_t i = 0; i < n; i++)
                for (int64_t k = k0; k < std::min(k0 + block, n); k++) {
                    const float factor = a[i * ld + k];
                    for (int64_t j = j0; j < std::min(j0 + block, n); j++)
                        c[i * ld + j] += factor * b[k * ld + j];
                }
}

extern "C" void blocked(int64_t n, int64_t ld, int64_t block, const float* a, const float* b,
                        float* c) {
    multiply<float*>(n, ld, block, const_cast<float*>(a), const_cast<float*>(b), c);
}

// The same, watched. at (3): the bytes at which a, b and c lie. levels (count, 4) and counts
// (1 + count): see Memory.
extern "C" void watched(int64_t n, int64_t ld, int64_t block, const float* a, const float* b,
                        float* c, const int64_t* at, int64_t count, const int64_t* levels,
                        int64_t* counts) {
    Memory memory(count, levels);
    multiply(n, ld, block, Watched<float>(memory, const_cast<float*>(a), at[0]),
             Watched<float>(memory, const_cast<float*>(b), at[1]),
             Watched<float>(memory, c, at[2]));
    memory.report(counts);
}
