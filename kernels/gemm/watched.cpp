// The rungs of *The anatomy of a fast GEMM* once more, element by element and over any kind of
// array, so that caches and TLBs can watch them: the accesses of the fast rungs in the order in which those make them.
#include <algorithm>
#include <vector>

#include "watch.h"

template <class Array>
struct Rungs {
    int64_t n;                        // a, b and c are (n, n)
    int64_t rows, columns, mc, kc, nc;  // of a tile; blocks
    int64_t threads;                    // of which the first is watched
    char loop;                          // whose rounds they divide: of 0 j0, of 1 i, of 2 j
    Array a, b, c, panels_a, panels_b;

    void naive() {
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                float sum = 0;
                for (int64_t p = 0; p < n; p++) sum += a[i * n + p] * b[p * n + j];
                c[i * n + j] += sum;
            }
    }

    void interchanged() {
        for (int64_t i = 0; i < n; i++)
            for (int64_t p = 0; p < n; p++) {
                const float factor = a[i * n + p];
                for (int64_t j = 0; j < n; j++) c[i * n + j] += factor * b[p * n + j];
            }
    }

    void tiled(bool pack) {
        for (int64_t p0 = 0; p0 < n; p0 += kc)
            for (int64_t j0 = 0; j0 < n; j0 += nc) {
                const int64_t p1 = std::min(p0 + kc, n), width = std::min(nc, n - j0);
                for (int64_t p = p0; p < p1 && pack; p++)
                    for (int64_t j = 0; j < width; j++)
                        panels_b[(p - p0) * width + j] = b[p * n + j0 + j];
                for (int64_t i = 0; i < n; i++)
                    for (int64_t p = p0; p < p1; p++) {
                        const float factor = a[i * n + p];
                        const Array row = pack ? panels_b + (p - p0) * width : b + (p * n + j0);
                        for (int64_t j = 0; j < width; j++) c[i * n + j0 + j] += factor * row[j];
                    }
            }
    }

    // Where the first thread's share of `whole`, in pieces of `step`, ends.
    int64_t first(int64_t whole, int64_t step) const {
        return std::min((whole + step - 1) / step / threads * step, whole);
    }

    void registers() {
        for (int64_t p0 = 0; p0 < n; p0 += kc)
            for (int64_t i0 = 0; i0 < n; i0 += mc) {
                const int64_t depth = std::min(kc, n - p0), height = std::min(mc, n - i0);
                const int64_t below = first(height, rows), end = loop == 0 ? first(n, nc) : n;
                for (int64_t i = 0; i < below; i += rows)
                    for (int64_t p = 0; p < depth; p++)
                        for (int64_t r = 0; r < rows; r++)
                            panels_a[i * depth + p * rows + r] =
                                i + r < height ? float(a[(i0 + i + r) * n + p0 + p]) : 0;
                for (int64_t j0 = 0; j0 < end; j0 += nc) {
                    const int64_t width = std::min(nc, n - j0);
                    const int64_t right = loop == 0 ? width : first(width, columns);
                    for (int64_t j = 0; j < right; j += columns)
                        for (int64_t p = 0; p < depth; p++)
                            for (int64_t s = 0; s < columns; s++)
                                panels_b[j * depth + p * columns + s] =
                                    j + s < width ? float(b[(p0 + p) * n + j0 + j + s]) : 0;
                    for (int64_t i = 0; i < (loop == 1 ? below : height); i += rows)
                        for (int64_t j = 0; j < (loop == 2 ? right : width); j += columns)
                            micro(depth, panels_a + i * depth, panels_b + j * depth,
                                  c + ((i0 + i) * n + j0 + j), std::min(rows, height - i),
                                  std::min(columns, width - j));
                }
            }
    }

    void micro(int64_t depth, Array pa, Array pb, Array tile, int64_t valid_rows,
               int64_t valid_columns) {
        std::vector<float> sum(rows * columns), row(columns);  // in registers: nobody watches
        for (int64_t p = 0; p < depth; p++) {
            for (int64_t j = 0; j < columns; j++) row[j] = pb[p * columns + j];
            for (int64_t i = 0; i < rows; i++) {
                const float factor = pa[p * rows + i];
                for (int64_t j = 0; j < columns; j++) sum[i * columns + j] += factor * row[j];
            }
        }
        for (int64_t i = 0; i < valid_rows; i++)
            for (int64_t j = 0; j < valid_columns; j++) tile[i * n + j] += sum[i * columns + j];
    }
};

// C += A B on rung `rung` (0: naive, 1: interchanged, 2: tiled, 3: packed, 4: registers), watched.
// sizes (8): n, rows and columns of a tile, mc, kc, nc; how many threads divide the rounds of a loop
// of the last rung, of which the first is watched, and of which loop (0: j0, 1: i, 2: j). a, b, c (n, n); panels_a and panels_b hold
// a packed block each. at (5): the bytes at which the five arrays lie. levels (count, 4) and
// counts (1 + count): see Memory.
extern "C" void watched(int64_t rung, const int64_t* sizes, float* a, float* b, float* c,
                        float* panels_a, float* panels_b, const int64_t* at, int64_t count,
                        const int64_t* levels, int64_t* counts) {
    Memory memory(count, levels);
    Rungs<Watched<float>> rungs{sizes[0],
                                sizes[1],
                                sizes[2],
                                sizes[3],
                                sizes[4],
                                sizes[5],
                                sizes[6],
                                char(sizes[7]),
                                Watched<float>(memory, a, at[0]),
                                Watched<float>(memory, b, at[1]),
                                Watched<float>(memory, c, at[2]),
                                Watched<float>(memory, panels_a, at[3]),
                                Watched<float>(memory, panels_b, at[4])};
    if (rung == 0) rungs.naive();
    if (rung == 1) rungs.interchanged();
    if (rung == 2 || rung == 3) rungs.tiled(rung == 3);
    if (rung == 4) rungs.registers();
    memory.report(counts);
}
