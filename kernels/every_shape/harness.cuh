// Checks a product C = A · Bᵀ in bf16 of *Past the vendor*. Include it last, after constants BM and
// BN, the rows and columns of a tile of C, and
//     void launch(const Product& p);              one launch of the kernel
//
// Shapes are drawn anew in each run, ragged and tiny ones among them:
// - small whole numbers, where f32 makes no rounding error: C must be exact, up to its rounding;
// - the same with an infinity and a NaN in each operand;
// - normal random numbers: within what K terms can gather in f32 when each addition may cut bits
//   off, γ·Σ|a·b| with γ = (K + K/8 + 4)·2⁻²³ as in gemm.cuh, and the rounding of C.
// Three launches are in flight at a time, over two results. Before them C is full of NaN, and so is
// what lies behind A and B; what lies behind C must stay as it was, the flags must be 0 again.
//
// With ANY defined shapes are multiples of nothing, and alpha and beta are drawn, too; OUT is the
// type of C. With ACROSS_A or ACROSS_B the transpose of A or B is given.
//
// Arguments: --seed N; M N K: only that shape.
#pragma once
#include "check.cuh"
#include "timing.cuh"
#include <random>
#include <vector>

namespace harness {

constexpr size_t SAMPLE = 4096;   // elements checked of a product
constexpr size_t BEHIND = 1024;   // elements behind each matrix that are watched

inline float wide(bf16 x) { return __bfloat162float(x); }
inline float wide(__half x) { return __half2float(x); }
inline float wide(float x) { return x; }
inline void narrow(float x, bf16& to) { to = __float2bfloat16(x); }
inline void narrow(float x, __half& to) { to = __float2half(x); }
inline void narrow(float x, float& to) { to = x; }
template <class T> double rounded(double x) {
    T stored;
    narrow(float(x), stored);
    return wide(stored);
}
#ifdef ANY
constexpr int MULTIPLE = 1;
#else
constexpr int MULTIPLE = 8;
#endif
constexpr int ROWS = ACROSS_A ? 8 : 1;  // M is a multiple of
constexpr double ROUNDOFF = std::is_same_v<Out, bf16> ? 1 / 256.0
                            : std::is_same_v<Out, float> ? 1.2e-7 : 1 / 2048.0;

// A matrix of rows × cols on the host and on the device, and something behind it.
template <class T> struct Matrix {
    size_t rows, cols;
    bool across;  // its transpose lies in memory
    std::vector<T> host;
    T* memory;

    Matrix(size_t rows, size_t cols, bool across = false)
        : rows(rows), cols(cols), across(across), host(rows * cols + BEHIND) {
        CHECK(cudaMalloc(&memory, bytes()));
    }
    ~Matrix() { cudaFree(memory); }
    Matrix(const Matrix&) = delete;
    size_t bytes() const { return host.size() * sizeof(T); }
    double at(size_t row, size_t col) const {
        return wide(host[across ? col * rows + row : row * cols + col]);
    }

    template <class Draw> void fill(Draw draw, float behind = NAN) {
        for (size_t i = 0; i < host.size(); ++i)
            narrow(i < rows * cols ? float(draw()) : behind, host[i]);
        upload();
    }
    void upload() { CHECK(cudaMemcpy(memory, host.data(), bytes(), cudaMemcpyHostToDevice)); }
    void download() { CHECK(cudaMemcpy(host.data(), memory, bytes(), cudaMemcpyDeviceToHost)); }
};

// Sums of a part of K, poisoned, and flags.
struct Room {
    float* partial;
    unsigned* ready;

    Room() {
        CHECK(cudaMalloc(&partial, PARTIAL * sizeof(float)));
        CHECK(cudaMemset(partial, 0xff, PARTIAL * sizeof(float)));
        CHECK(cudaMalloc(&ready, READY * sizeof(unsigned)));
        CHECK(cudaMemset(ready, 0, READY * sizeof(unsigned)));
    }
    ~Room() { cudaFree(partial), cudaFree(ready); }
    Room(const Room&) = delete;
    bool clean() const {
        std::vector<unsigned> seen(READY);
        CHECK(cudaMemcpy(seen.data(), ready, READY * sizeof(unsigned), cudaMemcpyDeviceToHost));
        return std::all_of(seen.begin(), seen.end(), [](unsigned flag) { return flag == 0; });
    }
};

inline int multiprocessors() {
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    return device.multiProcessorCount;
}

enum Kind { WHOLE, INFINITE, NORMAL };
const char* const NAMES[] = {"whole numbers", "infinities and NaN", "normal random numbers"};

// C against alpha · A · Bᵀ + beta · before.
inline void look(const Matrix<bf16>& A, const Matrix<bf16>& B, Matrix<Out>& C,
                 const std::vector<Out>& before, float alpha, float beta, Kind kind,
                 std::mt19937& random, unsigned seed) {
    const int M = A.rows, N = B.rows, K = A.cols;
    C.download();
    auto wrong = [&](int row, int col, double got, double right, double bound) {
        printf("product: WRONG on %s\n", NAMES[kind]);
        fflush(stdout);
        fprintf(stderr, "wrong result: C[%d][%d] is %g and should be %g (error bound %g) for M=%d "
                "N=%d K=%d, seed %u\n", row, col, got, right, bound, M, N, K, seed);
        exit(2);
    };
    for (size_t i = 0; i < BEHIND; ++i) {
        const float got = wide(C.host[size_t(M) * N + i]);
        if (got != rounded<Out>(-1234)) wrong(M, i, got, -1234, 0);
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
            exact += alpha * product, sizes += std::abs(alpha * product);
        }
        if (beta != 0) {
            const double old = beta * double(wide(before[element]));
            exact += old, sizes += std::abs(old);
        }
        const double got = C.at(row, col);
        if (!std::isfinite(exact)) {
            if (std::isnan(exact) ? !std::isnan(got) : got != exact) wrong(row, col, got, exact, 0);
            continue;
        }
        const bool whole = kind != NORMAL;
        const double right = whole ? rounded<Out>(exact) : exact;
        const double bound = whole ? 0 : gamma * sizes + ROUNDOFF * std::abs(exact);
        if (!(std::abs(got - right) <= bound)) wrong(row, col, got, right, bound);
    }
}

inline void check(int M, int N, int K, Kind kind, std::mt19937& random, unsigned seed) {
    std::uniform_int_distribution<int> small(-4, 4);  // |Σ| ≤ 16·K stays below 2²⁴
    std::normal_distribution<float> normal;
    static Room room;
    Matrix<bf16> A(M, K, ACROSS_A), B(N, K, ACROSS_B), padded(M + N, over(K, 8) * 8);
    Matrix<Out> C(M, N), D(M, N);
    padded.fill([] { return NAN; });
    for (auto* each : {&A, &B}) {
        each->fill([&] { return kind == NORMAL ? normal(random) : float(small(random)); });
        if (kind != INFINITE) continue;
        each->host[random() % (each->rows * K)] = __float2bfloat16(INFINITY);
        each->host[random() % (each->rows * K)] = __float2bfloat16(NAN);
        each->upload();
    }
    // Where beta is 0, what stood in C must not matter.
    const float alpha = MULTIPLE == 8 ? 1 : int(random() % 5) - 2;
    static int turn = 0;
    const float beta = MULTIPLE == 8 ? 0 : turn++ % 3 - 1;
    for (auto* each : {&C, &D})
        each->fill([&] { return beta == 0 ? NAN : float(small(random)); }, -1234.0f);
    const std::vector<Out> of_c = C.host, of_d = D.host;
    std::vector<Matrix<Out>*> launched{&C, &D};
    if (beta == 0) launched.push_back(&C);
    for (auto* each : launched) {
        // On the emulator few, so that a block has several tiles even of a small product.
        launch(Product{A.memory, B.memory, each->memory, M, N, K,
                       timing::emulated() ? 4 : multiprocessors(), room.partial, room.ready, 0,
                       padded.memory, alpha, beta});
        CHECK(cudaGetLastError());
    }
    CHECK(cudaDeviceSynchronize());
    look(A, B, C, of_c, alpha, beta, kind, random, seed);
    look(A, B, D, of_d, alpha, beta, kind, random, seed);
    if (!room.clean()) {
        fprintf(stderr, "wrong result: a flag is not 0 after M=%d N=%d K=%d, seed %u\n", M, N, K,
                seed);
        exit(2);
    }
}

}  // namespace harness

// For the benchmark, which loads the kernel from a library and stands others beside it.
extern "C" void product(const bf16* A, const bf16* B, Out* C, int M, int N, int K,
                        int multiprocessors, float* partial, unsigned* ready,
                        cudaStream_t stream) {
    launch(Product{A, B, C, M, N, K, multiprocessors, partial, ready, stream});
}
extern "C" void product_any(const bf16* A, const bf16* B, Out* C, int M, int N, int K,
                            bf16* padded, float alpha, float beta, cudaStream_t stream) {
    launch(Product{A, B, C, M, N, K, 0, nullptr, nullptr, stream, padded, alpha, beta});
}

int main(int argc, char** argv) {
    using namespace harness;
    const char* given = timing::option(argc, argv, "--seed");
    const unsigned seed = given ? std::stoul(given) : std::random_device{}();
    std::mt19937 random(seed);
    struct Shape { int M, N, K; };
    std::vector<Shape> shapes{{ROWS, MULTIPLE, MULTIPLE}};
    const int more = timing::emulated() ? 1 : 8;
    for (int again = 0; again < more; ++again)
        shapes.push_back({over(1 + int(random() % (2 * BM)) * more, ROWS) * ROWS,
                          8 + int(random() % (2 * BN)) / MULTIPLE * MULTIPLE * more,
                          8 + int(random() % (64 * 6)) / MULTIPLE * MULTIPLE * more});
    if (!timing::emulated()) shapes.push_back({over(1111, ROWS) * ROWS, 2120, 968});
    if (argc > 3 && argv[1][0] != '-')
        shapes = {{atoi(argv[1]), atoi(argv[2]), atoi(argv[3])}};
    for (Kind kind : {WHOLE, INFINITE, NORMAL}) {
        for (auto [M, N, K] : shapes) check(M, N, K, kind, random, seed);
        printf("product: OK on %s\n", NAMES[kind]);
    }
    return 0;
}
