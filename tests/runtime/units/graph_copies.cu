// Copies as nodes of a graph, from the host, on the device, and back; pitched.
#include <cstdio>
#include <cstring>

__global__ void twice(int* x) { x[threadIdx.x] *= 2; }

cudaMemcpy3DParms rows(void* to, size_t to_pitch, void* from, size_t from_pitch, int n, int high,
                       cudaMemcpyKind kind) {
    cudaMemcpy3DParms p;
    memset(&p, 0, sizeof p);
    p.dstPtr = make_cudaPitchedPtr(to, to_pitch, n, high);
    p.srcPtr = make_cudaPitchedPtr(from, from_pitch, n, high);
    p.extent = make_cudaExtent(4 * n, high, 1);
    p.kind = kind;
    return p;
}

int main() {
    int here[4][16], back[4][8], *there, *dense, wrong = 0;
    for (int i = 0; i < 64; i++) here[i / 16][i % 16] = i;
    cudaMalloc(&there, sizeof here);
    cudaMalloc(&dense, sizeof back);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t up, across, kernel, down;
    cudaGraphCreate(&graph, 0);
    auto p = rows(there, 64, here, 64, 16, 4, cudaMemcpyHostToDevice);
    cudaGraphAddMemcpyNode(&up, graph, nullptr, 0, &p);
    p = rows(dense, 32, there, 64, 8, 4, cudaMemcpyDeviceToDevice);  // the left half
    cudaGraphAddMemcpyNode(&across, graph, &up, 1, &p);
    void* arguments[] = {&dense};
    cudaKernelNodeParams k = {};
    k.func = (void*)twice;
    k.gridDim = 1, k.blockDim = 32, k.kernelParams = arguments;
    cudaGraphAddKernelNode(&kernel, graph, &across, 1, &k);
    p = rows(back, 32, dense, 32, 8, 4, cudaMemcpyDeviceToHost);
    cudaGraphAddMemcpyNode(&down, graph, &kernel, 1, &p);
    cudaGraphInstantiate(&exec, graph, 0);
    for (int turn = 0; turn < 2; turn++) {
        memset(back, 0, sizeof back);
        cudaGraphLaunch(exec, 0);
        cudaDeviceSynchronize();
        for (int i = 0; i < 32; i++) wrong += back[i / 8][i % 8] != 2 * here[i / 8][i % 8];
    }
    printf("%d wrong, %s\n", wrong, cudaGetErrorString(cudaGetLastError()));
    return wrong;
}
