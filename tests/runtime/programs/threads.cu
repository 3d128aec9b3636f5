// Host threads share the device; each has a last error of its own.
#include <cstdio>
#include <cuda_runtime.h>
#include <thread>
#include <vector>

__global__ void increment(int *p) { p[blockIdx.x * blockDim.x + threadIdx.x] += 1; }

int main() {
    const int count = 8, n = 256;
    std::vector<std::thread> threads;
    int wrong[count] = {}, errors[count] = {};
    for (int t = 0; t < count; t++)
        threads.emplace_back([=, &wrong, &errors] {
            int host[n], *device;
            cudaStream_t stream;
            cudaStreamCreate(&stream);
            cudaMalloc(&device, sizeof host);
            cudaMemsetAsync(device, 0, sizeof host, stream);
            for (int i = 0; i < 20; i++)
                increment<<<2, n / 2, 0, stream>>>(device);
            if (t % 2)
                cudaFree((void *)&host[1]); // an error in odd threads only
            cudaMemcpyAsync(host, device, sizeof host, cudaMemcpyDeviceToHost, stream);
            cudaStreamSynchronize(stream);
            for (int i = 0; i < n; i++)
                wrong[t] += host[i] != 20;
            errors[t] = cudaGetLastError();
            cudaFree(device);
        });
    for (auto &thread : threads)
        thread.join();
    for (int t = 0; t < count; t++)
        printf("%d %s\n", wrong[t], cudaGetErrorName(cudaError_t(errors[t])));
}
