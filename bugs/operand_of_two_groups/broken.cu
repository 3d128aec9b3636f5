// All threads fetch a slice of A, two groups of warps multiply it. Between the last read of a slice
// and the fetch of the next one each group waits for itself only.
#include "bug.cuh"

constexpr int THREADS = 256, GROUP = THREADS / 2, K = 32, SLICES = 3;

__global__ void multiply(const int* A,  // (SLICES, K)
                         int* out)      // (THREADS): thread · sum of A
{
    __shared__ int slice[K];
    const int group = threadIdx.x / GROUP;
    int sum = 0;
    for (int s = 0; s < SLICES; ++s) {
        if (threadIdx.x % 8 == 0) slice[threadIdx.x / 8] = A[s * K + threadIdx.x / 8];
        __syncthreads();
        for (int k = 0; k < K; ++k) sum += int(threadIdx.x) * slice[k];
        asm volatile("bar.sync %0, 128;" :: "r"(1 + group) : "memory");
    }
    out[threadIdx.x] = sum;
}

int main() {
    std::vector<int> A(SLICES * K), wanted(THREADS);
    int total = 0;
    for (int i = 0; i < SLICES * K; ++i) total += A[i] = i % 7;
    for (int t = 0; t < THREADS; ++t) wanted[t] = t * total;
    int* out = poisoned<int>(THREADS);
    multiply<<<1, THREADS>>>(to_device(A), out);
    return verdict(to_host(out, THREADS), wanted);
}
