// A call that the stand-in lacks, and a function of the driver.
#include <cstdio>
#include <cuda_runtime.h>

int main() {
    cudaArray_t array;
    cudaChannelFormatDesc description = {32, 0, 0, 0, cudaChannelFormatKindFloat};
    cudaError_t error = cudaMallocArray(&array, &description, 16, 16);
    printf("%s\n", cudaGetErrorName(error));
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
    void* function = &array;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSuccess;
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeIm2colWide", &function, 12000,
                                     cudaEnableDefault, &found);
    printf("%d %d\n", function == nullptr, found == cudaDriverEntryPointSymbolNotFound);
    return error != cudaSuccess;
}
