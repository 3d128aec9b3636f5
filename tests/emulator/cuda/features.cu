// Small kernels, one language feature each; tests/emulator/test_cuda.py says what each must give.
#include <cooperative_groups.h>
#include <cassert>
#include <cstdio>
#include <cuda_fp16.h>

namespace cg = cooperative_groups;

// Arithmetic of all integer widths: out[i] depends on each.
__global__ void integers(const int* a, const long long* b, const short* c, long long* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    long long x = (long long)a[i] * b[i] + c[i];
    x ^= (long long)(a[i] >> 3) << 7;
    x += a[i] / (c[i] | 1) + b[i] % 1001 - (b[i] / ((long long)a[i] | 1));
    x += __popc(a[i]) + __clz(a[i]) + __popcll(b[i]) + __clzll(b[i]) + __brev(a[i]) + __ffs(a[i]);
    x += __umulhi(a[i], 0x12345u) + __mulhi(a[i], -77) + __umul64hi(b[i], 0x123456789abcdefull);
    x += __byte_perm(a[i], (int)b[i], 0x3715) + __funnelshift_l(a[i], (int)b[i], c[i]);
    x += __vadd2(a[i], (int)b[i]);
    out[i] = x;
}

// A struct by value, constant memory, a global variable with an initialiser.
struct Line { float slope; double offset; int power[3]; };
__constant__ float table[4] = {1.0f, 0.5f, 0.25f, 0.125f};
__device__ int total = 7;
__global__ void by_value(Line line, float* out) {
    int i = threadIdx.x;
    out[i] = line.slope * i + (float)line.offset + line.power[i % 3] + table[i & 3];
    if (i == 0) total += line.power[0];
}

// Divergence: nested branches and a loop whose length differs by thread (Collatz steps).
__global__ void collatz(const int* start, int* steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int n = start[i], count = 0;
    while (n != 1) {
        if (n % 2 == 0) n /= 2;
        else { n = 3 * n + 1; if (count > 1000) break; }
        ++count;
    }
    steps[i] = count;
}

// A switch, a device function that is not inlined, an array in local memory.
__device__ __noinline__ int mix(int a, int b, int kind) {
    switch (kind) {
        case 0: return a + b; case 1: return a - b; case 2: return a * b; case 3: return a & b;
        case 4: return a | b; case 5: return a ^ b; case 6: return a << (b & 7);
        case 7: return a >> (b & 7); case 8: return a + 2 * b; case 9: return min(a, b);
        default: return max(a, b);
    }
}
__global__ void functions(const int* in, int* out) {
    int i = threadIdx.x;
    int box[8];
    for (int k = 0; k < 8; ++k) box[k] = in[(i + k) % blockDim.x];
    int sum = 0;
    for (int k = 0; k < 11; ++k) sum += mix(box[(i + k) & 7], box[(sum + k) & 7], k);
    out[i] = sum;
}

// Calls through a pointer.
typedef int (*Op)(int, int);
__device__ int op_add(int a, int b) { return a + b; }
__device__ int op_sub(int a, int b) { return a - b; }
__device__ Op ops[2] = {op_add, op_sub};
__global__ void pointers(const int* in, int* out) {
    int i = threadIdx.x;
    out[i] = ops[i & 1](in[i], i);
}

// Warp collectives: a sum by shuffles, a ballot, votes, a match.
__global__ void warps(const int* in, int* out) {
    int i = threadIdx.x, x = in[i];
    int sum = x;
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    int scan = x;
    for (int d = 1; d < 32; d *= 2) {
        int up = __shfl_up_sync(~0u, scan, d);
        if (i % 32 >= d) scan += up;
    }
    unsigned odd = __ballot_sync(~0u, x & 1);
    int down = __shfl_down_sync(~0u, x, 3, 8), pick = __shfl_sync(~0u, x, i * 7, 16);
    unsigned same = __match_any_sync(~0u, x & 3);
    int flags = __any_sync(~0u, x > 90) | __all_sync(~0u, x >= 0) << 1;
    out[i] = sum + 3 * scan + (int)odd + 5 * down + 7 * pick + (int)same + flags;
}

// Only some lanes of each warp take part, with their own mask.
__global__ void half_warps(const int* in, int* out) {
    int i = threadIdx.x;
    if (i % 2) {
        int sum = in[i];
        for (int d = 16; d > 1; d /= 2) sum += __shfl_xor_sync(0xaaaaaaaau, sum, d);
        out[i] = sum;
    } else {
        out[i] = __popc(__ballot_sync(0x55555555u, in[i] > 50));
    }
}

// A block-wide reduction in dynamic shared memory; early exit of a whole warp.
__global__ void reduce(const float* in, float* out, int n) {
    extern __shared__ float part[];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    part[t] = i < n ? in[i] : 0.0f;
    __syncthreads();
    for (int s = blockDim.x / 2; s; s /= 2) {
        if (t < s) part[t] += part[t + s];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = part[0];
}

// Atomics of several kinds, in shared and global memory.
__global__ void atomics(const int* in, int* bins, int* extremes, unsigned long long* big) {
    __shared__ int local[16];
    if (threadIdx.x < 16) local[threadIdx.x] = 0;
    __syncthreads();
    int x = in[blockIdx.x * blockDim.x + threadIdx.x];
    atomicAdd(&local[x & 15], 1);
    atomicMin(&extremes[0], x);
    atomicMax(&extremes[1], x);
    atomicOr(&extremes[2], 1 << (x & 31));
    atomicXor(&extremes[3], x);
    int old = extremes[4], seen;
    do { seen = old; old = atomicCAS(&extremes[4], seen, seen + x); } while (old != seen);
    atomicInc((unsigned*)&extremes[5], 99);
    atomicAdd(big, (unsigned long long)x);
    __syncthreads();
    if (threadIdx.x < 16) atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}

// Floating point: f32 functions, f64, halves, conversions.
__global__ void floats(const float* a, const double* b, float* out, double* wide) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = a[i];
    __half h = __float2half(x), g = __hfma(h, h, __float2half(0.5f));
    out[i] = sqrtf(fabsf(x)) + x / 3.0f + fmaf(x, x, 1.0f) + floorf(x) + rintf(x) + __half2float(g)
           + fminf(x, 0.25f) + (float)(int)x + copysignf(1.5f, x) + __fadd_rz(x, 1e-4f);
    wide[i] = sqrt(fabs(b[i])) + b[i] / 7.0 + fma(b[i], b[i], (double)x) + (double)(long long)b[i];
}

// The last block to finish adds up what the others left: blocks that talk through memory.
__device__ unsigned finished = 0;
__global__ void last_block(const int* in, int* part, int* out) {
    __shared__ int sum;
    __shared__ bool last;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, in[blockIdx.x * blockDim.x + threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) {
        part[blockIdx.x] = sum;
        __threadfence();
        last = atomicAdd(&finished, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        __threadfence();
        int all = 0;
        for (int b = 0; b < gridDim.x; ++b) all += ((volatile int*)part)[b];
        *out = all;
        finished = 0;
    }
}

// A block waits for the one before it: only forward progress of every block lets this end.
__global__ void relay(volatile int* flag, int* out) {
    if (threadIdx.x == 0) {
        int me = gridDim.x - 1 - blockIdx.x;  // the last block starts the relay
        while (*flag != me) { }
        out[me] = me * me;
        __threadfence();
        *flag = me + 1;
    }
}

// Cooperative groups: tiles, a labelled partition by hand, block sync.
__global__ void groups(const int* in, int* out) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
    int x = in[block.thread_rank()];
    for (int d = tile.size() / 2; d; d /= 2) x += tile.shfl_down(x, d);
    block.sync();
    out[block.thread_rank()] = tile.shfl(x, 0) + tile.meta_group_rank();
}

// Output and assertions.
__global__ void speak(int limit) {
    if (threadIdx.x < 2) printf("thread %d says %5.2f %s%c\n", threadIdx.x, threadIdx.x + 0.5, "hi", '!');
    if (threadIdx.x == 3) assert((int)threadIdx.x < limit && "too small");
}

// Block votes at a barrier.
__global__ void votes(const int* in, int* out) {
    int x = in[threadIdx.x];
    int c = __syncthreads_count(x > 50), a = __syncthreads_and(x >= 0), o = __syncthreads_or(x > 98);
    out[threadIdx.x] = c * 4 + (a ? 1 : 0) + (o ? 2 : 0);
}
