/* Devices, for programs that ask what there is and choose: as many as `run --devices` says, one if
 * it says nothing, all alike. Each thread of the program has a current one. */
#include "runtime.h"
#include <string.h>

static _Thread_local int chosen;
static bool reaches[MOST_DEVICES][MOST_DEVICES];

int current_device(void) { return chosen; }

bool device_exists(int device) { return device >= 0 && (uint64_t)device < devices(); }

API cudaError_t cudaGetDeviceCount(int *count) {
    struct guard guard __attribute__((cleanup(leave))) = enter(true);
    if (count)
        *count = guard.error == cudaErrorNoDevice ? 0 : (int)devices();
    return fail(guard.error ? guard.error : count ? cudaSuccess : cudaErrorInvalidValue);
}

API cudaError_t cudaGetDevice(int *device) {
    ENTER_FAULTLESS();
    if (!device)
        return fail(cudaErrorInvalidValue);
    *device = chosen;
    return cudaSuccess;
}

API cudaError_t cudaSetDevice(int device) {
    ENTER_FAULTLESS();
    if (!device_exists(device))
        return fail(cudaErrorInvalidDevice);
    chosen = device;
    return cudaSuccess;
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

/* The device half answers with the whole structure; its size is that of the version. */
static cudaError_t properties_of(void *properties, int device, int version, size_t size) {
    ENTER_FAULTLESS();
    if (!device_exists(device))
        return fail(cudaErrorInvalidDevice);
    if (!properties)
        return fail(cudaErrorInvalidValue);
    return fail(CALL(OP_PROPERTIES, properties, size, version));
}

API cudaError_t cudaGetDeviceProperties(void *properties, int device) {
    return properties_of(properties, device, 13, 1008);
}

/* What the headers of CUDA 12 call that function. */
API cudaError_t cudaGetDeviceProperties_v2(void *properties, int device) {
    return properties_of(properties, device, 12, 1032);
}

API cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int device) {
    ENTER_FAULTLESS();
    if (!device_exists(device))
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
    cudaError_t error = CALL(OP_SYNCHRONIZE, NULL, 0, DEVICE_STREAMS - chosen, 0);
    flush_printed();
    return fail(error);
}

/* Everything on the device goes: memory, modules, times. */
API cudaError_t cudaDeviceReset(void) {
    ENTER_FAULTLESS();
    cudaError_t error = CALL(OP_SYNCHRONIZE, NULL, 0, UINT64_MAX, 0);
    flush_printed();
    if (error) {
        forget_device();
        return cudaSuccess;
    }
    uint64_t answer[2];
    error = CALL(OP_HELLO, answer, sizeof answer, 0);
    memset(reaches, 0, sizeof reaches);
    close_pages(answer[0], answer[1]);
    forget_device_answers();
    return fail(error);
}

API cudaError_t cudaRuntimeGetVersion(int *version) {
    if (!version)
        return fail(cudaErrorInvalidValue);
    *version = RUNTIME_VERSION;
    return cudaSuccess;
}

API cudaError_t cudaDriverGetVersion(int *version) { return cudaRuntimeGetVersion(version); }

/* Sizes that programs set and read back; an H200's values. The emulator limits the stack and the
 * heap only. */
enum { STACK = 0, HEAP = 2, SYNC_DEPTH = 3 }; /* the depth is gone since CUDA 12 */
enum { LARGEST_STACK = 512 << 10 }; /* local memory of a thread: CUDA C++ Programming Guide */
static size_t limits[] = {1024, 8650752, USUAL_HEAP, 0, 2048, 64, 0};

uint64_t stack_limit(void) { return limits[STACK]; }
uint64_t heap_limit(void) { return limits[HEAP]; }

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

static const char bus_id[] = "0000:00:00.0"; /* of device 0; the others' digit differs */
enum { BUS_DIGIT = 6 };

API cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int device) {
    ENTER();
    if (!device_exists(device))
        return fail(cudaErrorInvalidDevice);
    if (!text || length < (int)sizeof bus_id)
        return fail(cudaErrorInvalidValue);
    memcpy(text, bus_id, sizeof bus_id);
    text[BUS_DIGIT] += device;
    return cudaSuccess;
}

API cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *text) {
    ENTER();
    if (!device || !text)
        return fail(cudaErrorInvalidValue);
    for (int i = 0; device_exists(i); i++) {
        char own[sizeof bus_id];
        memcpy(own, bus_id, sizeof own);
        own[BUS_DIGIT] += i;
        if (!strcmp(text, own)) {
            *device = i;
            return cudaSuccess;
        }
    }
    return fail(cudaErrorInvalidDevice);
}

API cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    ENTER();
    if (!device_exists(device) || !device_exists(peer))
        return fail(cudaErrorInvalidDevice);
    if (!can)
        return fail(cudaErrorInvalidValue);
    *can = device != peer;
    return cudaSuccess;
}

API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    ENTER();
    if (!device_exists(peer))
        return fail(cudaErrorInvalidDevice);
    if (flags)
        return fail(cudaErrorInvalidValue);
    if (peer == chosen)
        return fail(devices() > 1 ? cudaErrorInvalidDevice : cudaErrorPeerAccessUnsupported);
    if (reaches[chosen][peer])
        return fail(cudaErrorPeerAccessAlreadyEnabled);
    reaches[chosen][peer] = true;
    POST(OP_PEER, chosen, peer, 1);
    return cudaSuccess;
}

API cudaError_t cudaDeviceDisablePeerAccess(int peer) {
    ENTER();
    if (!device_exists(peer))
        return fail(cudaErrorInvalidDevice);
    if (!reaches[chosen][peer])
        return fail(cudaErrorPeerAccessNotEnabled);
    reaches[chosen][peer] = false;
    POST(OP_PEER, chosen, peer, 0);
    return cudaSuccess;
}

/* Profilers have nothing to start here, and programs that mark a region are none the worse. */
API cudaError_t cudaProfilerStart(void) { return cudaSuccess; }
API cudaError_t cudaProfilerStop(void) { return cudaSuccess; }
