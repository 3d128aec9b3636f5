// Stream capture and graphs: captured work runs when the graph is launched, each time.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void increment(int *p) { p[threadIdx.x] += 1; }

static void tell(const char *what, cudaError_t error) {
    printf("%s: %s\n", what, cudaGetErrorName(error));
}

int main() {
    int host[32] = {}, *device;
    cudaMalloc(&device, sizeof host);
    cudaMemset(device, 0, sizeof host);
    cudaStream_t stream, other;
    cudaStreamCreate(&stream);
    cudaStreamCreate(&other);
    cudaEvent_t fork, join;
    cudaEventCreateWithFlags(&fork, cudaEventDisableTiming);
    cudaEventCreateWithFlags(&join, cudaEventDisableTiming);

    tell("begin on the legacy stream", cudaStreamBeginCapture(0, cudaStreamCaptureModeGlobal));
    tell("begin", cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    increment<<<1, 32, 0, stream>>>(device);
    cudaEventRecord(fork, stream);
    cudaStreamWaitEvent(other, fork);
    increment<<<1, 32, 0, other>>>(device);
    cudaEventRecord(join, other);
    cudaStreamWaitEvent(stream, join);
    for (int i = 0; i < 3; i++)
        increment<<<1, 32, 0, stream>>>(device);
    cudaStreamCaptureStatus status;
    cudaStreamIsCapturing(other, &status);
    printf("the other captures: %d\n", status == cudaStreamCaptureStatusActive);
    cudaGraph_t graph;
    tell("end", cudaStreamEndCapture(stream, &graph));
    cudaStreamIsCapturing(other, &status);
    printf("the other captures: %d\n", status == cudaStreamCaptureStatusActive);
    size_t count;
    cudaGraphGetNodes(graph, nullptr, &count);
    printf("%zu nodes\n", count);
    cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost);
    printf("nothing ran: %d\n", host[0]);

    cudaGraphExec_t executable;
    tell("instantiate", cudaGraphInstantiate(&executable, graph, 0));
    tell("destroy", cudaGraphDestroy(graph));
    for (int i = 0; i < 10; i++)
        cudaGraphLaunch(executable, stream);
    cudaStreamSynchronize(stream);
    cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost);
    printf("ten times five: %d\n", host[31]);
    tell("destroy", cudaGraphExecDestroy(executable));
    tell("end without begin", cudaStreamEndCapture(stream, &graph));
    cudaGetLastError();

    // By hand: fill, two kernels, copy, a host function.
    cudaGraphCreate(&graph, 0);
    cudaGraphNode_t nodes[5];
    cudaMemsetParams clear = {};
    clear.dst = device;
    clear.value = 0;
    clear.elementSize = 4;
    clear.width = 32;
    clear.height = 1;
    tell("memset node", cudaGraphAddMemsetNode(&nodes[0], graph, nullptr, 0, &clear));
    void *arguments[] = {&device};
    cudaKernelNodeParams kernel = {};
    kernel.func = (void *)increment;
    kernel.gridDim = 1;
    kernel.blockDim = 32;
    kernel.kernelParams = arguments;
    for (int i = 1; i < 3; i++)
        tell("kernel node", cudaGraphAddKernelNode(&nodes[i], graph, &nodes[i - 1], 1, &kernel));
    tell("copy node", cudaGraphAddMemcpyNode1D(&nodes[3], graph, &nodes[2], 1, host, device,
                                               sizeof host, cudaMemcpyDeviceToHost));
    int called = 0;
    cudaHostNodeParams function = {};
    function.fn = [](void *data) { ++*(int *)data; };
    function.userData = &called;
    tell("host node", cudaGraphAddHostNode(&nodes[4], graph, &nodes[3], 1, &function));
    tell("instantiate", cudaGraphInstantiate(&executable, graph, 0));
    cudaGraphLaunch(executable, stream);
    cudaGraphLaunch(executable, stream);
    tell("synchronize", cudaStreamSynchronize(stream));
    printf("host %d, called %d\n", host[7], called);

    tell("begin", cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    tell("synchronize while capturing", cudaStreamSynchronize(stream));
}
