// Memory that a stream capture asks for: each launch of the graph has it at the same address.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void scale(const int *in, int *out, int by) { out[threadIdx.x] = in[threadIdx.x] * by; }

static void tell(const char *what, cudaError_t error) {
    printf("%s: %s\n", what, cudaGetErrorName(error));
}

int main() {
    int host[32], *device, *first, *last;
    for (int i = 0; i < 32; i++)
        host[i] = i;
    cudaMalloc(&device, sizeof host);
    cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice);
    cudaStream_t stream;
    cudaStreamCreate(&stream);

    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    tell("asked for", cudaMallocAsync(&first, sizeof host, stream));
    scale<<<1, 32, 0, stream>>>(device, first, 2);
    tell("asked for", cudaMallocAsync(&last, sizeof host, stream));
    scale<<<1, 32, 0, stream>>>(first, last, 3);
    tell("given back", cudaFreeAsync(first, stream));
    cudaMemcpyAsync(device, last, sizeof host, cudaMemcpyDeviceToDevice, stream);
    cudaGraph_t graph;
    tell("end", cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t executable;
    tell("instantiate", cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 2; i++) {
        tell("launch", cudaGraphLaunch(executable, stream));
        tell("given back outside", i ? cudaFree(last) : cudaFreeAsync(last, stream));
        tell("synchronize", cudaStreamSynchronize(stream));
        cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost);
        printf("%d\n", host[7]);
    }
}
