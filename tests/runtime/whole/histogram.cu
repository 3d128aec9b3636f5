// Letters counted in shared memory with atomics, streams in turn, a constant table.
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>

__constant__ unsigned char bin_of[256];
__device__ int launches;

__global__ void count(const unsigned char *text, int n, int *bins) {
    extern __shared__ int own[];
    for (int i = threadIdx.x; i < 27; i += blockDim.x)
        own[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&own[bin_of[text[i]]], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 27; i += blockDim.x)
        atomicAdd(&bins[i], own[i]);
    if (threadIdx.x == 0 && blockIdx.x == 0)
        launches++;
}

int main() {
    const char *words = "the quick brown fox jumps over the lazy dog; pack my box with five jugs. ";
    const int n = 1 << 14, parts = 4;
    unsigned char table[256], *host, *device;
    for (int i = 0; i < 256; i++)
        table[i] = i >= 'a' && i <= 'z' ? i - 'a' : 26;
    cudaMemcpyToSymbol(bin_of, table, sizeof table);
    cudaMallocHost(&host, n);
    for (int i = 0; i < n; i++)
        host[i] = words[i % strlen(words)];
    cudaMalloc(&device, n);
    int *bins, got[27], expected[27] = {}, seen;
    cudaMalloc(&bins, sizeof got);
    cudaMemset(bins, 0, sizeof got);
    cudaStream_t streams[parts];
    for (int i = 0; i < parts; i++) {
        cudaStreamCreate(&streams[i]);
        int at = i * (n / parts);
        cudaMemcpyAsync(device + at, host + at, n / parts, cudaMemcpyHostToDevice, streams[i]);
        count<<<2, 128, 27 * sizeof(int), streams[i]>>>(device + at, n / parts, bins);
    }
    cudaDeviceSynchronize();
    cudaMemcpy(got, bins, sizeof got, cudaMemcpyDeviceToHost);
    cudaMemcpyFromSymbol(&seen, launches, sizeof seen);
    for (int i = 0; i < n; i++)
        expected[table[host[i]]]++;
    printf("%s, e: %d, same: %d, launches %d\n", cudaGetErrorName(cudaGetLastError()), got[4],
           !memcmp(got, expected, sizeof got), seen);
}
