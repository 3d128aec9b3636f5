// Checks attention, O = softmax(Q · Kᵀ · scale) · V for each head. Include it last, after
//     constexpr int THREADS, TILES; struct Shared; __global__ attend(…)
//
// Normal random numbers, ragged sequences, against sums in double: |error| ≤ 2⁻⁶ · Σ p|v| / Σ p,
// which the page derives. O is filled with NaN before each launch, so that a row which nobody
// writes is wrong. Nothing is timed: no GPU that this is for was at hand.
//
// Arguments: --seed N.
#pragma once
#include "check.cuh"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

inline void launch(const Element* q, const Element* k, const Element* v, Element* o, int heads,
                   const Problem& p) {
    CHECK(cudaFuncSetAttribute(attend, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               sizeof(Shared)));
    const auto map = [&](const Element* matrix, int rows) {
        return tensor_map_2d(matrix, rows, heads * DEPTH, ROWS, BOX,
                             CU_TENSOR_MAP_SWIZZLE_128B);
    };
    const int rows = TILES * ROWS;
    attend<<<dim3((p.queries + rows - 1) / rows, heads), THREADS, sizeof(Shared)>>>(
        map(q, p.queries), map(k, p.keys), map(v, p.keys), map(o, p.queries), p);
}

inline void verify(std::mt19937& random, int queries, int keys, int heads, int causal) {
    std::normal_distribution<float> bell;
    const int width = heads * DEPTH;
    Element* device[4];
    std::vector<Element> host[4];
    std::vector<double> exact[3];
    for (int i = 0; i < 4; ++i) {  // Q, K, V, O
        host[i].resize(size_t(i % 3 ? keys : queries) * width);
        for (Element& x : host[i]) x = __float2bfloat16(bell(random));
        CHECK(cudaMalloc(&device[i], host[i].size() * sizeof(Element)));
        CHECK(cudaMemcpy(device[i], host[i].data(), host[i].size() * sizeof(Element),
                         cudaMemcpyHostToDevice));
        for (Element& x : host[i]) if (i < 3) exact[i].push_back(__bfloat162float(x));
    }
    std::vector<Element>& got = host[3];
    CHECK(cudaMemset(device[3], 0xff, got.size() * sizeof(Element)));  // all bits set: NaN
    const double scale = 1 / std::sqrt(double(DEPTH));
    const Problem p{queries, keys, causal, float(scale * 1.4426950408889634), 8};
    launch(device[0], device[1], device[2], device[3], heads, p);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(got.data(), device[3], got.size() * sizeof(Element),
                     cudaMemcpyDeviceToHost));
    for (Element* each : device) CHECK(cudaFree(each));
    for (int head = 0; head < heads; ++head)
        for (int i = 0; i < queries; ++i) {
            const int seen = causal ? std::max(0, i + 1 + keys - queries) : keys;
            std::vector<double> sums(DEPTH), sizes(DEPTH);
            double weights = 0;
            for (int j = 0; j < seen; ++j) {
                const double *q = &exact[0][size_t(i) * width + head * DEPTH],
                             *k = &exact[1][size_t(j) * width + head * DEPTH],
                             *v = &exact[2][size_t(j) * width + head * DEPTH];
                double score = 0;
                for (int d = 0; d < DEPTH; ++d) score += q[d] * k[d];
                const double weight = std::exp(score * scale);
                weights += weight;
                for (int d = 0; d < DEPTH; ++d)
                    sums[d] += weight * v[d], sizes[d] += weight * std::abs(v[d]);
            }
            for (int d = 0; d < DEPTH; ++d) {
                const double right = seen ? sums[d] / weights : 0;
                const double bound = seen ? std::ldexp(sizes[d] / weights, -6) : 0;
                const float mine = __bfloat162float(got[size_t(i) * width + head * DEPTH + d]);
                if (std::abs(mine - right) <= bound) continue;  // false for NaN
                printf("attention: WRONG on %d x %d, %d heads%s: row %d, column %d of head %d\n",
                       queries, keys, heads, causal ? ", causal" : "", i, d, head);
                fflush(stdout);
                fprintf(stderr, "it is %g and should be %g (error bound %g)\n", mine, right, bound);
                exit(2);
            }
        }
}

int main(int argc, char** argv) {
    unsigned seed = std::random_device{}();
    for (int i = 1; i + 1 < argc; ++i)
        if (!strcmp(argv[i], "--seed")) seed = std::stoul(argv[i + 1]);
    std::mt19937 random(seed);
    verify(random, 128, 128, 1, 0);
    verify(random, 200, 333, 2, 0);
    verify(random, 300, 300, 1, 1);
    verify(random, 70, 190, 1, 1);
    printf("attention: OK, within its error bound, full and causal, on ragged sequences\n");
}
