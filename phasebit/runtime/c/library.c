/* Device code that a program brings itself, as text or in a file: cudaLibraryLoadData and its
 * relatives, and with them the modules of the driver library. */
#include "runtime.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is called a library in the runtime and a module in the driver. */
struct library {
    struct module *module;
    uint64_t count; /* kernels */
    char *names;    /* of kernels, one after another, each with its zero */
    struct library *next;
};
static struct library *libraries;

static struct library *find_library(const struct library *handle) {
    for (struct library *l = libraries; l; l = l->next)
        if (l == handle)
            return l;
    return NULL;
}

enum { MOST_NAMES = 4 << 20 }; /* bytes */

static cudaError_t load(struct library **handle, const void *code) {
    if (!handle || !code)
        return cudaErrorInvalidValue;
    struct library *made = calloc(1, sizeof *made);
    struct {
        uint64_t count;
        char names[MOST_NAMES];
    } *answer = calloc(1, sizeof *answer);
    if (!made || !answer)
        abort();
    made->module = add_module(code);
    cudaError_t error = CALL(OP_OPEN, answer, sizeof *answer, made->module->number);
    if (error) {
        free(made);
        free(answer);
        return error;
    }
    made->count = answer->count;
    size_t size = 1;
    for (uint64_t i = 0; i < answer->count; i++)
        size += strlen(answer->names + size - 1) + 1;
    made->names = calloc(1, size);
    memcpy(made->names, answer->names, size - 1);
    free(answer);
    made->next = libraries;
    libraries = made;
    *handle = made;
    return cudaSuccess;
}

API cudaError_t cudaLibraryLoadData(struct library **library, const void *code, int *jit_options,
                                    void **jit_values, unsigned jit_count, int *options,
                                    void **values, unsigned count) {
    ENTER();
    /* They tune a compiler that is not there, and change no result. */
    (void)jit_options, (void)jit_values, (void)jit_count;
    (void)options, (void)values, (void)count;
    return fail(load(library, code));
}

API cudaError_t cudaLibraryLoadFromFile(struct library **library, const char *name,
                                        int *jit_options, void **jit_values, unsigned jit_count,
                                        int *options, void **values, unsigned count) {
    ENTER();
    (void)jit_options, (void)jit_values, (void)jit_count;
    (void)options, (void)values, (void)count;
    FILE *file = name ? fopen(name, "rb") : NULL;
    if (!file)
        return fail(name ? cudaErrorFileNotFound : cudaErrorInvalidValue);
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *text = calloc(1, size > 0 ? size + 64 : 64); /* room for a header that is cut off */
    cudaError_t error = text && fread(text, 1, size, file) == (size_t)size
                            ? load(library, text)
                            : cudaErrorInvalidValue;
    fclose(file);
    free(text);
    return fail(error);
}

API cudaError_t cudaLibraryUnload(struct library *handle) {
    ENTER();
    for (struct library **at = &libraries; *at; at = &(*at)->next)
        if (*at == handle && handle) {
            *at = handle->next;
            forget_module(handle->module);
            POST(OP_UNLOAD, handle->module->number);
            free(handle->names);
            free(handle);
            return cudaSuccess;
        }
    return fail(cudaErrorInvalidResourceHandle);
}

static cudaError_t kernel_of(cudaKernel_t *answer, struct library *library, const char *name) {
    if (!find_library(library))
        return cudaErrorInvalidResourceHandle;
    if (!answer || !name)
        return cudaErrorInvalidValue;
    cudaError_t error;
    struct kernel *found = kernel_of_module(library->module, name, &error);
    if (error == cudaErrorInvalidDeviceFunction)
        error = cudaErrorSymbolNotFound;
    if (!error)
        *answer = found;
    return error;
}

API cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, struct library *library,
                                     const char *name) {
    ENTER();
    return fail(kernel_of(kernel, library, name));
}

API cudaError_t cudaLibraryGetKernelCount(unsigned *count, struct library *library) {
    ENTER();
    if (!find_library(library))
        return fail(cudaErrorInvalidResourceHandle);
    if (!count)
        return fail(cudaErrorInvalidValue);
    *count = library->count;
    return cudaSuccess;
}

API cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t *kernels, unsigned count,
                                            struct library *library) {
    ENTER();
    if (!find_library(library))
        return fail(cudaErrorInvalidResourceHandle);
    if (!kernels || !count)
        return fail(cudaErrorInvalidValue);
    const char *name = library->names;
    cudaError_t error = cudaSuccess;
    for (unsigned i = 0; i < count && i < library->count && !error; i++, name += strlen(name) + 1)
        error = kernel_of(kernels + i, library, name);
    return fail(error);
}

static cudaError_t variable_of(void **address, size_t *size, struct library *library,
                               const char *name, bool managed) {
    if (!find_library(library))
        return cudaErrorInvalidResourceHandle;
    if (!name)
        return cudaErrorInvalidValue;
    uint64_t answer[2], range[3];
    cudaError_t error = call_device(OP_SYMBOL, WORDS(library->module->number, 0), name, strlen(name),
                                    answer, sizeof answer);
    if (error)
        return error == cudaErrorInvalidSymbol ? cudaErrorSymbolNotFound : error;
    error = CALL(OP_RANGE, range, sizeof range, answer[0]);
    if (error)
        return error;
    if (managed && range[2] != SPACE_MANAGED)
        return cudaErrorSymbolNotFound;
    if (range[2] == SPACE_MANAGED)
        open_pages(answer[0], answer[1]);
    if (address)
        *address = (void *)answer[0];
    if (size)
        *size = answer[1];
    return cudaSuccess;
}

API cudaError_t cudaLibraryGetGlobal(void **address, size_t *size, struct library *library,
                                     const char *name) {
    ENTER();
    return fail(variable_of(address, size, library, name, false));
}

API cudaError_t cudaLibraryGetManaged(void **address, size_t *size, struct library *library,
                                      const char *name) {
    ENTER();
    return fail(variable_of(address, size, library, name, true));
}
