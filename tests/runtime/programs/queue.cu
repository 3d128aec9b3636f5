// Each device gets launches, and fills after them, that the program does not wait for. The first
// argument says how many of each; a second, that the first launch fails.
#include <cstdio>
#include <cstdlib>

__global__ void tick(int* p) { *p += 1; }

int main(int argc, char** argv) {
    const int each = atoi(argv[1]);
    int devices, found, *p[2];
    cudaGetDeviceCount(&devices);
    for (int d = 0; d < devices; ++d) {
        cudaSetDevice(d), cudaMalloc(&p[d], 8), cudaMemset(p[d], 0, 8);
        if (argc > 2) tick<<<1, 1>>>(nullptr);
    }
    for (int i = 0; i < each; ++i)
        for (int d = 0; d < devices; ++d) {
            cudaSetDevice(d);
            tick<<<1, 1>>>(p[d]);
            cudaMemsetAsync(p[d] + 1, i, 4);
        }
    for (int d = 0; d < devices; ++d) {
        cudaSetDevice(d);
        const cudaError_t end = cudaMemcpy(&found, p[d], 4, cudaMemcpyDefault);
        printf("%d %s\n", end ? -1 : found, cudaGetErrorName(end));
    }
}
