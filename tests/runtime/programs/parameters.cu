// Parameters of every size, in a launch and in the nodes of a graph; variables and their bounds.
#include <cstdio>
#include <cuda_runtime.h>

struct Three {
    char x, y, z;
};
__device__ int first, second;

__global__ void gather(int *out, char c, short s, double d, char e, Three three, int i) {
    int values[] = {c, s, int(d), e, three.x, three.y, three.z, i, 1 + 0 * first * second};
    for (int k = 0; k < 9; k++)
        out[k] += values[k];
}

int main() {
    int host[9], *out;
    auto show = [&] {
        cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
        for (int value : host)
            printf("%d ", value);
        printf("%s\n", cudaGetErrorName(cudaGetLastError()));
    };
    cudaMalloc(&out, sizeof host);
    cudaMemset(out, 0, sizeof host);
    gather<<<1, 1>>>(out, 1, -2, 3.5, 4, Three{5, 6, 7}, -8);
    show();

    char c = 10, e = 40;
    short s = 20;
    double d = 30;
    Three three = {50, 60, 70};
    int i = 80;
    void *arguments[] = {&out, &c, &s, &d, &e, &three, &i};
    cudaKernelNodeParams parameters = {};
    parameters.func = (void *)gather;
    parameters.gridDim = parameters.blockDim = 1;
    parameters.kernelParams = arguments;
    cudaGraph_t graph, clone;
    cudaGraphExec_t executable;
    cudaGraphNode_t node;
    cudaGraphCreate(&graph, 0);
    cudaGraphAddKernelNode(&node, graph, nullptr, 0, &parameters);
    c = i = 0; // the node has its own copies
    cudaGraphInstantiate(&executable, graph, 0);
    cudaGraphClone(&clone, graph);
    cudaGraphLaunch(executable, 0);
    show();
    i = 1000;
    printf("%s\n", cudaGetErrorName(cudaGraphExecKernelNodeSetParams(executable, node, &parameters)));
    cudaGraphLaunch(executable, 0);
    show();
    cudaGraphInstantiate(&executable, graph, 0); // the graph itself was not changed
    cudaGraphLaunch(executable, 0);
    show();

    int value = 1;
    for (size_t offset : {0, 4, 8192})
        printf("offset %zu: %s\n", offset,
               cudaGetErrorName(cudaMemcpyToSymbol(first, &value, 4, offset)));
    printf("%s\n", cudaGetErrorName(cudaMemcpyFromSymbol(&value, second, 4, 0,
                                                         cudaMemcpyDeviceToHost)));
    printf("second %d\n", value);
}
