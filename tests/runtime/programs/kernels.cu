// Kernels by handle: attributes, parameters, launches by a description, clusters that fit.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void add(int *p, int n) { p[blockIdx.x * blockDim.x + threadIdx.x] += n; }

extern "C" cudaError_t cudaFuncGetParamCount(const void *, size_t *) __attribute__((weak));

static void tell(const char *what, cudaError_t error) {
    printf("%s: %s\n", what, cudaGetErrorName(error));
}

int main() {
    int host[64] = {}, n = 3, *p;
    cudaMalloc(&p, sizeof host);
    cudaMemset(p, 0, sizeof host);
    void *arguments[] = {&p, &n};

    cudaKernel_t kernel;
    tell("handle", cudaGetKernel(&kernel, (const void *)add));
    cudaFunction_t function;
    tell("function", cudaGetFuncBySymbol(&function, (const void *)add));
    tell("attribute", cudaKernelSetAttributeForDevice(
                          kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 60000, 0));
    cudaFuncAttributes attributes;
    cudaFuncGetAttributes(&attributes, add);
    printf("dynamic %d\n", attributes.maxDynamicSharedSizeBytes);
    tell("prefer shared", cudaFuncSetCacheConfig(add, cudaFuncCachePreferShared));
    tell("banks", cudaFuncSetSharedMemConfig((const void *)add, cudaSharedMemBankSizeFourByte));
    size_t count = 2; // CUDA 13.0 has no call that tells
    if (cudaFuncGetParamCount)
        cudaFuncGetParamCount((const void *)add, &count);
    printf("%zu parameters\n", count);
    int blocks;
    tell("fit", cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
                    &blocks, add, 512, 0, cudaOccupancyDisableCachingOverride));
    printf("%d blocks", blocks);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)add, 1024, 0);
    printf(", of twice the threads %d\n", blocks);

    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaLaunchConfig_t config = {};
    config.gridDim = 2;
    config.blockDim = 32;
    config.stream = stream;
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {2, 1, 1};
    config.attrs = &cluster;
    config.numAttrs = 1;
    tell("launch", cudaLaunchKernelExC(&config, (const void *)add, arguments));
    tell("by its handle", cudaLaunchKernel((const void *)kernel, 1, 32, arguments, 0, stream));
    int clusters = 0, whole = 0;
    tell("clusters", cudaOccupancyMaxActiveClusters(&clusters, add, &config));
    cudaDeviceGetAttribute(&whole, cudaDevAttrMultiProcessorCount, 0);
    printf("at least one for two multiprocessors: %d\n", clusters >= whole / 2);

    cudaEvent_t event;
    cudaEventCreate(&event);
    tell("record", cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault));
    tell("wait", cudaEventSynchronize(event));
    cudaMemcpy(host, p, sizeof host, cudaMemcpyDeviceToHost);
    printf("%d %d\n", host[31], host[63]);

    cudaStream_t other;
    cudaStreamCreate(&other);
    unsigned long long id[2];
    int device = 7;
    tell("id", cudaStreamGetId(stream, &id[0]));
    cudaStreamGetId(other, &id[1]);
    tell("device", cudaStreamGetDevice(stream, &device));
    printf("another: %d, device %d\n", id[0] != id[1], device);
    cudaLaunchAttributeValue how = {}, told = {};
    how.syncPolicy = cudaSyncPolicyYield;
    tell("set", cudaStreamSetAttribute(stream, cudaLaunchAttributeSynchronizationPolicy, &how));
    tell("copy", cudaStreamCopyAttributes(other, stream));
    tell("get", cudaStreamGetAttribute(other, cudaLaunchAttributeSynchronizationPolicy, &told));
    printf("yields: %d\n", told.syncPolicy == cudaSyncPolicyYield);
}
