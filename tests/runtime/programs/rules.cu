// Smaller rules, each seen on a GPU: what is an error, what is remembered, what is 0.
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>
#include <unistd.h>

__global__ void nothing() {}
__global__ void __cluster_dims__(2, 1, 1) nothing_clustered() {}
__global__ void __launch_bounds__(128) nothing_small() {}
__global__ void busy(long clocks) {
    for (long start = clock64(); clock64() - start < clocks;)
        ;
}
__global__ void stray(int *p) { *(int *)16 = 1; }

static void tell(const char *what, cudaError_t error) {
    printf("%s: %s\n", what, cudaGetErrorName(error));
}

// After a kernel failed: which calls say so, and which answer all the same.
static void after_failure() {
    int *p, value, blocks;
    void *host;
    size_t free_bytes, total;
    cudaStream_t stream;
    cudaEvent_t event;
    cudaDeviceProp properties;
    cudaFuncAttributes attributes;
    cudaPointerAttributes pointer;
    cudaMalloc(&p, 64);
    stray<<<1, 1>>>(p);
    usleep(500000);
    tell("peek", cudaPeekAtLastError());
    tell("last", cudaGetLastError());
    tell("device", cudaGetDevice(&value));
    tell("attribute", cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0));
    tell("count", cudaGetDeviceCount(&value));
    tell("properties", cudaGetDeviceProperties(&properties, 0));
    tell("set device", cudaSetDevice(0));
    tell("stream", cudaStreamCreate(&stream));
    tell("event", cudaEventCreate(&event));
    tell("version", cudaDriverGetVersion(&value));
    tell("kernel", cudaFuncGetAttributes(&attributes, nothing));
    tell("host memory", cudaMallocHost(&host, 4));
    tell("pointer", cudaPointerGetAttributes(&pointer, p));
    tell("memory", cudaMemGetInfo(&free_bytes, &total));
    tell("occupancy", cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 32, 0));
    tell("reset", cudaDeviceReset());
    tell("last", cudaGetLastError());
    tell("malloc", cudaMalloc(&p, 4));
}

static void asynchrony() {
    cudaEvent_t start, end;
    float milliseconds;
    busy<<<1, 1>>>(200000);
    tell("query", cudaStreamQuery(0));
    tell("last after it", cudaGetLastError());
    cudaEventCreate(&start);
    cudaEventCreate(&end);
    tell("query, not recorded", cudaEventQuery(start));
    tell("synchronize, not recorded", cudaEventSynchronize(start));
    cudaEventRecord(start);
    busy<<<1, 1>>>(200000);
    cudaEventRecord(end);
    tell("elapsed, pending", cudaEventElapsedTime(&milliseconds, start, end));
    tell("synchronize", cudaDeviceSynchronize());
}

static void memory() {
    int host = 0, other = 0;
    void *p, *q;
    cudaPointerAttributes attributes;
    cudaMalloc(&p, 64);
    cudaPointerGetAttributes(&attributes, &host);
    printf("host pointer: type %d, device %d, itself %d\n", attributes.type, attributes.device,
           attributes.hostPointer == &host);
    cudaFree(p);
    tell("freed pointer", cudaPointerGetAttributes(&attributes, p));
    printf("type %d\n", attributes.type);
    tell("managed, 0 bytes", cudaMallocManaged(&q, 0));
    tell("host, 0 bytes", cudaMallocHost(&q, 0));
    printf("null %d\n", q == nullptr);
    tell("free host null", cudaFreeHost(nullptr));
    tell("free async null", cudaFreeAsync(nullptr, 0));
    cudaMalloc(&q, 4);
    tell("free host of device", cudaFreeHost(q));
    cudaMallocHost(&q, 4);
    tell("free of host", cudaFree(q));
    tell("copy to null", cudaMemcpy(nullptr, &host, 4, cudaMemcpyDefault));
    tell("host to host", cudaMemcpy(&host, &other, 4, cudaMemcpyDefault));
    tell("host to host as device to host",
         cudaMemcpy(&host, &other, 4, cudaMemcpyDeviceToHost));
    tell("register", cudaHostRegister(&host, 4, 0));
    tell("register twice", cudaHostRegister(&host, 4, 0));
    tell("unregister", cudaHostUnregister(&host));
    tell("unregister twice", cudaHostUnregister(&host));
    tell("device pointer", cudaHostGetDevicePointer(&q, &host, 0));
    size_t pitch;
    cudaMallocPitch(&q, &pitch, 100, 3);
    printf("pitch %zu\n", pitch);
}

static void numbers() {
    int least, greatest, priority, n;
    cudaDeviceGetStreamPriorityRange(&least, &greatest);
    printf("priorities %d %d\n", least, greatest);
    cudaStream_t stream;
    cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -100);
    cudaStreamGetPriority(stream, &priority);
    printf("priority %d\n", priority);
    size_t limit;
    for (int i : {0, 2, 4})
        printf("limit %d: %zu\n", i, (cudaDeviceGetLimit(&limit, cudaLimit(i)), limit));
    tell("limit 3", cudaDeviceGetLimit(&limit, cudaLimit(3)));
    unsigned flags;
    cudaGetDeviceFlags(&flags);
    printf("flags %u\n", flags);
    cudaFuncAttributes a;
    cudaFuncGetAttributes(&a, nothing_clustered);
    printf("cluster: %d, %d %d %d, dynamic %d, carveout %d\n", a.clusterDimMustBeSet,
           a.requiredClusterWidth, a.requiredClusterHeight, a.requiredClusterDepth,
           a.maxDynamicSharedSizeBytes, a.preferredShmemCarveout);
    cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 1000);
    nothing<<<1, 1, 2000>>>();
    tell("2000 bytes after asking for 1000", cudaGetLastError());
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributeClusterDimension;
    attribute[0].val.clusterDim = {4, 1, 1};
    config.gridDim = 4;
    config.blockDim = 32;
    config.attrs = attribute;
    config.numAttrs = 1;
    tell("not the fixed cluster", cudaLaunchKernelEx(&config, nothing_clustered));
    cudaOccupancyMaxPotentialClusterSize(&n, nothing, &config);
    printf("largest cluster %d", n);
    cudaFuncSetAttribute(nothing, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    cudaOccupancyMaxPotentialClusterSize(&n, nothing, &config);
    printf(", not portable %d\n", n);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, nothing_small, 129, 0);
    printf("past the launch bounds: %d blocks\n", n);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, nothing_small, 128, 300000);
    printf("past shared memory: %d blocks\n", n);
}

int main(int, char **arguments) {
    asynchrony();
    memory();
    numbers();
    cudaGetLastError();
    after_failure();
}
