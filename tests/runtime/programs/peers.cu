// Two devices in one program: what they say to each other, rightly and wrongly. The first argument
// chooses: "api", "counts", or a store and a load of the flag by number.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#define OK(call) ok(call, #call)
#define SAY(call) printf("%s\n", cudaGetErrorName(call))

static void ok(cudaError_t error, const char* call) {
    if (error) printf("%s: %s\n", call, cudaGetErrorName(error)), exit(1);
}

__device__ void set(int how, unsigned* flag) {
    if (how == 0) asm volatile("st.release.sys.u32 [%0], 1;" :: "l"(flag) : "memory");
    if (how == 1) asm volatile("st.release.gpu.u32 [%0], 1;" :: "l"(flag) : "memory");
    if (how == 2) asm volatile("st.relaxed.sys.u32 [%0], 1;" :: "l"(flag) : "memory");
    if (how == 3) { __threadfence_system(); *(volatile unsigned*)flag = 1; }
    if (how == 4) { __threadfence(); *(volatile unsigned*)flag = 1; }
    if (how == 5) *flag = 1;
    if (how == 6) { __threadfence_system(); atomicAdd_system(flag, 1); }
    if (how == 7) { __threadfence_system(); atomicAdd(flag, 1); }
}
__device__ void wait(int how, unsigned* flag) {
    unsigned seen = 0;
    while (seen != 1) {
        if (how == 0) asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
        if (how == 1) asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
        if (how >= 2) asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
    }
    if (how == 3) __threadfence_system();
    if (how == 4) __threadfence();
}
__global__ void produce(int how, float* there, unsigned* flag, int barrier) {
    there[threadIdx.x] = threadIdx.x + 0.5f;
    if (barrier) __syncthreads();
    if (threadIdx.x == 0) set(how, flag);
}
__global__ void consume(int how, const float* x, unsigned* flag, float* y) {
    if (threadIdx.x == 0) wait(how, flag);
    __syncthreads();
    y[threadIdx.x] = 2 * x[threadIdx.x];
}
// It counts until it is told to stop, and shows 1 from its 4096th turn on.
__global__ void counts(unsigned* shown, unsigned* stop) {
    unsigned told = 0;
    for (unsigned n = 1; !told; ++n) {
        asm volatile("st.relaxed.sys.u32 [%0], %1;" :: "l"(shown), "r"(n >> 12) : "memory");
        asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(told) : "l"(stop) : "memory");
    }
}
__global__ void looks(unsigned* shown, unsigned* stop) {
    unsigned seen = 0;
    while (!seen) asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(seen) : "l"(shown) : "memory");
    asm volatile("st.relaxed.sys.u32 [%0], 1;" :: "l"(stop) : "memory");
}
static void counting() {
    unsigned *words;
    OK(cudaDeviceEnablePeerAccess(1, 0));
    OK(cudaSetDevice(1)), OK(cudaMalloc(&words, 8)), OK(cudaMemset(words, 0, 8));
    OK(cudaDeviceSynchronize());
    OK(cudaSetDevice(0));
    counts<<<1, 1>>>(words, words + 1);
    OK(cudaSetDevice(1));
    looks<<<1, 1>>>(words, words + 1);
    for (int d = 0; d < 2; d++) OK(cudaSetDevice(d)), OK(cudaDeviceSynchronize());
    puts("stopped");
}
__device__ int own = 7;
__global__ void add(int* to) { *to = atomicAdd(&own, 1); }

static void api() {
    int count, can, device;
    OK(cudaGetDeviceCount(&count)), OK(cudaDeviceCanAccessPeer(&can, 0, 1));
    printf("%d devices, %d\n", count, can);
    SAY(cudaSetDevice(2)), SAY(cudaDeviceEnablePeerAccess(2, 0)), SAY(cudaDeviceDisablePeerAccess(1));
    OK(cudaDeviceEnablePeerAccess(1, 0)), SAY(cudaDeviceEnablePeerAccess(1, 0));
    OK(cudaDeviceDisablePeerAccess(1));
    cudaStream_t stream;
    cudaEvent_t event;
    OK(cudaStreamCreate(&stream)), OK(cudaEventCreate(&event));
    int *x[2], out[4];
    for (int d = 0; d < 2; d++) {
        OK(cudaSetDevice(d)), OK(cudaMalloc(&x[d], 16)), OK(cudaMemset(x[d], d + 1, 16));
        add<<<1, 1>>>(x[d]), add<<<1, 1>>>(x[d]);  // each device has a variable of its own
        OK(cudaMemcpy(out + d, x[d], 4, cudaMemcpyDefault));
    }
    add<<<1, 1, 0, stream>>>(x[1]);
    SAY(cudaGetLastError()), SAY(cudaEventRecord(event, cudaStreamLegacy));
    OK(cudaGetDevice(&device));
    OK(cudaMemcpyPeer(x[0], 0, x[1] + 1, 1, 4));
    OK(cudaMemcpy(out + 2, x[0], 4, cudaMemcpyDefault));
    OK(cudaMemcpyFromSymbol(out + 3, own, 4));
    printf("%d %d %08x %d, device %d\n", out[0], out[1], out[2], out[3], device);
    cudaPointerAttributes of;
    OK(cudaPointerGetAttributes(&of, x[1]));
    printf("of device %d\n", of.device);
    OK(cudaSetDevice(0)), OK(cudaEventRecord(event, stream)), OK(cudaSetDevice(1));
    while (cudaEventQuery(event) == cudaErrorNotReady) {}
    OK(cudaStreamWaitEvent(0, event, 0)), OK(cudaDeviceSynchronize());
}

int main(int count, char** words) {
    if (count == 2 && !strcmp(words[1], "api")) return api(), 0;
    if (count == 2 && !strcmp(words[1], "counts")) return counting(), 0;
    int store = atoi(words[1]), load = atoi(words[2]);
    const char* how = words[3];  // any of these letters, or a dash
    float *x, *y, out[64];
    unsigned* flag;
    cudaEvent_t done;
    OK(cudaSetDevice(1)), OK(cudaMalloc(&x, 256)), OK(cudaMalloc(&y, 256)), OK(cudaMalloc(&flag, 4));
    OK(cudaMemset(flag, 0, 4)), OK(cudaDeviceSynchronize());
    if (!strchr(how, 'o')) consume<<<1, 64>>>(load, x, flag, y);  // o: only in order
    OK(cudaSetDevice(0)), OK(cudaEventCreate(&done));
    if (!strchr(how, 'p')) OK(cudaDeviceEnablePeerAccess(1, 0));  // p: no peer access
    if (!strchr(how, 'n')) produce<<<1, 64>>>(store, x, flag, !strchr(how, 'b'));  // n: nobody
    OK(cudaEventRecord(done, 0));
    OK(cudaSetDevice(1));
    if (strchr(how, 'e')) OK(cudaStreamWaitEvent(0, done, 0));  // e: after the event
    if (strchr(how, 'o')) consume<<<1, 64>>>(load, x, flag, y);
    while (strchr(how, 'q') && cudaStreamQuery(0) == cudaErrorNotReady) {}  // q: asks
    OK(cudaDeviceSynchronize()), OK(cudaMemcpy(out, y, 256, cudaMemcpyDeviceToHost));
    int right = 1;
    for (int i = 0; i < 64; i++) right &= out[i] == 2 * i + 1;
    puts(right ? "right" : "wrong");
}
