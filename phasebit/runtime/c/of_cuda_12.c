/* What programs of CUDA 12 mean by names that mean something else in CUDA 13: `name_12` is what
 * they find as `name`. Everything else is the same for both: the headers of 12.4, 12.9 and 13.0 were
 * compared, function by function and structure by structure. */
#include "graph.h"
#include <string.h>

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *, const void *);
cudaError_t cudaMemPrefetchAsync(const void *, size_t, struct cudaMemLocation, unsigned,
                                 cudaStream_t);
cudaError_t cudaMemAdvise(const void *, size_t, int, struct cudaMemLocation);
cudaError_t cudaGraphAddDependencies(struct graph *, struct node *const *, struct node *const *,
                                     const void *, size_t);
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, int *, unsigned long long *, struct graph **,
                                     void *, void *, size_t *);

/* The newest of them: 12.9. */
API cudaError_t cudaRuntimeGetVersion_12(int *version) {
    if (!version)
        return fail(cudaErrorInvalidValue);
    *version = 12090;
    return cudaSuccess;
}

/* The headers of CUDA 12 say cudaGetDeviceProperties_v2; this one fills the structure of 11. */
API cudaError_t cudaGetDeviceProperties_12(void *properties, int device) {
    (void)properties, (void)device;
    return missing("cudaGetDeviceProperties of CUDA 11");
}

/* Without the 64 bytes at the end that CUDA 13 reserves. */
API cudaError_t cudaPointerGetAttributes_12(void *answer, const void *pointer) {
    struct cudaPointerAttributes whole;
    cudaError_t error = cudaPointerGetAttributes(answer ? &whole : NULL, pointer);
    if (!error)
        memcpy(answer, &whole, offsetof(struct cudaPointerAttributes, reserved));
    return error;
}

/* A device by its number, where CUDA 13 says a place. */
API cudaError_t cudaMemPrefetchAsync_12(const void *pointer, size_t size, int device,
                                        cudaStream_t stream) {
    return cudaMemPrefetchAsync(pointer, size, (struct cudaMemLocation){1, device}, 0, stream);
}

API cudaError_t cudaMemAdvise_12(const void *pointer, size_t size, int advice, int device) {
    return cudaMemAdvise(pointer, size, advice, (struct cudaMemLocation){1, device});
}

/* Without what is said of an edge. */
API cudaError_t cudaGraphAddDependencies_12(struct graph *graph, struct node *const *from,
                                            struct node *const *to, size_t count) {
    return cudaGraphAddDependencies(graph, from, to, NULL, count);
}

API cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t handle, int *status,
                                            unsigned long long *id, struct graph **graph,
                                            void *dependencies, size_t *count) {
    return cudaStreamGetCaptureInfo(handle, status, id, graph, dependencies, NULL, count);
}

API cudaError_t cudaStreamGetCaptureInfo_12(cudaStream_t handle, int *status,
                                            unsigned long long *id) {
    return cudaStreamGetCaptureInfo(handle, status, id, NULL, NULL, NULL, NULL);
}
