// What the runtime's occupancy calculator says of kernels with few and many registers.
// Prints one line a configuration: kernel, registers a thread, static and dynamic shared bytes,
// threads a block, blocks that fit on a multiprocessor.
#include "check.cuh"

// Holds N numbers of each thread at once, so that it needs more than N registers.
template <int N> __device__ void keep(const float* in, float* out) {
    __shared__ float first[N];  // some static shared memory, too
    float held[N];
    for (int i = 0; i < N; ++i) held[i] = in[i * blockDim.x + threadIdx.x];
    if (threadIdx.x < N) first[threadIdx.x] = held[0];
    __syncthreads();
    for (int i = 0; i < N; ++i) out[i * blockDim.x + threadIdx.x] = held[N - 1 - i] * first[i];
}

#define KEEPS(n) \
    extern "C" __global__ void keeps_##n(const float* in, float* out) { keep<n>(in, out); }
KEEPS(1) KEEPS(8) KEEPS(12) KEEPS(16) KEEPS(20) KEEPS(28) KEEPS(36) KEEPS(44) KEEPS(52) KEEPS(60) KEEPS(75)
#define ENTRY(n) {"keeps_" #n, keeps_##n}

int main() {
    const struct { const char* name; void (*kernel)(const float*, float*); } kernels[] = {
        ENTRY(1), ENTRY(8), ENTRY(12), ENTRY(16), ENTRY(20), ENTRY(28), ENTRY(36), ENTRY(44),
        ENTRY(52), ENTRY(60), ENTRY(75)};
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    for (auto& [name, kernel] : kernels) {
        cudaFuncAttributes uses;
        CHECK(cudaFuncGetAttributes(&uses, kernel));
        const int most = int(device.sharedMemPerBlockOptin - uses.sharedSizeBytes);
        CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
        for (int threads : {1, 32, 64, 96, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1000, 1024})
            for (int bytes : {0, 1000, 5000, 10000, 20000, 33000, 50000, most}) {
                int blocks;
                CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, bytes));
                printf("%s %d %zu %d %d %d\n", name, uses.numRegs, uses.sharedSizeBytes, bytes,
                       threads, blocks);
            }
    }
    return 0;
}
