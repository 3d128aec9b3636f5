// Blocks that meet in device memory: barrier, latch, semaphore, grid, ticket lock, last block.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdio>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/latch>
#include <cuda/semaphore>
#include <new>
namespace cg = cooperative_groups;

constexpr int BLOCKS = 6, THREADS = 64, N = BLOCKS * THREADS;
using Barrier = cuda::barrier<cuda::thread_scope_device>;
using Latch = cuda::latch<cuda::thread_scope_device>;
using Semaphore = cuda::counting_semaphore<cuda::thread_scope_device>;

__device__ int data[N], out[N];
__device__ alignas(256) unsigned char room[3][256];

__device__ int me() { return blockIdx.x * THREADS + threadIdx.x; }
__device__ int other() { return (me() + 100) % N; }

__global__ void make() {
    new (room[0]) Barrier(N);
    new (room[1]) Latch(BLOCKS);
    new (room[2]) Semaphore(1);
}

__global__ void at_a_barrier() {
    Barrier& all = *(Barrier*)room[0];
    for (int round = 0; round < 3; ++round) {
        data[me()] = me() + round;
        all.arrive_and_wait();
        out[me()] = data[other()];
        all.arrive_and_wait();
    }
}

__global__ void at_a_latch() {
    Latch& written = *(Latch*)room[1];
    data[me()] = me();
    __syncthreads();
    if (threadIdx.x == 0) written.count_down();
    written.wait();
    out[me()] = data[other()];
}

__global__ void one_at_a_time() {
    Semaphore& free = *(Semaphore*)room[2];
    if (threadIdx.x == 0) {
        free.acquire();
        out[0] = out[0] + 1;
        free.release();
    }
}

__global__ void in_the_grid(int* sum) {
    auto grid = cg::this_grid();
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    for (int round = 0; round < 4; ++round) {
        data[me()] = me() + round;
        grid.sync();
        const int total = cg::reduce(warp, data[other()], cg::plus<int>());
        if (warp.thread_rank() == 0) atomicAdd(sum, total);
        auto token = grid.barrier_arrive();
        out[me()] = round;
        grid.barrier_wait(std::move(token));
    }
}

__global__ void in_turn(int* next, int* serving, int* served) {
    if (threadIdx.x == 0) {
        cuda::atomic_ref<int, cuda::thread_scope_device> last(*next), now(*serving);
        const int mine = last.fetch_add(1, cuda::memory_order_relaxed);
        while (now.load(cuda::memory_order_acquire) != mine) {}
        *served = 2 * *served + 1;
        now.store(mine + 1, cuda::memory_order_release);
    }
}

__global__ void last_block(const int* in, int* parts, unsigned* count, int* sum) {
    __shared__ bool last;
    const int part = cg::reduce(cg::tiled_partition<32>(cg::this_thread_block()), in[me()],
                                cg::plus<int>());
    if (threadIdx.x % 32 == 0) atomicAdd(parts + blockIdx.x, part);
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicInc(count, BLOCKS) == BLOCKS - 1;
        __threadfence();
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        int total = 0;
        for (int i = 0; i < BLOCKS; ++i) total += parts[i];
        *sum = total;
    }
}

int check(const char* what, int shift) {
    int host[N], wrong = 0;
    cudaMemcpyFromSymbol(host, out, sizeof host);
    for (int i = 0; i < N; ++i) wrong += host[i] != (i + 100) % N + shift;
    printf("%s: %d wrong\n", what, wrong);
    return wrong;
}

int main() {
    int *words, *in, ramp[N], host[16];
    for (int i = 0; i < N; ++i) ramp[i] = i;
    cudaMalloc(&words, 64);
    cudaMemset(words, 0, 64);
    cudaMalloc(&in, sizeof ramp);
    cudaMemcpy(in, ramp, sizeof ramp, cudaMemcpyHostToDevice);
    make<<<1, 1>>>();
    at_a_barrier<<<BLOCKS, THREADS>>>();
    check("barrier", 2);
    at_a_latch<<<BLOCKS, THREADS>>>();
    check("latch", 0);
    one_at_a_time<<<BLOCKS, THREADS>>>();
    int first;
    cudaMemcpyFromSymbol(&first, out, 4);
    printf("semaphore: %d\n", first);
    int* sum = words;
    void* arguments[] = {&sum};
    cudaLaunchCooperativeKernel((void*)in_the_grid, BLOCKS, THREADS, arguments);
    in_turn<<<BLOCKS, THREADS>>>(words + 1, words + 2, words + 3);
    last_block<<<BLOCKS, THREADS>>>(in, words + 8, (unsigned*)words + 4, words + 5);
    cudaMemcpy(host, words, 64, cudaMemcpyDeviceToHost);
    printf("grid: %d, in turn: %d, last block: %d\n", host[0], host[3], host[5]);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
