/* Allocation, for every program: device, managed, pinned; hints about managed memory. */
#define _GNU_SOURCE
#include "runtime.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static cudaError_t allocate(void **pointer, size_t size, enum space space) {
    if (!pointer)
        return cudaErrorInvalidValue;
    *pointer = NULL;
    if (!size)
        return cudaSuccess;
    uint64_t address;
    cudaError_t error = CALL(OP_ALLOCATE, &address, sizeof address, size, space,
                             current_device());
    if (error)
        return error;
    if (space != SPACE_DEVICE)
        open_pages(address, size);
    *pointer = (void *)address;
    return cudaSuccess;
}

/* Memory that a capture asked for belongs to its graph: each launch of the graph finds it at the
 * same address. It is kept until the program ends, whoever gives it back. */
struct of_graph {
    void *pointer;
    struct of_graph *next;
};
static struct of_graph *of_graphs;

static bool belongs_to_graph(const void *pointer) {
    for (struct of_graph *each = of_graphs; each; each = each->next)
        if (each->pointer == pointer)
            return true;
    return false;
}

static cudaError_t release(void *pointer, uint64_t spaces) {
    if (!pointer || belongs_to_graph(pointer))
        return cudaSuccess;
    uint64_t answer[2]; /* size, space */
    uint64_t words[2 + MOST_CALLERS] = {(uint64_t)pointer, spaces};
    size_t count = 2 + callers(words + 2);
    cudaError_t error = call_device(OP_FREE, words, count, NULL, 0, answer, sizeof answer);
    if (!error && answer[1] != SPACE_DEVICE)
        close_pages((uint64_t)pointer, answer[0]);
    return error;
}

API cudaError_t cudaMalloc(void **pointer, size_t size) {
    ENTER();
    return fail(allocate(pointer, size, SPACE_DEVICE));
}

API cudaError_t cudaMallocManaged(void **pointer, size_t size, unsigned flags) {
    ENTER();
    if (flags != 1 && flags != 2) /* global, host */
        return fail(cudaErrorInvalidValue);
    return fail(allocate(pointer, size, SPACE_MANAGED));
}

API cudaError_t cudaHostAlloc(void **pointer, size_t size, unsigned flags) {
    ENTER();
    if (flags > 7)
        return fail(cudaErrorInvalidValue);
    return fail(allocate(pointer, size, SPACE_HOST));
}

API cudaError_t cudaMallocHost(void **pointer, size_t size) {
    return cudaHostAlloc(pointer, size, 0);
}

/* Rows begin on 512 bytes, as on the GPUs that the book measures. */
enum { PITCH = 512 };

static size_t pitch_of(size_t width) {
    return width > SIZE_MAX - PITCH ? SIZE_MAX : (width + PITCH - 1) / PITCH * PITCH;
}

/* The bytes of rows in slices; more than there are numbers for is more than any device has. */
static size_t bytes_of(size_t pitch, size_t rows, size_t slices) {
    size_t slice, all;
    if (__builtin_mul_overflow(pitch, rows, &slice) || __builtin_mul_overflow(slice, slices, &all))
        return SIZE_MAX;
    return all;
}

API cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height) {
    ENTER();
    if (!pointer || !pitch)
        return fail(cudaErrorInvalidValue);
    *pitch = pitch_of(width);
    return fail(allocate(pointer, bytes_of(*pitch, height, 1), SPACE_DEVICE));
}

API cudaError_t cudaMalloc3D(struct cudaPitchedPtr *made, struct cudaExtent extent) {
    ENTER();
    if (!made)
        return fail(cudaErrorInvalidValue);
    *made = (struct cudaPitchedPtr){.pitch = pitch_of(extent.width),
                                    .xsize = extent.width,
                                    .ysize = extent.height};
    size_t size = bytes_of(made->pitch, extent.height, extent.depth);
    return fail(allocate(&made->ptr, size, SPACE_DEVICE));
}

API cudaError_t cudaFree(void *pointer) {
    ENTER();
    cudaError_t error = CALL(OP_SYNCHRONIZE, NULL, 0, UINT64_MAX, 0); /* it waits, as documented */
    if (!error)
        error = release(pointer, 1 << SPACE_DEVICE | 1 << SPACE_MANAGED);
    return fail(error);
}

API cudaError_t cudaFreeHost(void *pointer) {
    ENTER();
    return fail(release(pointer, 1 << SPACE_HOST));
}

/* In stream order. Launches are executed in the order in which they are sent, so memory that is
 * asked for or given back now is asked for or given back after the work before it. */
API cudaError_t cudaMallocAsync(void **pointer, size_t size, cudaStream_t stream) {
    ENTER();
    struct stream *in = find_stream(stream);
    if (!in)
        return fail(cudaErrorInvalidResourceHandle);
    cudaError_t error = allocate(pointer, size, SPACE_DEVICE);
    if (!error && in->capture && *pointer) {
        struct of_graph *kept = malloc(sizeof *kept);
        *kept = (struct of_graph){*pointer, of_graphs};
        of_graphs = kept;
    }
    return fail(error);
}

API cudaError_t cudaMallocFromPoolAsync(void **pointer, size_t size, cudaMemPool_t pool,
                                        cudaStream_t stream) {
    ENTER();
    if (!pool)
        return fail(cudaErrorInvalidValue);
    return cudaMallocAsync(pointer, size, stream);
}

API cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream) {
    ENTER();
    struct stream *in = find_stream(stream);
    if (!in)
        return fail(cudaErrorInvalidResourceHandle);
    if (in->capture && pointer && !belongs_to_graph(pointer))
        return missing("cudaFreeAsync of other memory than its own in a stream capture");
    return fail(release(pointer, 1 << SPACE_DEVICE));
}

API cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) {
    ENTER();
    uint64_t answer[2];
    cudaError_t error = CALL(OP_MEMORY_INFO, answer, sizeof answer, 0);
    if (!error && free_bytes)
        *free_bytes = answer[0];
    if (!error && total)
        *total = answer[1];
    return fail(error);
}

/* Hints: true memory has one place here. The pointer must still be right. */
static cudaError_t hint(const void *pointer, size_t size) {
    uint64_t range[3];
    cudaError_t error = CALL(OP_RANGE, range, sizeof range, (uint64_t)pointer);
    if (!error && (range[2] != SPACE_MANAGED || (uint64_t)pointer + size > range[0] + range[1]))
        error = cudaErrorInvalidValue;
    return error;
}

API cudaError_t cudaMemPrefetchAsync(const void *pointer, size_t size, struct cudaMemLocation where,
                                     unsigned flags, cudaStream_t stream) {
    ENTER();
    (void)where, (void)flags;
    if (!find_stream(stream))
        return fail(cudaErrorInvalidResourceHandle);
    return fail(hint(pointer, size));
}

API cudaError_t cudaMemAdvise(const void *pointer, size_t size, int advice,
                              struct cudaMemLocation where) {
    ENTER();
    (void)advice, (void)where;
    return fail(hint(pointer, size));
}

API cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void *pointer, size_t size,
                                         unsigned flags) {
    ENTER();
    (void)pointer, (void)size, (void)flags;
    return fail(find_stream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
