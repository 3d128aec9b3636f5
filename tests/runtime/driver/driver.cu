// The driver library: modules of text, contexts, launches, memory, streams, events, linking.
#include <cstdio>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <unistd.h>

static const char *TEXT = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .global .align 4 .u32 factor = 3;
.visible .global .attribute(.managed) .align 4 .u32 shared_word = 5;
.visible .entry scale(.param .u64 p, .param .u32 n)
{
    .reg .b32 %r<8>; .reg .b64 %d<4>; .reg .pred %q;
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    ld.param.u32 %r5, [n];
    setp.ge.u32 %q, %r4, %r5;
    @%q bra END;
    ld.param.u64 %d1, [p];
    cvta.to.global.u64 %d1, %d1;
    mad.wide.u32 %d2, %r4, 4, %d1;
    ld.global.u32 %r6, [%d2];
    ld.global.u32 %r7, [factor];
    mul.lo.u32 %r6, %r6, %r7;
    st.global.u32 [%d2], %r6;
END:
    ret;
}
.visible .entry stray()
{
    .reg .b64 %d<2>;
    mov.u64 %d1, 16;
    st.global.u32 [%d1], 1;
    ret;
}
)";
static const char *OTHER = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry nothing() { ret; }
)";

static const char *name(CUresult result) {
    const char *text = "?";
    cuGetErrorName(result, &text);
    return text;
}
#define SHOW(call) printf("%-60.60s %s\n", #call, name(call))
#define MUST(call)                                                                                 \
    if (CUresult r_ = call) {                                                                      \
        printf("%s: %s\n", #call, name(r_));                                                       \
        exit(1);                                                                                   \
    }

static unsigned values[64];
static CUdeviceptr p;
static CUfunction scale;
static CUmodule module;

static void show(const char *what) {
    MUST(cuMemcpyDtoH(values, p, sizeof values));
    printf("%s: %u %u %u\n", what, values[0], values[1], values[63]);
}

static void restore() {
    for (unsigned i = 0; i < 64; i++)
        values[i] = i;
    MUST(cuMemcpyHtoD(p, values, sizeof values));
}

static void devices() {
    int count, value, major, minor, version, can;
    CUdevice device;
    char text[100];
    CUuuid uuid;
    size_t total, left;
    CUmemoryPool pool;
    SHOW(cuDeviceGetCount(&count));
    SHOW(cuInit(1));
    SHOW(cuInit(0));
    SHOW(cuDeviceGetCount(&count));
    SHOW(cuDeviceGet(&device, 0));
    SHOW(cuDeviceGet(&device, 99));
    SHOW(cuDeviceGetName(text, sizeof text, device));
    SHOW(cuDeviceGetUuid(&uuid, device));
    SHOW(cuDeviceTotalMem(&total, device));
    SHOW(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device));
    SHOW(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    printf("warps of %d, major %d\n", value, major);
    SHOW(cuDeviceComputeCapability(&major, &minor, device));
    printf("%d.%d\n", major, minor);
    SHOW(cuDeviceGetPCIBusId(text, sizeof text, device));
    SHOW(cuDeviceGetByPCIBusId(&device, text));
    SHOW(cuDeviceCanAccessPeer(&can, device, device));
    SHOW(cuDeviceGetDefaultMemPool(&pool, device));
    SHOW(cuDeviceSetMemPool(device, pool));
    SHOW(cuDeviceGetMemPool(&pool, device));
    SHOW(cuDriverGetVersion(&version));
    printf("a driver of CUDA 12 or later: %d\n", version >= 12000);
    SHOW(cuMemGetInfo(&left, &total));
}

static void contexts() {
    CUcontext own, primary, now;
    CUdevice device;
    unsigned flags, version;
    unsigned long long number, other;
    int active, least, greatest;
    size_t limit;
    CUfunc_cache config;
    SHOW(cuCtxSynchronize());
    SHOW(cuCtxGetCurrent(&now));
    printf("none: %d\n", now == nullptr);
    SHOW(cuDevicePrimaryCtxGetState(0, &flags, &active));
    printf("active %d\n", active);
    SHOW(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_YIELD));
    SHOW(cuDevicePrimaryCtxRetain(&primary, 0));
    SHOW(cuDevicePrimaryCtxGetState(0, &flags, &active));
    printf("active %d, flags %u\n", active, flags);
#if CUDA_VERSION >= 13000
    SHOW(cuCtxCreate(&own, nullptr, CU_CTX_SCHED_SPIN, 0));
#else
    SHOW(cuCtxCreate(&own, CU_CTX_SCHED_SPIN, 0));
#endif
    SHOW(cuCtxGetCurrent(&now));
    printf("current %d\n", now == own);
    SHOW(cuCtxPushCurrent(primary));
    SHOW(cuCtxPopCurrent(&now));
    printf("popped %d\n", now == primary);
    SHOW(cuCtxGetDevice(&device));
    SHOW(cuCtxGetId(own, &number));
    SHOW(cuCtxGetId(primary, &other));
    printf("differ %d\n", number != other);
    SHOW(cuCtxGetApiVersion(own, &version));
    SHOW(cuCtxGetFlags(&flags));
    SHOW(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048));
    SHOW(cuCtxGetLimit(&limit, CU_LIMIT_STACK_SIZE));
    printf("%zu\n", limit);
    SHOW(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_NONE));
    SHOW(cuCtxGetCacheConfig(&config));
    SHOW(cuCtxGetStreamPriorityRange(&least, &greatest));
    SHOW(cuCtxDestroy(own));
    SHOW(cuCtxSynchronize());
    SHOW(cuCtxSetCurrent(primary));
    SHOW(cuCtxSynchronize());
    SHOW(cuDevicePrimaryCtxRelease(0));
    SHOW(cuDevicePrimaryCtxRetain(&primary, 0));
}

static void modules() {
    CUmodule other;
    CUfunction found[2];
    CUdeviceptr address;
    CUmoduleLoadingMode mode;
    size_t size;
    unsigned count = 0, word = 7;
    SHOW(cuModuleLoadData(&module, TEXT));
    SHOW(cuModuleGetFunction(&scale, module, "no_such"));
    SHOW(cuModuleGetFunction(&scale, module, "scale"));
    SHOW(cuModuleGetGlobal(&address, &size, module, "no_such"));
    SHOW(cuModuleGetGlobal(&address, &size, module, "factor"));
    printf("%zu bytes\n", size);
    SHOW(cuMemcpyHtoD(address, &word, size));
    SHOW(cuModuleLoadDataEx(&other, OTHER, 0, nullptr, nullptr));
    SHOW(cuModuleGetFunctionCount(&count, other));
    printf("%u\n", count);
    SHOW(cuModuleEnumerateFunctions(found, 1, other));
    SHOW(cuModuleUnload(other));
    SHOW(cuModuleLoadFatBinary(&other, OTHER));
    SHOW(cuModuleGetLoadingMode(&mode));
    char path[] = "/tmp/phasebit-driver-XXXXXX";
    FILE *file = fdopen(mkstemp(path), "w");
    fputs(OTHER, file);
    fclose(file);
    SHOW(cuModuleLoad(&other, path));
    SHOW(cuModuleLoad(&other, "/no/such/file"));

    CUlinkState state;
    void *code;
    SHOW(cuLinkCreate(0, nullptr, nullptr, &state));
    SHOW(cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)TEXT, strlen(TEXT) + 1, "one", 0, nullptr,
                       nullptr));
    SHOW(cuLinkAddFile(state, CU_JIT_INPUT_PTX, path, 0, nullptr, nullptr));
    SHOW(cuLinkComplete(state, &code, &size));
    SHOW(cuModuleLoadData(&other, code));
    SHOW(cuLinkDestroy(state));
    SHOW(cuModuleGetFunction(found, other, "nothing"));
    SHOW(cuLaunchKernel(found[0], 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));

    CUlibrary library;
    CUkernel kernel;
    CUmodule same;
    const char *text;
    SHOW(cuLibraryLoadFromFile(&library, path, 0, 0, 0, 0, 0, 0));
    SHOW(cuLibraryUnload(library));
    unlink(path);
    SHOW(cuLibraryLoadData(&library, TEXT, 0, 0, 0, 0, 0, 0));
    SHOW(cuLibraryGetKernelCount(&count, library));
    printf("%u\n", count);
    CUkernel kernels[2];
    SHOW(cuLibraryEnumerateKernels(kernels, 2, library));
    SHOW(cuLibraryGetKernel(&kernel, library, "scale"));
    SHOW(cuKernelGetName(&text, kernel));
    printf("%s\n", text);
    SHOW(cuLibraryGetModule(&same, library));
    SHOW(cuLibraryGetGlobal(&address, &size, library, "factor"));
    SHOW(cuLibraryGetManaged(&address, &size, library, "shared_word"));
    printf("managed %u\n", *(unsigned *)address);
    SHOW(cuKernelGetFunction(found, kernel));
    int value;
    size_t offset;
    SHOW(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel, 0));
    SHOW(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8192, kernel, 0));
    SHOW(cuKernelSetCacheConfig(kernel, CU_FUNC_CACHE_PREFER_L1, 0));
    SHOW(cuKernelGetParamInfo(kernel, 1, &offset, &size));
    printf("parameter 1: %zu bytes at %zu\n", size, offset);
}

static void functions() {
    int value, blocks, grid, block;
    size_t offset, size;
    const char *text;
    CUfunctionLoadingState state;
    SHOW(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, scale));
    printf("%d\n", value);
    SHOW(cuFuncSetAttribute(scale, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536));
    SHOW(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, scale));
    printf("%d\n", value);
    SHOW(cuFuncSetCacheConfig(scale, CU_FUNC_CACHE_PREFER_SHARED));
    SHOW(cuFuncGetName(&text, scale));
    printf("%s\n", text);
    SHOW(cuFuncGetParamInfo(scale, 0, &offset, &size));
    printf("parameter 0: %zu bytes at %zu\n", size, offset);
    SHOW(cuFuncGetParamInfo(scale, 2, &offset, &size));
    SHOW(cuFuncLoad(scale));
    SHOW(cuFuncIsLoaded(&state, scale));
    SHOW(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, scale, 1024, 0));
    printf("%d\n", blocks);
    SHOW(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, scale, 512, 0, 0));
    printf("%d\n", blocks);
    SHOW(cuOccupancyAvailableDynamicSMemPerBlock(&size, scale, 2, 64));
    SHOW(cuOccupancyMaxPotentialBlockSize(&grid, &block, scale, nullptr, 0, 256));
    printf("blocks of %d\n", block);
    SHOW(cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, scale, nullptr, 0, 0, 0));
    CUlaunchConfig config = {2, 1, 1, 32, 1, 1, 0, nullptr, nullptr, 0};
    CUlaunchAttribute cluster = {CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    cluster.value.clusterDim.x = 2;
    cluster.value.clusterDim.y = cluster.value.clusterDim.z = 1;
    config.attrs = &cluster;
    config.numAttrs = 1;
    SHOW(cuOccupancyMaxActiveClusters(&value, scale, &config));
    SHOW(cuOccupancyMaxPotentialClusterSize(&value, scale, &config));
    printf("clusters of %d\n", value);
}

static void launches() {
    unsigned n = 64;
    void *arguments[] = {&p, &n};
    restore();
    SHOW(cuLaunchKernel(scale, 2, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr));
    show("by pointers");
    struct {
        CUdeviceptr p;
        unsigned n;
    } packed = {p, 2};
    size_t size = sizeof packed;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    SHOW(cuLaunchKernel(scale, 2, 1, 1, 32, 1, 1, 0, nullptr, nullptr, extra));
    size = 12;
    SHOW(cuLaunchKernel(scale, 2, 1, 1, 32, 1, 1, 0, nullptr, nullptr, extra));
    show("by a buffer");
    CUlaunchConfig config = {2, 1, 1, 32, 1, 1, 0, nullptr, nullptr, 0};
    SHOW(cuLaunchKernelEx(&config, scale, arguments, nullptr));
    show("by a configuration");
    SHOW(cuLaunchCooperativeKernel(scale, 2, 1, 1, 32, 1, 1, 0, nullptr, arguments));
    show("together");
    SHOW(cuLaunchKernel(scale, 0, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr));
    SHOW(cuLaunchKernel(scale, 1, 1, 1, 2048, 1, 1, 0, nullptr, arguments, nullptr));
    SHOW(cuLaunchKernel(nullptr, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr));
}

static void memory() {
    CUdeviceptr q, base;
    size_t pitch, size;
    void *host, *registered;
    unsigned flags;
    SHOW(cuMemAlloc(&q, 0));
    SHOW(cuMemAlloc(&q, 4096));
    SHOW(cuMemGetAddressRange(&base, &size, q + 100));
    printf("%d %zu\n", base == q, size);
    SHOW(cuMemGetAddressRange(&base, &size, 64));
    unsigned type, managed, ordinal;
    CUcontext context;
    CUdeviceptr same;
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *answers[] = {&type, &ordinal};
    SHOW(cuPointerGetAttributes(2, asked, answers, q));
    printf("type %u of device %u\n", type, ordinal);
    SHOW(cuPointerGetAttribute(&same, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, q));
    SHOW(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, q));
    SHOW(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, q));
    SHOW(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, q));
    printf("%d %u %zu\n", same == q, managed, size);
    SHOW(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)&type));
    SHOW(cuPointerGetAttributes(2, asked, answers, (CUdeviceptr)&type));
    SHOW(cuMemsetD8(q, 1, 4096));
    SHOW(cuMemsetD16(q, 0x203, 4));
    SHOW(cuMemsetD32(q + 8, 0x4050607, 2));
    SHOW(cuMemsetD8Async(q + 16, 8, 1, nullptr));
    SHOW(cuMemsetD16Async(q + 18, 9, 1, nullptr));
    SHOW(cuMemsetD32Async(q + 20, 10, 1, nullptr));
    SHOW(cuMemsetD32(q + 2, 1, 1));
    SHOW(cuMemsetD2D8(q + 64, 64, 11, 2, 2));
    SHOW(cuMemsetD2D16(q + 66, 64, 12, 1, 2));
    SHOW(cuMemsetD2D32(q + 68, 64, 13, 1, 2));
    SHOW(cuMemsetD2D8Async(q + 72, 64, 14, 1, 2, nullptr));
    SHOW(cuMemsetD2D16Async(q + 74, 64, 15, 1, 2, nullptr));
    SHOW(cuMemsetD2D32Async(q + 76, 64, 16, 1, 2, nullptr));
    unsigned char bytes[256];
    SHOW(cuMemcpyDtoHAsync(bytes, q, sizeof bytes, nullptr));
    SHOW(cuCtxSynchronize());
    for (int i = 0; i < 144; i++)
        printf("%d%c", bytes[i], i % 24 == 23 ? '\n' : ' ');
    SHOW(cuMemcpyDtoD(q + 1024, q, 256));
    SHOW(cuMemcpyDtoDAsync(q + 2048, q + 1024, 256, nullptr));
    SHOW(cuMemcpy(q + 3072, q + 2048, 256));
    SHOW(cuMemcpyAsync(q + 512, q + 3072, 256, nullptr));
    SHOW(cuMemcpyHtoDAsync(q, bytes, 16, nullptr));
    unsigned char back[256];
    SHOW(cuMemcpyDtoH(back, q + 512, sizeof back));
    printf("same: %d\n", !memcmp(bytes, back, sizeof back));
    SHOW(cuMemcpyDtoH(back, q + 4000, sizeof back));
    SHOW(cuMemFree(q));
    SHOW(cuMemFree(q));

    SHOW(cuMemAllocPitch(&q, &pitch, 12, 4, 4));
    CUDA_MEMCPY2D flat = {};
    flat.srcMemoryType = CU_MEMORYTYPE_HOST, flat.srcHost = bytes, flat.srcPitch = 12;
    flat.dstMemoryType = CU_MEMORYTYPE_DEVICE, flat.dstDevice = q, flat.dstPitch = pitch;
    flat.WidthInBytes = 12, flat.Height = 4;
    SHOW(cuMemcpy2D(&flat));
    CUDA_MEMCPY2D backwards = {};
    backwards.srcMemoryType = CU_MEMORYTYPE_DEVICE, backwards.srcDevice = q;
    backwards.srcPitch = pitch, backwards.srcXInBytes = 4, backwards.srcY = 1;
    backwards.dstMemoryType = CU_MEMORYTYPE_HOST, backwards.dstHost = back;
    backwards.dstPitch = 8, backwards.WidthInBytes = 8, backwards.Height = 2;
    SHOW(cuMemcpy2DUnaligned(&backwards));
    printf("%d %d\n", back[0] == bytes[16], back[8] == bytes[28]);
    SHOW(cuMemcpy2DAsync(&backwards, nullptr));
    CUDA_MEMCPY3D deep = {};
    deep.srcMemoryType = CU_MEMORYTYPE_HOST, deep.srcHost = bytes, deep.srcPitch = 4;
    deep.srcHeight = 2, deep.dstMemoryType = CU_MEMORYTYPE_DEVICE, deep.dstDevice = q;
    deep.dstPitch = 4, deep.dstHeight = 4, deep.WidthInBytes = 4, deep.Height = 2, deep.Depth = 2;
    SHOW(cuMemcpy3D(&deep));
    SHOW(cuMemcpy3DAsync(&deep, nullptr));
    SHOW(cuMemcpyDtoH(back, q, 32));
    printf("%d %d\n", back[16] == bytes[8], back[20] == bytes[12]);
    SHOW(cuMemFree(q));

    SHOW(cuMemAllocHost(&host, 256));
    SHOW(cuMemHostGetFlags(&flags, host));
    SHOW(cuMemFreeHost(host));
    SHOW(cuMemHostAlloc(&host, 256, CU_MEMHOSTALLOC_DEVICEMAP));
    SHOW(cuMemHostGetDevicePointer(&q, host, 0));
    SHOW(cuMemFreeHost(host));
    registered = aligned_alloc(4096, 4096);
    SHOW(cuMemHostRegister(registered, 4096, 0));
    SHOW(cuMemHostUnregister(registered));
    SHOW(cuMemAllocManaged(&q, 256, CU_MEM_ATTACH_GLOBAL));
    *(int *)q = 17;
    SHOW(cuStreamAttachMemAsync(nullptr, q, 0, CU_MEM_ATTACH_GLOBAL));
    SHOW(cuMemFree(q));
    SHOW(cuMemAllocAsync(&q, 256, nullptr));
    SHOW(cuMemFreeAsync(q, nullptr));
}

static const char *heard = "nothing";
static void CUDA_CB said(void *text) { heard = (const char *)text; }
static void CUDA_CB finished(CUstream, CUresult result, void *) { heard = name(result); }
static void expect(const char *what) {
    if (strcmp(heard, what))
        printf("heard %s\n", heard);
}

static void streams() {
    CUstream stream, other;
    CUevent start, end;
    CUcontext context;
    unsigned flags;
    int priority;
    unsigned long long id;
    float time;
    unsigned n = 64;
    void *arguments[] = {&p, &n};
    SHOW(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SHOW(cuStreamCreateWithPriority(&other, CU_STREAM_DEFAULT, -1));
    SHOW(cuStreamGetFlags(stream, &flags));
    SHOW(cuStreamGetPriority(other, &priority));
    printf("%u %d\n", flags, priority);
    SHOW(cuStreamGetId(stream, &id));
    SHOW(cuStreamGetCtx(stream, &context));
    SHOW(cuEventCreate(&start, CU_EVENT_DEFAULT));
    SHOW(cuEventCreate(&end, CU_EVENT_DEFAULT));
    restore();
    SHOW(cuEventRecord(start, stream));
    SHOW(cuLaunchKernel(scale, 2, 1, 1, 32, 1, 1, 0, stream, arguments, nullptr));
    SHOW(cuEventRecordWithFlags(end, stream, 0));
    SHOW(cuStreamWaitEvent(other, end, 0));
    SHOW(cuLaunchKernel(scale, 2, 1, 1, 32, 1, 1, 0, other, arguments, nullptr));
    SHOW(cuEventSynchronize(end));
    SHOW(cuEventElapsedTime(&time, start, end));
    printf("some time: %d\n", time > 0);
    SHOW(cuEventQuery(end));
    cuLaunchHostFunc(other, said, (void *)"by a function");
    SHOW(cuStreamSynchronize(other));
    expect("by a function");
    cuStreamAddCallback(other, finished, nullptr, 0);
    SHOW(cuStreamSynchronize(other));
    expect("CUDA_SUCCESS");
    SHOW(cuStreamQuery(other));
    show("twice");
    CUgraph graph;
    CUgraphExec executable;
    CUstreamCaptureStatus status;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    SHOW(cuThreadExchangeStreamCaptureMode(&mode));
    SHOW(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    SHOW(cuStreamIsCapturing(stream, &status));
    printf("%d\n", status);
    SHOW(cuLaunchKernel(scale, 2, 1, 1, 32, 1, 1, 0, stream, arguments, nullptr));
    SHOW(cuStreamEndCapture(stream, &graph));
    SHOW(cuGraphInstantiateWithFlags(&executable, graph, 0));
    restore();
    SHOW(cuGraphLaunch(executable, stream));
    SHOW(cuGraphLaunch(executable, stream));
    SHOW(cuStreamSynchronize(stream));
    show("a graph, twice");
    SHOW(cuGraphExecDestroy(executable));
    SHOW(cuGraphDestroy(graph));
    SHOW(cuEventDestroy(start));
    SHOW(cuEventDestroy(end));
    SHOW(cuStreamDestroy(stream));
    SHOW(cuStreamDestroy(other));
}

static void names() {
    CUresult (*alloc)(CUdeviceptr *, size_t);
    CUdriverProcAddressQueryResult status;
    CUdeviceptr q;
    const char *text;
    SHOW(cuGetProcAddress("cuMemAlloc", (void **)&alloc, 12000, 0, &status));
    printf("%d\n", status);
    SHOW(alloc(&q, 1 << 16));
    SHOW(cuGetProcAddress("cuNoSuch", (void **)&alloc, 12000, 0, &status));
    printf("%d\n", status);
    SHOW(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
    printf("%s\n", text);
    SHOW(cuGetErrorString((CUresult)12345, &text));
    alignas(64) CUtensorMap map;
    cuuint64_t dims[] = {64, 64}, strides[] = {256};
    cuuint32_t box[] = {32, 8}, steps[] = {1, 1};
    SHOW(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, (void *)q, dims, strides,
                                box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    box[0] = 3;
    SHOW(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, (void *)q, dims, strides,
                                box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    cuuint64_t images[] = {16, 8, 8, 2}, pitches[] = {64, 512, 4096};
    cuuint32_t each[] = {1, 1, 1, 1};
    int lower[] = {-1, -1}, upper[] = {-1, -1};
    SHOW(cuTensorMapEncodeIm2col(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, (void *)q, images,
                                 pitches, lower, upper, 8, 16, each, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                 CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
}

static void ends() {
    CUfunction stray;
    CUmodule broken;
    SHOW(cuModuleLoadData(&broken, ".version 7.0\n.target sm_75\n.visible .entry k("));
    SHOW(cuModuleGetFunction(&stray, module, "stray"));
    SHOW(cuLaunchKernel(stray, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    SHOW(cuCtxSynchronize());
    SHOW(cuMemFree(p));
    SHOW(cuDevicePrimaryCtxReset(0));
}

int main() {
    devices();
    contexts();
    MUST(cuMemAlloc(&p, sizeof values));
    modules();
    functions();
    launches();
    memory();
    streams();
    names();
    ends();
}
