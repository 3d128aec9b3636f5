/* Streams that wait for a number in memory, or write one: functions of the driver library, which
 * programs of the runtime ask for by name. */
#include "runtime.h"

enum { WRITES = 4 }; /* behind the four comparisons of CUstreamWaitValue_flags */

static cudaError_t value(cudaStream_t handle, uint64_t address, unsigned number, unsigned how) {
    ENTER();
    struct stream *stream = find_stream(handle);
    if (!stream)
        return cudaErrorInvalidResourceHandle;
    if (stream->capture)
        return cudaErrorNotSupported;
    return address % 4 ? cudaErrorInvalidValue
                       : CALL(OP_VALUE, NULL, 0, stream->number, address, number, how);
}

/* A CUresult is no cudaError_t, but these numbers mean the same. A flush, which is for writes from
 * other devices, changes nothing here. Of these versions of the calls the one that writes takes no
 * flag. */
cudaError_t stream_wait_value(cudaStream_t stream, uint64_t address, unsigned number,
                              unsigned flags) {
    const unsigned flush = 1u << 30, how = flags & ~flush;
    return how < WRITES ? value(stream, address, number, how) : cudaErrorInvalidValue;
}

cudaError_t stream_write_value(cudaStream_t stream, uint64_t address, unsigned number,
                               unsigned flags) {
    return flags ? cudaErrorInvalidValue : value(stream, address, number, WRITES);
}
