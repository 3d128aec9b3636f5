/* Stream capture, for programs that make their graphs by doing the work once: work for a stream
 * goes into a graph instead of to the device.
 *
 * `launch`, `copy`, `fill` and host functions look at `stream->capture` before they act. Another
 * stream joins when it waits for an event that was recorded in a capturing stream. */
#include "graph.h"

API cudaError_t cudaStreamBeginCapture(cudaStream_t handle, int mode) {
    ENTER();
    struct stream *stream = find_stream(handle);
    if (!stream)
        return fail(cudaErrorInvalidResourceHandle);
    if (mode < 0 || mode > 2)
        return fail(cudaErrorInvalidValue);
    if (is_legacy(stream))
        return fail(cudaErrorStreamCaptureUnsupported);
    if (stream->capture)
        return fail(cudaErrorIllegalState);
    stream->capture = graph_new();
    stream->captures_first = true;
    return cudaSuccess;
}

API cudaError_t cudaStreamEndCapture(cudaStream_t handle, struct graph **graph) {
    ENTER();
    struct stream *stream = find_stream(handle);
    if (!stream)
        return fail(cudaErrorInvalidResourceHandle);
    if (!stream->capture || !graph)
        return fail(cudaErrorIllegalState);
    if (!stream->captures_first)
        return fail(cudaErrorStreamCaptureUnmatched);
    *graph = stream->capture;
    leave_capture(*graph);
    return cudaSuccess;
}

API cudaError_t cudaStreamIsCapturing(cudaStream_t handle, int *status) {
    ENTER();
    struct stream *stream = find_stream(handle);
    if (!stream)
        return fail(cudaErrorInvalidResourceHandle);
    if (!status)
        return fail(cudaErrorInvalidValue);
    *status = stream->capture != NULL;
    return cudaSuccess;
}

/* The nodes that the next one would depend on are not kept, so who asks for them is told. */
API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, int *status, unsigned long long *id,
                                         struct graph **graph, void *dependencies, void *edges,
                                         size_t *count) {
    ENTER();
    struct stream *stream = find_stream(handle);
    if (!stream)
        return fail(cudaErrorInvalidResourceHandle);
    if (!status)
        return fail(cudaErrorInvalidValue);
    if (stream->capture && (dependencies || edges || count))
        return missing("cudaStreamGetCaptureInfo with dependencies");
    *status = stream->capture != NULL;
    if (id)
        *id = (uint64_t)stream->capture;
    if (graph)
        *graph = stream->capture;
    return cudaSuccess;
}

API cudaError_t cudaThreadExchangeStreamCaptureMode(int *mode) {
    static _Thread_local int current;
    if (!mode || *mode < 0 || *mode > 2)
        return fail(cudaErrorInvalidValue);
    int before = current;
    current = *mode;
    *mode = before;
    return cudaSuccess;
}
