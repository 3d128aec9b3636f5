// Where output of kernels appears: at synchronising calls.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void say(int i) { printf("hello from the device %d\n", i); }

int main(int count, char **) {
    say<<<1, 1>>>(1);
    printf("after the launch\n");
    cudaDeviceSynchronize();
    printf("after the wait\n");
    say<<<1, 1>>>(2);
    if (count == 1)
        cudaDeviceSynchronize();
}
