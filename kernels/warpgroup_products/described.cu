// One warp group multiplies two tiles that lie in shared memory as their descriptors say: with A
// K-major, with A M-major, with the product negated, and with A in registers.
#include "ptx_wgmma.cuh"

constexpr int ROWS = 64, DEPTH = 64;     // of a tile of A or B; bf16
constexpr int WORDS = ROWS * DEPTH / 2;  // of a tile

struct alignas(1024) Tiles {
    unsigned a[WORDS];
    alignas(1024) unsigned b[WORDS];
};

__device__ void fill(Tiles& tiles, const unsigned* a, const unsigned* b) {
    for (int i = threadIdx.x; i < WORDS; i += 128) tiles.a[i] = a[i], tiles.b[i] = b[i];
    ptx::fence_proxy_async_shared();  // the tensor cores read shared memory by another path
    __syncthreads();
}

// The address of a tile, as it stands in a descriptor.
__device__ unsigned long long at(const void* tile) {
    return (ptx::shared_address(tile) & 0x3ffff) >> 4;
}

__device__ void store(const float (&d)[32], float* out) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int i = 0; i < 32; ++i)
        out[(16 * warp + lane / 4 + 8 * (i / 2 % 2)) * ROWS + 8 * (i / 4) + 2 * (lane % 4) + i % 2]
            = d[i];
}

// Multiply with both tiles in shared memory; A_STEP: what is added to A's descriptor for 16 along k.
template <int SIGN, int MAJOR_A, int A_STEP>
__device__ void multiply(const unsigned* a, const unsigned* b, unsigned long long described_a,
                         unsigned long long described_b, int step, float* out) {
    __shared__ Tiles tiles;
    fill(tiles, a, b);
    float d[32];
    ptx::wgmma_fence();
    for (int k = 0; k < DEPTH / 16; ++k)
        ptx::wgmma<SIGN, MAJOR_A>(d, described_a + at(tiles.a) + A_STEP * k,
                                  described_b + at(tiles.b) + step * k, k > 0);
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>();
    store(d, out);
}

// a, b: the images of the tiles (WORDS); their descriptors, as if they began at 0; step: what is
// added to B's for the next 16 along k; out: (ROWS, ROWS), A · Bᵀ.
#define ARGUMENTS                                                                                  \
    const unsigned *a, const unsigned *b, unsigned long long described_a,                          \
        unsigned long long described_b, int step, float *out

extern "C" __global__ void __launch_bounds__(128) described(ARGUMENTS) {
    multiply<1, 0, 2>(a, b, described_a, described_b, step, out);
}
extern "C" __global__ void __launch_bounds__(128) m_major(ARGUMENTS) {
    multiply<1, 1, 128>(a, b, described_a, described_b, step, out);
}
extern "C" __global__ void __launch_bounds__(128) negated(ARGUMENTS) {
    multiply<-1, 0, 2>(a, b, described_a, described_b, step, out);
}

// A comes from registers: each thread takes its fragment from a row-major tile in global memory.
extern "C" __global__ void __launch_bounds__(128) from_registers(ARGUMENTS) {
    __shared__ Tiles tiles;
    fill(tiles, a, b);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned* mine = a + (16 * warp + lane / 4) * (DEPTH / 2) + lane % 4;
    unsigned r[DEPTH / 16][4];  // a register: two neighbours along k
#pragma unroll
    for (int k = 0; k < DEPTH / 16; ++k)
        for (int i = 0; i < 4; ++i)
            r[k][i] = mine[8 * (i % 2) * (DEPTH / 2) + 8 * k + 4 * (i / 2)];
    float d[32];
    ptx::wgmma_fence();  // A's registers, too, are written before
#pragma unroll
    for (int k = 0; k < DEPTH / 16; ++k)
        ptx::wgmma_a(d, r[k][0], r[k][1], r[k][2], r[k][3], described_b + at(tiles.b) + step * k,
                     k > 0);
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>();
    store(d, out);
}
