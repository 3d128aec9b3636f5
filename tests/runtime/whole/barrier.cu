// cuda::barrier and cuda::pipeline from the C++ library, in a block that copies and computes.
#include <cooperative_groups.h>
#include <cstdio>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_runtime.h>
#include <vector>
#pragma nv_diag_suppress static_var_with_dynamic_init

constexpr int TILE = 256, STAGES = 2;

__global__ void scale(const float *in, float *out, int tiles, float factor) {
    __shared__ float stage[STAGES][TILE];
    auto block = cooperative_groups::this_thread_block();
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> state;
    auto pipeline = cuda::make_pipeline(block, &state);
    for (int fetch = 0, work = 0; work < tiles; work++) {
        for (; fetch < tiles && fetch < work + STAGES; fetch++) {
            pipeline.producer_acquire();
            cuda::memcpy_async(block, stage[fetch % STAGES], in + fetch * TILE,
                               cuda::aligned_size_t<16>(TILE * sizeof(float)), pipeline);
            pipeline.producer_commit();
        }
        pipeline.consumer_wait();
        block.sync();
        out[work * TILE + threadIdx.x] = factor * stage[work % STAGES][threadIdx.x];
        block.sync();
        pipeline.consumer_release();
    }
}

__global__ void relay(int *data, int rounds) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    if (threadIdx.x == 0)
        init(&bar, blockDim.x);
    __syncthreads();
    for (int i = 0; i < rounds; i++) {
        int next = data[(threadIdx.x + 1) % blockDim.x];
        bar.arrive_and_wait();
        data[threadIdx.x] = next;
        bar.arrive_and_wait();
    }
}

int main() {
    const int tiles = 6, n = tiles * TILE;
    std::vector<float> host(n), back(n);
    for (int i = 0; i < n; i++)
        host[i] = i;
    float *in, *out;
    cudaMalloc(&in, n * 4);
    cudaMalloc(&out, n * 4);
    cudaMemcpy(in, host.data(), n * 4, cudaMemcpyHostToDevice);
    scale<<<1, TILE>>>(in, out, tiles, 3.0f);
    cudaMemcpy(back.data(), out, n * 4, cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (int i = 0; i < n; i++)
        wrong += back[i] != 3.0f * host[i];
    printf("pipeline: %s, wrong %d\n", cudaGetErrorName(cudaGetLastError()), wrong);

    int *data;
    cudaMallocManaged(&data, 96 * sizeof(int));
    for (int i = 0; i < 96; i++)
        data[i] = i;
    relay<<<1, 96>>>(data, 5);
    printf("relay: %s, ", cudaGetErrorName(cudaDeviceSynchronize()));
    printf("%d %d\n", data[0], data[95]);
}
