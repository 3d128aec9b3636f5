// Checks a matrix product C = alpha · A · B + beta · C with 16-bit operands. Include it last, after
//     using In = …, Out = …;                      __half or __nv_bfloat16; Out may be float too
//     void launch(const Gemm<In, Out>& g);        one launch of the kernel
//
// Sizes, leading dimensions, alpha and beta are drawn anew in each run, ragged ones among them:
// - small whole numbers, where f32 makes no rounding error: the result must be exact, up to the
//   rounding of Out;
// - normal random numbers: the error may be what K terms can gather in f32 when each addition may
//   cut bits off, as tensor cores do: γ·Σ|a·b| with γ = (K + K/8 + 4)·2⁻²³. An addition of n + 1
//   numbers in a tensor core aligns them with the largest and cuts, so that each loses at most 2⁻²³
//   of it (Fasi et al. 2021); with 8 products an addition that makes 9 K/8 losses.
// Before each launch, C is filled with NaN where it is not to be read, and what lies between the
// rows of A and B is NaN too. What lies between the rows of C must stay as it was.
//
// Arguments: --seed N; time M N K: also time that product (on a GPU, warm, median of 20).
#pragma once
#include "check.cuh"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace harness {

constexpr size_t SAMPLE = 4096;         // elements checked of a product
constexpr float BETWEEN = -1234.0f;     // what lies between the rows of C

struct Case {
    int M, N, K;
    int multiple;  // leading dimensions are multiples of so many elements: 8, 2 or 1
    float alpha, beta;
};

// A matrix of rows × cols on the host, and a copy on the device, `shift` elements into its memory.
template <class T> struct Matrix {
    int rows, cols, stride;
    std::vector<T> host;
    T* memory;

    Matrix(int rows, int cols, int multiple)
        : rows(rows), cols(cols), stride((cols + multiple - 1) / multiple * multiple + multiple),
          host(size_t(rows) * stride) {
        CHECK(cudaMalloc(&memory, bytes()));
    }
    ~Matrix() { cudaFree(memory); }
    Matrix(const Matrix&) = delete;

    size_t bytes() const { return host.size() * sizeof(T); }
    float at(int row, int col) const { return float(host[size_t(row) * stride + col]); }

    template <class Draw> void fill(Draw draw, float between) {
        for (size_t i = 0; i < host.size(); ++i)
            host[i] = T(int(i % stride) < cols ? draw() : between);
    }
    void upload() { CHECK(cudaMemcpy(memory, host.data(), bytes(), cudaMemcpyHostToDevice)); }
    void download() { CHECK(cudaMemcpy(host.data(), memory, bytes(), cudaMemcpyDeviceToHost)); }
};

template <class T> double roundoff() {
    return std::is_same<T, float>::value    ? 0  // counted in γ
           : std::is_same<T, __half>::value ? std::ldexp(1.0, -11)
                                            : std::ldexp(1.0, -8);
}

[[noreturn]] inline void wrong(const Case& c, const char* data, unsigned seed, int row, int col,
                               double got, double right, double bound) {
    printf("matmul: WRONG on %s\n", data);
    fflush(stdout);
    fprintf(stderr,
            "wrong result: C[%d][%d] is %g and should be %g (error bound %g) for M=%d N=%d K=%d, "
            "rows of a multiple of %d elements, alpha %g, beta %g, seed %u\n",
            row, col, got, right, bound, c.M, c.N, c.K, c.multiple, c.alpha, c.beta, seed);
    exit(2);
}

template <class Draw>
void check(const Case& c, bool whole, Draw draw, std::mt19937& random, unsigned seed) {
    const char* data = whole ? "whole numbers" : "normal random numbers";
    Matrix<In> A(c.M, c.K, c.multiple), B(c.K, c.N, c.multiple);
    Matrix<Out> C(c.M, c.N, c.multiple);
    A.fill(draw, NAN), B.fill(draw, NAN);
    if (c.beta != 0) C.fill(draw, BETWEEN);
    else C.fill([] { return NAN; }, BETWEEN);
    A.upload(), B.upload(), C.upload();
    const std::vector<Out> before = C.host;
    launch(Gemm<In, Out>{A.memory, B.memory, C.memory, c.M, c.N, c.K, A.stride, B.stride, C.stride,
                         c.alpha, c.beta});
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    C.download();

    for (size_t i = 0; i < C.host.size(); ++i)
        if (int(i % C.stride) >= c.N && float(C.host[i]) != float(Out(BETWEEN)))
            wrong(c, "what lies between rows", seed, i / C.stride, i % C.stride, C.host[i],
                  BETWEEN, 0);
    const double gamma = (c.K + c.K / 8 + 4) * std::ldexp(1.0, -23);
    const size_t elements = size_t(c.M) * c.N;
    for (size_t n = 0; n < std::min(elements, SAMPLE); ++n) {
        // All elements of a small product; of a large one the last, and a random sample.
        const size_t element = elements <= SAMPLE ? n : n ? random() % elements : elements - 1;
        const int row = element / c.N, col = element % c.N;
        double sum = 0, sizes = 0;
        for (int k = 0; k < c.K; ++k) {
            const double product = double(A.at(row, k)) * B.at(k, col);
            sum += product, sizes += std::abs(product);
        }
        const double old = c.beta != 0 ? float(before[size_t(row) * C.stride + col]) : 0;
        const double exact = c.alpha * sum + c.beta * old;
        sizes = std::abs(c.alpha) * sizes + std::abs(c.beta * old);
        const double right = whole ? float(Out(float(exact))) : exact;
        const double bound = whole ? 0 : gamma * sizes + roundoff<Out>() * std::abs(exact);
        const double got = C.at(row, col);
        if (!(std::abs(got - right) <= bound)) wrong(c, data, seed, row, col, got, right, bound);
    }
}

inline bool emulated() {
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    return std::string(device.name).rfind("phasebit emulator", 0) == 0;
}

// The median of 20 launches, after 10 that warm up, on normal random numbers.
inline void time_one(int M, int N, int K, std::mt19937& random) {
    std::normal_distribution<float> normal;
    Matrix<In> A(M, K, 8), B(K, N, 8);
    Matrix<Out> C(M, N, 8);
    // Drawing is slow: a few thousand numbers, over and over, at a period that fits no row.
    std::vector<float> pool(65521);
    for (float& x : pool) x = normal(random);
    size_t next = 0;
    auto draw = [&] { return pool[next++ % pool.size()]; };
    A.fill(draw, 0), B.fill(draw, 0);
    A.upload(), B.upload();
    const Gemm<In, Out> g{A.memory, B.memory, C.memory, M, N, K,
                          A.stride, B.stride, C.stride, 1, 0};
    cudaEvent_t from, to;
    CHECK(cudaEventCreate(&from));
    CHECK(cudaEventCreate(&to));
    std::vector<float> milliseconds(30);
    for (float& time : milliseconds) {
        CHECK(cudaEventRecord(from));
        launch(g);
        CHECK(cudaEventRecord(to));
        CHECK(cudaEventSynchronize(to));
        CHECK(cudaEventElapsedTime(&time, from, to));
    }
    CHECK(cudaGetLastError());
    std::sort(milliseconds.begin() + 10, milliseconds.end());
    const double seconds = milliseconds[20] * 1e-3;
    printf("⏱ %d × %d × %d: %.3f ms, %.1f TFLOP/s\n", M, N, K, seconds * 1e3,
           2.0 * M * N * K / seconds * 1e-12);
}

}  // namespace harness

int main(int argc, char** argv) {
    using namespace harness;
    unsigned seed = std::random_device{}();
    for (int i = 1; i + 1 < argc; ++i)
        if (!strcmp(argv[i], "--seed")) seed = std::stoul(argv[i + 1]);
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> small(-4, 4);  // |Σ| ≤ 16·K stays below 2²⁴
    std::normal_distribution<float> normal;
    const int most = emulated() ? 100 : 600;  // the emulator looks at every access
    auto size = [&](int least) { return least + int(random() % (most - least + 1)); };
    const float alphas[] = {1, 0.5f, -2}, betas[] = {0, 1, -0.5f};

    std::vector<Case> cases{{most / 16 * 16, most / 16 * 16, most / 16 * 16, 8, 1, 0}};
    for (int multiple : {8, 2, 1})
        for (int again = 0; again < (emulated() ? 1 : 4); ++again)
            cases.push_back({size(1), size(1), size(17), multiple, alphas[random() % 3],
                             betas[random() % 3]});
    cases.push_back({size(1), size(1), 0, 8, 1, 1});  // an empty sum
    for (const Case& c : cases)
        check(c, true, [&] { return float(small(random)); }, random, seed);
    printf("matmul: OK, exact on whole numbers\n");
    for (const Case& c : cases)
        check(c, false, [&] { return normal(random); }, random, seed);
    printf("matmul: OK on normal random numbers, within the rounding errors of K f32 terms\n");

    for (int i = 1; i + 3 < argc && !emulated(); ++i)
        if (!strcmp(argv[i], "time"))
            time_one(atoi(argv[i + 1]), atoi(argv[i + 2]), atoi(argv[i + 3]), random);
    return 0;
}
