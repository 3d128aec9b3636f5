/* Initialisation, devices and contexts, for every program of the driver. There is one device, and
 * all contexts share its memory. */
#include "driver.h"
#include <stdlib.h>
#include <string.h>

struct context {
    unsigned flags, uses;
    bool dead;
    uint64_t number;
};
static struct context primary = {.number = 1};
static bool called;
enum { MOST_PUSHED = 64 };
static _Thread_local struct context *stack[MOST_PUSHED];
static _Thread_local int depth;

/* A program that also uses the runtime need not call cuInit, nor make a context. */
bool initialized(void) { return called || phasebit_uses_runtime(); }

CUcontext current(void) {
    if (depth && stack[depth - 1] && !stack[depth - 1]->dead)
        return stack[depth - 1];
    return !depth && phasebit_uses_runtime() ? &primary : NULL;
}

API CUresult cuInit(unsigned flags) {
    WANT(!flags);
    int count;
    cudaError_t error = cudaGetDeviceCount(&count);
    called = !error;
    return told(error);
}

API CUresult cuDriverGetVersion(int *version) { return told(cudaDriverGetVersion(version)); }

/* Devices */

API CUresult cuDeviceGetCount(int *count) {
    INITIALIZED();
    CUresult error = told(cudaGetDeviceCount(count));
    if (!error && *count > 1)
        *count = 1; /* several devices are the runtime's alone */
    return error;
}

API CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    INITIALIZED();
    WANT(device);
    if (ordinal)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = 0;
    return CUDA_SUCCESS;
}

enum { NAME = 256, UUID = 16, PROPERTIES = 1008, TOTAL = 288 }; /* cudaDeviceProp, in bytes */

static CUresult property(void *answer, size_t at, size_t size, CUdevice device) {
    char all[PROPERTIES];
    cudaError_t error = cudaGetDeviceProperties(all, device);
    if (!error)
        memcpy(answer, all + at, size);
    return told(error);
}

API CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
    INITIALIZED();
    WANT(name && length > 0);
    char whole[NAME];
    CUresult error = property(whole, 0, NAME, device);
    if (!error) {
        strncpy(name, whole, length);
        name[length - 1] = 0;
    }
    return error;
}

API CUresult cuDeviceGetUuid_v2(void *uuid, CUdevice device) {
    INITIALIZED();
    WANT(uuid);
    return property(uuid, NAME, UUID, device);
}

API CUresult cuDeviceGetUuid(void *uuid, CUdevice device) {
    return cuDeviceGetUuid_v2(uuid, device);
}

API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    INITIALIZED();
    WANT(bytes);
    return property(bytes, TOTAL, sizeof *bytes, device);
}

API CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    INITIALIZED();
    return told(cudaDeviceGetAttribute(value, attribute, device));
}

API CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
    CUresult error = cuDeviceGetAttribute(major, 75, device);
    return error ? error : cuDeviceGetAttribute(minor, 76, device);
}

API CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice device) {
    INITIALIZED();
    return told(cudaDeviceGetPCIBusId(text, length, device));
}

API CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *text) {
    INITIALIZED();
    return told(cudaDeviceGetByPCIBusId(device, text));
}

API CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    INITIALIZED();
    return told(cudaDeviceCanAccessPeer(can, device, peer));
}

API CUresult cuDeviceGetDefaultMemPool(cudaMemPool_t *pool, CUdevice device) {
    INITIALIZED();
    return told(cudaDeviceGetDefaultMemPool(pool, device));
}

API CUresult cuDeviceGetMemPool(cudaMemPool_t *pool, CUdevice device) {
    INITIALIZED();
    return told(cudaDeviceGetMemPool(pool, device));
}

API CUresult cuDeviceSetMemPool(CUdevice device, cudaMemPool_t pool) {
    INITIALIZED();
    return told(cudaDeviceSetMemPool(device, pool));
}

/* The primary context */

API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    INITIALIZED();
    WANT(context);
    if (device)
        return CUDA_ERROR_INVALID_DEVICE;
    primary.uses++;
    *context = &primary;
    return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    INITIALIZED();
    if (device)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!primary.uses)
        return CUDA_ERROR_INVALID_CONTEXT;
    primary.uses--;
    return told(cudaDeviceSynchronize());
}

API CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
    return cuDevicePrimaryCtxRelease_v2(device);
}

API CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
    INITIALIZED();
    return device ? CUDA_ERROR_INVALID_DEVICE : told(cudaDeviceReset());
}

API CUresult cuDevicePrimaryCtxReset(CUdevice device) { return cuDevicePrimaryCtxReset_v2(device); }

API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
    INITIALIZED();
    if (device)
        return CUDA_ERROR_INVALID_DEVICE;
    primary.flags = flags;
    return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
    return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
    INITIALIZED();
    WANT(flags && active);
    if (device)
        return CUDA_ERROR_INVALID_DEVICE;
    *flags = primary.flags;
    *active = primary.uses > 0 || phasebit_uses_runtime();
    return CUDA_SUCCESS;
}

/* Contexts */

static CUresult push(CUcontext context) {
    if (depth == MOST_PUSHED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

static CUresult make(CUcontext *context, unsigned flags, CUdevice device) {
    static uint64_t made = 1;
    INITIALIZED();
    WANT(context);
    if (device)
        return CUDA_ERROR_INVALID_DEVICE;
    struct context *own = calloc(1, sizeof *own);
    if (!own)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *own = (struct context){.flags = flags, .uses = 1, .number = ++made};
    *context = own;
    return push(own);
}

API CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device) {
    return make(context, flags, device);
}

API CUresult cuCtxCreate_v3(CUcontext *context, void *affinity, int count, unsigned flags,
                            CUdevice device) {
    (void)affinity, (void)count;
    return make(context, flags, device);
}

API CUresult cuCtxCreate_v4(CUcontext *context, void *parameters, unsigned flags,
                            CUdevice device) {
    (void)parameters;
    return make(context, flags, device);
}

/* Its handle is kept, so that one that is used again is told from a live one. */
API CUresult cuCtxDestroy_v2(CUcontext context) {
    INITIALIZED();
    if (!context || context == &primary || context->dead)
        return CUDA_ERROR_INVALID_CONTEXT;
    cudaError_t error = cudaDeviceSynchronize();
    context->dead = true;
    if (depth && stack[depth - 1] == context)
        depth--;
    return told(error);
}

API CUresult cuCtxPushCurrent_v2(CUcontext context) {
    INITIALIZED();
    return context && !context->dead ? push(context) : CUDA_ERROR_INVALID_CONTEXT;
}

API CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    CONTEXT();
    if (context)
        *context = current();
    if (depth)
        depth--;
    return CUDA_SUCCESS;
}

API CUresult cuCtxSetCurrent(CUcontext context) {
    INITIALIZED();
    if (context && context->dead)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (depth)
        depth--;
    return context ? push(context) : CUDA_SUCCESS;
}

API CUresult cuCtxGetCurrent(CUcontext *context) {
    INITIALIZED();
    WANT(context);
    *context = current();
    return CUDA_SUCCESS;
}

API CUresult cuCtxGetDevice(CUdevice *device) {
    CONTEXT();
    WANT(device);
    *device = 0;
    return CUDA_SUCCESS;
}

API CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext context) {
    INITIALIZED();
    if (!context)
        return cuCtxGetDevice(device);
    WANT(device);
    if (context->dead)
        return CUDA_ERROR_INVALID_CONTEXT;
    *device = 0;
    return CUDA_SUCCESS;
}

API CUresult cuCtxGetFlags(unsigned *flags) {
    CONTEXT();
    WANT(flags);
    *flags = current()->flags;
    return CUDA_SUCCESS;
}

API CUresult cuCtxGetId(CUcontext context, unsigned long long *number) {
    CONTEXT();
    WANT(number);
    *number = (context ? context : current())->number;
    return CUDA_SUCCESS;
}

API CUresult cuCtxGetApiVersion(CUcontext context, unsigned *version) {
    CONTEXT();
    (void)context;
    WANT(version);
    *version = 3020; /* CUDA 3.2, the interface of all contexts since */
    return CUDA_SUCCESS;
}

API CUresult cuCtxSynchronize(void) {
    CONTEXT();
    return told(cudaDeviceSynchronize());
}

API CUresult cuCtxSetLimit(int limit, size_t value) {
    CONTEXT();
    return told(cudaDeviceSetLimit(limit, value));
}

API CUresult cuCtxGetLimit(size_t *value, int limit) {
    CONTEXT();
    return told(cudaDeviceGetLimit(value, limit));
}

API CUresult cuCtxSetCacheConfig(int config) {
    CONTEXT();
    return told(cudaDeviceSetCacheConfig(config));
}

API CUresult cuCtxGetCacheConfig(int *config) {
    CONTEXT();
    return told(cudaDeviceGetCacheConfig(config));
}

API CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    CONTEXT();
    return told(cudaDeviceGetStreamPriorityRange(least, greatest));
}
