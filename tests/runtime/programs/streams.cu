// Streams, events, callbacks, the default stream, asynchronous copies and allocation.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void increment(int *p) { p[blockIdx.x * blockDim.x + threadIdx.x] += 1; }
__global__ void nothing() {}

static void tell(const char *what, cudaError_t error) {
    printf("%s: %s\n", what, cudaGetErrorName(error));
}

int main() {
    const int n = 1 << 10;
    int *host[2], *device[2];
    cudaStream_t stream[2];
    cudaEvent_t start, middle, end, untimed;
    for (int i = 0; i < 2; i++) {
        cudaMallocHost(&host[i], n * 4);
        for (int k = 0; k < n; k++)
            host[i][k] = i;
        cudaStreamCreateWithFlags(&stream[i], i ? cudaStreamNonBlocking : cudaStreamDefault);
        cudaMallocAsync(&device[i], n * 4, stream[i]);
    }
    cudaEventCreate(&start);
    cudaEventCreate(&middle);
    cudaEventCreate(&end);
    cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming);

    cudaEventRecord(start);
    for (int i = 0; i < 2; i++) {
        cudaMemcpyAsync(device[i], host[i], n * 4, cudaMemcpyHostToDevice, stream[i]);
        increment<<<n / 256, 256, 0, stream[i]>>>(device[i]);
        cudaMemcpyAsync(host[i], device[i], n * 4, cudaMemcpyDeviceToHost, stream[i]);
    }
    cudaEventRecord(untimed, stream[1]);
    cudaStreamWaitEvent(stream[0], untimed);
    cudaEventRecord(middle, stream[0]);
    for (int i = 0; i < 100; i++)
        nothing<<<1, 32, 0, stream[0]>>>();
    cudaEventRecord(end, stream[0]);
    while (cudaEventQuery(end) == cudaErrorNotReady)
        ;
    cudaGetLastError();
    tell("stream 0", cudaStreamSynchronize(stream[0]));
    tell("query 1", cudaStreamQuery(stream[1]));
    printf("values %d %d\n", host[0][5], host[1][n - 1]);
    float first, second, all;
    cudaEventElapsedTime(&first, start, middle);
    cudaEventElapsedTime(&second, middle, end);
    cudaEventElapsedTime(&all, start, end);
    printf("positive %d %d, adds up %d\n", first > 0, second > 0,
           all > 0.999f * (first + second) && all < 1.001f * (first + second));
    tell("untimed", cudaEventElapsedTime(&all, start, untimed));
    cudaGetLastError();

    int seen = 0;
    cudaLaunchHostFunc(stream[0], [](void *data) { *(int *)data = 7; }, &seen);
    cudaStreamSynchronize(stream[0]);
    printf("host function %d\n", seen);
    cudaStreamAddCallback(
        stream[0], [](cudaStream_t, cudaError_t status, void *data) { *(int *)data = 8 + status; },
        &seen, 0);
    cudaStreamSynchronize(stream[0]);
    printf("callback %d\n", seen);

    unsigned flags;
    cudaStreamGetFlags(stream[1], &flags);
    printf("flags %u\n", flags);
    tell("free", cudaFreeAsync(device[0], stream[0]));
    tell("destroy", cudaStreamDestroy(stream[0]));
    tell("destroy event", cudaEventDestroy(end));
    tell("synchronize", cudaDeviceSynchronize());
}
