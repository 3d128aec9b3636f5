// Kernels that look again and again: at what the host writes, at a clock, and at what nobody does.
#include <cstdio>
#include <chrono>
#include <thread>

__global__ void wait_for(volatile int* flag) {
    while (*flag == 0) {}
}

__global__ void wait_until(volatile int* flag, unsigned long long after) {
    unsigned long long now, start;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (*flag == 0 && now - start < after);
}

static void answered(const char* who, int* flag) {
    *flag = 0;
    wait_for<<<2, 64>>>(flag);
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    *flag = 1;
    printf("%s: %s\n", who, cudaGetErrorName(cudaDeviceSynchronize()));
}

int main() {
    int *pinned, *managed, *device;
    cudaMallocHost(&pinned, 4);
    cudaMallocManaged(&managed, 4);
    cudaMalloc(&device, 4);
    cudaMemset(device, 0, 4);
    answered("pinned", pinned);
    answered("managed", managed);
    wait_until<<<1, 32>>>(device, 20000);
    printf("a clock: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    wait_for<<<2, 64>>>(device);
    printf("nobody: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
