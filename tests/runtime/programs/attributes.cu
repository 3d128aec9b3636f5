// What the device and a kernel say about themselves; occupancy.
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>

__global__ void nothing() {}
__global__ void __launch_bounds__(256) nothing_with_shared(int *p, char c, double d) {
    __shared__ volatile char space[1024];
    space[threadIdx.x] = c;
    *p = space[0] + d;
}

int main() {
    int count, value;
    cudaGetDeviceCount(&count);
    cudaDeviceProp properties;
    memset(&properties, 0x55, sizeof properties);
    if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess)
        return 1;
    bool same = true;
    struct {
        cudaDeviceAttr attribute;
        long long property;
    } pairs[] = {{cudaDevAttrMaxThreadsPerBlock, properties.maxThreadsPerBlock},
                 {cudaDevAttrMaxBlockDimZ, properties.maxThreadsDim[2]},
                 {cudaDevAttrMaxGridDimY, properties.maxGridSize[1]},
                 {cudaDevAttrMaxSharedMemoryPerBlock, (long long)properties.sharedMemPerBlock},
                 {cudaDevAttrWarpSize, properties.warpSize},
                 {cudaDevAttrMultiProcessorCount, properties.multiProcessorCount},
                 {cudaDevAttrL2CacheSize, properties.l2CacheSize},
                 {cudaDevAttrComputeCapabilityMajor, properties.major},
                 {cudaDevAttrComputeCapabilityMinor, properties.minor},
                 {cudaDevAttrMaxSharedMemoryPerBlockOptin,
                  (long long)properties.sharedMemPerBlockOptin},
                 {cudaDevAttrCooperativeLaunch, properties.cooperativeLaunch},
                 {cudaDevAttrClusterLaunch, properties.clusterLaunch},
                 {cudaDevAttrReservedSharedMemoryPerBlock,
                  (long long)properties.reservedSharedMemPerBlock},
                 {cudaDevAttrMaxBlocksPerMultiprocessor, properties.maxBlocksPerMultiProcessor}};
    for (auto &pair : pairs) {
        cudaDeviceGetAttribute(&value, pair.attribute, 0);
        same = same && value == pair.property;
    }
    printf("sm_%d%d, attributes agree: %d\n", properties.major, properties.minor, same);
    printf("warp %d, threads %d, shared %zu to %zu of %zu, reserved %zu, blocks %d\n",
           properties.warpSize, properties.maxThreadsPerMultiProcessor,
           properties.sharedMemPerBlock, properties.sharedMemPerBlockOptin,
           properties.sharedMemPerMultiprocessor, properties.reservedSharedMemPerBlock,
           properties.maxBlocksPerMultiProcessor);
    printf("no such attribute: %s\n",
           cudaGetErrorName(cudaDeviceGetAttribute(&value, cudaDeviceAttr(9999), 0)));
    cudaGetLastError();

    cudaFuncAttributes attributes;
    cudaFuncGetAttributes(&attributes, nothing_with_shared);
    printf("kernel: shared %zu, threads %d, dynamic %d, sm_%d\n", attributes.sharedSizeBytes,
           attributes.maxThreadsPerBlock, attributes.maxDynamicSharedSizeBytes,
           attributes.binaryVersion);
    size_t offset, size;
    cudaFuncGetParamInfo((const void *)nothing_with_shared, 2, &offset, &size);
    printf("parameter 2: %zu bytes at %zu\n", size, offset);
    const char *name;
    cudaFuncGetName(&name, nothing);
    printf("name %s\n", name);

    for (int threads : {32, 96, 256, 1024}) {
        int blocks;
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, threads, 0);
        printf("%d threads: %d blocks", threads, blocks);
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, threads, 40000);
        printf(", with 40000 bytes %d\n", blocks);
    }
    int grid, block;
    cudaOccupancyMaxPotentialBlockSize(&grid, &block, nothing);
    printf("largest block %d, %d a multiprocessor\n", block, grid / properties.multiProcessorCount);
    cudaOccupancyAvailableDynamicSMemPerBlock(&size, nothing, 2, 256);
    printf("two blocks leave %zu\n", size);
    fprintf(stderr, "%s\n", properties.name);
}
