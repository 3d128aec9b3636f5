// How fast wgmma is, by its width: tiles stay in shared memory, or A in registers, and one block on
// each multiprocessor multiplies them again and again. Cycles, by the multiprocessor's own clock.
#include "check.cuh"
#include "ptx_wgmma.cuh"
#include "timing.cuh"
#include <algorithm>
#include <cuda_bf16.h>
#include <random>
#include <vector>

using bf16 = __nv_bfloat16;
constexpr int BATCH = 16;               // instructions of a group that is committed
constexpr int TILE_A = 64 * 128;        // bytes: 64 rows, 64 deep, swizzled over 128 bytes
constexpr int TILE_B = 256 * 128;       // bytes, for the widest
constexpr int SHARED = 2 * TILE_A + TILE_B;

// GROUPS warp groups, each with its own A, and one B for all; PENDING batches may be under way while
// the next is begun.
template <int N, bool REGISTERS, int GROUPS, int PENDING>
__global__ void __launch_bounds__(GROUPS * 128)
rate(const uint4* __restrict__ values,  // SHARED bytes of bf16
     float* __restrict__ out,           // (blocks, GROUPS · 128, N / 2)
     long long* __restrict__ cycles,    // (blocks)
     int batches)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    for (int i = threadIdx.x; i < SHARED / 16; i += blockDim.x)
        reinterpret_cast<uint4*>(memory)[i] = values[i];
    ptx::fence_proxy_async_shared();
    __syncthreads();
    const auto a = ptx::descriptor_128B(memory + threadIdx.x / 128 * TILE_A);
    const auto b = ptx::descriptor_128B(memory + 2 * TILE_A);
    const unsigned* own = reinterpret_cast<unsigned*>(memory) + threadIdx.x % 128 * 16;
    unsigned fragment[16];  // of A, for a depth of 64
    for (int i = 0; i < 16; ++i) fragment[i] = own[i];
    float d[N / 2] = {};
    const long long begin = clock64();
    for (int batch = 0; batch < batches; ++batch) {
        ptx::wgmma_fence();
#pragma unroll
        for (int i = 0; i < BATCH; ++i) {
            const int k = i % 4;
            if constexpr (REGISTERS)
                ptx::wgmma_a(d, fragment[4 * k], fragment[4 * k + 1], fragment[4 * k + 2],
                             fragment[4 * k + 3], b + 2 * k, 1);
            else
                ptx::wgmma(d, a + 2 * k, b + 2 * k, 1);
        }
        ptx::wgmma_commit_group();
        ptx::wgmma_wait_group<PENDING>();
    }
    ptx::wgmma_wait_group<0>();
    const long long end = clock64();
    if (threadIdx.x == 0) cycles[blockIdx.x] = end - begin;
    float* mine = out + (size_t(blockIdx.x) * blockDim.x + threadIdx.x) * (N / 2);
    for (int i = 0; i < N / 2; ++i) mine[i] = d[i];
}

struct Bench {
    int blocks, batches;
    uint4* values;
    float* out;
    long long* cycles;
};

// With every number 1, each sum is the number of products that went into it.
template <int N, bool REGISTERS, int GROUPS, int PENDING>
void run(const Bench& x, bool ones) {
    auto* kernel = rate<N, REGISTERS, GROUPS, PENDING>;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED));
    const size_t results = size_t(x.blocks) * GROUPS * 128 * (N / 2);
    CHECK(cudaMemset(x.out, 0xff, results * sizeof(float)));
    kernel<<<x.blocks, GROUPS * 128, SHARED>>>(x.values, x.out, x.cycles, x.batches);
    CHECK(cudaGetLastError());
    std::vector<long long> cycles(x.blocks);
    CHECK(cudaMemcpy(cycles.data(), x.cycles, x.blocks * sizeof(long long),
                     cudaMemcpyDeviceToHost));
    if (!ones) {
        std::sort(cycles.begin(), cycles.end());
        const double flop = 2.0 * 64 * N * 16 * BATCH * x.batches * GROUPS;
        printf("⏱ N=%d A=%s groups=%d pending=%d %.1f\n", N, REGISTERS ? "registers" : "shared",
               GROUPS, PENDING, flop / cycles[cycles.size() / 2]);
        return;
    }
    std::vector<float> got(results);
    CHECK(cudaMemcpy(got.data(), x.out, results * sizeof(float), cudaMemcpyDeviceToHost));
    for (float each : got)
        if (each != 16.0f * BATCH * x.batches) {
            printf("rate: WRONG, %g for N = %d\n", each, N);
            exit(2);
        }
}

template <int N, bool REGISTERS, int GROUPS> void both(const Bench& x, bool ones) {
    run<N, REGISTERS, GROUPS, 0>(x, ones);
    run<N, REGISTERS, GROUPS, 1>(x, ones);
}
template <int N> void each(const Bench& x, bool ones) {
    both<N, false, 1>(x, ones);
    both<N, false, 2>(x, ones);
    both<N, true, 1>(x, ones);
    both<N, true, 2>(x, ones);
}
void all(const Bench& x, bool ones) {
    each<16>(x, ones);
    if (timing::emulated()) return;
    each<8>(x, ones), each<32>(x, ones);
    each<64>(x, ones), each<128>(x, ones), each<256>(x, ones);
}

int main(int argc, char** argv) {
    Bench x{timing::emulated() ? 1 : 132, timing::emulated() ? 2 : 8};
    CHECK(cudaMalloc(&x.values, SHARED));
    CHECK(cudaMalloc(&x.out, size_t(x.blocks) * 256 * 128 * sizeof(float)));
    CHECK(cudaMalloc(&x.cycles, x.blocks * sizeof(long long)));
    std::vector<bf16> host(SHARED / 2, __float2bfloat16(1));
    CHECK(cudaMemcpy(x.values, host.data(), SHARED, cudaMemcpyHostToDevice));
    all(x, true);
    printf("rate: OK, every sum of ones is exact\n");
    if (argc < 2 || strcmp(argv[1], "time")) return 0;
    std::mt19937 random(16);
    std::normal_distribution<float> normal;
    for (bf16& each : host) each = __float2bfloat16(normal(random));
    CHECK(cudaMemcpy(x.values, host.data(), SHARED, cudaMemcpyHostToDevice));
    x.batches = 500;
    for (int round = 0; round < 9; ++round) all(x, false);
}
