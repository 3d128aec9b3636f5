// Programs that end badly, by name.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

__global__ void endless() { // its count decides, so nobody can say that it goes round in circles
    for (unsigned long long turns = 1; turns;)
        asm volatile("add.u64 %0, %0, 1;" : "+l"(turns));
}
__global__ void until_flag(volatile int *p) {
    while (p[0] == 0)
        ;
    p[1] = 42;
}

/* What cudaGetDeviceProperties is with the headers of CUDA 12. */
extern "C" cudaError_t cudaGetDeviceProperties_v2(void *properties, int device);

__device__ int first, second;

/* Two processes that use the device at the same time: which of them has it, the other is told. */
void beside() {
    int ready[2];
    pipe(ready);
    int *p;
    if (!fork()) {
        printf("first: %s\n", cudaGetErrorName(cudaMalloc(&p, 64)));
        fflush(stdout);
        write(ready[1], "", 1);
        sleep(1);
        printf("first: %s\n", cudaGetErrorName(cudaMemset(p, 1, 64)));
        exit(0);
    }
    char byte;
    read(ready[0], &byte, 1);
    printf("second: %s\n", cudaGetErrorName(cudaMalloc(&p, 64)));
    wait(nullptr);
    printf("second: %s\n", cudaGetErrorName(cudaMalloc(&p, 64)));
}

/* Sizes that are no numbers of 64 bits any more. */
void huge(int *p) {
    size_t much = 1ull << 40, pitch;
    void *q;
    cudaPitchedPtr pitched;
    printf("%s\n", cudaGetErrorName(cudaMallocPitch(&q, &pitch, much, much)));
    printf("%s\n", cudaGetErrorName(cudaMallocPitch(&q, &pitch, ~0ull, 1)));
    printf("%s\n", cudaGetErrorName(cudaMalloc3D(&pitched, {much, 1 << 23, 2})));
    printf("%s\n", cudaGetErrorName(cudaMalloc(&q, ~0ull)));
    size_t rows = (1 << 24) + 1; // the last one would lie where the first one does
    printf("%s\n", cudaGetErrorName(cudaMemcpy2D(p, much, p, much, 1, rows, cudaMemcpyDefault)));
    printf("%s\n", cudaGetErrorName(cudaMemset2D(p, much, 0, 1, rows)));
}

/* Host memory that is not there, that may not be read, or that overlaps what is registered. */
void registered() {
    size_t page = 4096;
    char *own = (char *)mmap(0, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *closed = mmap(0, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    printf("%s\n", cudaGetErrorName(cudaHostRegister((void *)16, 100, 0)));
    printf("%s\n", cudaGetErrorName(cudaHostRegister(closed, page, 0)));
    printf("%s\n", cudaGetErrorName(cudaHostRegister(own + page, page, 0)));
    printf("%s\n", cudaGetErrorName(cudaHostRegister(own, 2 * page, 0)));
    printf("%s\n", cudaGetErrorName(cudaHostUnregister(own + page)));
    printf("%s\n", cudaGetErrorName(cudaHostRegister(own, 3 * page, 0)));
}

int main(int, char **arguments) {
    const char *what = arguments[1];
    int *p;
    if (!strcmp(what, "beside"))
        return beside(), 0;
    if (!strcmp(what, "closed before"))
        closefrom(3);
    cudaMalloc(&p, 64);
    if (!strcmp(what, "closed")) {
        closefrom(3);
        cudaFree(p);
    }
    if (!strcmp(what, "huge"))
        huge(p);
    if (!strcmp(what, "registered"))
        registered();
    if (!strcmp(what, "twelve")) {
        char properties[1032 + 8] = {};
        strcpy(properties + 1032, "behind");
        cudaGetDeviceProperties_v2(properties, 0);
        printf("%.17s, %d multiprocessors, %s\n", properties, *(int *)(properties + 388),
               properties + 1032);
    }
    if (!strcmp(what, "touch"))
        *p = 1;
    if (!strcmp(what, "freed")) {
        cudaMallocManaged(&p, 64);
        *p = 1;
        cudaFree(p);
        *p = 2;
    }
    if (!strcmp(what, "segfault"))
        *(volatile int *)8 = 1;
    if (!strcmp(what, "abort"))
        abort();
    if (!strcmp(what, "status"))
        return 7;
    if (!strcmp(what, "endless") || !strcmp(what, "leave")) {
        endless<<<1, 1>>>();
        if (!strcmp(what, "leave"))
            _exit(3);
        cudaDeviceSynchronize();
    }
    if (!strcmp(what, "spin"))
        for (;;)
            usleep(1000);
    if (!strcmp(what, "orphan") && !fork())
        for (;;)
            usleep(1000);
    if (!strcmp(what, "symbols")) // one variable does not reach into another
        for (size_t offset = 4; offset < 1 << 16; offset += 4)
            if (cudaMemcpyToSymbol(first, &offset, 4, offset) != cudaErrorInvalidValue ||
                cudaMemcpyToSymbol(second, &offset, 4, offset) != cudaErrorInvalidValue)
                printf("offset %zu\n", offset);
    if (!strcmp(what, "fork")) {
        if (!fork()) {
            printf("child: %s\n", cudaGetErrorName(cudaFree(p)));
            fflush(stdout);
            _exit(0);
        }
        usleep(300000);
        printf("parent: %s\n", cudaGetErrorName(cudaFree(p)));
    }
    if (!strcmp(what, "flag")) { // the host answers a kernel that runs
        int *flag;
        cudaMallocHost(&flag, 8);
        flag[0] = flag[1] = 0;
        until_flag<<<1, 1>>>(flag);
        printf("running: %s\n", cudaGetErrorName(cudaStreamQuery(0)));
        *(volatile int *)flag = 1;
        cudaDeviceSynchronize();
        printf("answered %d\n", flag[1]);
    }
}
