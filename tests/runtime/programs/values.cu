// A stream that waits for a number in memory and one that writes it, by functions of the driver
// that the runtime finds. The argument chooses: "two", two devices; "one"; "never"; "late", the
// number is written by a kernel that is issued behind the copy.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#define OK(call) ok(call, #call)

static void ok(cudaError_t error, const char* call) {
    if (error) printf("%s: %s\n", call, cudaGetErrorName(error)), exit(1);
}
template <class F> F* driver(const char* name) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult state;
    OK(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &state));
    return reinterpret_cast<F*>(found);
}

// Two strips of 32 numbers, each told of by a count that only grows.
__global__ void make(float* x, unsigned* made, unsigned turn, const unsigned* stop) {
    for (int strip = 0; strip < 2; ++strip) {
        x[32 * strip + threadIdx.x] = 100 * turn + 32 * strip + threadIdx.x;
        __syncwarp();
        if (threadIdx.x == 0)
            asm volatile("red.release.sys.global.add.u32 [%0], 1;" :: "l"(made + strip) : "memory");
    }
    unsigned seen = 0;  // and now it waits for what the copies bring
    while (stop && threadIdx.x == 0 && seen < turn)
        asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(seen) : "l"(stop) : "memory");
}

int main(int argc, char** argv) {
    const char* how = argc > 1 ? argv[1] : "one";
    const bool two = !strcmp(how, "two");
    auto wait = driver<decltype(cuStreamWaitValue32)>("cuStreamWaitValue32");
    auto write = driver<decltype(cuStreamWriteValue32)>("cuStreamWriteValue32");
    float *x, *y, out[64];
    unsigned *made, *flag;
    cudaStream_t beside;
    OK(cudaMalloc(&x, 256)), OK(cudaMalloc(&made, 8)), OK(cudaMemset(made, 0, 8));
    OK(cudaMalloc(&flag, 4)), OK(cudaMemset(flag, 0, 4));
    OK(cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking));
    if (two) OK(cudaDeviceEnablePeerAccess(1, 0)), OK(cudaSetDevice(1));
    OK(cudaMalloc(&y, 256)), OK(cudaSetDevice(0));
    printf("%d %d %d\n", wait(beside, CUdeviceptr(made) + 2, 1, 0), wait(beside, 64, 1, 0),
           write(beside, CUdeviceptr(made), 1, 2));
    for (unsigned turn = 1; turn <= 2; ++turn) {
        if (strcmp(how, "late")) make<<<1, 32>>>(x, made, turn, two ? flag : nullptr);
        for (int strip = 0; strip < 2; ++strip) {
            const unsigned number = strcmp(how, "never") ? turn : 9;
            const CUresult said = wait(beside, CUdeviceptr(made + strip), number,
                                       CU_STREAM_WAIT_VALUE_GEQ);
            if (said) printf("%d\n", said), exit(1);
            OK(cudaMemcpyAsync(y + 32 * strip, x + 32 * strip, 128, cudaMemcpyDefault, beside));
        }
        if (write(beside, CUdeviceptr(flag), turn, 0)) exit(1);
        if (!strcmp(how, "late")) make<<<1, 32>>>(x, made, turn, nullptr);
        OK(cudaDeviceSynchronize()), OK(cudaStreamSynchronize(beside));
        OK(cudaMemcpy(out, y, 256, cudaMemcpyDefault));
        bool right = true;
        for (int i = 0; i < 64; ++i) right &= out[i] == 100 * turn + i;
        puts(right ? "right" : "wrong");
    }
    // The flag is 2 now. At least, equal to, any bit of, not all bits with: reached, and not.
    const unsigned asked[][2] = {{2, 0}, {2, 1}, {6, 2}, {5, 3}, {3, 0}, {6, 1}, {5, 2}, {~2u, 3}};
    for (auto [number, flags] : asked)
        if (!strcmp(how, "one")) printf("%d ", wait(beside, CUdeviceptr(flag), number, flags));
}
