/* Copies and fills, for every program that has data. The device half checks both ends against
 * its allocations and advances its clock; the bytes are moved here, where both ends are in
 * reach. */
#include "graph.h"
#include <string.h>

/* From the first byte of a box to its last; false where no number is large enough. */
static bool extent_bytes(struct block block, struct cudaExtent e, uint64_t *bytes) {
    uint64_t slices, rows;
    return !__builtin_mul_overflow(e.depth - 1, block.slice, &slices) &&
           !__builtin_mul_overflow(e.height - 1, block.pitch, &rows) &&
           !__builtin_add_overflow(slices, rows, bytes) &&
           !__builtin_add_overflow(*bytes, e.width, bytes);
}

cudaError_t copy(struct block to, struct block from, struct cudaExtent extent, int kind,
                 cudaStream_t handle, bool wait) {
    struct stream *stream = find_stream(handle);
    if (!stream)
        return cudaErrorInvalidResourceHandle;
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
        return cudaErrorInvalidMemcpyDirection;
    if (!extent.width || !extent.height || !extent.depth)
        return cudaSuccess;
    if (!to.at || !from.at)
        return cudaErrorInvalidValue;
    if (stream->capture) {
        graph_add(stream->capture, (struct node){.kind = NODE_COPY, .to = to, .from = from,
                                                 .extent = extent, .copy_kind = kind});
        return cudaSuccess;
    }
    /* The legacy stream would wait for what is not to run yet. */
    if (is_legacy(stream) && capturing(NULL))
        return cudaErrorStreamCaptureImplicit;
    uint64_t to_bytes, from_bytes;
    if (!extent_bytes(to, extent, &to_bytes) || !extent_bytes(from, extent, &from_bytes))
        return cudaErrorInvalidValue;
    cudaError_t error = CALL(OP_COPY, NULL, 0, (uint64_t)to.at, to_bytes, (uint64_t)from.at,
                             from_bytes, extent.width * extent.height * extent.depth, kind,
                             stream->number, wait);
    if (error)
        return error;
    char *target = reachable(to.at);
    const char *source = reachable(from.at);
    for (size_t z = 0; z < extent.depth; z++)
        for (size_t y = 0; y < extent.height; y++)
            memmove(target + z * to.slice + y * to.pitch, source + z * from.slice + y * from.pitch,
                    extent.width);
    if (in_arena(to.at))
        POST(OP_HOST_WROTE, (uint64_t)to.at, to_bytes);
    if (wait)
        flush_printed();
    return cudaSuccess;
}

static cudaError_t copy_flat(void *to, const void *from, size_t size, int kind,
                             cudaStream_t stream, bool wait) {
    return copy((struct block){to, 0, 0}, (struct block){from, 0, 0},
                (struct cudaExtent){size, 1, 1}, kind, stream, wait);
}

API cudaError_t cudaMemcpy(void *to, const void *from, size_t size, int kind) {
    ENTER();
    return fail(copy_flat(to, from, size, kind, NULL, true));
}

API cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, int kind,
                                cudaStream_t stream) {
    ENTER();
    return fail(copy_flat(to, from, size, kind, stream, false));
}

API cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device,
                               size_t size) {
    ENTER();
    if (!device_exists(to_device) || !device_exists(from_device))
        return fail(cudaErrorInvalidDevice);
    return fail(copy_flat(to, from, size, cudaMemcpyDeviceToDevice, NULL, true));
}

API cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                    size_t size, cudaStream_t stream) {
    ENTER();
    if (!device_exists(to_device) || !device_exists(from_device))
        return fail(cudaErrorInvalidDevice);
    return fail(copy_flat(to, from, size, cudaMemcpyDeviceToDevice, stream, false));
}

static cudaError_t copy_2d(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                           size_t width, size_t height, int kind, cudaStream_t stream, bool wait) {
    if (width > to_pitch || width > from_pitch)
        return cudaErrorInvalidPitchValue;
    return copy((struct block){to, to_pitch, 0}, (struct block){from, from_pitch, 0},
                (struct cudaExtent){width, height, 1}, kind, stream, wait);
}

API cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                             size_t width, size_t height, int kind) {
    ENTER();
    return fail(copy_2d(to, to_pitch, from, from_pitch, width, height, kind, NULL, true));
}

API cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                                  size_t width, size_t height, int kind, cudaStream_t stream) {
    ENTER();
    return fail(copy_2d(to, to_pitch, from, from_pitch, width, height, kind, stream, false));
}

static struct block corner(struct cudaPitchedPtr pitched, struct cudaPos at) {
    size_t slice = pitched.pitch * pitched.ysize;
    return (struct block){(char *)pitched.ptr + at.z * slice + at.y * pitched.pitch + at.x,
                          pitched.pitch, slice};
}

cudaError_t ends_3d(const struct cudaMemcpy3DParms *p, struct block *to, struct block *from) {
    if (!p)
        return cudaErrorInvalidValue;
    if (p->srcArray || p->dstArray)
        return missing("cudaMemcpy3D with a CUDA array");
    *to = corner(p->dstPtr, p->dstPos);
    *from = corner(p->srcPtr, p->srcPos);
    return cudaSuccess;
}

static cudaError_t copy_3d(const struct cudaMemcpy3DParms *p, cudaStream_t stream, bool wait) {
    struct block to, from;
    cudaError_t error = ends_3d(p, &to, &from);
    return error ? error : copy(to, from, p->extent, p->kind, stream, wait);
}

API cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *parameters) {
    ENTER();
    return fail(copy_3d(parameters, NULL, true));
}

API cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *parameters,
                                  cudaStream_t stream) {
    ENTER();
    return fail(copy_3d(parameters, stream, false));
}

/* Fills are done by the device half, in the order of the stream. */
cudaError_t fill(void *at, size_t pitch, int value, size_t width, size_t height,
                 cudaStream_t handle) {
    struct stream *stream = find_stream(handle);
    if (!stream)
        return cudaErrorInvalidResourceHandle;
    if (width && height && !in_arena(at))
        return cudaErrorInvalidValue;
    if (stream->capture) {
        graph_add(stream->capture,
                  (struct node){.kind = NODE_FILL, .to = {at, pitch, 0}, .value = value,
                                .extent = {width, height, 1}});
        return cudaSuccess;
    }
    return CALL(OP_FILL, NULL, 0, (uint64_t)at, (unsigned char)value, pitch, width, height,
                stream->number, 0);
}

API cudaError_t cudaMemset(void *at, int value, size_t size) {
    ENTER();
    return fail(fill(at, size, value, size, 1, NULL));
}

API cudaError_t cudaMemsetAsync(void *at, int value, size_t size, cudaStream_t stream) {
    ENTER();
    return fail(fill(at, size, value, size, 1, stream));
}

API cudaError_t cudaMemset2D(void *at, size_t pitch, int value, size_t width, size_t height) {
    ENTER();
    return fail(width > pitch ? cudaErrorInvalidValue
                              : fill(at, pitch, value, width, height, NULL));
}

API cudaError_t cudaMemset2DAsync(void *at, size_t pitch, int value, size_t width, size_t height,
                                  cudaStream_t stream) {
    ENTER();
    return fail(width > pitch ? cudaErrorInvalidValue
                              : fill(at, pitch, value, width, height, stream));
}

static cudaError_t fill_3d(struct cudaPitchedPtr at, int value, struct cudaExtent extent,
                           cudaStream_t stream) {
    cudaError_t error = cudaSuccess;
    for (size_t z = 0; z < extent.depth && !error; z++)
        error = fill((char *)at.ptr + z * at.pitch * at.ysize, at.pitch, value, extent.width,
                     extent.height, stream);
    return error;
}

API cudaError_t cudaMemset3D(struct cudaPitchedPtr at, int value, struct cudaExtent extent) {
    ENTER();
    return fail(fill_3d(at, value, extent, NULL));
}

API cudaError_t cudaMemset3DAsync(struct cudaPitchedPtr at, int value, struct cudaExtent extent,
                                  cudaStream_t stream) {
    ENTER();
    return fail(fill_3d(at, value, extent, stream));
}
