// Two ceilings beside those of roofline.cu: memory that is only read, and tensor cores whose
// operands change from one product to the next.
#include "timing.cuh"
#include <mma.h>
#include <random>
using namespace nvcuda;

constexpr int THREADS = 256;
constexpr int TILE = 16;   // a tensor-core product of the C++ interface: 16 × 16 × 16
constexpr int TILES = 4;   // of A and of B, in turn: a warp's 16 pairs of them

// Adds up everything, as bits: four loads of 16 bytes a thread on their way before the first sum.
__global__ void read_only(const uint4* __restrict__ from, size_t count, unsigned* sum) {
    const size_t first = size_t(blockIdx.x) * THREADS * 4 + threadIdx.x;
    uint4 held[4] = {};
    for (int j = 0; j < 4; ++j)
        if (first + j * THREADS < count) held[j] = from[first + j * THREADS];
    unsigned own = 0;
    for (const uint4& each : held) own += each.x + each.y + each.z + each.w;
    for (int step = 16; step > 0; step /= 2) own += __shfl_down_sync(0xffffffff, own, step);
    if (threadIdx.x % 32 == 0 && own) atomicAdd(sum, own);  // never, when all are zeros
}

// C ← A[i]·B[j] + C over all pairs of tiles, again and again; A and B: (TILES, TILE, TILE).
__global__ void mma_in_turn(const half* A, const half* B, int rounds, float* C) {
    wmma::fragment<wmma::matrix_a, TILE, TILE, TILE, half, wmma::row_major> a[TILES];
    wmma::fragment<wmma::matrix_b, TILE, TILE, TILE, half, wmma::row_major> b[TILES];
    wmma::fragment<wmma::accumulator, TILE, TILE, TILE, float> c[TILES];
    for (int i = 0; i < TILES; ++i) {
        wmma::load_matrix_sync(a[i], A + i * TILE * TILE, TILE);
        wmma::load_matrix_sync(b[i], B + i * TILE * TILE, TILE);
        wmma::fill_fragment(c[i], 0.0f);
    }
    for (int round = 0; round < rounds; ++round)
        for (int i = 0; i < TILES; ++i)
            for (int j = 0; j < TILES; ++j) wmma::mma_sync(c[j], a[i], b[(i + j) % TILES], c[j]);
    const int warp = (blockIdx.x * THREADS + threadIdx.x) / 32;
    for (int j = 0; j < TILES; ++j)
        wmma::store_matrix_sync(C + (warp * TILES + j) * TILE * TILE, c[j], TILE,
                                wmma::mem_row_major);
}

void demand(bool right, const char* what) {
    if (right) return;
    fprintf(stderr, "wrong result of %s\n", what);
    exit(2);
}

int main(int argc, char** argv) {
    timing::Report report(argc, argv);
    const bool emulated = timing::emulated();
    const int count = emulated ? 1 : 50;  // launches each
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    std::mt19937 random(std::random_device{}());
    std::normal_distribution<float> normal;
    auto time = [&](const char* name, double work, const char* unit, const timing::Work& run) {
        if (emulated) return;
        timing::each(count, run);  // warm-up
        timing::Times rates;
        for (double microseconds : timing::each(count, run))
            rates.push_back(work / (microseconds * 1e-6) / 1e12);
        report.say("%s: %.2f %s, the median of %d launches", name, timing::quantile(rates, 0.5),
                   unit, count);
        report.keep(name, rates);
    };
    {
        const size_t words = emulated ? 16400 : size_t(1) << 27;  // 512 MiB
        std::vector<unsigned> host(words, 0);
        host[words - 1] = 5, host[words / 3] = 7;
        unsigned *from, *sum, found;
        CHECK(cudaMalloc(&from, words * sizeof *from));
        CHECK(cudaMalloc(&sum, sizeof *sum));
        CHECK(cudaMemset(sum, 0, sizeof *sum));
        CHECK(cudaMemcpy(from, host.data(), words * sizeof *from, cudaMemcpyHostToDevice));
        const unsigned grid = (words / 4 + THREADS * 4 - 1) / (THREADS * 4);
        auto run = [&] { read_only<<<grid, THREADS>>>((const uint4*)from, words / 4, sum); };
        run();
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(&found, sum, sizeof found, cudaMemcpyDeviceToHost));
        demand(found == 12, "read only");
        printf("read only: OK\n");
        CHECK(cudaMemset(from, 0, words * sizeof *from));  // nobody adds while the clock runs
        time("read only", 4.0 * words, "TB/s", run);
        CHECK(cudaFree(from)), CHECK(cudaFree(sum));
    }
    {
        const int blocks = emulated ? 1 : device.multiProcessorCount * 4;
        const int warps = blocks * THREADS / 32, size = TILE * TILE;
        std::vector<half> A(TILES * size), B(TILES * size);
        half *dA, *dB;
        float* C;
        std::vector<float> got(size_t(warps) * TILES * size);
        CHECK(cudaMalloc(&dA, A.size() * sizeof(half)));
        CHECK(cudaMalloc(&dB, B.size() * sizeof(half)));
        CHECK(cudaMalloc(&C, got.size() * sizeof(float)));
        int rounds = 3;
        auto run = [&] { mma_in_turn<<<blocks, THREADS>>>(dA, dB, rounds, C); };
        auto load = [&](auto draw) {
            for (auto* each : {&A, &B})
                for (half& e : *each) e = draw();
            CHECK(cudaMemcpy(dA, A.data(), A.size() * sizeof(half), cudaMemcpyHostToDevice));
            CHECK(cudaMemcpy(dB, B.data(), B.size() * sizeof(half), cudaMemcpyHostToDevice));
        };
        load([&] { return half(float(int(random() % 9) - 4)); });  // sums of whole numbers: exact
        CHECK(cudaMemset(C, 0xff, got.size() * sizeof(float)));    // NaN: nobody has written
        run();
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(got.data(), C, got.size() * sizeof(float), cudaMemcpyDeviceToHost));
        for (size_t at = 0; at < got.size(); ++at) {
            const int j = at / size % TILES, row = at % size / TILE, column = at % TILE;
            float sum = 0;
            for (int i = 0; i < TILES; ++i)
                for (int k = 0; k < TILE; ++k)
                    sum += float(A[i * size + row * TILE + k]) *
                           float(B[(i + j) % TILES * size + k * TILE + column]);
            demand(got[at] == rounds * sum, "tensor cores in turn");
        }
        printf("tensor cores in turn: OK\n");
        rounds = 5000;
        load([&] { return half(normal(random)); });
        time("f16 mma, normal, in turn", 2.0 * TILE * size * TILES * TILES * rounds * warps,
             "TFLOP/s", run);
        CHECK(cudaFree(dA)), CHECK(cudaFree(dB)), CHECK(cudaFree(C));
    }
    return 0;
}
