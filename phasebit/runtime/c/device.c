/* The device: there is one, number 0. */
#include "runtime.h"
#include <stdio.h>
#include <string.h>

/* 13.0: the interface that the stand-in follows. */
enum { VERSION = 13000 };

API cudaError_t cudaGetDeviceCount(int *count) {
    struct guard guard __attribute__((cleanup(leave))) = enter(true);
    if (count)
        *count = guard.error == cudaErrorNoDevice ? 0 : 1;
    return fail(guard.error ? guard.error : count ? cudaSuccess : cudaErrorInvalidValue);
}

API cudaError_t cudaGetDevice(int *device) {
    ENTER_FAULTLESS();
    if (!device)
        return fail(cudaErrorInvalidValue);
    *device = 0;
    return cudaSuccess;
}

API cudaError_t cudaSetDevice(int device) {
    ENTER_FAULTLESS();
    return fail(device ? cudaErrorInvalidDevice : cudaSuccess);
}

API cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags) {
    (void)device_flags, (void)flags;
    return cudaSetDevice(device);
}

API cudaError_t cudaChooseDevice(int *device, const void *properties) {
    (void)properties;
    return cudaGetDevice(device);
}

API cudaError_t cudaSetValidDevices(int *devices, int count) {
    (void)devices, (void)count;
    return cudaSuccess;
}

API cudaError_t cudaGetDeviceProperties(void *properties, int device) {
    ENTER_FAULTLESS();
    if (device)
        return fail(cudaErrorInvalidDevice);
    if (!properties)
        return fail(cudaErrorInvalidValue);
    /* The device half answers with the whole structure; sizeof(cudaDeviceProp) is fixed. */
    return fail(CALL(OP_PROPERTIES, properties, 1008, 0));
}

API cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int device) {
    ENTER_FAULTLESS();
    if (device)
        return fail(cudaErrorInvalidDevice);
    if (!value || attribute < 0)
        return fail(cudaErrorInvalidValue);
    uint64_t answer = 0;
    cudaError_t error = CALL(OP_ATTRIBUTE, &answer, sizeof answer, attribute);
    if (!error)
        *value = (int)(int64_t)answer;
    return fail(error);
}

API cudaError_t cudaDeviceSynchronize(void) {
    ENTER();
    if (capturing(NULL))
        return fail(cudaErrorStreamCaptureUnsupported);
    cudaError_t error = CALL(OP_SYNCHRONIZE, NULL, 0, UINT64_MAX);
    flush_printed();
    return fail(error);
}

/* Everything on the device goes: memory, modules, times. */
API cudaError_t cudaDeviceReset(void) {
    ENTER_FAULTLESS();
    cudaError_t error = CALL(OP_SYNCHRONIZE, NULL, 0, UINT64_MAX);
    flush_printed();
    if (error) {
        forget_device();
        return cudaSuccess;
    }
    uint64_t answer[2];
    error = CALL(OP_HELLO, answer, sizeof answer, 0);
    close_pages(answer[0], answer[1]);
    forget_device_answers();
    return fail(error);
}

API cudaError_t cudaRuntimeGetVersion(int *version) {
    if (!version)
        return fail(cudaErrorInvalidValue);
    *version = VERSION;
    return cudaSuccess;
}

API cudaError_t cudaDriverGetVersion(int *version) { return cudaRuntimeGetVersion(version); }

/* Sizes that programs set and read back; an H200's values. The emulator limits the stack only. */
enum { STACK = 0, SYNC_DEPTH = 3 }; /* the depth is gone since CUDA 12 */
enum { LARGEST_STACK = 512 << 10 }; /* local memory of a thread: CUDA C++ Programming Guide */
static size_t limits[] = {1024, 8650752, 8 << 20, 0, 2048, 64, 0};

uint64_t stack_limit(void) { return limits[STACK]; }

API cudaError_t cudaDeviceSetLimit(int limit, size_t value) {
    ENTER();
    if (limit < 0 || (size_t)limit >= COUNT(limits) || limit == SYNC_DEPTH)
        return fail(cudaErrorUnsupportedLimit);
    if (limit == STACK && value > LARGEST_STACK)
        return fail(cudaErrorInvalidValue);
    limits[limit] = value;
    return cudaSuccess;
}

API cudaError_t cudaDeviceGetLimit(size_t *value, int limit) {
    ENTER();
    if (limit < 0 || (size_t)limit >= COUNT(limits) || limit == SYNC_DEPTH)
        return fail(cudaErrorUnsupportedLimit);
    if (!value)
        return fail(cudaErrorInvalidValue);
    *value = limits[limit];
    return cudaSuccess;
}

static unsigned device_flags;
static int cache_config;

API cudaError_t cudaSetDeviceFlags(unsigned flags) {
    device_flags = flags;
    return cudaSuccess;
}

API cudaError_t cudaGetDeviceFlags(unsigned *flags) {
    if (!flags)
        return fail(cudaErrorInvalidValue);
    *flags = device_flags | 8; /* cudaDeviceMapHost is always on */
    return cudaSuccess;
}

API cudaError_t cudaDeviceSetCacheConfig(int config) {
    cache_config = config;
    return cudaSuccess;
}

API cudaError_t cudaDeviceGetCacheConfig(int *config) {
    if (!config)
        return fail(cudaErrorInvalidValue);
    *config = cache_config;
    return cudaSuccess;
}

/* Banks of shared memory have had one width since sm_50: 4 bytes, number 1. */
API cudaError_t cudaDeviceSetSharedMemConfig(int config) {
    ENTER();
    return fail(config >= 0 && config <= 2 ? cudaSuccess : cudaErrorInvalidValue);
}

API cudaError_t cudaDeviceGetSharedMemConfig(int *config) {
    ENTER();
    if (!config)
        return fail(cudaErrorInvalidValue);
    *config = 1;
    return cudaSuccess;
}

API cudaError_t cudaCtxResetPersistingL2Cache(void) {
    ENTER();
    return cudaSuccess;
}

API cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return cudaSuccess;
}

static const char bus_id[] = "0000:00:00.0";

API cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int device) {
    ENTER();
    if (device)
        return fail(cudaErrorInvalidDevice);
    if (!text || length < (int)sizeof bus_id)
        return fail(cudaErrorInvalidValue);
    memcpy(text, bus_id, sizeof bus_id);
    return cudaSuccess;
}

API cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *text) {
    ENTER();
    if (!device || !text)
        return fail(cudaErrorInvalidValue);
    if (strcmp(text, bus_id))
        return fail(cudaErrorInvalidDevice);
    *device = 0;
    return cudaSuccess;
}

API cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    ENTER();
    if (device || peer)
        return fail(cudaErrorInvalidDevice);
    if (!can)
        return fail(cudaErrorInvalidValue);
    *can = 0;
    return cudaSuccess;
}

API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    ENTER();
    (void)flags;
    return fail(peer ? cudaErrorInvalidDevice : cudaErrorPeerAccessUnsupported);
}

/* Profilers have nothing to start here, and programs that mark a region are none the worse. */
API cudaError_t cudaProfilerStart(void) { return cudaSuccess; }
API cudaError_t cudaProfilerStop(void) { return cudaSuccess; }

/* cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col of the driver library: the emulator checks the
 * arguments and gives the 128 bytes that its copies read. A CUresult is no cudaError_t, but 0 and 1
 * mean the same. */
static cudaError_t encode_tiled(void *map, unsigned type, unsigned rank, void *address,
                                const uint64_t *dims, const uint64_t *strides,
                                const unsigned *box, const unsigned *steps, unsigned interleave,
                                unsigned swizzle, unsigned promotion, unsigned fill) {
    ENTER();
    enum { MOST = 5, DIMS = 3, STRIDES = 8, BOX = 12, STEPS = 17 };
    uint64_t words[26] = {type, rank, (uint64_t)address};
    if (!map || !dims || !box || !steps || (rank > 1 && !strides))
        return cudaErrorInvalidValue;
    for (unsigned i = 0; i < rank && i < MOST; i++) {
        words[DIMS + i] = dims[i];
        words[BOX + i] = box[i];
        words[STEPS + i] = steps[i];
        if (i + 1 < rank && i + 1 < MOST)
            words[STRIDES + i] = strides[i];
    }
    words[22] = interleave, words[23] = swizzle, words[24] = promotion, words[25] = fill;
    return call_device(OP_TENSOR_MAP, words, COUNT(words), NULL, 0, map, 128);
}

static cudaError_t encode_im2col(void *map, unsigned type, unsigned rank, void *address,
                                 const uint64_t *dims, const uint64_t *strides, const int *lower,
                                 const int *upper, unsigned channels, unsigned pixels,
                                 const unsigned *steps, unsigned interleave, unsigned swizzle,
                                 unsigned promotion, unsigned fill) {
    ENTER();
    enum { MOST = 5, DIMS = 3, STRIDES = 8, BOX = 12, STEPS = 17, LOWER = 26, UPPER = 29 };
    uint64_t words[32] = {type, rank, (uint64_t)address};
    if (!map || !dims || !strides || !lower || !upper || !steps)
        return cudaErrorInvalidValue;
    for (unsigned i = 0; i < rank && i < MOST; i++) {
        words[DIMS + i] = dims[i];
        words[STEPS + i] = steps[i];
        if (i + 1 < rank && i + 1 < MOST)
            words[STRIDES + i] = strides[i];
        if (i + 2 < rank && i + 2 < MOST)
            words[LOWER + i] = (uint64_t)(int64_t)lower[i],
                      words[UPPER + i] = (uint64_t)(int64_t)upper[i];
    }
    words[BOX] = channels, words[BOX + 1] = pixels;
    words[22] = interleave, words[23] = swizzle, words[24] = promotion, words[25] = fill;
    return call_device(OP_TENSOR_MAP, words, COUNT(words), NULL, 0, map, 128);
}

/* Functions of the driver library: only those that no program of the runtime can do without. */
API cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function,
                                                 unsigned version, unsigned long long flags,
                                                 int *status) {
    ENTER();
    (void)version, (void)flags;
    if (!symbol || !function)
        return fail(cudaErrorInvalidValue);
    if (!strcmp(symbol, "cuTensorMapEncodeTiled")) {
        *function = (void *)encode_tiled;
        if (status)
            *status = 0; /* cudaDriverEntryPointSuccess */
        return cudaSuccess;
    }
    if (!strcmp(symbol, "cuTensorMapEncodeIm2col")) {
        *function = (void *)encode_im2col;
        if (status)
            *status = 0;
        return cudaSuccess;
    }
    *function = NULL;
    if (status)
        *status = 1; /* cudaDriverEntryPointSymbolNotFound */
    return missing(symbol);
}

API cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function,
                                        unsigned long long flags, int *status) {
    return cudaGetDriverEntryPointByVersion(symbol, function, VERSION, flags, status);
}
