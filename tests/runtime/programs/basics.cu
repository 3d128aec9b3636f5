// Registration, copies, symbols, managed variables, structures by value, templates.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t error = (call);                                                                \
        if (error != cudaSuccess) {                                                                \
            printf("%s: %s\n", #call, cudaGetErrorName(error));                                    \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

__device__ int offset;
__constant__ int table[4];
__managed__ int shared_with_host = 5;

struct Config {
    char n;
    int factor;
};

template <class T> __global__ void increment(T *p) {
    p[blockIdx.x * blockDim.x + threadIdx.x] += 1;
}

__global__ void scale(int *p, Config config) {
    for (int i = 0; i < config.n; i++)
        p[i] = p[i] * config.factor + offset + shared_with_host + table[0];
    shared_with_host++;
}

int main() {
    int host[6][8], *device;
    for (int i = 0; i < 48; i++)
        host[0][i] = i;
    CHECK(cudaMalloc(&device, sizeof host));
    CHECK(cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice));
    increment<<<3, 16>>>(device);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
    printf("increment %d %d %d\n", host[0][0], host[0][1], host[5][7]);

    int ten = 10, back = 0;
    CHECK(cudaMemcpyToSymbol(offset, &ten, sizeof ten));
    CHECK(cudaMemcpyFromSymbol(&back, offset, sizeof back));
    size_t size;
    void *address;
    CHECK(cudaGetSymbolSize(&size, table));
    CHECK(cudaGetSymbolAddress(&address, table));
    CHECK(cudaMemset(address, 0, size));
    printf("symbol %d, table of %zu bytes\n", back, size);
    printf("past the symbol: %s\n", cudaGetErrorName(cudaMemcpyToSymbol(offset, host, 8)));
    cudaGetLastError();

    shared_with_host += 1;
    scale<<<1, 1>>>(device, Config{4, 100});
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(host, device, 16, cudaMemcpyDefault));
    printf("scale %d %d %d %d, managed %d\n", host[0][0], host[0][1], host[0][2], host[0][3],
           shared_with_host);

    // A window of 2 rows of 3 columns, out of a pitched copy of the whole.
    char *pitched;
    size_t pitch;
    CHECK(cudaMallocPitch(&pitched, &pitch, 32, 6));
    CHECK(cudaMemcpy2D(pitched, pitch, host, 32, 32, 6, cudaMemcpyHostToDevice));
    int window[2][3];
    CHECK(cudaMemcpy2D(window, 12, pitched + 2 * pitch + 4, pitch, 12, 2, cudaMemcpyDeviceToHost));
    printf("window %d %d / %d %d\n", window[0][0], window[0][2], window[1][0], window[1][2]);
    CHECK(cudaMemset2D(pitched, pitch, 0xff, 4, 6));
    CHECK(cudaMemcpy2D(window, 12, pitched, pitch, 12, 2, cudaMemcpyDeviceToHost));
    printf("filled %d %d\n", window[1][0], window[1][1]);
    CHECK(cudaFree(pitched));

    int *managed;
    CHECK(cudaMallocManaged(&managed, 4 * 32));
    for (int i = 0; i < 32; i++)
        managed[i] = -i;
    increment<<<1, 32>>>(managed);
    CHECK(cudaDeviceSynchronize());
    printf("managed %d %d\n", managed[0], managed[31]);

    int *pinned, *seen;
    CHECK(cudaHostAlloc(&pinned, 4 * 32, cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer(&seen, pinned, 0));
    pinned[7] = 70;
    increment<<<1, 32>>>(seen);
    CHECK(cudaDeviceSynchronize());
    printf("pinned %d\n", pinned[7]);

    int *registered = (int *)malloc(4 * 5000);
    for (int i = 0; i < 5000; i++)
        registered[i] = i;
    CHECK(cudaHostRegister(registered, 4 * 5000, cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(&seen, registered, 0));
    increment<<<5, 1000>>>(seen);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaHostUnregister(registered));
    printf("registered %d %d\n", registered[0], registered[4999]);
    free(registered);

    for (void *pointer : {(void *)device, (void *)managed, (void *)pinned, (void *)host}) {
        cudaPointerAttributes attributes;
        CHECK(cudaPointerGetAttributes(&attributes, pointer));
        printf("type %d%s", attributes.type, pointer == host ? "\n" : ", ");
    }
    CHECK(cudaFree(managed));
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaFree(device));
    CHECK(cudaFree(nullptr));
    printf("freed twice: %s\n", cudaGetErrorName(cudaFree(device)));
}
