// Cooperative and cluster launches: as many blocks as fit, and not one more.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void cooperative(int *p) { atomicAdd(p, 1); }
__global__ void cluster(int *p) {
    unsigned x, y, z;
    asm("mov.u32 %0, %%cluster_nctaid.x; mov.u32 %1, %%cluster_nctaid.y;"
        "mov.u32 %2, %%cluster_nctaid.z;" : "=r"(x), "=r"(y), "=r"(z));
    p[0] = x, p[1] = y, p[2] = z;
}

int main() {
    int host[3] = {}, *p, blocks, multiprocessors;
    cudaMalloc(&p, 64);
    cudaMemset(p, 0, 64);
    cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, cooperative, 1024, 0);
    void *arguments[] = {&p};
    int fits = blocks * multiprocessors;
    printf("fits: %s\n", cudaGetErrorName(cudaLaunchCooperativeKernel(
                             (void *)cooperative, fits, 1024, arguments, 0, 0)));
    printf("one more: %s\n", cudaGetErrorName(cudaLaunchCooperativeKernel(
                                 (void *)cooperative, fits + 1, 1024, arguments, 0, 0)));
    printf("again: %s\n", cudaGetErrorName(cudaLaunchCooperativeKernel(
                              (void *)cooperative, 1, 32, arguments, 0, 0)));
    cudaMemset(p, 0, 64);
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributeClusterDimension;
    attribute[0].val.clusterDim = {2, 2, 1};
    config.gridDim = dim3(4, 4, 1);
    config.blockDim = 32;
    config.attrs = attribute;
    config.numAttrs = 1;
    printf("cluster: %s\n", cudaGetErrorName(cudaLaunchKernelEx(&config, cluster, p)));
    cudaMemcpy(host, p, sizeof host, cudaMemcpyDeviceToHost);
    printf("%d %d %d\n", host[0], host[1], host[2]);
}
