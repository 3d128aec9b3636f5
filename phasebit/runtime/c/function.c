/* Kernels: their attributes, and how many blocks fit; for programs that choose the shape of a
 * launch, or ask for more shared memory than is usual. */
#include "runtime.h"
#include <string.h>

/* 48 KiB with the static part, or what the program asked for; less than 48 KiB is a limit too. */
uint64_t dynamic_shared_allowed(const struct kernel *kernel) {
    if (kernel->dynamic_shared)
        return kernel->dynamic_shared;
    return kernel->facts.shared < USUAL_SHARED ? USUAL_SHARED - kernel->facts.shared : 0;
}

API cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *answer, const void *function) {
    ENTER();
    cudaError_t error;
    struct kernel *kernel = find_kernel(function, &error);
    if (!kernel)
        return fail(error);
    if (!answer)
        return fail(cudaErrorInvalidValue);
    const struct facts *facts = &kernel->facts;
    *answer = (struct cudaFuncAttributes){
        .sharedSizeBytes = facts->shared,
        .constSizeBytes = facts->constant,
        .localSizeBytes = facts->local,
        .maxThreadsPerBlock = facts->max_threads,
        .numRegs = facts->registers,
        .ptxVersion = facts->capability,
        .binaryVersion = facts->capability,
        .maxDynamicSharedSizeBytes = dynamic_shared_allowed(kernel),
        .preferredShmemCarveout = kernel->carveout,
        .clusterDimMustBeSet = facts->cluster[0] != 0,
        .requiredClusterWidth = facts->cluster[0],
        .requiredClusterHeight = facts->cluster[1],
        .requiredClusterDepth = facts->cluster[2],
        .nonPortableClusterSizeAllowed = kernel->non_portable_cluster,
    };
    return cudaSuccess;
}

API cudaError_t cudaFuncSetAttribute(const void *function, int attribute, int value) {
    ENTER();
    cudaError_t error;
    struct kernel *kernel = find_kernel(function, &error);
    if (!kernel)
        return fail(error);
    const struct facts *facts = &kernel->facts;
    switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize:
        if (value < 0 || facts->shared + value > facts->block_shared)
            return fail(cudaErrorInvalidValue);
        kernel->dynamic_shared = value;
        return cudaSuccess;
    case cudaFuncAttributePreferredSharedMemoryCarveout:
        if (value < -1 || value > 100)
            return fail(cudaErrorInvalidValue);
        kernel->carveout = value;
        return cudaSuccess;
    case cudaFuncAttributeNonPortableClusterSizeAllowed:
        kernel->non_portable_cluster = value;
        return cudaSuccess;
    case cudaFuncAttributeClusterSchedulingPolicyPreference:
        return cudaSuccess; /* tunes, changes no result */
    default:
        return fail(cudaErrorInvalidValue);
    }
}

API cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, int attribute, int value,
                                                int device) {
    if (device)
        return fail(cudaErrorInvalidDevice);
    return cudaFuncSetAttribute(kernel, attribute, value);
}

API cudaError_t cudaFuncSetCacheConfig(const void *function, int config) {
    ENTER();
    (void)config; /* a preference */
    cudaError_t error;
    find_kernel(function, &error);
    return fail(error);
}

API cudaError_t cudaFuncSetSharedMemConfig(const void *function, int config) {
    return cudaFuncSetCacheConfig(function, config);
}

API cudaError_t cudaFuncGetName(const char **name, const void *function) {
    ENTER();
    cudaError_t error;
    struct kernel *kernel = find_kernel(function, &error);
    if (kernel && !name)
        error = cudaErrorInvalidValue;
    if (!error)
        *name = kernel->name;
    return fail(error);
}

API cudaError_t cudaFuncGetParamInfo(const void *function, size_t index, size_t *offset,
                                     size_t *size) {
    ENTER();
    cudaError_t error;
    struct kernel *kernel = find_kernel(function, &error);
    if (!kernel)
        return fail(error);
    if (index >= kernel->facts.parameters || !offset)
        return fail(cudaErrorInvalidValue);
    *offset = kernel->parameters[index].offset;
    if (size)
        *size = kernel->parameters[index].size;
    return cudaSuccess;
}

API cudaError_t cudaFuncGetParamCount(const void *function, size_t *count) {
    ENTER();
    cudaError_t error;
    struct kernel *kernel = find_kernel(function, &error);
    if (kernel && !count)
        error = cudaErrorInvalidValue;
    if (!error)
        *count = kernel->facts.parameters;
    return fail(error);
}

/* A kernel and a function handle are the same thing here. */
API cudaError_t cudaGetFuncBySymbol(cudaKernel_t *handle, const void *symbol) {
    ENTER();
    cudaError_t error;
    struct kernel *kernel = find_kernel(symbol, &error);
    if (kernel && !handle)
        error = cudaErrorInvalidValue;
    if (!error)
        *handle = kernel;
    return fail(error);
}

API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, const void *function, int threads, size_t shared, unsigned flags) {
    ENTER();
    (void)flags;
    cudaError_t error;
    struct kernel *kernel = find_kernel(function, &error);
    if (!kernel)
        return fail(error);
    if (!blocks || threads <= 0)
        return fail(cudaErrorInvalidValue);
    uint64_t answer[2] = {0};
    error = CALL(OP_OCCUPANCY, answer, sizeof answer, kernel->facts.number, threads, shared, 0);
    *blocks = answer[0];
    return fail(error);
}

API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function,
                                                              int threads, size_t shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads,
                                                                  shared, 0);
}

API cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *shared, const void *function,
                                                          int blocks, int threads) {
    ENTER();
    cudaError_t error;
    struct kernel *kernel = find_kernel(function, &error);
    if (!kernel)
        return fail(error);
    if (!shared || blocks <= 0 || threads <= 0)
        return fail(cudaErrorInvalidValue);
    uint64_t answer[2] = {0};
    error =
        CALL(OP_OCCUPANCY, answer, sizeof answer, kernel->facts.number, threads, 0, blocks);
    uint64_t allowed = dynamic_shared_allowed(kernel);
    *shared = answer[1] < allowed ? answer[1] : allowed;
    return fail(error);
}
