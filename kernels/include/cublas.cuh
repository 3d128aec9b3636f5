// The vendor's matrix product, to stand beside ours in a record. The library is opened while
// the program runs, so that a kernel of the book builds where cuBLAS is not installed.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <dlfcn.h>

class Cublas {
  public:
    // path: libcublas.so of any version since 11, whose calls these are.
    explicit Cublas(const char* path) {
        library = dlopen(path, RTLD_NOW);
        if (!library) fail(dlerror());
        if (find<int (*)(void**)>("cublasCreate_v2")(&handle)) fail("cublasCreate failed");
        // CUBLAS_PEDANTIC_MATH (2): f32 arithmetic throughout, no TF32.
        if (find<int (*)(void*, int)>("cublasSetMathMode")(handle, 2)) fail("no math mode");
        multiply = find<Sgemm>("cublasSgemm_v2");
    }

    // C (M, N) = A (M, K) · B (K, N), row-major f32 on the device. cuBLAS stores by columns,
    // so it is asked for Cᵀ = Bᵀ · Aᵀ.
    void sgemm(int M, int N, int K, const float* A, const float* B, float* C) {
        const float one = 1, zero = 0;
        if (multiply(handle, 0, 0, N, M, K, &one, B, N, A, K, &zero, C, N)) fail("sgemm failed");
    }

  private:
    using Sgemm = int (*)(void*, int, int, int, int, int, const float*, const float*, int,
                          const float*, int, const float*, float*, int);
    void* library = nullptr;
    void* handle = nullptr;
    Sgemm multiply = nullptr;

    template <class Function> Function find(const char* name) {
        void* symbol = dlsym(library, name);
        if (!symbol) fail(name);
        return reinterpret_cast<Function>(symbol);
    }
    [[noreturn]] static void fail(const char* why) {
        fprintf(stderr, "cuBLAS: %s\n", why);
        exit(1);
    }
};
