// Checks a matrix product C = A · Bᵀ of bf16 in f32. Include it last, after
//     constexpr int TILE_M, TILE_N;           the part of C that is made at a time
//     void launch(const Product& p);          one launch of the kernel
//
// - Small whole numbers, where f32 makes no rounding error: the result must be exact.
// - Normal random numbers: |error| ≤ γ·Σ|a·b|, γ = (k + k/16 + 4)·2⁻²³. A tensor core aligns 16
//   products and a sum with the largest of them and cuts, so that each may lose 2⁻²³ of it (Fasi
//   et al. 2021 measured it, on older ones; for Blackwell it is an assumption).
// C is f32, as tensor memory holds it, or with -DC_BF16 bf16: then within its rounding, 2⁻⁸ of the
// result.
// C is filled with NaN before each launch, so an element that nobody writes is wrong. Nothing is
// timed: no GPU that this is for was at hand.
//
// Arguments: --seed N; --shape M N K: only that product, of whole numbers.
#pragma once
#include "c_type.cuh"
#include "check.cuh"
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <cuda_bf16.h>
#include <random>
#include <string>
#include <vector>

using Element = __nv_bfloat16;

struct Product {
    const Element* A;  // (m, k), row-major
    const Element* B;  // (n, k), row-major
    Out* C;            // (m, n), row-major: C[i][j] = Σ A[i][l] · B[j][l]
    int m, n, k;       // n a multiple of EVEN, k of 8: rows begin at multiples of 16 bytes
    int workers;       // a persistent kernel starts at most so many blocks, or pairs of blocks
};

constexpr int EVEN = 16 / sizeof(Out);
constexpr double ROUNDED = sizeof(Out) == 4 ? 0 : 1.0 / 256;

void launch(const Product& p);

// Multiplies fresh matrices and compares every element with a sum in double; a wrong one ends
// the program.
template <class Draw>
void verify(int m, int n, int k, int workers, const char* data, double gamma, Draw draw) {
    std::vector<Element> a(size_t(m) * k), b(size_t(n) * k);
    for (Element& x : a) x = __float2bfloat16(draw());
    for (Element& x : b) x = __float2bfloat16(draw());
    std::vector<Out> c(size_t(m) * n);
    Element *A, *B;
    Out* C;
    CHECK(cudaMalloc(&A, a.size() * sizeof(Element)));
    CHECK(cudaMalloc(&B, b.size() * sizeof(Element)));
    CHECK(cudaMalloc(&C, c.size() * sizeof(Out)));
    CHECK(cudaMemcpy(A, a.data(), a.size() * sizeof(Element), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(B, b.data(), b.size() * sizeof(Element), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(C, 0xff, c.size() * sizeof(Out)));  // all bits set: NaN
    launch({A, B, C, m, n, k, workers});
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(c.data(), C, c.size() * sizeof(Out), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(A));
    CHECK(cudaFree(B));
    CHECK(cudaFree(C));
    std::vector<double> left(a.size()), right(b.size());
    std::transform(a.begin(), a.end(), left.begin(), __bfloat162float);
    std::transform(b.begin(), b.end(), right.begin(), __bfloat162float);
    int wrong = 0, unwritten = 0, first = -1;
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j) {
            double sum = 0, sizes = 0;
            for (int l = 0; l < k; ++l) {
                const double product = left[size_t(i) * k + l] * right[size_t(j) * k + l];
                sum += product;
                sizes += std::abs(product);
            }
            const float got = c[size_t(i) * n + j];
            const double allowed = gamma * sizes + ROUNDED * std::abs(sum);
            if (std::abs(got - sum) <= allowed) continue;  // false for NaN
            if (!wrong++) first = i * n + j;
            unwritten += std::isnan(got);
        }
    if (!wrong) return;
    printf("matmul: WRONG on %s, %d x %d x %d: %d elements, %d of them NaN; first at (%d, %d)\n",
           data, m, n, k, wrong, unwritten, first / n, first % n);
    exit(2);
}

int main(int argc, char** argv) {
    unsigned seed = std::random_device{}();
    std::array<int, 3> shape{};
    for (int i = 1; i < argc; ++i) {
        if (i + 1 < argc && !strcmp(argv[i], "--seed")) seed = std::stoul(argv[i + 1]);
        if (i + 3 < argc && !strcmp(argv[i], "--shape"))
            for (int d = 0; d < 3; ++d) shape[d] = std::stoi(argv[i + 1 + d]);
    }
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> small(-4, 4);
    std::normal_distribution<float> bell;
    auto whole = [&] { return float(small(random)); };
    auto normal = [&] { return bell(random); };
    if (shape[0]) {
        verify(shape[0], shape[1], shape[2], 1 << 20, "whole numbers", 0, whole);
        printf("matmul: OK, exact on %d x %d x %d\n", shape[0], shape[1], shape[2]);
        return 0;
    }
    auto draw = [&](int from, int to, int step) {
        return step * std::uniform_int_distribution<int>(from, to)(random);
    };
    verify(TILE_M, TILE_N, 64, 1, "whole numbers", 0, whole);             // one tile
    verify(2 * TILE_M, 2 * TILE_N, 192, 3, "whole numbers", 0, whole);    // four, by three workers
    verify(5 * TILE_M - 7, EVEN, 8, 1, "whole numbers", 0, whole);        // five, by one
    verify(TILE_M + 1, TILE_N + EVEN, 456, 2, "whole numbers", 0, whole);  // many slices
    int k = draw(1, 40, 8);
    verify(draw(1, TILE_M, 1), draw(1, TILE_N * 2 / EVEN, EVEN), k, 2, "whole numbers", 0, whole);
    k = draw(1, 40, 8);
    verify(draw(1, TILE_M, 1), draw(1, TILE_N / EVEN, EVEN), k, 2, "normal random numbers",
           (k + k / 16 + 4) * std::ldexp(1.0, -23), normal);
    printf("matmul: OK, %s on whole numbers, for whole tiles and ragged edges\n",
           ROUNDED ? "rounded once" : "exact");
}
