// Heat in a plate: grid.sync() between sweeps in one cooperative launch, and a launch a sweep.
#include <cmath>
#include <cooperative_groups.h>
#include <cstdio>
#include <cuda_runtime.h>
#include <utility>
namespace cg = cooperative_groups;

constexpr int N = 64;

__device__ void sweep(const float *from, float *to) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < N * N; i += gridDim.x * blockDim.x) {
        int x = i % N, y = i / N;
        bool edge = x == 0 || y == 0 || x == N - 1 || y == N - 1;
        to[i] = edge ? from[i] : 0.25f * (from[i - 1] + from[i + 1] + from[i - N] + from[i + N]);
    }
}
__global__ void one(const float *from, float *to) { sweep(from, to); }
__global__ void sweeps_of(float *a, float *b, int sweeps) {
    auto grid = cg::this_grid();
    for (int s = 0; s < sweeps; s++) {
        sweep(s % 2 ? b : a, s % 2 ? a : b);
        grid.sync();
    }
}

int main() {
    float *a, *b, *c, *d;
    for (float **p : {&a, &b, &c, &d})
        cudaMallocManaged(p, N * N * sizeof(float));
    for (int i = 0; i < N * N; i++)
        a[i] = b[i] = c[i] = d[i] = i < N ? 100.0f : 0.0f;
    int sweeps = 20, supported = 0;
    cudaDeviceGetAttribute(&supported, cudaDevAttrCooperativeLaunch, 0);
    void *arguments[] = {&a, &b, &sweeps};
    cudaError_t error =
        cudaLaunchCooperativeKernel((void *)sweeps_of, dim3(8), dim3(128), arguments, 0, nullptr);
    printf("cooperative %d: %s\n", supported, cudaGetErrorName(error));
    for (int s = 0; s < sweeps; s++, std::swap(c, d))
        one<<<8, 128>>>(c, d);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    int different = 0;
    for (int i = 0; i < N * N; i++)
        different += a[i] != c[i];
    printf("different %d, below the hot edge %s\n", different,
           fabsf(a[N + N / 2] - 78.0f) < 10.0f ? "warm" : "cold");
}
