// Device code that a program brings as text: libraries, of the runtime.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <unistd.h>

static const char *TEXT = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .global .align 4 .u32 total = 3;
.visible .global .attribute(.managed) .align 4 .u32 both = 5;
.visible .entry count(.param .u32 n)
{
    .reg .b32 %r<3>;
    ld.param.u32 %r1, [n];
    ld.global.u32 %r2, [total];
    add.u32 %r2, %r2, %r1;
    st.global.u32 [total], %r2;
    st.global.u32 [both], %r2;
    ret;
}
)";

#define SHOW(call) printf("%-60.60s %s\n", #call, cudaGetErrorName(call))

int main() {
    cudaLibrary_t library;
    cudaKernel_t kernel, all[1];
    void *address;
    size_t size;
    unsigned count = 0, total = 0, n = 4;
    SHOW(cudaLibraryLoadData(&library, TEXT, 0, 0, 0, 0, 0, 0));
    SHOW(cudaLibraryGetKernelCount(&count, library));
    printf("%u\n", count);
    SHOW(cudaLibraryEnumerateKernels(all, 1, library));
    SHOW(cudaLibraryGetKernel(&kernel, library, "no_such"));
    SHOW(cudaLibraryGetKernel(&kernel, library, "count"));
    void *arguments[] = {&n};
    SHOW(cudaLaunchKernel((void *)kernel, dim3(1), dim3(1), arguments, 0, 0));
    SHOW(cudaDeviceSynchronize());
    SHOW(cudaLibraryGetGlobal(&address, &size, library, "no_such"));
    SHOW(cudaLibraryGetGlobal(&address, &size, library, "total"));
    SHOW(cudaMemcpy(&total, address, size, cudaMemcpyDeviceToHost));
    printf("%u of %zu bytes\n", total, size);
    SHOW(cudaLibraryGetManaged(&address, &size, library, "total"));
    SHOW(cudaLibraryGetManaged(&address, &size, library, "both"));
    printf("%u\n", *(unsigned *)address);
    SHOW(cudaLibraryUnload(library));
    char path[] = "/tmp/phasebit-library-XXXXXX";
    FILE *file = fdopen(mkstemp(path), "w");
    fputs(TEXT, file);
    fclose(file);
    SHOW(cudaLibraryLoadFromFile(&library, path, 0, 0, 0, 0, 0, 0));
    SHOW(cudaLibraryUnload(library));
    unlink(path);
    SHOW(cudaLibraryLoadFromFile(&library, path, 0, 0, 0, 0, 0, 0));
}
