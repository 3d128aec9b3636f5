// Choosing the one device; what can be set on it and read back; what it is to others.
#include <cstdio>
#include <cuda_runtime.h>

// As in cuda_profiler_api.h, which an nvcc from pip comes without.
extern "C" cudaError_t CUDARTAPI cudaProfilerStart(void);
extern "C" cudaError_t CUDARTAPI cudaProfilerStop(void);

static void tell(const char *what, cudaError_t error) {
    printf("%s: %s\n", what, cudaGetErrorName(error));
}

int main() {
    int device = 7, valid[] = {0}, version = 0;
    tell("valid", cudaSetValidDevices(valid, 1));
    tell("flags", cudaSetDeviceFlags(cudaDeviceScheduleYield));
    tell("init", cudaInitDevice(0, 0, 0));
    tell("init another", cudaInitDevice(99, 0, 0));
    cudaGetLastError();
    cudaDeviceProp properties;
    cudaGetDeviceProperties(&properties, 0);
    tell("choose", cudaChooseDevice(&device, &properties));
    printf("device %d\n", device);
    unsigned flags = 0;
    cudaGetDeviceFlags(&flags);
    printf("yields: %d\n", (flags & cudaDeviceScheduleMask) == cudaDeviceScheduleYield);
    tell("version", cudaRuntimeGetVersion(&version));
    printf("CUDA %d\n", version / 1000);

    cudaFuncCache cache;
    tell("prefer L1", cudaDeviceSetCacheConfig(cudaFuncCachePreferL1));
    tell("asked", cudaDeviceGetCacheConfig(&cache));
    printf("preference %d\n", (int)cache);
    cudaSharedMemConfig banks;
    tell("banks", cudaDeviceSetSharedMemConfig(cudaSharedMemBankSizeEightByte));
    cudaDeviceGetSharedMemConfig(&banks);
    printf("of four bytes: %d\n", banks == cudaSharedMemBankSizeFourByte);
    tell("L2", cudaCtxResetPersistingL2Cache());
    size_t stack = 0;
    tell("stack", cudaDeviceSetLimit(cudaLimitStackSize, 4096));
    cudaDeviceGetLimit(&stack, cudaLimitStackSize);
    printf("%zu bytes a thread\n", stack);

    char bus[32];
    int there = 7;
    tell("bus", cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
    tell("by its bus", cudaDeviceGetByPCIBusId(&there, bus));
    printf("device %d\n", there);
    tell("no room", cudaDeviceGetPCIBusId(bus, 3, 0));
    cudaGetLastError();
    int can = 7;
    tell("peer of itself", cudaDeviceCanAccessPeer(&can, 0, 0));
    printf("can %d\n", can);
    printf("enabled: %d\n", cudaDeviceEnablePeerAccess(0, 0) == cudaSuccess);
    cudaGetLastError();
    tell("profiler", cudaProfilerStart());
    tell("profiler", cudaProfilerStop());

    void *function = nullptr;
    cudaDriverEntryPointQueryResult found;
    tell("driver", cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function,
                                           cudaEnableDefault, &found));
    printf("found: %d, a function: %d\n", found == cudaDriverEntryPointSuccess,
           function != nullptr);
}
