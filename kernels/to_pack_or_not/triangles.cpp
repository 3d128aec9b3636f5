// Two nests with a triangle in them, as PolyBench has them: a product with a triangular matrix, and
// the orthogonalisation of Gram and Schmidt. Each as written, with a column packed, and along rows.
#include <cmath>

#include "watch.h"

// b (n, n) = the transposed of a, times b: of a (n, n) only what lies below the diagonal is used, and
// its diagonal counts as 1. Version 0: as written; 1: a column of a in buffer (n); 2: along rows.
template <class Array>
static void trmm(int version, int64_t n, Array a, Array b, Array buffer) {
    for (int64_t i = 0; i < n; i++) {
        if (version == 2) {
            for (int64_t k = i + 1; k < n; k++) {
                const float factor = a[k * n + i];
                for (int64_t j = 0; j < n; j++) b[i * n + j] += factor * b[k * n + j];
            }
            continue;
        }
        for (int64_t k = i + 1; k < n && version == 1; k++) buffer[k] = float(a[k * n + i]);
        for (int64_t j = 0; j < n; j++)
            for (int64_t k = i + 1; k < n; k++) {
                const float factor = version == 1 ? float(buffer[k]) : float(a[k * n + i]);
                b[i * n + j] += factor * b[k * n + j];
            }
    }
}

// The columns of a (n, n) made orthogonal, one after the other, into q (n, n): a = q r, r (n, n)
// upper triangular. Version 0: as written; 1: a column of q in buffer (n); 2: along rows.
template <class Array>
static void gramschmidt(int version, int64_t n, Array a, Array q, Array r, Array buffer) {
    for (int64_t k = 0; k < n; k++) {
        float square = 0;
        for (int64_t i = 0; i < n; i++) {
            const float value = a[i * n + k];
            square += value * value;
        }
        const float length = std::sqrt(square);
        r[k * n + k] = length;
        for (int64_t i = 0; i < n; i++) {
            const float value = float(a[i * n + k]) / length;
            q[i * n + k] = value;
            if (version == 1) buffer[i] = value;
        }
        if (version == 2) {
            for (int64_t j = k + 1; j < n; j++) r[k * n + j] = 0;
            for (int64_t i = 0; i < n; i++) {
                const float value = q[i * n + k];
                for (int64_t j = k + 1; j < n; j++) r[k * n + j] += value * a[i * n + j];
            }
            for (int64_t i = 0; i < n; i++) {
                const float value = q[i * n + k];
                for (int64_t j = k + 1; j < n; j++) a[i * n + j] += -value * r[k * n + j];
            }
            continue;
        }
        for (int64_t j = k + 1; j < n; j++) {
            float sum = 0;
            for (int64_t i = 0; i < n; i++)
                sum += (version == 1 ? float(buffer[i]) : float(q[i * n + k])) * a[i * n + j];
            r[k * n + j] = sum;
            for (int64_t i = 0; i < n; i++)
                a[i * n + j] +=
                    -(version == 1 ? float(buffer[i]) : float(q[i * n + k])) * sum;
        }
    }
}

extern "C" void run_trmm(int64_t version, int64_t n, const float* a, float* b, float* buffer) {
    trmm<float*>(version, n, const_cast<float*>(a), b, buffer);
}

extern "C" void run_gramschmidt(int64_t version, int64_t n, float* a, float* q, float* r,
                                float* buffer) {
    gramschmidt(version, n, a, q, r, buffer);
}

// The same, watched: the arrays lie at multiples of `apart` bytes. levels (count, 4) and counts
// (1 + count): see Memory.
extern "C" void watched_trmm(int64_t version, int64_t n, float* a, float* b, float* buffer,
                             int64_t apart, int64_t count, const int64_t* levels,
                             int64_t* counts) {
    Memory memory(count, levels);
    trmm(version, n, Watched<float>(memory, a, 0), Watched<float>(memory, b, apart),
         Watched<float>(memory, buffer, 2 * apart));
    memory.report(counts);
}

extern "C" void watched_gramschmidt(int64_t version, int64_t n, float* a, float* q, float* r,
                                    float* buffer, int64_t apart, int64_t count,
                                    const int64_t* levels, int64_t* counts) {
    Memory memory(count, levels);
    gramschmidt(version, n, Watched<float>(memory, a, 0), Watched<float>(memory, q, apart),
                Watched<float>(memory, r, 2 * apart), Watched<float>(memory, buffer, 3 * apart));
    memory.report(counts);
}
