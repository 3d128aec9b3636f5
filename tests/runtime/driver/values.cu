// A stream that writes a number in memory, and one that waits for it.
#include <cstdio>
#include <cuda.h>
#define SHOW(call) show(#call, call)

static void show(const char *call, CUresult result) {
    const char *name = nullptr;
    cuGetErrorName(result, &name);
    printf("%-75s %s\n", call, name);
}

int main() {
    CUdevice device;
    CUcontext context;
    CUdeviceptr p;
    CUstream stream, other;
    unsigned there = 0;
    cuInit(0), cuDeviceGet(&device, 0), cuDevicePrimaryCtxRetain(&context, device);
    cuCtxSetCurrent(context);
    cuMemAlloc(&p, 64), cuMemsetD32(p, 0, 16);
    cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), cuStreamCreate(&other, CU_STREAM_NON_BLOCKING);
    SHOW(cuStreamWriteValue32(stream, p + 4, 6, CU_STREAM_WRITE_VALUE_DEFAULT));
    SHOW(cuStreamWaitValue32(other, p + 4, 6, CU_STREAM_WAIT_VALUE_EQ));
    SHOW(cuStreamWaitValue32(other, p + 4, 5, CU_STREAM_WAIT_VALUE_GEQ));
    SHOW(cuStreamWaitValue32(other, p + 4, 0xfffffff0, CU_STREAM_WAIT_VALUE_GEQ));
    SHOW(cuStreamWaitValue32(other, p + 4, 2, CU_STREAM_WAIT_VALUE_AND));
    SHOW(cuStreamWaitValue32(other, p + 4, 1, CU_STREAM_WAIT_VALUE_NOR));
    SHOW(cuStreamWriteValue32(other, p + 8, 7, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
    SHOW(cuStreamSynchronize(other));
    for (int i = 0; i < 4; ++i) {
        cuMemcpyDtoH(&there, p + 4 * i, 4);
        printf("%u\n", there);
    }
    SHOW(cuStreamWaitValue32(other, p + 2, 1, CU_STREAM_WAIT_VALUE_GEQ));
    SHOW(cuStreamWriteValue32(other, p + 2, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    SHOW(cuStreamWriteValue32(other, p, 1, 2));
    SHOW(cuStreamWaitValue32(other, p, 1, 8));
    SHOW(cuStreamSynchronize(other));
    cuMemFree(p), cuDevicePrimaryCtxRelease(device);
}
