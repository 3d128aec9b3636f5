// The tensor cores multiply, which do not take f32 numbers but their upper 19 bits (tf32). So each
// number is cut in two, and three products of the parts make one of the whole. Needs sm_80.
#include "check.cuh"
#include <cuda_pipeline.h>

constexpr int M = 32, N = 32, K = 4096;  // C = A · B, row-major f32
constexpr int BK = 16;                   // depth of a tile
constexpr int TILES = K / BK;            // tile i is warp i % WARPS's
constexpr int SLOTS = 2;                 // tiles in a warp's ring
constexpr int WARPS = 16;
constexpr int THREADS = 32 * WARPS;
constexpr int PAD = 8;                   // floats between the rows of a sum: no bank conflicts
static_assert(K % BK == 0, "K must be whole tiles");
static_assert(SLOTS > 1 && THREADS >= M * N / 4, "copies run ahead; four sums a thread at most");

struct Slot {
    float a[M][BK];  // a tile of A
    float b[BK][N];  // a tile of B; floats 4u … of row k lie at 4 · (u ^ k / 4 · 2): no conflicts
};

union Ring {
    Slot slot[SLOTS];
    float sum[M][N + PAD];  // of the warp, once all of its tiles are done
};

// Four neighbouring floats, or two, as one value; the first must be aligned to as many bytes.
__device__ float4& four(float& first) { return reinterpret_cast<float4&>(first); }
__device__ const float4& four(const float& first) {
    return reinterpret_cast<const float4&>(first);
}
__device__ float2& two(float& first) { return reinterpret_cast<float2&>(first); }
__device__ const float2& two(const float& first) {
    return reinterpret_cast<const float2&>(first);
}

// A number is the sum of two: what a tensor core takes of it, and the rest, which is exact.
__device__ float high(float x) { return __uint_as_float(__float_as_uint(x) & 0xffffe000); }
__device__ float low(float x) { return x - high(x); }

// mma, PTX ISA 9.7.14.5.14: c (16, 8) += a (16, 8) · b (8, 8), tf32 into f32. Lane l = 4g + t
// holds a[g][t], a[g + 8][t], a[g][t + 4], a[g + 8][t + 4]; b[t][g], b[t + 4][g]; and c[g][2t],
// c[g][2t + 1], c[g + 8][2t], c[g + 8][2t + 1].
__device__ void mma(float (&c)[4], const float (&a)[4], const float (&b)[2]) {
    auto bits = [](float x) { return __float_as_uint(x); };
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(bits(a[0])), "r"(bits(a[1])), "r"(bits(a[2])), "r"(bits(a[3])), "r"(bits(b[0])),
          "r"(bits(b[1])));
}

// Starts a warp's copies of a tile, sixteen bytes of eight rows of A and of four rows of B at once.
__device__ void start_copies(Slot& slot, int tile, const float* __restrict__ A,
                             const float* __restrict__ B) {
    const int lane = threadIdx.x % 32, k0 = tile * BK;
    const int x = lane % 4 * 4, y = lane / 4, u = lane % 8, v = lane / 8;
#pragma unroll
    for (int i = 0; i < 4; ++i)
        __pipeline_memcpy_async(&slot.a[y + 8 * i][x], &A[(y + 8 * i) * K + k0 + x], 16);
#pragma unroll
    for (int i = 0; i < 4; ++i)
        __pipeline_memcpy_async(&slot.b[v + 4 * i][4 * (u ^ 2 * i)],
                                &B[(k0 + v + 4 * i) * N + 4 * u], 16);
}

// Adds a tile's products to a warp's c. Which rows, columns and steps of k an mma's indices stand
// for is free, and so is which factor comes first. So the mma's a is a piece of B, columns 2g and
// 2g + 1 for its rows g and g + 8, and its b a piece of A, steps 4t and 4t + 1 (then 4t + 2 and
// 4t + 3) for its rows t and t + 4: then the neighbours that a lane loads together are neighbours
// in its registers, where an mma wants them. c[h][i][2p + q] is C[8i + 2t + q][16h + 2g + p].
__device__ void multiply(const Slot& slot, float (&c)[2][4][4]) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    float a[4][4];
    for (int i = 0; i < 4; ++i) four(a[i][0]) = four(slot.a[8 * i + g][4 * t]);
#pragma unroll
    for (int s = 0; s < 4; s += 2)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int column = 4 * ((4 * h + g / 2) ^ 2 * t) + g % 2 * 2;
            float b[4], b_high[4], b_low[4];
            two(b[0]) = two(slot.b[4 * t + s][column]);
            two(b[2]) = two(slot.b[4 * t + s + 1][column]);
            for (int j = 0; j < 4; ++j) b_high[j] = high(b[j]), b_low[j] = low(b[j]);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float a_high[2] = {high(a[i][s]), high(a[i][s + 1])};
                const float a_low[2] = {low(a[i][s]), low(a[i][s + 1])};
                mma(c[h][i], b_low, a_high);
                mma(c[h][i], b_high, a_low);
                mma(c[h][i], b_high, a_high);  // low · low is left out
            }
        }
}

__global__ void __launch_bounds__(THREADS)
matmul(const float* __restrict__ A,  // (M, K)
       const float* __restrict__ B,  // (K, N)
       float* __restrict__ C)        // (M, N)
{
    extern __shared__ float4 memory[];  // as much as the launch asks for
    Ring* rings = reinterpret_cast<Ring*>(memory);  // one a warp
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    Ring& ring = rings[warp];

    int ahead = warp, fill = 0;  // the next tile to copy, and its slot
    auto copy_next = [&] {
        if (ahead < TILES) start_copies(ring.slot[fill], ahead, A, B);
        __pipeline_commit();  // a group even where nothing is left to copy: groups are counted
        ahead += WARPS;
        if (++fill == SLOTS) fill = 0;
    };
    for (int s = 0; s < SLOTS - 1; ++s) copy_next();

    float c[2][4][4] = {};
    int s = 0;
    for (int tile = warp; tile < TILES; tile += WARPS) {
        __pipeline_wait_prior(SLOTS - 2);  // this lane's copies of the tile have landed
        __syncwarp();  // those of the other lanes, too; and all have read the slot that is next
        copy_next();
        multiply(ring.slot[s], c);
        if (++s == SLOTS) s = 0;
    }
    __syncwarp();  // nobody reads the warp's slots any more
    for (int h = 0; h < 2; ++h)
        for (int i = 0; i < 4; ++i)
            for (int q = 0; q < 2; ++q)
                two(ring.sum[8 * i + lane % 4 * 2 + q][16 * h + lane / 4 * 2]) =
                    {c[h][i][q], c[h][i][q + 2]};
    __syncthreads();  // the sums are written
    if (threadIdx.x >= M * N / 4) return;
    const int row = threadIdx.x / (N / 4), column = threadIdx.x % (N / 4) * 4;
    float4 total = four(rings[0].sum[row][column]);
    for (int w = 1; w < WARPS; ++w) {
        const float4 sum = four(rings[w].sum[row][column]);
        total.x += sum.x, total.y += sum.y, total.z += sum.z, total.w += sum.w;
    }
    reinterpret_cast<float4&>(C[row * N + column]) = total;
}

void launch(const float* A, const float* B, float* C) {
    constexpr int BYTES = WARPS * sizeof(Ring);
    // More than 48 KiB of shared memory must be asked for.
    CHECK(cudaFuncSetAttribute(matmul, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES));
    matmul<<<1, THREADS, BYTES>>>(A, B, C);
}

#include "harness.cuh"
