/* Streams, events and captured graphs. */
#include "driver.h"

API CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
    CONTEXT();
    return told(cudaStreamCreateWithPriority(stream, flags, priority));
}

API CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    return cuStreamCreateWithPriority(stream, flags, 0);
}

API CUresult cuStreamDestroy_v2(CUstream stream) {
    CONTEXT();
    return told(cudaStreamDestroy(stream));
}

API CUresult cuStreamSynchronize(CUstream stream) {
    CONTEXT();
    return told(cudaStreamSynchronize(stream));
}

API CUresult cuStreamQuery(CUstream stream) {
    CONTEXT();
    return told(cudaStreamQuery(stream));
}

API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    CONTEXT();
    return told(cudaStreamWaitEvent(stream, event, flags));
}

static CUresult value(const char *name, CUstream stream, CUdeviceptr address, unsigned number,
                      unsigned flags) {
    CUresult (*ask)(CUstream, uint64_t, unsigned, unsigned) = NULL;
    cudaGetDriverEntryPoint(name, (void **)&ask, 0, NULL);
    return ask ? told(ask(stream, address, number, flags)) : CUDA_ERROR_NO_DEVICE;
}

API CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, unsigned number,
                                    unsigned flags) {
    CONTEXT();
    return value("cuStreamWaitValue32", stream, address, number, flags);
}

API CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, unsigned number,
                                     unsigned flags) {
    CONTEXT();
    return value("cuStreamWriteValue32", stream, address, number, flags);
}

API CUresult cuStreamAddCallback(CUstream stream, cudaStreamCallback_t function, void *data,
                                 unsigned flags) {
    CONTEXT();
    return told(cudaStreamAddCallback(stream, function, data, flags));
}

API CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t size,
                                    unsigned flags) {
    CONTEXT();
    return told(cudaStreamAttachMemAsync(stream, (void *)address, size, flags));
}

API CUresult cuStreamGetFlags(CUstream stream, unsigned *flags) {
    CONTEXT();
    return told(cudaStreamGetFlags(stream, flags));
}

API CUresult cuStreamGetPriority(CUstream stream, int *priority) {
    CONTEXT();
    return told(cudaStreamGetPriority(stream, priority));
}

API CUresult cuStreamGetId(CUstream stream, unsigned long long *id) {
    CONTEXT();
    return told(cudaStreamGetId(stream, id));
}

API CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) {
    CONTEXT();
    (void)stream;
    WANT(context);
    *context = current();
    return CUDA_SUCCESS;
}

/* Events */

API CUresult cuEventCreate(CUevent *event, unsigned flags) {
    CONTEXT();
    return told(cudaEventCreateWithFlags(event, flags));
}

API CUresult cuEventDestroy_v2(CUevent event) {
    CONTEXT();
    return told(cudaEventDestroy(event));
}

API CUresult cuEventRecord(CUevent event, CUstream stream) {
    CONTEXT();
    return told(cudaEventRecord(event, stream));
}

API CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
    CONTEXT();
    return told(cudaEventRecordWithFlags(event, stream, flags));
}

API CUresult cuEventQuery(CUevent event) {
    CONTEXT();
    return told(cudaEventQuery(event));
}

API CUresult cuEventSynchronize(CUevent event) {
    CONTEXT();
    return told(cudaEventSynchronize(event));
}

API CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end) {
    CONTEXT();
    return told(cudaEventElapsedTime(milliseconds, start, end));
}

API CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    return cuEventElapsedTime_v2(milliseconds, start, end);
}

/* Graphs that were captured */

API CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
    CONTEXT();
    return told(cudaStreamBeginCapture(stream, mode));
}

API CUresult cuStreamEndCapture(CUstream stream, struct graph **graph) {
    CONTEXT();
    return told(cudaStreamEndCapture(stream, graph));
}

API CUresult cuStreamIsCapturing(CUstream stream, int *status) {
    CONTEXT();
    return told(cudaStreamIsCapturing(stream, status));
}

API CUresult cuThreadExchangeStreamCaptureMode(int *mode) {
    CONTEXT();
    return told(cudaThreadExchangeStreamCaptureMode(mode));
}

API CUresult cuGraphInstantiateWithFlags(struct graph **executable, struct graph *graph,
                                         unsigned long long flags) {
    CONTEXT();
    return told(cudaGraphInstantiateWithFlags(executable, graph, flags));
}

API CUresult cuGraphLaunch(struct graph *executable, CUstream stream) {
    CONTEXT();
    return told(cudaGraphLaunch(executable, stream));
}

API CUresult cuGraphExecDestroy(struct graph *executable) {
    CONTEXT();
    return told(cudaGraphExecDestroy(executable));
}

API CUresult cuGraphDestroy(struct graph *graph) {
    CONTEXT();
    return told(cudaGraphDestroy(graph));
}
