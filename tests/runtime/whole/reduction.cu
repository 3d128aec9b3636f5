// A sum by shared memory, shuffles and one atomic; cooperative groups; occupancy-sized grid.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdio>
#include <cuda_runtime.h>
#include <vector>
namespace cg = cooperative_groups;

__global__ void sum(const int *in, int n, long long *out) {
    __shared__ int partial[32];
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    int mine = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        mine += in[i];
    mine = cg::reduce(warp, mine, cg::plus<int>());
    if (warp.thread_rank() == 0)
        partial[warp.meta_group_rank()] = mine;
    block.sync();
    if (warp.meta_group_rank() == 0) {
        mine = warp.thread_rank() < warp.meta_group_size() ? partial[warp.thread_rank()] : 0;
        for (int offset = 16; offset; offset /= 2)
            mine += warp.shfl_down(mine, offset);
        if (warp.thread_rank() == 0)
            atomicAdd((unsigned long long *)out, (unsigned long long)mine);
    }
}

int main() {
    const int n = 100000;
    std::vector<int> host(n);
    long long expected = 0, got = 0, *out;
    for (int i = 0; i < n; i++)
        expected += host[i] = (i * 7919) % 1000 - 300;
    int *in, grid, block;
    cudaOccupancyMaxPotentialBlockSize(&grid, &block, sum);
    cudaMalloc(&in, n * sizeof(int));
    cudaMalloc(&out, sizeof *out);
    cudaMemcpy(in, host.data(), n * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemset(out, 0, sizeof *out);
    sum<<<4, 256>>>(in, n, out);
    cudaMemcpy(&got, out, sizeof got, cudaMemcpyDeviceToHost);
    printf("%s\n", cudaGetErrorString(cudaGetLastError()));
    printf("sum %lld, expected %lld\n", got, expected);
}
