// Launches the kernels of a .cubin on a GPU: the host half of what the emulator is compared with.
//   runner IMAGE KERNEL|all GRID BLOCK float|int BYTES BYTES BYTES
// The three arrays hold: 0, 1, 2, …; zeros; nothing. Each has exactly its number of bytes.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call)                                                                   \
    if (cudaError_t error = call) {                                                   \
        fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));                \
        return 1;                                                                     \
    }

int main(int argc, char** argv) {
    if (argc != 9) return fprintf(stderr, "usage: see the first lines of runner.cu\n"), 2;
    cudaLibrary_t library;
    CHECK(cudaLibraryLoadFromFile(&library, argv[1], nullptr, nullptr, 0, nullptr, nullptr, 0));
    unsigned count = 0;
    CHECK(cudaLibraryGetKernelCount(&count, library));
    std::vector<cudaKernel_t> kernels(count);
    CHECK(cudaLibraryEnumerateKernels(kernels.data(), count, library));

    void* arrays[3];
    for (int i = 0; i < 3; ++i) CHECK(cudaMalloc(&arrays[i], atoi(argv[6 + i])));
    std::vector<int> ramp(atoi(argv[6]) / 4);
    for (size_t i = 0; i < ramp.size(); ++i) {
        const float number = float(i % 97);
        if (strcmp(argv[5], "float") == 0) memcpy(&ramp[i], &number, 4);
        else ramp[i] = int(i);
    }
    void* parameters[] = {&arrays[0], &arrays[1], &arrays[2]};
    int launched = 0;
    for (cudaKernel_t kernel : kernels) {
        const char* name;
        CHECK(cudaFuncGetName(&name, (const void*)kernel));
        if (strcmp(argv[2], "all") && strcmp(name, argv[2])) continue;
        CHECK(cudaMemcpy(arrays[0], ramp.data(), atoi(argv[6]), cudaMemcpyHostToDevice));
        CHECK(cudaMemset(arrays[1], 0, atoi(argv[7])));
        CHECK(cudaLaunchKernel((const void*)kernel, dim3(atoi(argv[3])), dim3(atoi(argv[4])),
                               parameters, 0, nullptr));
        CHECK(cudaDeviceSynchronize());
        ++launched;
    }
    printf("%d kernels\n", launched);
    return launched ? 0 : 1;
}
