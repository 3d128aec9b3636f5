// Checks a product y = A · x. Include it last, after
//     template <class Number>
//     void launch(int M, int K, const Number* A, const Number* x, float* y);
// It brings a main that checks several shapes, unless OWN_MAIN is defined.
//
// The reference is a sum in double of the products of the very numbers that the kernel gets, so
// their rounding to bf16 is not the kernel's error. What is allowed:
//     |error| ≤ γ · Σ |a·x|,   γ = K·u / (1 − K·u),   u = 2⁻²⁴
// for K products added in f32 in any order (Higham 2002, section 3.1), and nothing at all where
// all numbers are small and whole. y is filled with NaN first.
#pragma once
#include "check.cuh"
#include <cmath>
#include <cuda_bf16.h>
#include <random>
#include <vector>

template <class Number> class Problem {
  public:
    const int M, K;
    Number *A, *x;  // (M, K) and (K) on the device
    float* y;       // (M)

    Problem(int M, int K) : M(M), K(K), hA(size_t(M) * K), hx(K) {
        CHECK(cudaMalloc(&A, hA.size() * sizeof(Number)));
        CHECK(cudaMalloc(&x, hx.size() * sizeof(Number)));
        CHECK(cudaMalloc(&y, M * sizeof(float)));
    }
    ~Problem() { cudaFree(A), cudaFree(x), cudaFree(y); }
    Problem(const Problem&) = delete;

    void run() const { launch(M, K, A, x, y); }

    template <class Draw> void fill(Draw draw) {
        for (auto& a : hA) a = Number(float(draw()));
        for (auto& each : hx) each = Number(float(draw()));
        CHECK(cudaMemcpy(A, hA.data(), hA.size() * sizeof(Number), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(x, hx.data(), hx.size() * sizeof(Number), cudaMemcpyHostToDevice));
        poison();
    }

    // All bits set: NaN. What nobody writes is then wrong, and does not pass for an old result.
    void poison() const { CHECK(cudaMemset(y, 0xff, M * sizeof(float))); }

    // Compare y with the reference; a wrong element ends the program.
    void verify(const char* data, bool exact) const {
        std::vector<float> got(M);
        CHECK(cudaMemcpy(got.data(), y, M * sizeof(float), cudaMemcpyDeviceToHost));
        const double gamma = exact ? 0 : K * std::ldexp(1.0, -24) / (1 - K * std::ldexp(1.0, -24));
        for (int row = 0; row < M; ++row) {
            double sum = 0, sizes = 0;
            for (int k = 0; k < K; ++k) {
                double product = double(float(hA[size_t(row) * K + k])) * double(float(hx[k]));
                sum += product;
                sizes += std::abs(product);
            }
            if (std::abs(got[row] - sum) <= gamma * sizes) continue;  // false for NaN
            printf("matvec: WRONG on %s, %d by %d\n", data, M, K);
            fflush(stdout);
            fprintf(stderr, "wrong result: y[%d] is %g and should be %g (error bound %g)\n", row,
                    got[row], sum, gamma * sizes);
            exit(2);
        }
    }

  private:
    std::vector<Number> hA, hx;  // the same on the host
};

// Whole numbers and normal random ones, over shapes that fit the kernel's blocks and lanes and
// shapes that do not.
template <class Number> void check_all(const char* name) {
    std::mt19937 random(std::random_device{}());
    std::uniform_int_distribution<int> whole(-4, 4);
    std::normal_distribution<float> normal;
    const int shapes[][2] = {{8, 32}, {1, 1}, {9, 31}, {7, 33}, {64, 256}, {37, 1000}};
    for (const auto& [M, K] : shapes) {
        Problem<Number> problem(M, K);
        problem.fill([&] { return whole(random); });
        problem.run();
        problem.verify("whole numbers", true);
        problem.fill([&] { return normal(random); });
        problem.run();
        problem.verify("normal random numbers", false);
    }
    printf("matvec, %s: OK, 6 shapes, exact on whole numbers, within the error of f32 sums\n",
           name);
}

#ifndef OWN_MAIN
int main() {
    check_all<float>("f32");
    check_all<__nv_bfloat16>("bf16");
}
#endif
