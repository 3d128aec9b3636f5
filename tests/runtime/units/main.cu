// Half of a program in two units: what it calls and reads on the device is in library.cu.
#include <cstdio>

extern __device__ int scale(int x);
extern __device__ int table[4];
extern __constant__ float shift;
void fill(int* out, int n);

template <typename T>
__device__ __noinline__ T twice(T x) { return x + x; }  // both units have it

static __device__ int own() { return 1; }

__global__ void mixed(int* out) {
    const int t = threadIdx.x;
    out[t] = twice(scale(t)) + table[t % 4] + (int)shift + own();
}

int main() {
    int *out, here[32], wrong = 0;
    cudaMalloc(&out, sizeof here);
    mixed<<<1, 32>>>(out);
    cudaMemcpy(here, out, sizeof here, cudaMemcpyDefault);
    for (int t = 0; t < 32; t++) wrong += here[t] != 6 * t + 10 * (t % 4) + 5 + 1;
    fill(out, 32);
    cudaMemcpy(here, out, sizeof here, cudaMemcpyDefault);
    for (int t = 0; t < 32; t++) wrong += here[t] != 6 * t + 2;
    printf("%d wrong, %s\n", wrong, cudaGetErrorString(cudaGetLastError()));
    return wrong;
}
