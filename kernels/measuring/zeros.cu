// Does the data matter? cuBLAS multiplies 8192 × 8192 matrices of bf16, for a given time, without
// a pause: zeros, small whole numbers, or normal random ones. Needs cuBLAS and a GPU.
//     measuring/zeros --cublas LIBRARY --data zeros|whole|normal --seconds S [--json FILE]
#include "timing.cuh"
#include <cuda_bf16.h>
#include <dlfcn.h>
#include <random>

constexpr int N = 8192;  // C (N, N) = A (N, N) · B (N, N), by columns, sums in f32
using Number = __nv_bfloat16;

[[noreturn]] void fail(const char* why) {
    fprintf(stderr, "measuring/zeros: %s\n", why);
    exit(1);
}

class Product {
  public:
    explicit Product(const char* path) {
        void* library = path ? dlopen(path, RTLD_NOW) : nullptr;
        if (!library) fail("name a cuBLAS library with --cublas");
        auto create = (int (*)(void**))dlsym(library, "cublasCreate_v2");
        multiply = (Gemm)dlsym(library, "cublasGemmEx");
        if (!create || !multiply || create(&handle)) fail("cuBLAS cannot be used");
    }
    void operator()(const Number* A, const Number* B, Number* C) const {
        const float one = 1, zero = 0;
        const int bf16 = 14, f32 = 68;  // CUDA_R_16BF, CUBLAS_COMPUTE_32F
        if (multiply(handle, 0, 0, N, N, N, &one, A, bf16, N, B, bf16, N, &zero, C, bf16, N, f32,
                     -1))
            fail("cublasGemmEx failed");
    }

  private:
    using Gemm = int (*)(void*, int, int, int, int, int, const void*, const void*, int, int,
                         const void*, int, int, const void*, void*, int, int, int, int);
    void* handle = nullptr;
    Gemm multiply;
};

int main(int argc, char** argv) {
    using timing::option;
    timing::Report report(argc, argv);
    Product product(option(argc, argv, "--cublas"));
    if (!option(argc, argv, "--data") || !option(argc, argv, "--seconds"))
        fail("give --data zeros|whole|normal and --seconds S");
    const std::string kind = option(argc, argv, "--data");
    const double seconds = std::stod(option(argc, argv, "--seconds"));
    if (kind != "zeros" && kind != "whole" && kind != "normal") fail("--data zeros|whole|normal");

    std::mt19937 random(std::random_device{}());
    std::normal_distribution<float> normal;
    const size_t size = size_t(N) * N;
    auto draw = [&] {  // a million numbers, over and over: their period divides no row
        std::vector<Number> period(1000003), all(size);
        for (auto& each : period)
            each = Number(kind == "zeros" ? 0 : kind == "whole" ? float(int(random() % 9) - 4)
                                                                : normal(random));
        for (size_t i = 0; i < size; ++i) all[i] = period[i % period.size()];
        return all;
    };
    const std::vector<Number> A = draw(), B = draw();
    Number *dA, *dB, *dC;
    for (Number** each : {&dA, &dB, &dC}) CHECK(cudaMalloc(each, size * sizeof(Number)));
    CHECK(cudaMemcpy(dA, A.data(), size * sizeof(Number), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(dB, B.data(), size * sizeof(Number), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(dC, 0xff, size * sizeof(Number)));
    auto run = [&] { product(dA, dB, dC); };

    // 200 elements against a sum in double: the error of 8192 sums in f32 that cut off instead of
    // rounding (2⁻²³ each), and of one rounding to bf16 (2⁻⁸).
    run();
    std::vector<Number> C(size);
    CHECK(cudaMemcpy(C.data(), dC, size * sizeof(Number), cudaMemcpyDeviceToHost));
    const double u = std::ldexp(1.0, -23), gamma = N * u / (1 - N * u);
    for (int i = 0; i < 200; ++i) {
        const size_t row = random() % N, column = random() % N;
        double sum = 0, sizes = 0;
        for (size_t k = 0; k < N; ++k) {
            const double term = double(float(A[k * N + row])) * double(float(B[column * N + k]));
            sum += term, sizes += std::abs(term);
        }
        const double sums = gamma * sizes, output = std::ldexp(std::abs(sum) + sums, -8);
        if (!(std::abs(float(C[column * N + row]) - sum) <= sums + output)) fail("wrong product");
    }

    timing::each(20, run);
    timing::Times times;
    const auto start = std::chrono::steady_clock::now();
    auto passed = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    while (passed() < seconds)
        for (double time : timing::each(50, run)) times.push_back(time);
    report(kind.c_str(), times);
    printf("product: OK\n");
}
