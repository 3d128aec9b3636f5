/* Modules and libraries: code that a program brings, its kernels and variables. A library is a
 * module that all contexts share; here all do. */
#define _GNU_SOURCE
#include "driver.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

API CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, int *options,
                                void **values) {
    CONTEXT();
    return told(cudaLibraryLoadData(module, image, options, values, count, NULL, NULL, 0));
}

API CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

API CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image) {
    return cuModuleLoadData(module, image);
}

API CUresult cuModuleLoad(CUmodule *module, const char *name) {
    CONTEXT();
    return told(cudaLibraryLoadFromFile(module, name, NULL, NULL, 0, NULL, NULL, 0));
}

API CUresult cuModuleUnload(CUmodule module) {
    CONTEXT();
    return told(cudaLibraryUnload(module));
}

API CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    CONTEXT();
    return told(cudaLibraryGetKernel(function, module, name));
}

API CUresult cuModuleGetFunctionCount(unsigned *count, CUmodule module) {
    CONTEXT();
    return told(cudaLibraryGetKernelCount(count, module));
}

API CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned count, CUmodule module) {
    CONTEXT();
    return told(cudaLibraryEnumerateKernels(functions, count, module));
}

API CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *size, CUmodule module,
                                  const char *name) {
    CONTEXT();
    return told(cudaLibraryGetGlobal((void **)address, size, module, name));
}

API CUresult cuModuleGetLoadingMode(int *mode) {
    INITIALIZED();
    WANT(mode);
    *mode = 1; /* eager */
    return CUDA_SUCCESS;
}

/* Libraries */

API CUresult cuLibraryLoadData(CUmodule *library, const void *code, int *jit_options,
                               void **jit_values, unsigned jit_count, int *options, void **values,
                               unsigned count) {
    INITIALIZED();
    return told(cudaLibraryLoadData(library, code, jit_options, jit_values, jit_count, options,
                                    values, count));
}

API CUresult cuLibraryLoadFromFile(CUmodule *library, const char *name, int *jit_options,
                                   void **jit_values, unsigned jit_count, int *options,
                                   void **values, unsigned count) {
    INITIALIZED();
    return told(cudaLibraryLoadFromFile(library, name, jit_options, jit_values, jit_count, options,
                                        values, count));
}

API CUresult cuLibraryUnload(CUmodule library) {
    INITIALIZED();
    return told(cudaLibraryUnload(library));
}

API CUresult cuLibraryGetKernel(CUfunction *kernel, CUmodule library, const char *name) {
    INITIALIZED();
    return told(cudaLibraryGetKernel(kernel, library, name));
}

API CUresult cuLibraryGetKernelCount(unsigned *count, CUmodule library) {
    INITIALIZED();
    return told(cudaLibraryGetKernelCount(count, library));
}

API CUresult cuLibraryEnumerateKernels(CUfunction *kernels, unsigned count, CUmodule library) {
    INITIALIZED();
    return told(cudaLibraryEnumerateKernels(kernels, count, library));
}

API CUresult cuLibraryGetModule(CUmodule *module, CUmodule library) {
    CONTEXT();
    WANT(module);
    *module = library;
    return CUDA_SUCCESS;
}

API CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *size, CUmodule library,
                                const char *name) {
    CONTEXT();
    return told(cudaLibraryGetGlobal((void **)address, size, library, name));
}

API CUresult cuLibraryGetManaged(CUdeviceptr *address, size_t *size, CUmodule library,
                                 const char *name) {
    INITIALIZED();
    return told(cudaLibraryGetManaged((void **)address, size, library, name));
}

API CUresult cuKernelGetFunction(CUfunction *function, CUfunction kernel) {
    CONTEXT();
    WANT(function);
    *function = kernel;
    return CUDA_SUCCESS;
}

/* Linking, for programs that compile in pieces: the pieces are texts, one after another. */

struct link {
    char *text;
    size_t size;
};

API CUresult cuLinkCreate_v2(unsigned count, int *options, void **values, struct link **state) {
    CONTEXT();
    (void)count, (void)options, (void)values;
    WANT(state);
    *state = calloc(1, sizeof **state);
    return *state ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

enum { LINK_PTX = 1 };

API CUresult cuLinkAddData_v2(struct link *state, int type, const void *data, size_t size,
                              const char *name, unsigned count, int *options, void **values) {
    CONTEXT();
    (void)name, (void)count, (void)options, (void)values;
    WANT(state && data);
    if (type != LINK_PTX)
        return missing("cuLinkAddData with something else than PTX");
    size = strnlen(data, size);
    char *longer = realloc(state->text, state->size + size + 2);
    if (!longer)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(longer + state->size, data, size);
    memcpy(longer + state->size + size, "\n", 2);
    state->text = longer;
    state->size += size + 1;
    return CUDA_SUCCESS;
}

API CUresult cuLinkAddFile_v2(struct link *state, int type, const char *path, unsigned count,
                              int *options, void **values) {
    CONTEXT();
    WANT(state && path);
    FILE *file = fopen(path, "rb");
    if (!file)
        return cudaErrorFileNotFound;
    char *text = NULL;
    size_t room = 0;
    ssize_t size = getdelim(&text, &room, 0, file);
    fclose(file);
    CUresult error = size > 0 ? cuLinkAddData_v2(state, type, text, size, path, count, options,
                                                 values)
                              : CUDA_ERROR_INVALID_VALUE;
    free(text);
    return error;
}

API CUresult cuLinkComplete(struct link *state, void **code, size_t *size) {
    CONTEXT();
    WANT(state && state->text && code);
    *code = state->text;
    if (size)
        *size = state->size;
    return CUDA_SUCCESS;
}

API CUresult cuLinkDestroy(struct link *state) {
    CONTEXT();
    WANT(state);
    free(state->text);
    free(state);
    return CUDA_SUCCESS;
}
