// Nodes of graphs: their kinds, an order between them, kernels with other arguments; captures asked.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void add(int *p, int n) { p[threadIdx.x] += n; }

static void tell(const char *what, cudaError_t error) {
    printf("%s: %s\n", what, cudaGetErrorName(error));
}

int main() {
    int host[32] = {}, n = 1, *p;
    cudaMalloc(&p, sizeof host);
    cudaMemset(p, 0, sizeof host);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    void *arguments[] = {&p, &n};
    cudaKernelNodeParams kernel = {};
    kernel.func = (void *)add;
    kernel.gridDim = 1;
    kernel.blockDim = 32;
    kernel.kernelParams = arguments;

    cudaGraph_t graph;
    cudaGraphCreate(&graph, 0);
    cudaGraphNode_t empty, one, two;
    tell("empty", cudaGraphAddEmptyNode(&empty, graph, nullptr, 0));
    cudaGraphAddKernelNode(&one, graph, nullptr, 0, &kernel);
    cudaGraphAddKernelNode(&two, graph, nullptr, 0, &kernel);
    cudaGraphNode_t from[] = {empty, one}, to[] = {one, two};
    tell("order", cudaGraphAddDependencies(graph, from, to, nullptr, 2));
    cudaGraphNodeType kinds[2];
    tell("kind", cudaGraphNodeGetType(empty, &kinds[0]));
    cudaGraphNodeGetType(two, &kinds[1]);
    printf("empty %d, kernel %d\n", kinds[0] == cudaGraphNodeTypeEmpty,
           kinds[1] == cudaGraphNodeTypeKernel);
    n = 10; // for the second kernel from now on
    tell("parameters", cudaGraphKernelNodeSetParams(two, &kernel));
    n = 100; // which nobody sees
    cudaGraphExec_t made;
    tell("instantiate", cudaGraphInstantiateWithFlags(&made, graph, 0));
    tell("upload", cudaGraphUpload(made, stream));
    cudaGraphLaunch(made, stream);
    cudaGraphLaunch(made, stream);
    cudaStreamSynchronize(stream);
    cudaMemcpy(host, p, sizeof host, cudaMemcpyDeviceToHost);
    printf("twice eleven: %d\n", host[5]);

    int taken[2][4] = {};
    cudaMemcpy3DParms part = {}; // columns 1 to 3 of two rows of four
    part.srcPtr = make_cudaPitchedPtr(p, 16, 16, 2);
    part.srcPos = make_cudaPos(4, 0, 0);
    part.dstPtr = make_cudaPitchedPtr(taken, 16, 16, 2);
    part.extent = make_cudaExtent(12, 2, 1);
    part.kind = cudaMemcpyDeviceToHost;
    cudaGraph_t copy;
    cudaGraphNode_t node;
    cudaGraphCreate(&copy, 0);
    tell("copy node", cudaGraphAddMemcpyNode(&node, copy, nullptr, 0, &part));
    cudaGraphExec_t copies;
    cudaGraphInstantiate(&copies, copy, 0);
    cudaGraphLaunch(copies, stream);
    cudaStreamSynchronize(stream);
    printf("%d %d %d %d, %d\n", taken[0][0], taken[0][1], taken[0][2], taken[0][3], taken[1][2]);

    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    tell("exchange", cudaThreadExchangeStreamCaptureMode(&mode));
    printf("global before: %d\n", mode == cudaStreamCaptureModeGlobal);
    cudaThreadExchangeStreamCaptureMode(&mode);
    printf("relaxed since: %d\n", mode == cudaStreamCaptureModeRelaxed);
    cudaStreamCaptureStatus status;
    unsigned long long id = 0;
    tell("asked", cudaStreamGetCaptureInfo(stream, &status));
    printf("captures: %d", status == cudaStreamCaptureStatusActive);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    cudaStreamGetCaptureInfo(stream, &status, &id);
    printf(", then %d, with a number: %d\n", status == cudaStreamCaptureStatusActive, id != 0);
    cudaGraph_t captured;
    tell("end", cudaStreamEndCapture(stream, &captured));
}
