// CHECK(call): a CUDA call that fails ends the program, and says which call, where and why.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <unistd.h>

#define CHECK(call) check_cuda((call), #call, __FILE__, __LINE__)

// The end of a program whose kernel does not end.
inline void never_ends() {
    fflush(stdout);
    fprintf(stderr, "the kernel did not end: some thread loops for ever, "
                    "or waits at a barrier whose phase never completes\n");
    _exit(3);  // without asking the GPU, which would not answer
}

inline void check_cuda(cudaError_t error, const char* call, const char* file, int line) {
    if (error == cudaSuccess) return;
    if (error == cudaErrorLaunchTimeout) never_ends();  // the emulator knows; a watchdog gave up
    fflush(stdout);
    fprintf(stderr, "%s:%d: %s failed: %s: %s\n", file, line, call, cudaGetErrorName(error),
            cudaGetErrorString(error));
    exit(1);
}
