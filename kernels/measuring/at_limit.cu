// The ceilings of the tensor cores at the power limit: their kernels for a given time, without a
// pause, as zeros.cu does it with a whole product. Needs a GPU for the times.
//     measuring/at_limit --what NAME --seconds S [--json FILE]
#define main ceilings_main  // its kernels, and not its times
#include "measuring/ceilings.cu"
#undef main
#include "wgmma_rate.cuh"
#include <cuda_bf16.h>

namespace in_turn {

using namespace wgmma_rate;
constexpr int OTHERS = 4;                       // tiles of A, and of B, in turn
constexpr int ALL_BYTES = OTHERS * TILE_BYTES;  // pairs of a tile of A and one of B
constexpr int ALL_SHARED = ALL_BYTES + 1024;
constexpr int PAIRS = OTHERS * OTHERS;
static_assert(STEPS % PAIRS == 0, "as many batches as wgmma_rate's kernel");

// wgmma_rate's kernel, but each batch of four instructions takes another pair of tiles.
__global__ void __launch_bounds__(GROUPS * 128)
kernel(const uint4* values,  // ALL_BYTES of bf16
       int rounds,           // of PAIRS batches
       float* out)           // 64 a thread
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ unsigned char memory[];
    unsigned start = unsigned(__cvta_generic_to_shared(memory));
    const unsigned tile = (start + 1023) / 1024 * 1024;
    uint4* room = reinterpret_cast<uint4*>(memory + (tile - start));
    for (int i = threadIdx.x; i < ALL_BYTES / 16; i += blockDim.x) room[i] = values[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // wgmma reads by another path
    __syncthreads();
    float c[64] = {};
    for (int round = 0; round < rounds; ++round)
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) {
            const unsigned a = tile + i % OTHERS * TILE_BYTES;
            const unsigned b = tile + (i + i / OTHERS) % OTHERS * TILE_BYTES + A_BYTES;
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
            for (int k = 0; k < 4; ++k) wgmma(c, descriptor(a + 32 * k), descriptor(b + 32 * k));
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        }
    for (int i = 0; i < 64; ++i) out[(blockIdx.x * blockDim.x + threadIdx.x) * 64 + i] = c[i];
#endif
}

}  // namespace in_turn

[[noreturn]] void fail(const char* why) {
    fprintf(stderr, "measuring/at_limit: %s\n", why);
    exit(1);
}

template <class T> struct Room {
    T* data;
    explicit Room(size_t count) {
        CHECK(cudaMalloc(&data, count * sizeof(T)));
        CHECK(cudaMemset(data, 0xff, count * sizeof(T)));  // NaN: nobody has written
    }
    ~Room() { cudaFree(data); }
    Room(const Room&) = delete;
    void fill(const std::vector<T>& from) const {
        CHECK(cudaMemcpy(data, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
    }
    std::vector<T> back(size_t count) const {
        std::vector<T> host(count);
        CHECK(cudaMemcpy(host.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost));
        return host;
    }
};

// Launches for so many seconds, without a pause: every rate, from the first launch on.
void sustain(timing::Report& report, const char* name, double seconds, double flop,
             const timing::Work& run) {
    if (timing::emulated()) return;
    timing::Times rates;
    const auto start = std::chrono::steady_clock::now();
    auto passed = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    while (passed() < seconds)
        for (double microseconds : timing::each(20, run))
            rates.push_back(flop / (microseconds * 1e-6) / 1e12);
    report.say("%s: %.1f TFLOP/s, the median of %zu launches", name,
               timing::quantile(rates, 0.5), rates.size());
    report.keep("rates", rates);
}

int main(int argc, char** argv) {
    using timing::option;
    timing::Report report(argc, argv);
    if (!option(argc, argv, "--what") || !option(argc, argv, "--seconds"))
        fail("give --what NAME and --seconds S");
    const std::string what = option(argc, argv, "--what");
    const double seconds = std::stod(option(argc, argv, "--seconds"));
    const bool emulated = timing::emulated();
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    std::mt19937 random(std::random_device{}());
    std::normal_distribution<float> normal;

    if (what == "f16 mma, normal, in turn") {  // as ceilings.cu launches it, which checks it
        const int blocks = emulated ? 1 : device.multiProcessorCount * 4;
        const int warps = blocks * THREADS / 32, size = TILE * TILE, rounds = emulated ? 2 : 5000;
        std::vector<half> values(2 * TILES * size);
        for (half& each : values) each = half(normal(random));
        Room<half> tiles(values.size());
        tiles.fill(values);
        Room<float> C(size_t(warps) * TILES * size);
        sustain(report, what.c_str(), seconds,
                2.0 * TILE * size * TILES * TILES * rounds * warps, [&] {
            mma_in_turn<<<blocks, THREADS>>>(tiles.data, tiles.data + TILES * size, rounds, C.data);
        });
        CHECK(cudaGetLastError());
        return 0;
    }

    if (!emulated && !wgmma_rate::runs_here()) fail("wgmma is measured on compute capability 9.0");
    const int blocks = emulated ? 1 : device.multiProcessorCount * 2;
    const size_t results = wgmma_rate::results(blocks);
    Room<float> C(results);
    if (what == "bf16 wgmma, normal" || what == "bf16 wgmma, zeros") {
        const bool zeros = what == "bf16 wgmma, zeros";
        wgmma_rate::Data values([&] { return zeros ? 0 : normal(random); });
        sustain(report, what.c_str(), seconds, wgmma_rate::flop(blocks),
                [&] { wgmma_rate::run(blocks, values, C.data); });
        CHECK(cudaGetLastError());
        return 0;
    }
    if (what != "bf16 wgmma, normal, in turn") fail("--what names no ceiling");

    // Tile i of A is all i + 1, and so is tile i of B: a round adds (1 + 2 + 3 + 4)² · 64. Which
    // element lies where makes no difference then, as where roofline.cu checks the kernel.
    using namespace in_turn;
    CHECK(cudaFuncSetAttribute(in_turn::kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               ALL_SHARED));
    Room<__nv_bfloat16> tiles(ALL_BYTES / 2);
    std::vector<__nv_bfloat16> values(ALL_BYTES / 2);
    for (size_t i = 0; i < values.size(); ++i)
        values[i] = __float2bfloat16(float(1 + i / (TILE_BYTES / 2)));
    tiles.fill(values);
    int rounds = 1;
    auto run = [&] {
        in_turn::kernel<<<blocks, GROUPS * 128, ALL_SHARED>>>((const uint4*)tiles.data, rounds,
                                                              C.data);
    };
    run();
    CHECK(cudaGetLastError());
    demand(C.back(results) == std::vector<float>(results, 100.0f * 64), "wgmma in turn");
    printf("wgmma in turn: OK\n");
    for (auto& each : values) each = __float2bfloat16(normal(random));
    tiles.fill(values);
    rounds = STEPS / PAIRS;
    sustain(report, what.c_str(), seconds, wgmma_rate::flop(blocks), run);
    CHECK(cudaGetLastError());
}
