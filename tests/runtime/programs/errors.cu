// What goes wrong, when a program hears of it, and what stays wrong. Every line is a rule.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void nothing() {}
__global__ void __launch_bounds__(128) nothing_small() {}
__global__ void nothing_with_shared() {
    __shared__ volatile char space[1024];
    space[threadIdx.x] = 1;
}
__global__ void __cluster_dims__(2, 1, 1) nothing_clustered() {}
__global__ void stray(int *p) { *p = 1; }

static void tell(const char *what, cudaError_t error) {
    printf("%s: %s\n", what, cudaGetErrorName(error));
}

int main() {
    int *device, host[4] = {};
    tell("malloc", cudaMalloc(&device, 64));
    void *much = nullptr;
    tell("malloc too much", cudaMalloc(&much, size_t(1) << 44));
    tell("last", cudaGetLastError());
    tell("last again", cudaGetLastError());
    void *none = (void *)1;
    tell("malloc 0", cudaMalloc(&none, 0));
    printf("is null: %d\n", none == nullptr);

    nothing<<<0, 32>>>();
    tell("no blocks", cudaGetLastError());
    nothing<<<1, 0>>>();
    tell("no threads", cudaGetLastError());
    nothing<<<1, 1025>>>();
    tell("1025 threads", cudaGetLastError());
    nothing<<<1, dim3(1, 1, 65)>>>();
    tell("z of 65", cudaGetLastError());
    nothing<<<dim3(1, 65536), 1>>>();
    tell("grid y of 65536", cudaGetLastError());
    nothing_small<<<1, 129>>>();
    tell("more than the bounds", cudaGetLastError());
    nothing<<<1, 1, 48 * 1024 + 1>>>();
    tell("shared past 48 KiB", cudaGetLastError());
    tell("opt in", cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        100 * 1024));
    nothing<<<1, 1, 100 * 1024>>>();
    tell("opted in", cudaGetLastError());
    tell("opt in too far", cudaFuncSetAttribute(
                               nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20));
    nothing_with_shared<<<1, 1, 47 * 1024>>>();
    tell("static and dynamic 48 KiB", cudaGetLastError());
    nothing_with_shared<<<1, 1, 47 * 1024 + 4>>>();
    tell("4 bytes more", cudaGetLastError());
    nothing_clustered<<<3, 1>>>();
    tell("3 blocks in clusters of 2", cudaGetLastError());
    nothing_clustered<<<4, 1>>>();
    tell("4 blocks in clusters of 2", cudaGetLastError());
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute cluster[1];
    cluster[0].id = cudaLaunchAttributeClusterDimension;
    cluster[0].val.clusterDim = {16, 1, 1};
    config.gridDim = 16;
    config.blockDim = 32;
    config.attrs = cluster;
    config.numAttrs = 1;
    tell("cluster of 16", cudaLaunchKernelEx(&config, nothing));
    cudaGetLastError();
    cluster[0].val.clusterDim = {4, 1, 1};
    tell("cluster of 4", cudaLaunchKernelEx(&config, nothing));
    tell("cooperative too large",
         cudaLaunchCooperativeKernel(nothing, dim3(1 << 20), dim3(1024), nullptr, 0, 0));
    cudaGetLastError();
    tell("not a kernel", cudaLaunchKernel(host, 1, 1, nullptr, 0, 0));
    cudaGetLastError();

    tell("wrong way", cudaMemcpy(host, device, 16, cudaMemcpyHostToDevice));
    tell("no such way", cudaMemcpy(host, device, 16, cudaMemcpyKind(9)));
    tell("too many bytes", cudaMemcpy(device, host, 1 << 30, cudaMemcpyHostToDevice));
    tell("pitch", cudaMemcpy2D(device, 4, host, 4, 8, 2, cudaMemcpyHostToDevice));
    tell("no bytes", cudaMemcpy(device, host, 0, cudaMemcpyHostToDevice));
    tell("memset", cudaMemset(device, 0, 64));
    tell("memset host", cudaMemset(host, 0, 16));
    tell("free host", cudaFree(host));
    tell("free middle", cudaFree((char *)device + 4));
    tell("device 7", cudaSetDevice(7));
    tell("null", cudaMalloc((void **)nullptr, 4));
    cudaEvent_t start, end;
    tell("event", cudaEventCreate(&start));
    tell("event", cudaEventCreate(&end));
    float milliseconds;
    tell("not recorded", cudaEventElapsedTime(&milliseconds, start, end));
    tell("null stream id", cudaStreamDestroy(nullptr));
    cudaGetLastError();

    printf("then a stray write\n");
    stray<<<1, 1>>>((int *)16);
    tell("launch", cudaGetLastError());
    tell("synchronize", cudaDeviceSynchronize());
    tell("last", cudaGetLastError());
    tell("last again", cudaGetLastError());
    tell("malloc", cudaMalloc(&much, 64));
    tell("copy", cudaMemcpy(host, device, 16, cudaMemcpyDeviceToHost));
    nothing<<<1, 1>>>();
    tell("launch", cudaGetLastError());
    tell("free", cudaFree(device));
    tell("reset", cudaDeviceReset());
    tell("last", cudaGetLastError());
    tell("malloc", cudaMalloc(&much, 64));
    printf("%s | %s | %s\n", cudaGetErrorString(cudaErrorIllegalAddress),
           cudaGetErrorString(cudaSuccess), cudaGetErrorString(cudaError_t(12345)));
}
