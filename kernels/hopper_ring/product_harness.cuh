// Checks a product C = A · Bᵀ in bf16, as the tensor cores of Hopper and later like it: both
// operands with K innermost. Include it last, after
//     void launch(const Product& p);              one launch of the kernel
//
// N and K are multiples of 8, since the copy engine wants rows of a multiple of 16 bytes; M is any.
// Shapes are drawn anew in each run, ragged ones among them:
// - small whole numbers, where f32 makes no rounding error: C must be exact, up to its rounding;
// - normal random numbers: within what K terms can gather in f32 when each addition may cut bits
//   off, γ·Σ|a·b| with γ = (K + K/8 + 4)·2⁻²³ as in gemm.cuh, and the rounding of C.
// Before each launch C is full of NaN, and so is what lies behind A and B; what lies behind C must
// stay as it was.
//
// Arguments: --seed N; time M N K: also time that product (on a GPU, warm, median of 20).
#pragma once
#include "check.cuh"
#include "timing.cuh"
#include <random>
#include <vector>

namespace harness {

constexpr size_t SAMPLE = 4096;   // elements checked of a product
constexpr size_t BEHIND = 1024;   // elements behind each matrix that are watched

// A matrix of rows × cols on the host and on the device, and something behind it.
struct Matrix {
    size_t rows, cols;
    std::vector<bf16> host;
    bf16* memory;

    Matrix(size_t rows, size_t cols) : rows(rows), cols(cols), host(rows * cols + BEHIND) {
        CHECK(cudaMalloc(&memory, bytes()));
    }
    ~Matrix() { cudaFree(memory); }
    Matrix(const Matrix&) = delete;
    size_t bytes() const { return host.size() * sizeof(bf16); }
    double at(size_t row, size_t col) const { return __bfloat162float(host[row * cols + col]); }

    template <class Draw> void fill(Draw draw, float behind = NAN) {
        for (size_t i = 0; i < host.size(); ++i)
            host[i] = __float2bfloat16(i < rows * cols ? float(draw()) : behind);
        CHECK(cudaMemcpy(memory, host.data(), bytes(), cudaMemcpyHostToDevice));
    }
    void download() { CHECK(cudaMemcpy(host.data(), memory, bytes(), cudaMemcpyDeviceToHost)); }
};

inline int multiprocessors() {
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    return device.multiProcessorCount;
}

template <class Draw>
void check(int M, int N, int K, bool whole, Draw draw, std::mt19937& random, unsigned seed) {
    Matrix A(M, K), B(N, K), C(M, N);
    A.fill(draw), B.fill(draw);
    C.fill([] { return NAN; }, -1234.0f);
    // On the emulator few, so that a block has several tiles even of a small product.
    launch(Product{A.memory, B.memory, C.memory, M, N, K,
                   timing::emulated() ? 2 : multiprocessors(), 0});
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    C.download();

    auto wrong = [&](int row, int col, double got, double right, double bound) {
        printf("product: WRONG on %s\n", whole ? "whole numbers" : "normal random numbers");
        fflush(stdout);
        fprintf(stderr, "wrong result: C[%d][%d] is %g and should be %g (error bound %g) for M=%d "
                "N=%d K=%d, seed %u\n", row, col, got, right, bound, M, N, K, seed);
        exit(2);
    };
    for (size_t i = 0; i < BEHIND; ++i) {
        const float got = __bfloat162float(C.host[size_t(M) * N + i]);
        if (got != __bfloat162float(__float2bfloat16(-1234.0f))) wrong(M, i, got, -1234, 0);
    }
    const double gamma = (K + K / 8 + 4) * std::ldexp(1.0, -23);
    const size_t elements = size_t(M) * N;
    for (size_t n = 0; n < std::min(elements, SAMPLE); ++n) {
        // All elements of a small product; of a large one the last, and a random sample.
        const size_t element = elements <= SAMPLE ? n : n ? random() % elements : elements - 1;
        const int row = element / N, col = element % N;
        double exact = 0, sizes = 0;
        for (int k = 0; k < K; ++k) {
            const double product = A.at(row, k) * B.at(col, k);
            exact += product, sizes += std::abs(product);
        }
        const double right = whole ? __bfloat162float(__float2bfloat16(float(exact))) : exact;
        const double bound = whole ? 0 : gamma * sizes + std::ldexp(std::abs(exact), -8);
        const double got = C.at(row, col);
        if (!(std::abs(got - right) <= bound)) wrong(row, col, got, right, bound);
    }
}

// The median of 20 launches, after 10 that warm up, on normal random numbers.
inline void time_one(int M, int N, int K, std::mt19937& random) {
    std::normal_distribution<float> normal;
    Matrix A(M, K), B(N, K), C(M, N);
    // Drawing is slow: a few thousand numbers, over and over, at a period that fits no row.
    std::vector<float> pool(65521);
    for (float& x : pool) x = normal(random);
    size_t next = 0;
    auto draw = [&] { return pool[next++ % pool.size()]; };
    A.fill(draw), B.fill(draw);
    const Product p{A.memory, B.memory, C.memory, M, N, K, multiprocessors(), 0};
    timing::each(10, [&] { launch(p); });
    const double seconds = timing::quantile(timing::each(20, [&] { launch(p); }), 0.5) * 1e-6;
    CHECK(cudaGetLastError());
    printf("⏱ %d × %d × %d: %.3f ms, %.1f TFLOP/s\n", M, N, K, seconds * 1e3,
           2.0 * M * N * K / seconds * 1e-12);
}

}  // namespace harness

// For the benchmark, which loads the kernel from a library and stands others beside it.
extern "C" void product(const bf16* A, const bf16* B, bf16* C, int M, int N, int K,
                        int multiprocessors, cudaStream_t stream) {
    launch(Product{A, B, C, M, N, K, multiprocessors, stream});
}

int main(int argc, char** argv) {
    using namespace harness;
    const char* given = timing::option(argc, argv, "--seed");
    const unsigned seed = given ? std::stoul(given) : std::random_device{}();
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> small(-4, 4);  // |Σ| ≤ 16·K stays below 2²⁴
    std::normal_distribution<float> normal;
    struct Shape { int M, N, K; };
    std::vector<Shape> shapes{{128, 256, 128}, {1, 8, 8}};
    // Several tiles with ragged edges; few on the emulator, which looks at every access.
    const int most = timing::emulated() ? 1 : 4;
    for (int again = 0; again < most; ++again)
        shapes.push_back({128 * most + 1 + int(random() % (128 * most)),
                          256 * most + 8 + int(random() % (256 * most)) / 8 * 8,
                          64 * (4 + most) + 8 + int(random() % (64 * most)) / 8 * 8});
    for (auto [M, N, K] : shapes)
        check(M, N, K, true, [&] { return small(random); }, random, seed);
    printf("product: OK, exact on whole numbers\n");
    for (auto [M, N, K] : shapes)
        check(M, N, K, false, [&] { return normal(random); }, random, seed);
    printf("product: OK on normal random numbers, within the rounding errors of K f32 terms\n");

    for (int i = 1; i + 3 < argc && !timing::emulated(); ++i)
        if (!strcmp(argv[i], "time"))
            time_one(atoi(argv[i + 1]), atoi(argv[i + 2]), atoi(argv[i + 3]), random);
    return 0;
}
