/* Kernels: their launches, attributes, and how many blocks fit. */
#include "driver.h"
#include <string.h>

/* Arguments in one buffer: `extra` is a list of names and values that ends with NULL. */
enum { MOST_PARAMETERS = 4096 };
static void *const END = NULL, *const BUFFER = (void *)1, *const SIZE = (void *)2;

static CUresult unpack(CUfunction function, void **extra, void **arguments) {
    char *buffer = NULL;
    size_t count, given = 0, offset = 0, size = 0;
    for (void **at = extra; *at != END; at += 2) {
        if (*at == BUFFER)
            buffer = at[1];
        if (*at == SIZE)
            given = *(size_t *)at[1];
    }
    cudaError_t error = cudaFuncGetParamCount(function, &count);
    for (size_t i = 0; i < count && !error; i++) {
        error = cudaFuncGetParamInfo(function, i, &offset, &size);
        arguments[i] = buffer + offset;
    }
    if (!error && given != offset + size)
        error = cudaErrorLaunchOutOfResources;
    return told(error);
}

static CUresult launch(const cudaLaunchConfig_t *config, CUfunction function, void **arguments,
                       void **extra) {
    CONTEXT();
    void *unpacked[MOST_PARAMETERS];
    if (!arguments && extra) {
        CUresult error = unpack(function, extra, unpacked);
        if (error)
            return error;
        arguments = unpacked;
    }
    return told(cudaLaunchKernelExC(config, function, arguments));
}

API CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                            unsigned by, unsigned bz, unsigned shared, CUstream stream,
                            void **arguments, void **extra) {
    cudaLaunchConfig_t config = {{gx, gy, gz}, {bx, by, bz}, shared, stream, NULL, 0};
    return launch(&config, function, arguments, extra);
}

API CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
                                       unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                       CUstream stream, void **arguments) {
    cudaLaunchAttribute cooperative = {.id = cudaLaunchAttributeCooperative, .val.cooperative = 1};
    cudaLaunchConfig_t config = {{gx, gy, gz}, {bx, by, bz}, shared, stream, &cooperative, 1};
    return launch(&config, function, arguments, NULL);
}

/* The driver's attributes of a launch are the runtime's; only the sizes before them differ. */
struct config {
    dim3 grid, block;
    unsigned shared;
    CUstream stream;
    cudaLaunchAttribute *attributes;
    unsigned count;
};

static cudaLaunchConfig_t of(const struct config *c) {
    return (cudaLaunchConfig_t){c->grid, c->block, c->shared, c->stream, c->attributes, c->count};
}

API CUresult cuLaunchKernelEx(const struct config *config, CUfunction function, void **arguments,
                              void **extra) {
    WANT(config);
    cudaLaunchConfig_t same = of(config);
    return launch(&same, function, arguments, extra);
}

API CUresult cuLaunchHostFunc(CUstream stream, cudaHostFn_t function, void *data) {
    CONTEXT();
    return told(cudaLaunchHostFunc(stream, function, data));
}

/* Attributes */

API CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function) {
    INITIALIZED();
    WANT(value);
    struct cudaFuncAttributes a;
    cudaError_t error = cudaFuncGetAttributes(&a, function);
    if (error)
        return told(error);
    const int values[] = { /* in the order of CUfunction_attribute */
        a.maxThreadsPerBlock, a.sharedSizeBytes, a.constSizeBytes, a.localSizeBytes, a.numRegs,
        a.ptxVersion, a.binaryVersion, a.cacheModeCA, a.maxDynamicSharedSizeBytes,
        a.preferredShmemCarveout, a.clusterDimMustBeSet, a.requiredClusterWidth,
        a.requiredClusterHeight, a.requiredClusterDepth, a.nonPortableClusterSizeAllowed,
        a.clusterSchedulingPolicyPreference};
    WANT(attribute >= 0 && (size_t)attribute < COUNT(values));
    *value = values[attribute];
    return CUDA_SUCCESS;
}

API CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
    INITIALIZED();
    return told(cudaFuncSetAttribute(function, attribute, value));
}

API CUresult cuFuncSetCacheConfig(CUfunction function, int config) {
    INITIALIZED();
    return told(cudaFuncSetCacheConfig(function, config));
}

API CUresult cuFuncSetSharedMemConfig(CUfunction function, int config) {
    return cuFuncSetCacheConfig(function, config);
}

API CUresult cuFuncGetName(const char **name, CUfunction function) {
    INITIALIZED();
    return told(cudaFuncGetName(name, function));
}

API CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size) {
    INITIALIZED();
    return told(cudaFuncGetParamInfo(function, index, offset, size));
}

API CUresult cuFuncIsLoaded(int *state, CUfunction function) {
    INITIALIZED();
    WANT(state && function);
    *state = 1;
    return CUDA_SUCCESS;
}

API CUresult cuFuncLoad(CUfunction function) {
    INITIALIZED();
    WANT(function);
    return CUDA_SUCCESS;
}

API CUresult cuKernelGetAttribute(int *value, int attribute, CUfunction kernel, CUdevice device) {
    return device ? CUDA_ERROR_INVALID_DEVICE : cuFuncGetAttribute(value, attribute, kernel);
}

API CUresult cuKernelSetAttribute(int attribute, int value, CUfunction kernel, CUdevice device) {
    return device ? CUDA_ERROR_INVALID_DEVICE : cuFuncSetAttribute(kernel, attribute, value);
}

API CUresult cuKernelSetCacheConfig(CUfunction kernel, int config, CUdevice device) {
    return device ? CUDA_ERROR_INVALID_DEVICE : cuFuncSetCacheConfig(kernel, config);
}

API CUresult cuKernelGetName(const char **name, CUfunction kernel) {
    return cuFuncGetName(name, kernel);
}

API CUresult cuKernelGetParamInfo(CUfunction kernel, size_t index, size_t *offset, size_t *size) {
    return cuFuncGetParamInfo(kernel, index, offset, size);
}

/* Occupancy */

API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function,
                                                                  int threads, size_t shared,
                                                                  unsigned flags) {
    CONTEXT();
    return told(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads,
                                                                       shared, flags));
}

API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
                                                         int threads, size_t shared) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared,
                                                                0);
}

API CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *shared, CUfunction function,
                                                     int blocks, int threads) {
    CONTEXT();
    return told(cudaOccupancyAvailableDynamicSMemPerBlock(shared, function, blocks, threads));
}

API CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction function,
                                          const struct config *config) {
    CONTEXT();
    WANT(config);
    cudaLaunchConfig_t same = of(config);
    return told(cudaOccupancyMaxActiveClusters(clusters, function, &same));
}

API CUresult cuOccupancyMaxPotentialClusterSize(int *size, CUfunction function,
                                                const struct config *config) {
    CONTEXT();
    WANT(config);
    cudaLaunchConfig_t same = of(config);
    return told(cudaOccupancyMaxPotentialClusterSize(size, function, &same));
}

/* The block size, a multiple of a warp, with which most threads are resident; of equal ones the
 * largest. */
API CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function,
                                              size_t (*shared_for)(int), size_t shared, int most) {
    CONTEXT();
    WANT(grid && block);
    int limit, multiprocessors, resident = 0;
    CUresult error = cuFuncGetAttribute(&limit, 0, function);
    if (!error)
        error = cuDeviceGetAttribute(&multiprocessors, 16, 0);
    if (most > 0 && most < limit)
        limit = most;
    for (int threads = limit; threads > 0 && !error; threads = (threads - 1) / 32 * 32) {
        int blocks;
        error = cuOccupancyMaxActiveBlocksPerMultiprocessor(
            &blocks, function, threads, shared_for ? shared_for(threads) : shared);
        if (!error && blocks * threads > resident) {
            resident = blocks * threads;
            *block = threads;
            *grid = blocks * multiprocessors;
        }
    }
    return error;
}

API CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction function,
                                                       size_t (*shared_for)(int), size_t shared,
                                                       int most, unsigned flags) {
    (void)flags;
    return cuOccupancyMaxPotentialBlockSize(grid, block, function, shared_for, shared, most);
}
