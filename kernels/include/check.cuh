// CHECK(call): a CUDA call that fails ends the program, and says which call, where and why.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define CHECK(call) check_cuda((call), #call, __FILE__, __LINE__)

inline void check_cuda(cudaError_t error, const char* call, const char* file, int line) {
    if (error == cudaSuccess) return;
    fflush(stdout);
    fprintf(stderr, "%s:%d: %s failed: %s: %s\n", file, line, call, cudaGetErrorName(error),
            cudaGetErrorString(error));
    exit(1);
}
