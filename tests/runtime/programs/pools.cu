// Memory pools; hints for managed memory; what pinned memory was asked for.
#include <cstdint>
#include <cstdio>
#include <cuda_runtime.h>

__global__ void increment(int *p) { p[threadIdx.x] += 1; }

static void tell(const char *what, cudaError_t error) {
    printf("%s: %s\n", what, cudaGetErrorName(error));
}

int main() {
    cudaMemPool_t usual, current, own;
    tell("usual", cudaDeviceGetDefaultMemPool(&usual, 0));
    cudaDeviceGetMemPool(&current, 0);
    printf("the usual one is current: %d\n", usual == current);
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location = {cudaMemLocationTypeDevice, {0}};
    tell("create", cudaMemPoolCreate(&own, &properties));
    uint64_t keep = 1 << 20, kept = 0;
    int reuse = 0, reused = 7;
    tell("set", cudaMemPoolSetAttribute(own, cudaMemPoolAttrReleaseThreshold, &keep));
    cudaMemPoolGetAttribute(own, cudaMemPoolAttrReleaseThreshold, &kept);
    cudaMemPoolGetAttribute(own, cudaMemPoolReuseAllowOpportunistic, &reused);
    printf("keeps %d, reuses %d", (int)kept, reused);
    cudaMemPoolSetAttribute(own, cudaMemPoolReuseAllowOpportunistic, &reuse);
    cudaMemPoolGetAttribute(own, cudaMemPoolReuseAllowOpportunistic, &reused);
    printf(", then %d\n", reused);
    tell("make it current", cudaDeviceSetMemPool(0, own));
    cudaDeviceGetMemPool(&current, 0);
    printf("it is: %d\n", current == own);

    int *p, host[32] = {};
    tell("allocate", cudaMallocFromPoolAsync(&p, sizeof host, own, cudaStreamPerThread));
    cudaMemsetAsync(p, 0, sizeof host, cudaStreamPerThread);
    increment<<<1, 32, 0, cudaStreamPerThread>>>(p);
    cudaMemcpyAsync(host, p, sizeof host, cudaMemcpyDeviceToHost, cudaStreamPerThread);
    cudaFreeAsync(p, cudaStreamPerThread);
    tell("wait", cudaStreamSynchronize(cudaStreamPerThread));
    printf("counted %d\n", host[31]);
    tell("trim", cudaMemPoolTrimTo(own, 0));
    tell("destroy", cudaMemPoolDestroy(own));
    cudaDeviceGetMemPool(&current, 0);
    printf("the usual one again: %d\n", current == usual);

    int *managed;
    cudaMallocManaged(&managed, 128);
    cudaMemLocation device = {cudaMemLocationTypeDevice, {0}};
    tell("prefetch", cudaMemPrefetchAsync(managed, 128, device, 0, 0));
    tell("advise", cudaMemAdvise(managed, 128, cudaMemAdviseSetReadMostly, device));
    managed[3] = 41;
    increment<<<1, 32>>>(managed);
    cudaDeviceSynchronize();
    printf("managed %d\n", managed[3]);
    int *plain;
    cudaMalloc(&plain, 128);
    tell("prefetch of what is not managed", cudaMemPrefetchAsync(plain, 128, device, 0, 0));
    cudaGetLastError();
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    tell("attach", cudaStreamAttachMemAsync(stream, managed));
    cudaStreamSynchronize(stream);

    void *pinned;
    unsigned flags = 0;
    cudaHostAlloc(&pinned, 128, cudaHostAllocMapped);
    tell("flags", cudaHostGetFlags(&flags, pinned));
    printf("mapped: %d\n", (flags & cudaHostAllocMapped) != 0);
    int stacked;
    tell("flags of what is not pinned", cudaHostGetFlags(&flags, &stacked));
}
