/* Streams, for programs with work side by side. With one device it is executed in the order in
 * which it is sent;
 * a stream's own clock, kept by the device half, is what makes streams overlap in the times that
 * events read. */
#include "graph.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { OWN = 2, FIRST = OWN * MOST_DEVICES }; /* two default streams a device, as in clock.py */
static struct stream legacies[MOST_DEVICES], per_threads[MOST_DEVICES];
static struct stream *streams;
static uint64_t next_number = FIRST;

struct stream *find_stream(cudaStream_t handle) {
    int device = current_device();
    if (!handle || handle == cudaStreamLegacy || handle == cudaStreamPerThread) {
        bool per_thread = handle == cudaStreamPerThread;
        struct stream *own = per_thread ? &per_threads[device] : &legacies[device];
        own->number = OWN * device + per_thread;
        own->device = device;
        return own;
    }
    for (struct stream *s = streams; s; s = s->next)
        if (s == handle)
            return s;
    return NULL;
}

bool is_legacy(const struct stream *stream) {
    return stream >= legacies && stream < legacies + MOST_DEVICES;
}

void leave_capture(const struct graph *graph) {
    for (int device = 0; device < MOST_DEVICES; device++)
        if (per_threads[device].capture == graph)
            per_threads[device].capture = NULL;
    for (struct stream *s = streams; s; s = s->next)
        if (s->capture == graph) {
            s->capture = NULL;
            s->captures_first = false;
        }
}

static bool captures(const struct stream *stream, const struct graph *graph) {
    return stream->capture && (!graph || stream->capture == graph);
}

bool capturing(const struct graph *graph) {
    for (struct stream *s = streams; s; s = s->next)
        if (captures(s, graph))
            return true;
    for (int device = 0; device < MOST_DEVICES; device++)
        if (captures(&per_threads[device], graph))
            return true;
    return false;
}

API cudaError_t cudaStreamCreateWithPriority(cudaStream_t *handle, unsigned flags, int priority) {
    ENTER();
    if (!handle || flags > cudaStreamNonBlocking)
        return fail(cudaErrorInvalidValue);
    struct stream *made = calloc(1, sizeof *made);
    made->number = next_number++;
    made->device = current_device();
    made->flags = flags;
    made->priority = priority < -5 ? -5 : priority > 0 ? 0 : priority;
    made->next = streams;
    streams = made;
    POST(OP_STREAM, made->number, flags != cudaStreamNonBlocking, made->device);
    *handle = made;
    return cudaSuccess;
}

API cudaError_t cudaStreamCreate(cudaStream_t *handle) {
    return cudaStreamCreateWithPriority(handle, cudaStreamDefault, 0);
}

API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *handle, unsigned flags) {
    return cudaStreamCreateWithPriority(handle, flags, 0);
}

/* Work already in the stream goes on: the device half keeps the number. */
API cudaError_t cudaStreamDestroy(cudaStream_t handle) {
    ENTER();
    for (struct stream **at = &streams; *at; at = &(*at)->next)
        if (*at == handle && handle) {
            *at = handle->next;
            free(handle);
            return cudaSuccess;
        }
    return fail(cudaErrorInvalidResourceHandle);
}

static cudaError_t synchronize(struct stream *stream) {
    if (!stream)
        return cudaErrorInvalidResourceHandle;
    if (stream->capture)
        return cudaErrorStreamCaptureUnsupported;
    cudaError_t error = CALL(OP_SYNCHRONIZE, NULL, 0, stream->number, 0);
    flush_printed();
    return error;
}

API cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
    ENTER();
    return fail(synchronize(find_stream(handle)));
}

API cudaError_t cudaStreamQuery(cudaStream_t handle) {
    ENTER();
    struct stream *stream = find_stream(handle);
    uint64_t done;
    if (stream && devices() > 1 &&
        !CALL(OP_QUERY, &done, sizeof done, stream->number, 0) && !done) {
        sched_yield();
        return fail(cudaErrorNotReady);
    }
    if (stream && devices() == 1 && launches_finished() < stream->last_launch) {
        sched_yield(); /* programs ask in a loop; the emulator wants the processor */
        return fail(cudaErrorNotReady);
    }
    return fail(synchronize(stream));
}

/* Everything sent before is executed before, so the host function may run at once, after a wait. */
cudaError_t run_host_function(cudaHostFn_t function, void *data, cudaStream_t handle) {
    struct stream *stream = find_stream(handle);
    if (stream && stream->capture) {
        graph_add(stream->capture,
                  (struct node){.kind = NODE_HOST, .host = function, .data = data});
        return cudaSuccess;
    }
    cudaError_t error = synchronize(stream);
    if (!error)
        function(data);
    return error;
}

API cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void *data) {
    ENTER();
    return fail(function ? run_host_function(function, data, handle) : cudaErrorInvalidValue);
}

API cudaError_t cudaStreamAddCallback(cudaStream_t handle, cudaStreamCallback_t function,
                                      void *data, unsigned flags) {
    ENTER();
    cudaError_t error =
        function && !flags ? synchronize(find_stream(handle)) : cudaErrorInvalidValue;
    if (!error)
        function(handle, cudaSuccess, data);
    return fail(error);
}

#define ASK_STREAM(answer, value)                                                                  \
    ENTER();                                                                                       \
    struct stream *stream = find_stream(handle);                                                   \
    if (!stream)                                                                                   \
        return fail(cudaErrorInvalidResourceHandle);                                               \
    if (!(answer))                                                                                 \
        return fail(cudaErrorInvalidValue);                                                        \
    *(answer) = (value);                                                                           \
    return cudaSuccess

API cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned *flags) {
    ASK_STREAM(flags, stream->flags);
}

API cudaError_t cudaStreamGetPriority(cudaStream_t handle, int *priority) {
    ASK_STREAM(priority, stream->priority);
}

API cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long *id) {
    ASK_STREAM(id, stream->number);
}

API cudaError_t cudaStreamGetDevice(cudaStream_t handle, int *device) { ASK_STREAM(device, stream->device); }

/* Attributes tune a GPU (cache windows, priorities, how to wait) and change no result: they are
 * kept to be read back. */
API cudaError_t cudaStreamSetAttribute(cudaStream_t handle, int attribute, const void *value) {
    ENTER();
    struct stream *stream = find_stream(handle);
    if (!stream)
        return fail(cudaErrorInvalidResourceHandle);
    if (!value || attribute <= 0 || attribute >= STREAM_ATTRIBUTES)
        return fail(cudaErrorInvalidValue);
    memcpy(stream->attributes[attribute], value, sizeof stream->attributes[attribute]);
    return cudaSuccess;
}

API cudaError_t cudaStreamGetAttribute(cudaStream_t handle, int attribute, void *value) {
    ENTER();
    struct stream *stream = find_stream(handle);
    if (!stream)
        return fail(cudaErrorInvalidResourceHandle);
    if (!value || attribute <= 0 || attribute >= STREAM_ATTRIBUTES)
        return fail(cudaErrorInvalidValue);
    memcpy(value, stream->attributes[attribute], sizeof stream->attributes[attribute]);
    return cudaSuccess;
}

API cudaError_t cudaStreamCopyAttributes(cudaStream_t to_handle, cudaStream_t from_handle) {
    ENTER();
    struct stream *to = find_stream(to_handle), *from = find_stream(from_handle);
    if (!to || !from)
        return fail(cudaErrorInvalidResourceHandle);
    memmove(to->attributes, from->attributes, sizeof to->attributes);
    return cudaSuccess;
}
