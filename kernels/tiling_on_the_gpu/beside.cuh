// Two rungs of *Tiling on the GPU* beside each other. Include it last, after
//     namespace before { … }     a rung, without a main
//     namespace after { … }      and another
//
// Both multiply the same random matrices and must agree to the last bit: every rung adds the K
// products of an element one by one, in their order. On a GPU they are then timed by turns.
#pragma once
#include "timing.cuh"
#include <cstdint>
#include <random>
#include <vector>

namespace beside {

// A matrix of random numbers on the device; or of NaN, when there is nothing to draw from.
class Matrix {
  public:
    Matrix(int rows, int cols, std::mt19937* random) : count(size_t(rows) * cols) {
        CHECK(cudaMalloc(&memory, count * sizeof(float)));
        CHECK(cudaMemset(memory, 0xFF, count * sizeof(float)));  // a NaN
        if (!random) return;
        std::normal_distribution<float> normal;
        std::vector<float> numbers(count), pool(65521);  // drawing is slow: over and over
        for (float& x : pool) x = normal(*random);
        for (size_t i = 0; i < count; ++i) numbers[i] = pool[i % pool.size()];
        CHECK(cudaMemcpy(memory, numbers.data(), count * sizeof(float), cudaMemcpyHostToDevice));
    }
    ~Matrix() { cudaFree(memory); }
    Matrix(const Matrix&) = delete;
    std::vector<float> download() const {
        std::vector<float> numbers(count);
        CHECK(cudaMemcpy(numbers.data(), memory, count * sizeof(float), cudaMemcpyDeviceToHost));
        return numbers;
    }
    float* memory;

  private:
    size_t count;
};

// Whether both rungs make the same of M × N × K. Where `line` is given: also how long they take.
inline bool same(int M, int N, int K, std::mt19937& random, char (*line)[160] = nullptr) {
    Matrix A(M, K, &random), B(K, N, &random), one(M, N, nullptr), other(M, N, nullptr);
    const Product first{A.memory, B.memory, one.memory, M, N, K, K, N, N, 1, 0};
    Product second = first;
    second.C = other.memory;
    before::launch(first), after::launch(second);
    CHECK(cudaGetLastError());
    const std::vector<float> got = one.download(), next = other.download();
    for (size_t i = 0; i < got.size(); ++i)
        if (std::isnan(got[i]) || memcmp(&got[i], &next[i], sizeof(float)) != 0) {
            fprintf(stderr, "C[%zu][%zu] is %g before and %g after, for M=%d N=%d K=%d\n", i / N,
                    i % N, got[i], next[i], M, N, K);
            return false;
        }
    if (!line) return true;
    timing::Times old, now;
    for (int turn = 0; turn < 10; ++turn) {
        before::launch(first);
        for (double time : timing::each(5, [&] { before::launch(first); })) old.push_back(time);
        after::launch(second);
        for (double time : timing::each(5, [&] { after::launch(second); })) now.push_back(time);
    }
    const double from = timing::quantile(old, 0.5), to = timing::quantile(now, 0.5);  // µs
    snprintf(*line, sizeof *line,
             "⏱ %d × %d × %d: before %.3f ms, after %.3f ms, %.3f times as fast\n", M, N, K,
             from / 1e3, to / 1e3, from / to);
    return true;
}

}  // namespace beside

int main(int argc, char** argv) {
    const char* given = timing::option(argc, argv, "--seed");
    const unsigned seed = given ? std::stoul(given) : std::random_device{}();
    std::mt19937 random(seed);
    char line[160] = "";
    const bool right = beside::same(133, 140, 36, random) &&  // rows of 16 bytes, ragged edges
                       beside::same(130, 129, 35, random) &&  // rows that begin anywhere
                       (timing::emulated() || beside::same(4096, 4096, 4096, random, &line));
    printf(right ? "before and after: the same to the last bit\n"
                 : "before and after: DIFFERENT\n");
    fputs(line, stdout);
    if (!right) fprintf(stderr, "seed %u\n", seed);
    return right ? 0 : 2;
}
