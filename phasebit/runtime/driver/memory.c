/* Memory, copies and fills. */
#include "driver.h"
#include <stdlib.h>
#include <string.h>

API CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size) {
    CONTEXT();
    WANT(address && size);
    return told(cudaMalloc((void **)address, size));
}

API CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height,
                                unsigned element) {
    CONTEXT();
    WANT(element == 4 || element == 8 || element == 16);
    return told(cudaMallocPitch((void **)address, pitch, width, height));
}

API CUresult cuMemFree_v2(CUdeviceptr address) {
    CONTEXT();
    return told(cudaFree((void *)address));
}

API CUresult cuMemAllocAsync(CUdeviceptr *address, size_t size, CUstream stream) {
    CONTEXT();
    WANT(address && size);
    return told(cudaMallocAsync((void **)address, size, stream));
}

API CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
    CONTEXT();
    return told(cudaFreeAsync((void *)address, stream));
}

API CUresult cuMemAllocManaged(CUdeviceptr *address, size_t size, unsigned flags) {
    CONTEXT();
    WANT(address && size);
    return told(cudaMallocManaged((void **)address, size, flags));
}

API CUresult cuMemHostAlloc(void **address, size_t size, unsigned flags) {
    CONTEXT();
    return told(cudaHostAlloc(address, size, flags));
}

API CUresult cuMemAllocHost_v2(void **address, size_t size) {
    return cuMemHostAlloc(address, size, 0);
}

API CUresult cuMemFreeHost(void *address) {
    CONTEXT();
    return told(cudaFreeHost(address));
}

API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *host, unsigned flags) {
    CONTEXT();
    return told(cudaHostGetDevicePointer((void **)address, host, flags));
}

API CUresult cuMemHostGetFlags(unsigned *flags, void *host) {
    CONTEXT();
    return told(cudaHostGetFlags(flags, host));
}

API CUresult cuMemHostRegister_v2(void *host, size_t size, unsigned flags) {
    CONTEXT();
    return told(cudaHostRegister(host, size, flags));
}

API CUresult cuMemHostUnregister(void *host) {
    CONTEXT();
    return told(cudaHostUnregister(host));
}

API CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    CONTEXT();
    return told(cudaMemGetInfo(free_bytes, total));
}

API CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address) {
    CONTEXT();
    uint64_t range[3];
    if (phasebit_range(address, range))
        return CUDA_ERROR_NOT_FOUND;
    if (base)
        *base = range[0];
    if (size)
        *size = range[1];
    return CUDA_SUCCESS;
}

/* What a pointer is */

enum {
    POINTER_CONTEXT = 1,
    POINTER_MEMORY_TYPE,
    POINTER_DEVICE,
    POINTER_HOST,
    POINTER_BUFFER_ID = 7,
    POINTER_IS_MANAGED,
    POINTER_ORDINAL,
    POINTER_RANGE_START = 11,
    POINTER_RANGE_SIZE,
    POINTER_MAPPED,
};
enum { HOST = 1, DEVICE, ARRAY, UNIFIED }; /* CUmemorytype */

static CUresult attribute(void *value, int number, CUdeviceptr pointer) {
    struct cudaPointerAttributes about;
    uint64_t range[3] = {0};
    cudaError_t error = cudaPointerGetAttributes(&about, (void *)pointer);
    if (error)
        return told(error);
    if (about.device < 0)
        return CUDA_ERROR_INVALID_VALUE; /* memory that CUDA does not know */
    phasebit_range((CUdeviceptr)about.devicePointer, range);
    switch (number) {
    case POINTER_CONTEXT: *(CUcontext *)value = current(); break;
    case POINTER_MEMORY_TYPE: *(unsigned *)value = about.type == 1 ? HOST : DEVICE; break;
    case POINTER_DEVICE: *(void **)value = about.devicePointer; break;
    case POINTER_HOST:
        if (!about.hostPointer)
            return CUDA_ERROR_INVALID_VALUE;
        *(void **)value = about.hostPointer;
        break;
    case POINTER_BUFFER_ID: *(uint64_t *)value = range[0]; break;
    case POINTER_IS_MANAGED: *(unsigned *)value = about.type == 3; break;
    case POINTER_ORDINAL: *(int *)value = 0; break;
    case POINTER_RANGE_START: *(uint64_t *)value = range[0]; break;
    case POINTER_RANGE_SIZE: *(size_t *)value = range[1]; break;
    case POINTER_MAPPED: *(unsigned char *)value = 1; break;
    default: return missing("cuPointerGetAttribute for another attribute");
    }
    return CUDA_SUCCESS;
}

API CUresult cuPointerGetAttribute(void *value, int number, CUdeviceptr pointer) {
    CONTEXT();
    WANT(value);
    return attribute(value, number, pointer);
}

/* Of memory that CUDA does not know it says zeros, and no error. */
API CUresult cuPointerGetAttributes(unsigned count, int *numbers, void **values,
                                    CUdeviceptr pointer) {
    CONTEXT();
    WANT(numbers && values);
    for (unsigned i = 0; i < count; i++)
        if (attribute(values[i], numbers[i], pointer))
            memset(values[i], 0, numbers[i] == POINTER_MEMORY_TYPE ? sizeof(unsigned)
                                                                   : sizeof(void *));
    return CUDA_SUCCESS;
}

/* Copies */

#define COPY(name, to, to_type, from, from_type, kind)                                             \
    API CUresult name##_v2(to_type to, from_type from, size_t size) {                              \
        CONTEXT();                                                                                 \
        return told(cudaMemcpy((void *)to, (const void *)from, size, kind));                       \
    }                                                                                              \
    API CUresult name##Async_v2(to_type to, from_type from, size_t size, CUstream stream) {        \
        CONTEXT();                                                                                 \
        return told(cudaMemcpyAsync((void *)to, (const void *)from, size, kind, stream));          \
    }
COPY(cuMemcpyHtoD, to, CUdeviceptr, from, const void *, cudaMemcpyHostToDevice)
COPY(cuMemcpyDtoH, to, void *, from, CUdeviceptr, cudaMemcpyDeviceToHost)
COPY(cuMemcpyDtoD, to, CUdeviceptr, from, CUdeviceptr, cudaMemcpyDeviceToDevice)

API CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size) {
    CONTEXT();
    return told(cudaMemcpy((void *)to, (void *)from, size, cudaMemcpyDefault));
}

API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
    CONTEXT();
    return told(cudaMemcpyAsync((void *)to, (void *)from, size, cudaMemcpyDefault, stream));
}

/* One end of a copy of rows, and of slices of rows. */
struct end2 {
    size_t x, y;
    int type;
    char *host, *device;
    void *array;
    size_t pitch;
};
struct copy2 {
    struct end2 from, to;
    size_t width, height;
};
struct end3 {
    size_t x, y, z, level;
    int type;
    char *host, *device;
    void *array, *reserved;
    size_t pitch, height;
};
struct copy3 {
    struct end3 from, to;
    size_t width, height, depth;
};

static CUresult rows(const struct end3 *from, const struct end3 *to, size_t width, size_t height,
                     size_t depth, CUstream stream) {
    CONTEXT();
    WANT(from->type >= HOST && from->type <= UNIFIED && to->type >= HOST && to->type <= UNIFIED);
    if (from->type == ARRAY || to->type == ARRAY)
        return missing("cuMemcpy2D or 3D with a CUDA array");
    cudaError_t error = cudaSuccess;
    for (size_t z = 0; z < depth && !error; z++) {
        const char *source = from->type == HOST ? from->host : from->device;
        char *target = to->type == HOST ? to->host : to->device;
        size_t from_pitch = from->pitch ? from->pitch : width;
        size_t to_pitch = to->pitch ? to->pitch : width;
        source += ((from->z + z) * from->height + from->y) * from_pitch + from->x;
        target += ((to->z + z) * to->height + to->y) * to_pitch + to->x;
        error = cudaMemcpy2DAsync(target, to_pitch, source, from_pitch, width, height,
                                  cudaMemcpyDefault, stream);
    }
    return told(error);
}

static struct end3 flat(const struct end2 *end) {
    return (struct end3){.x = end->x, .y = end->y, .type = end->type, .host = end->host,
                         .device = end->device, .array = end->array, .pitch = end->pitch};
}

static CUresult wait(CUresult error, CUstream stream) {
    return error ? error : told(cudaStreamSynchronize(stream));
}

API CUresult cuMemcpy2DAsync_v2(const struct copy2 *c, CUstream stream) {
    WANT(c);
    struct end3 from = flat(&c->from), to = flat(&c->to);
    return rows(&from, &to, c->width, c->height, 1, stream);
}

API CUresult cuMemcpy2D_v2(const struct copy2 *c) { return wait(cuMemcpy2DAsync_v2(c, NULL), NULL); }

API CUresult cuMemcpy2DUnaligned_v2(const struct copy2 *c) { return cuMemcpy2D_v2(c); }

API CUresult cuMemcpy3DAsync_v2(const struct copy3 *c, CUstream stream) {
    WANT(c);
    return rows(&c->from, &c->to, c->width, c->height, c->depth, stream);
}

API CUresult cuMemcpy3D_v2(const struct copy3 *c) { return wait(cuMemcpy3DAsync_v2(c, NULL), NULL); }

/* Fills. The runtime fills with bytes; a wider value is copied in, row by row. */
static CUresult fill(CUdeviceptr at, size_t pitch, uint32_t value, size_t element, size_t width,
                     size_t height, CUstream stream) {
    CONTEXT();
    WANT(at % element == 0 && (height <= 1 || pitch >= width * element));
    if (element == 1 || value == (value & 0xFF) * (element == 2 ? 0x101u : 0x1010101u))
        return told(cudaMemset2DAsync((void *)at, height > 1 ? pitch : width * element,
                                      value & 0xFF, width * element, height, stream));
    char *row = malloc(width * element + 1);
    if (!row)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < width; i++)
        memcpy(row + i * element, &value, element);
    int status = 0;
    cudaError_t error = cudaStreamIsCapturing(stream, &status);
    for (size_t y = 0; y < height && !error && !status; y++)
        error = cudaMemcpyAsync((void *)(at + y * pitch), row, width * element,
                                cudaMemcpyHostToDevice, stream);
    free(row);
    return status ? missing("cuMemsetD16 or D32 of a stream that captures") : told(error);
}

#define FILL(bits, type)                                                                           \
    API CUresult cuMemsetD##bits##Async(CUdeviceptr at, type value, size_t count,                  \
                                        CUstream stream) {                                         \
        return fill(at, 0, value, bits / 8, count, 1, stream);                                     \
    }                                                                                              \
    API CUresult cuMemsetD##bits##_v2(CUdeviceptr at, type value, size_t count) {                  \
        return fill(at, 0, value, bits / 8, count, 1, NULL);                                       \
    }                                                                                              \
    API CUresult cuMemsetD2D##bits##Async(CUdeviceptr at, size_t pitch, type value, size_t width,  \
                                          size_t height, CUstream stream) {                        \
        return fill(at, pitch, value, bits / 8, width, height, stream);                            \
    }                                                                                              \
    API CUresult cuMemsetD2D##bits##_v2(CUdeviceptr at, size_t pitch, type value, size_t width,    \
                                        size_t height) {                                           \
        return fill(at, pitch, value, bits / 8, width, height, NULL);                              \
    }
FILL(8, unsigned char)
FILL(16, unsigned short)
FILL(32, unsigned)
