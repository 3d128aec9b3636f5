/* Events, for programs that time their work or let one stream wait for another. Their times are
 * the emulator's clock: see clock.py. */
#include "runtime.h"
#include <sched.h>
#include <stdlib.h>

struct event {
    uint64_t number;
    int device;
    unsigned flags;
    bool recorded;
    struct graph *capture; /* recorded while a stream captured into this */
    uint64_t last_launch;  /* launches sent when it was recorded */
    struct event *next;
};
static struct event *events;
static uint64_t next_number = 1;

static struct event *find_event(cudaEvent_t handle) {
    for (struct event *e = events; e; e = e->next)
        if (e == handle)
            return e;
    return NULL;
}

API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *handle, unsigned flags) {
    ENTER();
    unsigned known = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
    if (!handle || flags & ~known)
        return fail(cudaErrorInvalidValue);
    struct event *made = calloc(1, sizeof *made);
    made->number = next_number++;
    made->device = current_device();
    made->flags = flags;
    made->next = events;
    events = made;
    *handle = made;
    return cudaSuccess;
}

API cudaError_t cudaEventCreate(cudaEvent_t *handle) { return cudaEventCreateWithFlags(handle, 0); }

API cudaError_t cudaEventDestroy(cudaEvent_t handle) {
    ENTER();
    for (struct event **at = &events; *at; at = &(*at)->next)
        if (*at == handle && handle) {
            *at = handle->next;
            free(handle);
            return cudaSuccess;
        }
    return fail(cudaErrorInvalidResourceHandle);
}

API cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
    ENTER();
    struct event *event = find_event(handle);
    struct stream *stream = find_stream(stream_handle);
    if (!event || !stream || event->device != stream->device)
        return fail(cudaErrorInvalidResourceHandle);
    event->capture = stream->capture;
    if (stream->capture) /* a mark for other streams to wait for; it has no time */
        return cudaSuccess;
    POST(OP_RECORD, event->number, stream->number);
    event->recorded = true;
    event->last_launch = launches_sent();
    return cudaSuccess;
}

API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
    return flags > 1 ? fail(cudaErrorInvalidValue) : cudaEventRecord(event, stream);
}

static bool pending(const struct event *event) {
    uint64_t done;
    if (event->recorded && devices() > 1)
        return !CALL(OP_QUERY, &done, sizeof done, 0, event->number) && !done;
    return event->recorded && launches_finished() < event->last_launch;
}

API cudaError_t cudaEventQuery(cudaEvent_t handle) {
    ENTER();
    struct event *event = find_event(handle);
    if (!event)
        return fail(cudaErrorInvalidResourceHandle);
    if (pending(event)) {
        sched_yield();
        return fail(cudaErrorNotReady);
    }
    return fail(CALL(OP_MEMORY_INFO, NULL, 0, 0)); /* hear of errors; wait for nothing */
}

API cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
    ENTER();
    struct event *event = find_event(handle);
    if (!event)
        return fail(cudaErrorInvalidResourceHandle);
    cudaError_t error = CALL(OP_SYNCHRONIZE, NULL, 0, UINT64_MAX, event->number);
    flush_printed();
    return fail(error);
}

API cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start_handle,
                                     cudaEvent_t end_handle) {
    ENTER();
    struct event *start = find_event(start_handle), *end = find_event(end_handle);
    if (!milliseconds)
        return fail(cudaErrorInvalidValue);
    if (!start || !end || !start->recorded || !end->recorded ||
        (start->flags | end->flags) & cudaEventDisableTiming)
        return fail(cudaErrorInvalidResourceHandle);
    if (pending(start) || pending(end))
        return fail(cudaErrorNotReady);
    int64_t clocks;
    cudaError_t error = CALL(OP_ELAPSED, &clocks, sizeof clocks, start->number, end->number);
    if (!error)
        *milliseconds = clocks * 1e-6f; /* a clock is one nanosecond */
    return fail(error);
}

API cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t handle,
                                    unsigned flags) {
    ENTER();
    struct event *event = find_event(handle);
    struct stream *stream = find_stream(stream_handle);
    if (!event || !stream)
        return fail(cudaErrorInvalidResourceHandle);
    if (flags > 1)
        return fail(cudaErrorInvalidValue);
    if (event->capture && !capturing(event->capture))
        return fail(cudaErrorCapturedEvent); /* that capture is over */
    if (event->capture && !stream->capture)
        stream->capture = event->capture; /* the stream joins, until the capture ends */
    else if (event->recorded && !event->capture)
        POST(OP_WAIT, stream->number, event->number);
    return cudaSuccess;
}
