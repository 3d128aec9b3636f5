// The rate of Hopper's own matrix instruction, wgmma: products of tiles that stay in shared
// memory. Only a GPU of compute capability 9.0 has it; a later chapter explains it.
#pragma once
#include "check.cuh"
#include <cuda_bf16.h>
#include <functional>
#include <vector>

namespace wgmma_rate {

constexpr int M = 64, N = 128, K = 16;    // of one instruction
constexpr int GROUPS = 2;                 // warp groups of a block, 128 threads each
constexpr int STEPS = 4000;               // batches of four instructions
constexpr int A_BYTES = M * 128, B_BYTES = N * 128;  // tiles 64 deep, rows of 128 bytes
constexpr int TILE_BYTES = A_BYTES + B_BYTES;
constexpr int SHARED = TILE_BYTES + 1024; // the tiles begin at a multiple of 1024

inline double flop(int blocks) { return 2.0 * M * N * K * 4 * STEPS * GROUPS * blocks; }

// PTX ISA, "Asynchronous warpgroup level matrix instructions": rows of 128 bytes, swizzled,
// groups of 8 rows 1024 bytes apart.
__device__ inline unsigned long long descriptor(unsigned address) {
    return ((address & 0x3ffff) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define C8(c, i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), \
                 "+f"(c[i + 4]), "+f"(c[i + 5]), "+f"(c[i + 6]), "+f"(c[i + 7])
__device__ inline void wgmma(float (&c)[64], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
        "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63},"
        "%64, %65, 1, 1, 1, 0, 0;"
        : C8(c, 0), C8(c, 8), C8(c, 16), C8(c, 24), C8(c, 32), C8(c, 40), C8(c, 48), C8(c, 56)
        : "l"(a), "l"(b));
}
#undef C8
#endif

__global__ void __launch_bounds__(GROUPS * 128)
kernel(const uint4* values,  // TILE_BYTES of bf16
       float* out)           // 64 a thread
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ unsigned char memory[];
    unsigned start = unsigned(__cvta_generic_to_shared(memory));
    const unsigned tile = (start + 1023) / 1024 * 1024;
    uint4* room = reinterpret_cast<uint4*>(memory + (tile - start));
    for (int i = threadIdx.x; i < TILE_BYTES / 16; i += blockDim.x) room[i] = values[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // wgmma reads by another path
    __syncthreads();
    float c[64] = {};
    for (int step = 0; step < STEPS; ++step) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (int k = 0; k < 4; ++k)
            wgmma(c, descriptor(tile + 32 * k), descriptor(tile + A_BYTES + 32 * k));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    for (int i = 0; i < 64; ++i) out[(blockIdx.x * blockDim.x + threadIdx.x) * 64 + i] = c[i];
#endif
}

inline bool runs_here() {
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    return device.major == 9;
}

struct Data {  // the tiles on the device
    __nv_bfloat16* data;
    explicit Data(const std::function<float()>& draw) {
        std::vector<__nv_bfloat16> host(TILE_BYTES / 2);
        for (auto& each : host) each = __float2bfloat16(draw());
        CHECK(cudaMalloc(&data, TILE_BYTES));
        CHECK(cudaMemcpy(data, host.data(), TILE_BYTES, cudaMemcpyHostToDevice));
    }
    ~Data() { cudaFree(data); }
    Data(const Data&) = delete;
};

inline void run(int blocks, const Data& values, float* out) {
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED));
    kernel<<<blocks, GROUPS * 128, SHARED>>>((const uint4*)values.data, out);
}

inline size_t results(int blocks) { return size_t(blocks) * GROUPS * 128 * 64; }

// What every element is when every number is 1, wherever in the tile it lies.
inline float of_ones() { return float(K) * 4 * STEPS; }

}  // namespace wgmma_rate
