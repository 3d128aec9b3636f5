// The C++ side of asynchrony: cuda::pipeline, memcpy_async, cuda::barrier in all its forms.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>

namespace cg = cooperative_groups;
constexpr int N = 128;

// Two stages, all threads produce and consume.
__global__ void unified(const int* in, int* out, int tiles) {
    __shared__ int slot[2][N];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    int t = threadIdx.x, sum = 0;
    for (int fetch = 0, tile = 0; tile < tiles; ++tile) {
        for (; fetch < tiles && fetch < tile + 2; ++fetch) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, slot[fetch % 2], in + fetch * N, sizeof(int) * N, pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum += slot[tile % 2][N - 1 - t];
        pipe.consumer_release();
    }
    out[t] = sum;
}

// Warp 0 produces, the others consume.
__global__ void divided(const int* in, int* out, int tiles) {
    __shared__ int slot[2][N];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto block = cg::this_thread_block();
    auto role = threadIdx.x < 32 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
    auto pipe = cuda::make_pipeline(block, &state, role);
    int t = threadIdx.x, sum = 0;
    if (t < 32) {
        for (int tile = 0; tile < tiles; ++tile) {
            pipe.producer_acquire();
            for (int i = t; i < N; i += 32)
                cuda::memcpy_async(&slot[tile % 2][i], &in[tile * N + i], sizeof(int), pipe);
            pipe.producer_commit();
        }
    } else {
        for (int tile = 0; tile < tiles; ++tile) {
            pipe.consumer_wait();
            for (int i = t - 32; i < N; i += blockDim.x - 32) sum += slot[tile % 2][i];
            pipe.consumer_release();
        }
        atomicAdd(out, sum);
    }
}

// One thread's own pipeline: no other thread is involved.
__global__ void alone(const int4* in, int4* out, int tiles) {
    __shared__ int4 slot[2][N];
    auto pipe = cuda::make_pipeline();
    int t = threadIdx.x;
    int4 sum = {0, 0, 0, 0};
    for (int fetch = 0, tile = 0; tile < tiles; ++tile) {
        for (; fetch < tiles && fetch < tile + 2; ++fetch) {
            pipe.producer_acquire();
            cuda::memcpy_async(&slot[fetch % 2][t], &in[fetch * N + t], cuda::aligned_size_t<16>(16), pipe);
            pipe.producer_commit();
        }
        cuda::pipeline_consumer_wait_prior<1>(pipe);
        if (tile + 1 == tiles) cuda::pipeline_consumer_wait_prior<0>(pipe);
        int4 x = slot[tile % 2][t];
        sum.x += x.x; sum.y += x.y; sum.z += x.z; sum.w += x.w;
        pipe.consumer_release();
    }
    out[t] = sum;
}

// A barrier that threads leave one after another, and a copy that arrives at one.
__global__ void leaving(const int* in, int* out) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar, copied;
    __shared__ int box[N], seen[4];
    int t = threadIdx.x;
    if (t == 0) { init(&bar, N); init(&copied, N); }
    __syncthreads();
    cuda::memcpy_async(&box[t], &in[t], sizeof(int), copied);
    copied.arrive_and_wait();
    int x = box[t ^ 1];
    for (int round = 0; round < 3; ++round) {
        if (t / 32 == round) { (void)bar.arrive_and_drop(); break; }
        if (t == N - 1) seen[round] = round;
        bar.arrive_and_wait();
        x += seen[round];
    }
    out[t] = x;
}

// cg::memcpy_async for the whole block.
__global__ void together(const int* in, int* out) {
    __shared__ int box[N];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, box, in, sizeof(int) * N);
    cg::wait(block);
    out[threadIdx.x] = box[(threadIdx.x + 5) % N];
}

// cuda::atomic: a message from one warp to another through a flag.
__global__ void message(int* out) {
    __shared__ int data;
    __shared__ cuda::atomic<int, cuda::thread_scope_block> flag;
    if (threadIdx.x == 0) flag.store(0, cuda::memory_order_relaxed);
    __syncthreads();
    if (threadIdx.x == 32) {
        data = 42;
        flag.store(1, cuda::memory_order_release);
    }
    if (threadIdx.x == 0) {
        while (flag.load(cuda::memory_order_acquire) == 0) { }
        *out = data;
    }
}
