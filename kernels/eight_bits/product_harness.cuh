// Checks a product C = A · Bᵀ of numbers of eight bits and their scales. Include it last, after
//     constexpr int SCALES;                       1, for a tensor, or 128, for each block
//     void launch(const Product& p);              one launch of the kernel
//
// K is a multiple of 16 and N of 8, since the copy engine wants rows of a multiple of 16 bytes; M
// is any. Shapes are drawn anew in each run, ragged ones among them:
// - small whole numbers times scales that are powers of two, all different: |Σ| over what the
//   tensor core adds up stays below 2¹³, so nothing is cut off, and C is exact up to its rounding;
// - normal random numbers and scales: within what the tensor core may cut off. Of 32 products and a
//   sum it keeps 13 bits behind the largest, and 13 of the result: 34 · 2⁻¹³ · Σ|a·b| each time.
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

constexpr size_t SAMPLE = 4096;  // elements checked of a product
constexpr size_t BEHIND = 1024;  // elements behind each matrix that are watched

// A matrix of rows × cols on the host and on the device, and something behind it.
template <class T> struct Matrix {
    size_t rows, cols;
    std::vector<T> host;
    T* memory;

    Matrix(size_t rows, size_t cols) : rows(rows), cols(cols), host(rows * cols + BEHIND) {
        CHECK(cudaMalloc(&memory, bytes()));
    }
    ~Matrix() { cudaFree(memory); }
    Matrix(const Matrix&) = delete;
    size_t bytes() const { return host.size() * sizeof(T); }
    double at(size_t row, size_t col) const { return float(host[row * cols + col]); }

    template <class Draw> void fill(Draw draw, float behind = NAN) {
        for (size_t i = 0; i < host.size(); ++i)
            host[i] = T(i < rows * cols ? float(draw()) : behind);
        CHECK(cudaMemcpy(memory, host.data(), bytes(), cudaMemcpyHostToDevice));
    }
    void download() { CHECK(cudaMemcpy(host.data(), memory, bytes(), cudaMemcpyDeviceToHost)); }
};

inline int multiprocessors() {
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    return device.multiProcessorCount;
}

// What a product is asked for, with its scales.
struct Problem {
    int M, N, K;
    Matrix<a8> A;
    Matrix<b8> B;
    Matrix<bf16> C;
    Matrix<float> a_scales, b_scales;

    Problem(int M, int N, int K)
        : M(M), N(N), K(K), A(M, K), B(N, K), C(M, N),
          a_scales(SCALES == 1 ? 1 : Product::blocks(K), SCALES == 1 ? 1 : (M + 3) / 4 * 4),
          b_scales(SCALES == 1 ? 1 : Product::blocks(N), SCALES == 1 ? 1 : Product::blocks(K)) {}
    Product product() const {
        // On the emulator few, so that a block has several tiles even of a small product.
        return {A.memory, B.memory, C.memory, a_scales.memory, b_scales.memory, M, N, K,
                timing::emulated() ? 2 : multiprocessors(), 0};
    }
    double a_scale(int row, int k) const {
        return SCALES == 1 ? a_scales.at(0, 0) : a_scales.at(k / BLOCK, row);
    }
    double b_scale(int row, int k) const {
        return SCALES == 1 ? b_scales.at(0, 0) : b_scales.at(row / BLOCK, k / BLOCK);
    }
};

template <class Draw, class Scale>
void check(int M, int N, int K, bool whole, Draw draw, Scale scale, std::mt19937& random,
           unsigned seed) {
    Problem p(M, N, K);
    p.A.fill(draw), p.B.fill(draw), p.a_scales.fill(scale), p.b_scales.fill(scale);
    p.C.fill([] { return NAN; }, -1234.0f);
    launch(p.product());
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    p.C.download();

    auto wrong = [&](int row, int col, double got, double right, double bound) {
        printf("product: WRONG on %s\n", whole ? "whole numbers" : "normal random numbers");
        fflush(stdout);
        fprintf(stderr, "wrong result: C[%d][%d] is %g and should be %g (error bound %g) for M=%d "
                "N=%d K=%d, seed %u\n", row, col, got, right, bound, M, N, K, seed);
        exit(2);
    };
    for (size_t i = 0; i < BEHIND; ++i) {
        const float got = p.C.host[size_t(M) * N + i];
        if (got != float(bf16(-1234.0f))) wrong(M, i, got, -1234, 0);
    }
    // Of one tensor scale each sum of 32 is cut with all before it, of blocks with those of 128.
    const double cuts = SCALES == 1 ? (K + 31) / 32 : BLOCK / 32;
    const size_t elements = size_t(M) * N;
    for (size_t n = 0; n < std::min(elements, SAMPLE); ++n) {
        // All elements of a small product; of a large one the last, and a random sample.
        const size_t element = elements <= SAMPLE ? n : n ? random() % elements : elements - 1;
        const int row = element / N, col = element % N;
        double exact = 0, sizes = 0;
        for (int k = 0; k < K; ++k) {
            const double product =
                p.A.at(row, k) * p.a_scale(row, k) * p.B.at(col, k) * p.b_scale(col, k);
            exact += product, sizes += std::abs(product);
        }
        const double right = whole ? float(bf16(float(exact))) : exact;
        const double bound =
            whole ? 0 : cuts * 34 * std::ldexp(sizes, -13) + std::ldexp(std::abs(exact), -8);
        const double got = p.C.at(row, col);
        if (!(std::abs(got - right) <= bound)) wrong(row, col, got, right, bound);
    }
}

// The median of 20 launches, after 10 that warm up, on normal random numbers.
inline void time_one(int M, int N, int K, std::mt19937& random) {
    std::normal_distribution<float> normal(0, 100);
    Problem p(M, N, K);
    // Drawing is slow: a few thousand numbers, over and over, at a period that fits no row.
    std::vector<float> pool(65521);
    for (float& x : pool) x = normal(random);
    size_t next = 0;
    auto draw = [&] { return pool[next++ % pool.size()]; };
    p.A.fill(draw), p.B.fill(draw);
    p.a_scales.fill([] { return 0.01f; }), p.b_scales.fill([] { return 0.01f; });
    const Product product = p.product();
    timing::each(10, [&] { launch(product); });
    const double seconds = timing::quantile(timing::each(20, [&] { launch(product); }), 0.5) * 1e-6;
    CHECK(cudaGetLastError());
    printf("⏱ %d × %d × %d: %.3f ms, %.1f TFLOP/s\n", M, N, K, seconds * 1e3,
           2.0 * M * N * K / seconds * 1e-12);
}

}  // namespace harness

// For the benchmark, which loads the kernel from a library and stands others beside it.
extern "C" void product(const a8* A, const b8* B, bf16* C, const float* a_scales,
                        const float* b_scales, int M, int N, int K, int multiprocessors,
                        cudaStream_t stream) {
    launch(Product{A, B, C, a_scales, b_scales, M, N, K, multiprocessors, stream});
}

int main(int argc, char** argv) {
    using namespace harness;
    const char* given = timing::option(argc, argv, "--seed");
    const unsigned seed = given ? std::stoul(given) : std::random_device{}();
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> small(-2, 2), power(-2, 1);  // |Σ| ≤ 4 · 2048
    std::normal_distribution<float> normal(0, 100);
    std::uniform_real_distribution<float> some(0.5, 2);
    struct Shape { int M, N, K; };
    std::vector<Shape> shapes{{128, 256, 256}, {1, 8, 16}};
    // Several tiles with ragged edges; few on the emulator, which looks at every access.
    if (timing::emulated()) shapes.push_back({129 + int(random() % 127), 264, 144});
    for (int again = 0; again < 4 && !timing::emulated(); ++again)
        shapes.push_back({513 + int(random() % 512), 1032 + int(random() % 1024) / 8 * 8,
                          1040 + int(random() % 512) / 16 * 16});
    for (auto [M, N, K] : shapes)
        check(M, N, K, true, [&] { return small(random); },
              [&] { return std::ldexp(1.0f, power(random)); }, random, seed);
    printf("product: OK, exact on whole numbers\n");
    for (auto [M, N, K] : shapes)
        check(M, N, K, false, [&] { return normal(random); }, [&] { return some(random); }, random,
              seed);
    printf("product: OK on normal random numbers, within what the tensor core may cut off\n");

    for (int i = 1; i + 3 < argc && !timing::emulated(); ++i)
        if (!strcmp(argv[i], "time"))
            time_one(atoi(argv[i + 1]), atoi(argv[i + 2]), atoi(argv[i + 3]), random);
    return 0;
}
