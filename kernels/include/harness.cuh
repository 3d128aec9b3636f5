// The harness: checks a matrix product, then times it. Include it last, after
//     constexpr int M, N, K;          C (M, N) = A (M, K) · B (K, N), row-major f32
//     void launch(const float* A, const float* B, float* C);      one launch of the kernel
//
// 1. One cold launch is timed, with the caches flushed. It is the first of this kernel in the
//    process, so its time includes loading the kernel onto the GPU.
// 2. The result is checked for fresh inputs, against a reference in double:
//    - small whole numbers, where f32 makes no rounding error: the result must be exact;
//    - normal random numbers: |error| ≤ γ·Σ|a·b| with γ = K·u / (1 − K·u), u = 2⁻²⁴, which
//      holds for K products added in any order (Higham 2002, section 3.1).
//    C is filled with NaN before each launch, so an element that nobody writes is wrong.
// 3. With the argument `warm`: launches are timed with the caches flushed, and then warm, that
//    is back to back and after warm-up.
//
// On the emulator, which checks every access of every launch, two launches are verified and none
// is timed: its clock is no time.
//
// A line that depends on the machine begins with ⏱. Arguments: warm, --seed N, --repeats N;
// with warm also --cublas LIBRARY (time it too, alternating), --json FILE (every time, in µs, and
// with stamps.cuh the clock stamps).
#pragma once
#include "check.cuh"
#include "cublas.cuh"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace harness {

constexpr double LAUNCH_LIMIT_SECONDS = 10;  // far above any kernel of the book
constexpr int WARM_UP = 50;                  // launches before the timed ones
constexpr int ROUND = 50;                    // timed launches before the rival has its turn
constexpr int FLUSHED = 20;                  // launches after a flush
constexpr size_t FLUSH_BYTES = 256 << 20;    // read to flush: more than any L2 cache holds

// Whether this device is the one that runs in Python.
inline bool emulated() {
    static const bool answer = [] {
        cudaDeviceProp device;
        CHECK(cudaGetDeviceProperties(&device, 0));
        return std::string(device.name).rfind("phasebit emulator", 0) == 0;
    }();
    return answer;
}

// Wait for everything launched so far; give up on a kernel that does not end.
inline void wait() {
    CHECK(cudaGetLastError());
    cudaEvent_t done;
    CHECK(cudaEventCreate(&done));
    CHECK(cudaEventRecord(done));
    auto start = std::chrono::steady_clock::now();
    for (;;) {
        cudaError_t state = cudaEventQuery(done);
        if (state != cudaErrorNotReady) {
            CHECK(state);
            break;
        }
        std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
        if (waited.count() > LAUNCH_LIMIT_SECONDS && !emulated()) never_ends();
        if (waited.count() > 0.01) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    CHECK(cudaEventDestroy(done));
}

struct Problem {
    std::vector<float> A, B;               // (M, K), (K, N) on the host
    float *dA, *dB, *dC;                   // the same on the device, and C (M, N)
    std::vector<double> exact, magnitude;  // (M, N): Σ a·b and Σ |a·b|

    Problem() : A(M * K), B(K * N), exact(M * N), magnitude(M * N) {
        CHECK(cudaMalloc(&dA, A.size() * sizeof(float)));
        CHECK(cudaMalloc(&dB, B.size() * sizeof(float)));
        CHECK(cudaMalloc(&dC, exact.size() * sizeof(float)));
    }
    ~Problem() { cudaFree(dA), cudaFree(dB), cudaFree(dC); }

    template <class Draw> void fill(Draw draw) {
        for (float& a : A) a = draw();
        for (float& b : B) b = draw();
        CHECK(cudaMemcpy(dA, A.data(), A.size() * sizeof(float), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(dB, B.data(), B.size() * sizeof(float), cudaMemcpyHostToDevice));
        CHECK(cudaMemset(dC, 0xff, exact.size() * sizeof(float)));  // all bits set: NaN
        for (int row = 0; row < M; ++row)
            for (int col = 0; col < N; ++col) {
                double sum = 0, sizes = 0;
                for (int k = 0; k < K; ++k) {
                    double product = double(A[row * K + k]) * B[k * N + col];
                    sum += product;
                    sizes += std::abs(product);
                }
                exact[row * N + col] = sum;
                magnitude[row * N + col] = sizes;
            }
    }

    // Compare C with the reference; a wrong element ends the program.
    void verify(const char* data, double gamma, unsigned seed) const {
        wait();
        std::vector<float> C(M * N);
        CHECK(cudaMemcpy(C.data(), dC, C.size() * sizeof(float), cudaMemcpyDeviceToHost));
        int wrong = 0, first = -1, unwritten = 0;
        for (int i = 0; i < M * N; ++i) {
            if (std::abs(C[i] - exact[i]) <= gamma * magnitude[i]) continue;  // false for NaN
            if (first < 0) first = i;
            ++wrong;
            unwritten += std::isnan(C[i]);
        }
        if (!wrong) return;
        printf("matmul: WRONG on %s: %d of %d elements, %d of them NaN\n", data, wrong, M * N,
               unwritten);
        fflush(stdout);
        fprintf(stderr, "wrong result: C[%d][%d] is %g and should be %g (error bound %g, seed %u)\n",
                first / N, first % N, C[first], exact[first], gamma * magnitude[first], seed);
        exit(2);
    }
};

// Time `count` launches in one queue: microseconds for each, what `before` does not counted.
inline std::vector<double> time_each(int count, const std::function<void()>& run,
                                     const std::function<void()>& before = [] {}) {
    std::vector<cudaEvent_t> events(2 * count);
    for (auto& event : events) CHECK(cudaEventCreate(&event));
    for (int i = 0; i < count; ++i) {
        before();
        CHECK(cudaEventRecord(events[2 * i]));
        run();
        CHECK(cudaEventRecord(events[2 * i + 1]));
    }
    wait();
    std::vector<double> times(count);
    for (int i = 0; i < count; ++i) {
        float milliseconds;
        CHECK(cudaEventElapsedTime(&milliseconds, events[2 * i], events[2 * i + 1]));
        times[i] = milliseconds * 1e3;
    }
    for (auto& event : events) CHECK(cudaEventDestroy(event));
    return times;
}

// The value that a share q of the times lies below.
inline double quantile(std::vector<double> times, double q) {
    std::sort(times.begin(), times.end());
    return times[size_t(q * (times.size() - 1) + 0.5)];
}

// Fill the caches with other data. Reading leaves them nothing to write back later; writing would.
__global__ void flush(const uint4* other, size_t count, unsigned* sink) {
    unsigned sum = 0;
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        sum |= other[i].x | other[i].y | other[i].z | other[i].w;
    if (sum) *sink = sum;  // never: it is all zeros, but the compiler cannot know
}

// Pushes everything else out of the caches: the data, and perhaps a kernel's instructions.
struct Flush {
    uint4* other;

    Flush() {
        CHECK(cudaMalloc(&other, FLUSH_BYTES));
        CHECK(cudaMemset(other, 0, FLUSH_BYTES));
    }
    ~Flush() { cudaFree(other); }
    void operator()() const {
        flush<<<1024, 256>>>(other, FLUSH_BYTES / sizeof(uint4), (unsigned*)other);
    }
};

// Time the first launch, with the caches flushed: the GPU stands idle while the kernel is loaded.
inline std::vector<double> time_first(const std::function<void()>& run) {
    Flush flush;
    flush();
    wait();
    return time_each(1, run);
}

inline std::vector<double> time_flushed(const std::function<void()>& run) {
    Flush flush;
    return time_each(FLUSHED, run, [&] { flush(); });
}

// Launches with nothing between them: microseconds for each, from their joint time.
inline std::vector<double> time_queued(int rounds, const std::function<void()>& run) {
    return time_each(rounds, [&] {
        for (int i = 0; i < ROUND; ++i) run();
    });
}

__global__ void nothing() {}

inline void print_times(const char* name, const std::vector<double>& times) {
    printf("⏱ %s: median %.1f µs of %zu launches, middle half %.1f to %.1f µs\n", name,
           quantile(times, 0.5), times.size(), quantile(times, 0.25), quantile(times, 0.75));
}

inline void write_list(FILE* file, const char* name, const std::vector<double>& times) {
    fprintf(file, ",\n \"%s\": [", name);
    for (size_t i = 0; i < times.size(); ++i) fprintf(file, i ? ", %.3f" : "%.3f", times[i]);
    fprintf(file, "]");
}

#ifdef STAMPS
inline void write_stamps(FILE* file, const char* name) {
    static long long host[PLACES][PASSES], span[2][2];
    CHECK(cudaMemcpyFromSymbol(host, stamps, sizeof host));
    CHECK(cudaMemcpyFromSymbol(span, stamp_span, sizeof span));
    fprintf(file, ",\n \"%s\": {\"cycles\": %lld, \"ns\": %lld, \"places\": [", name,
            span[1][0] - span[0][0], span[1][1] - span[0][1]);
    for (int place = 0; place < PLACES; ++place)
        for (int pass = 0; pass < PASSES; ++pass)
            fprintf(file, "%s%lld", pass ? ", " : place ? "], [" : "[",
                    host[place][pass] ? host[place][pass] - span[0][0] : -1);
    fprintf(file, "]]}");
}
#endif

inline bool has(int argc, char** argv, const char* word) {
    return std::any_of(argv + 1, argv + argc, [&](char* given) { return !strcmp(given, word); });
}

inline const char* option(int argc, char** argv, const char* name) {
    for (int i = 1; i + 1 < argc; ++i)
        if (!strcmp(argv[i], name)) return argv[i + 1];
    return nullptr;
}

}  // namespace harness

int main(int argc, char** argv) {
    using namespace harness;
    const char* given = option(argc, argv, "--seed");
    unsigned seed = given ? std::stoul(given) : std::random_device{}();
    const char* repeats = option(argc, argv, "--repeats");
    const int sets = emulated() ? 1 : 3;  // of inputs of each kind
    const int rounds = std::max(1, (repeats ? std::stoi(repeats) : 500) / ROUND);
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> whole(-4, 4);  // |Σ| ≤ 16·K stays below 2²⁴
    std::normal_distribution<float> normal;
    static_assert(16.0 * K < 16777216.0, "whole numbers would round");
    const double gamma = K * std::ldexp(1.0, -24) / (1 - K * std::ldexp(1.0, -24));

    Problem problem;
    auto run = [&] { launch(problem.dA, problem.dB, problem.dC); };

    problem.fill([&] { return float(whole(random)); });
    std::vector<double> cold;
    if (emulated()) run();
    else cold = time_first(run);
    problem.verify("whole numbers", 0, seed);
    for (int set = 1; set < sets; ++set) {
        problem.fill([&] { return float(whole(random)); });
        run();
        problem.verify("whole numbers", 0, seed);
    }
    printf("matmul: OK, exact on whole numbers\n");
    for (int set = 0; set < sets; ++set) {
        problem.fill([&] { return normal(random); });
        run();
        problem.verify("normal random numbers", gamma, seed);
    }
    printf("matmul: OK on normal random numbers, within the rounding error of %d f32 terms\n", K);
    const char* path = option(argc, argv, "--json");
    if (emulated()) {
        if (!path) return 0;
        return fprintf(stderr, "--json wants times, and the emulator has none: use a GPU\n"), 1;
    }
    printf("⏱ the first launch: %.1f µs\n", cold[0]);
    if (!has(argc, argv, "warm")) return 0;

    const char* library = option(argc, argv, "--cublas");
    std::unique_ptr<Cublas> cublas(library ? new Cublas(library) : nullptr);
    auto rival = [&] { cublas->sgemm(M, N, K, problem.dA, problem.dB, problem.dC); };
    if (cublas) {
        CHECK(cudaMemset(problem.dC, 0xff, M * N * sizeof(float)));
        rival();
        problem.verify("normal random numbers (cuBLAS)", gamma, seed);
        time_each(WARM_UP, rival);
    }
    std::vector<double> flushed = time_flushed(run);
    time_each(WARM_UP, run);
    std::vector<double> warm, vendor;
    for (int round = 0; round < rounds; ++round) {
        for (double time : time_each(ROUND, run)) warm.push_back(time);
        if (!cublas) continue;
        for (double time : time_each(ROUND, rival)) vendor.push_back(time);
    }
    print_times("caches flushed", flushed);
    print_times("warm", warm);
    if (cublas) print_times("cuBLAS", vendor);

    if (path) {
        FILE* file = fopen(path, "w");
        if (!file) return fprintf(stderr, "cannot write %s\n", path), 1;
        fprintf(file, "{\"shape\": [%d, %d, %d],\n \"seed\": %u,\n \"warm_up\": %d", M, N, K, seed,
                WARM_UP);
        write_list(file, "cold_us", cold);
        write_list(file, "flushed_us", flushed);
        write_list(file, "warm_us", warm);
        if (cublas) write_list(file, "cublas_flushed_us", time_flushed(rival));
        if (cublas) write_list(file, "cublas_us", vendor);
        auto queued = [&](const char* name, const std::function<void()>& launches) {
            std::vector<double> times = time_queued(rounds, launches);
            for (double& time : times) time /= ROUND;
            write_list(file, name, times);
        };
        queued("queued_us", run);
        if (cublas) queued("cublas_queued_us", rival);
        auto empty = [] { nothing<<<1, 32>>>(); };
        time_each(WARM_UP, empty);
        write_list(file, "empty_us", time_each(ROUND, empty));
        queued("empty_queued_us", empty);
#ifdef STAMPS
        for (int i = 0; i < WARM_UP; ++i) run();
        wait();
        write_stamps(file, "stamps_warm");
        time_flushed(run);
        write_stamps(file, "stamps_flushed");
#endif
        fprintf(file, "\n}\n");
        fclose(file);
    }
    return 0;
}
