/* What the files of the driver library share. Each of its calls is said with calls of the runtime,
 * the stand-in that lies beside it:
 *
 *     API CUresult cuFoo(int *answer) {
 *         CONTEXT();                     // cuInit was called, and a context is current
 *         return told(cudaFoo(answer));  // a runtime's error as the driver numbers it
 *     }
 *
 * Types as programs compiled against cuda.h of CUDA 12 and 13 lay them out; enumerations travel as
 * int. Streams, events, graphs and kernels are the runtime's own. */
#pragma once
#include "../c/abi.h"
#include <stdbool.h>

#define API __attribute__((visibility("default")))
#define COUNT(array) (sizeof(array) / sizeof *(array))

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct context *CUcontext;
typedef struct library *CUmodule; /* a CUlibrary is the same */
typedef cudaKernel_t CUfunction;  /* a CUkernel is the same */
typedef cudaStream_t CUstream;
typedef cudaEvent_t CUevent;
struct graph; /* recorded, and made ready to be launched: both */

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE = 708,
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_SUPPORTED = 801,
};

/* error.c */
CUresult told(cudaError_t error);
CUresult missing(const char *call);

/* context.c */
bool initialized(void);
CUcontext current(void);
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
#define INITIALIZED()                                                                              \
    if (!initialized())                                                                            \
    return CUDA_ERROR_NOT_INITIALIZED
#define CONTEXT()                                                                                  \
    INITIALIZED();                                                                                 \
    if (!current())                                                                                \
    return CUDA_ERROR_INVALID_CONTEXT
#define WANT(condition)                                                                            \
    if (!(condition))                                                                              \
    return CUDA_ERROR_INVALID_VALUE

/* The runtime's functions that are used here, and three of its own that it exports for this. */
#define RUNTIME(name, ...) cudaError_t name(__VA_ARGS__)
extern bool phasebit_uses_runtime(void);
extern cudaError_t phasebit_range(CUdeviceptr address, uint64_t *range);
extern cudaError_t phasebit_missing(const char *call);

const char *cudaGetErrorString(cudaError_t error);
const char *cudaGetErrorName(cudaError_t error);
RUNTIME(cudaChooseDevice, int *, const void *);
RUNTIME(cudaDeviceCanAccessPeer, int *, int, int);
RUNTIME(cudaDeviceGetAttribute, int *, int, int);
RUNTIME(cudaDeviceGetByPCIBusId, int *, const char *);
RUNTIME(cudaDeviceGetCacheConfig, int *);
RUNTIME(cudaDeviceGetDefaultMemPool, cudaMemPool_t *, int);
RUNTIME(cudaDeviceGetLimit, size_t *, int);
RUNTIME(cudaDeviceGetMemPool, cudaMemPool_t *, int);
RUNTIME(cudaDeviceGetPCIBusId, char *, int, int);
RUNTIME(cudaDeviceGetStreamPriorityRange, int *, int *);
RUNTIME(cudaDeviceReset, void);
RUNTIME(cudaDeviceSetCacheConfig, int);
RUNTIME(cudaDeviceSetLimit, int, size_t);
RUNTIME(cudaDeviceSetMemPool, int, cudaMemPool_t);
RUNTIME(cudaDeviceSynchronize, void);
RUNTIME(cudaDriverGetVersion, int *);
RUNTIME(cudaEventCreateWithFlags, CUevent *, unsigned);
RUNTIME(cudaEventDestroy, CUevent);
RUNTIME(cudaEventElapsedTime, float *, CUevent, CUevent);
RUNTIME(cudaEventQuery, CUevent);
RUNTIME(cudaEventRecord, CUevent, CUstream);
RUNTIME(cudaEventRecordWithFlags, CUevent, CUstream, unsigned);
RUNTIME(cudaEventSynchronize, CUevent);
RUNTIME(cudaFree, void *);
RUNTIME(cudaFreeAsync, void *, CUstream);
RUNTIME(cudaFreeHost, void *);
RUNTIME(cudaFuncGetAttributes, struct cudaFuncAttributes *, const void *);
RUNTIME(cudaFuncGetName, const char **, const void *);
RUNTIME(cudaFuncGetParamCount, const void *, size_t *);
RUNTIME(cudaFuncGetParamInfo, const void *, size_t, size_t *, size_t *);
RUNTIME(cudaFuncSetAttribute, const void *, int, int);
RUNTIME(cudaFuncSetCacheConfig, const void *, int);
RUNTIME(cudaGetDeviceCount, int *);
RUNTIME(cudaGetDeviceProperties, void *, int);
RUNTIME(cudaGetDriverEntryPoint, const char *, void **, unsigned long long, int *);
RUNTIME(cudaGraphDestroy, struct graph *);
RUNTIME(cudaGraphExecDestroy, struct graph *);
RUNTIME(cudaGraphInstantiateWithFlags, struct graph **, struct graph *, unsigned long long);
RUNTIME(cudaGraphLaunch, struct graph *, CUstream);
RUNTIME(cudaHostAlloc, void **, size_t, unsigned);
RUNTIME(cudaHostGetDevicePointer, void **, void *, unsigned);
RUNTIME(cudaHostGetFlags, unsigned *, void *);
RUNTIME(cudaHostRegister, void *, size_t, unsigned);
RUNTIME(cudaHostUnregister, void *);
RUNTIME(cudaLaunchCooperativeKernel, const void *, dim3, dim3, void **, size_t, CUstream);
RUNTIME(cudaLaunchHostFunc, CUstream, cudaHostFn_t, void *);
RUNTIME(cudaLaunchKernel, const void *, dim3, dim3, void **, size_t, CUstream);
RUNTIME(cudaLaunchKernelExC, const cudaLaunchConfig_t *, const void *, void **);
RUNTIME(cudaLibraryEnumerateKernels, CUfunction *, unsigned, CUmodule);
RUNTIME(cudaLibraryGetGlobal, void **, size_t *, CUmodule, const char *);
RUNTIME(cudaLibraryGetKernel, CUfunction *, CUmodule, const char *);
RUNTIME(cudaLibraryGetKernelCount, unsigned *, CUmodule);
RUNTIME(cudaLibraryGetManaged, void **, size_t *, CUmodule, const char *);
RUNTIME(cudaLibraryLoadData, CUmodule *, const void *, int *, void **, unsigned, int *, void **,
        unsigned);
RUNTIME(cudaLibraryLoadFromFile, CUmodule *, const char *, int *, void **, unsigned, int *,
        void **, unsigned);
RUNTIME(cudaLibraryUnload, CUmodule);
RUNTIME(cudaMalloc, void **, size_t);
RUNTIME(cudaMallocAsync, void **, size_t, CUstream);
RUNTIME(cudaMallocManaged, void **, size_t, unsigned);
RUNTIME(cudaMallocPitch, void **, size_t *, size_t, size_t);
RUNTIME(cudaMemGetInfo, size_t *, size_t *);
RUNTIME(cudaMemcpy, void *, const void *, size_t, int);
RUNTIME(cudaMemcpy2D, void *, size_t, const void *, size_t, size_t, size_t, int);
RUNTIME(cudaMemcpy2DAsync, void *, size_t, const void *, size_t, size_t, size_t, int, CUstream);
RUNTIME(cudaMemcpyAsync, void *, const void *, size_t, int, CUstream);
RUNTIME(cudaMemset2DAsync, void *, size_t, int, size_t, size_t, CUstream);
RUNTIME(cudaOccupancyAvailableDynamicSMemPerBlock, size_t *, const void *, int, int);
RUNTIME(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, int *, const void *, int, size_t,
        unsigned);
RUNTIME(cudaOccupancyMaxActiveClusters, int *, const void *, const cudaLaunchConfig_t *);
RUNTIME(cudaOccupancyMaxPotentialClusterSize, int *, const void *, const cudaLaunchConfig_t *);
RUNTIME(cudaPointerGetAttributes, struct cudaPointerAttributes *, const void *);
RUNTIME(cudaSetDevice, int);
RUNTIME(cudaStreamAddCallback, CUstream, cudaStreamCallback_t, void *, unsigned);
RUNTIME(cudaStreamAttachMemAsync, CUstream, void *, size_t, unsigned);
RUNTIME(cudaStreamBeginCapture, CUstream, int);
RUNTIME(cudaStreamCreateWithPriority, CUstream *, unsigned, int);
RUNTIME(cudaStreamDestroy, CUstream);
RUNTIME(cudaStreamEndCapture, CUstream, struct graph **);
RUNTIME(cudaStreamGetFlags, CUstream, unsigned *);
RUNTIME(cudaStreamGetId, CUstream, unsigned long long *);
RUNTIME(cudaStreamGetPriority, CUstream, int *);
RUNTIME(cudaStreamIsCapturing, CUstream, int *);
RUNTIME(cudaStreamQuery, CUstream);
RUNTIME(cudaStreamSynchronize, CUstream);
RUNTIME(cudaStreamWaitEvent, CUstream, CUevent, unsigned);
RUNTIME(cudaThreadExchangeStreamCaptureMode, int *);
