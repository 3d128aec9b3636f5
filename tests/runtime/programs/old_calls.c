/* Calls whose meaning CUDA 13 changed, as the headers of CUDA 12 declare them. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct attributes {
    int type, device;
    void *device_pointer, *host_pointer;
};
int cudaMallocManaged(void **, size_t, unsigned);
int cudaPointerGetAttributes(struct attributes *, const void *);
int cudaMemAdvise(const void *, size_t, int, int);
int cudaMemPrefetchAsync(const void *, size_t, int, void *);
int cudaRuntimeGetVersion(int *);
int cudaGetDeviceProperties_v2(void *, int);
int cudaStreamCreate(void **);
int cudaStreamBeginCapture(void *, int);
int cudaStreamGetCaptureInfo_v2(void *, int *, unsigned long long *, void *, void *, size_t *);
int cudaStreamGetCaptureInfo(void *, int *, unsigned long long *);
int cudaGraphCreate(void **, unsigned);
int cudaGraphAddEmptyNode(void **, void *, void *const *, size_t);
int cudaGraphAddDependencies(void *, void *const *, void *const *, size_t);
int cudaGetDeviceProperties(void *, int);

int main(void) {
    void *memory, *stream;
    printf("managed memory: %d\n", cudaMallocManaged(&memory, 4096, 1));
    struct {
        struct attributes own;
        char behind[64];
    } answer;
    memset(&answer, 0x5a, sizeof answer);
    printf("attributes: %d\n", cudaPointerGetAttributes(&answer.own, memory));
    int kept = 1;
    for (size_t i = 0; i < sizeof answer.behind; i++)
        kept &= answer.behind[i] == 0x5a;
    printf("type %d, what lies behind them is kept: %d\n", answer.own.type, kept);
    printf("advice: %d, prefetch: %d\n", cudaMemAdvise(memory, 4096, 1, 0),
           cudaMemPrefetchAsync(memory, 4096, 0, NULL));
    int version;
    cudaRuntimeGetVersion(&version);
    printf("version of CUDA 12: %d\n", version / 1000 == 12);
    char properties[1032 + 64];
    memset(properties, 0x5a, sizeof properties);
    printf("properties: %d, what lies behind them is kept: %d\n",
           cudaGetDeviceProperties_v2(properties, 0), properties[1032] == 0x5a);
    int capturing = -1;
    unsigned long long id = 0;
    cudaStreamCreate(&stream);
    cudaStreamBeginCapture(stream, 0);
    int error = cudaStreamGetCaptureInfo_v2(stream, &capturing, &id, NULL, NULL, NULL);
    printf("capture: %d, begun: %d, has a number: %d\n", error, capturing, id != 0);
    error = cudaStreamGetCaptureInfo(stream, &capturing, &id);
    printf("the same by three arguments: %d, begun: %d\n", error, capturing);
    void *graph, *first, *second;
    cudaGraphCreate(&graph, 0);
    cudaGraphAddEmptyNode(&first, graph, NULL, 0);
    cudaGraphAddEmptyNode(&second, graph, NULL, 0);
    printf("an edge: %d\n", cudaGraphAddDependencies(graph, &first, &second, 1));
    printf("the properties of CUDA 11: %d\n", cudaGetDeviceProperties(properties, 0));
    return 0;
}
