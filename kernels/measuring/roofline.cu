// What this GPU can do at most: bytes copied, f32 multiply-adds, matrix products on tensor cores.
// Each kernel does one thing and nothing else, and is checked before it is timed.
#include "timing.cuh"
#include "wgmma_rate.cuh"
#include <mma.h>
#include <random>
using namespace nvcuda;

constexpr int THREADS = 256;
constexpr int CHAINS = 8;  // sums of a thread that do not wait for each other
constexpr int TILE = 16;   // a tensor-core product of the C++ interface: 16 × 16 × 16

// Each thread has four loads on their way before the first store.
__global__ void copy(const float4* __restrict__ from, float4* __restrict__ to, size_t count) {
    const size_t first = size_t(blockIdx.x) * THREADS * 4 + threadIdx.x;
    float4 held[4];
    for (int j = 0; j < 4; ++j)
        if (first + j * THREADS < count) held[j] = from[first + j * THREADS];
    for (int j = 0; j < 4; ++j)
        if (first + j * THREADS < count) to[first + j * THREADS] = held[j];
}

// c ← a·c + b, again and again: nothing but multiply-adds.
__global__ void fma_rate(float a, float b, int steps, float* out) {
    float c[CHAINS];
    for (int j = 0; j < CHAINS; ++j) c[j] = j;
    #pragma unroll 16
    for (int i = 0; i < steps; ++i)
        for (int j = 0; j < CHAINS; ++j) c[j] = fmaf(a, c[j], b);
    float sum = 0;  // uses every chain, so that none is left out
    for (int j = 0; j < CHAINS; ++j) sum += c[j];
    out[blockIdx.x * THREADS + threadIdx.x] = sum;
}

// C ← A·B + C on tiles that stay in registers, f16 into f32. Four chains a warp.
__global__ void mma_rate(const half* A, const half* B, int steps, float* C) {
    wmma::fragment<wmma::matrix_a, TILE, TILE, TILE, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, TILE, TILE, TILE, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, TILE, TILE, TILE, float> c[4];
    wmma::load_matrix_sync(a, A, TILE);
    wmma::load_matrix_sync(b, B, TILE);
    for (auto& each : c) wmma::fill_fragment(each, 0.0f);
    for (int i = 0; i < steps; ++i)
        for (auto& each : c) wmma::mma_sync(each, a, b, each);
    const int warp = (blockIdx.x * THREADS + threadIdx.x) / 32;
    for (int j = 0; j < 4; ++j)
        wmma::store_matrix_sync(C + (warp * 4 + j) * TILE * TILE, c[j], TILE, wmma::mem_row_major);
}

void demand(bool right, const char* what) {
    if (right) return;
    fprintf(stderr, "wrong result of %s\n", what);
    exit(2);
}

template <class T> struct Array {  // device memory
    T* data;
    explicit Array(const std::vector<T>& host) {
        CHECK(cudaMalloc(&data, host.size() * sizeof(T)));
        CHECK(cudaMemcpy(data, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    }
    explicit Array(size_t count) {
        CHECK(cudaMalloc(&data, count * sizeof(T)));
        CHECK(cudaMemset(data, 0xff, count * sizeof(T)));  // NaN: nobody has written
    }
    ~Array() { cudaFree(data); }
    std::vector<T> back(size_t count) const {
        std::vector<T> host(count);
        CHECK(cudaMemcpy(host.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost));
        return host;
    }
};

int main(int argc, char** argv) {
    timing::Report report(argc, argv);
    const bool emulated = timing::emulated();
    const int count = emulated ? 1 : 50;  // launches each
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    const int blocks = emulated ? 1 : device.multiProcessorCount * 4;
    report.keep("L2 cache, MiB", {device.l2CacheSize / 1048576.0});
    std::mt19937 random(std::random_device{}());
    std::normal_distribution<float> normal;
    auto time = [&](const char* name, double work, const char* unit, const timing::Work& run) {
        if (emulated) return;
        timing::each(count, run);  // warm-up
        timing::Times times = timing::each(count, run), rates;
        for (double microseconds : times) rates.push_back(work / (microseconds * 1e-6) / 1e12);
        report.say("%s: %.2f %s, the median of %d launches", name, timing::quantile(rates, 0.5),
                   unit, count);
        report.keep(name, rates);
    };

    {   // Far more than the caches hold; a copy reads and writes each byte.
        const size_t floats = emulated ? 4100 : size_t(1) << 27;
        std::vector<float> host(floats);
        for (size_t i = 0; i < floats; ++i)
            host[i] = i < 4096 ? normal(random) : host[i % 4096] + i;
        Array<float> from(host), to(floats);
        const unsigned grid = (floats / 4 + THREADS * 4 - 1) / (THREADS * 4);
        auto run = [&] {
            copy<<<grid, THREADS>>>((float4*)from.data, (float4*)to.data, floats / 4);
        };
        run();
        demand(to.back(floats) == host, "copy");
        printf("copy: OK\n");
        time("copy", 2.0 * 4 * floats, "TB/s", run);
    }
    {
        const int steps = emulated ? 20 : 20000, threads = blocks * 2 * THREADS;
        Array<float> out(threads);
        auto run = [&] { fma_rate<<<blocks * 2, THREADS>>>(0.75f, 0.5f, steps, out.data); };
        run();
        float sum = 0;
        for (int j = 0; j < CHAINS; ++j) {
            float c = j;
            for (int i = 0; i < steps; ++i) c = std::fma(0.75f, c, 0.5f);
            sum += c;
        }
        demand(out.back(threads) == std::vector<float>(threads, sum), "f32 multiply-adds");
        printf("f32: OK\n");
        time("f32", 2.0 * CHAINS * steps * threads, "TFLOP/s", run);
    }
    {
        const int warps = blocks * THREADS / 32, size = TILE * TILE;
        std::vector<half> A(size), B(size);
        auto load = [&](auto draw) {
            for (auto* each : {&A, &B})
                for (half& e : *each) e = draw();
        };
        load([&] { return half(float(int(random() % 9) - 4)); });  // sums of whole numbers: exact
        Array<half> dA(A), dB(B);
        Array<float> C(size_t(warps) * 4 * size);
        int steps = 20;
        auto run = [&] { mma_rate<<<blocks, THREADS>>>(dA.data, dB.data, steps, C.data); };
        run();
        std::vector<float> got = C.back(size_t(warps) * 4 * size);
        for (size_t i = 0; i < got.size(); ++i) {
            float sum = 0;
            for (int k = 0; k < TILE; ++k)
                sum += float(A[i % size / TILE * TILE + k]) * float(B[k * TILE + i % TILE]);
            demand(got[i] == steps * sum, "tensor cores");
        }
        printf("tensor cores: OK\n");
        steps = 20000;
        for (const char* data : {"zeros", "normal"}) {
            const bool zeros = !strcmp(data, "zeros");
            load([&] { return half(zeros ? 0 : normal(random)); });
            Array<half> fA(A), fB(B);
            const std::string name = std::string("f16 mma, ") + data;
            time(name.c_str(), 2.0 * TILE * TILE * TILE * 4 * steps * warps, "TFLOP/s", [&] {
                mma_rate<<<blocks, THREADS>>>(fA.data, fB.data, steps, C.data);
            });
        }
    }
    if (wgmma_rate::runs_here() && !emulated) {
        const size_t results = wgmma_rate::results(blocks / 2);
        Array<float> C(results);
        wgmma_rate::run(blocks / 2, wgmma_rate::Data([] { return 1; }), C.data);
        demand(C.back(results) == std::vector<float>(results, wgmma_rate::of_ones()), "wgmma");
        for (const char* data : {"zeros", "normal"}) {
            const bool zeros = !strcmp(data, "zeros");
            wgmma_rate::Data values([&] { return zeros ? 0 : normal(random); });
            const std::string name = std::string("bf16 wgmma, ") + data;
            time(name.c_str(), wgmma_rate::flop(blocks / 2), "TFLOP/s",
                 [&] { wgmma_rate::run(blocks / 2, values, C.data); });
        }
    }
}
