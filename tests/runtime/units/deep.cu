// A recursion that needs more stack than there is, unless the program asks for it.
// deep [bytes of stack a thread]
#include <cstdio>
#include <cstdlib>

__device__ __noinline__ int depth(int left) {
    volatile int frame[32];
    for (int i = 0; i < 32; i++)
        frame[(left + i) % 32] = left + i;
    int below = left ? depth(left - 1) : 0;
    for (int i = 0; i < 32; i++)
        below += frame[(left + i) % 32] != left + i; // somebody else's frame lies over this one
    return below + 1;
}

// out: int32 [threads]
__global__ void deep(int *out) { out[threadIdx.x] = depth(1000 + threadIdx.x % 4); }

int main(int count, char **arguments) {
    int *p, out[32], wrong = 0;
    if (count > 1)
        printf("%s\n",
               cudaGetErrorName(cudaDeviceSetLimit(cudaLimitStackSize, atoi(arguments[1]))));
    cudaMalloc(&p, sizeof out);
    deep<<<1, 32>>>(p);
    cudaError_t error = cudaMemcpy(out, p, sizeof out, cudaMemcpyDefault);
    for (int t = 0; t < 32 && !error; t++)
        wrong += out[t] != 1001 + t % 4;
    printf("%s, %d wrong\n", cudaGetErrorName(error), wrong);
}
