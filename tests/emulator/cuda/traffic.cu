// One warp, one access with a pattern of addresses: what Nsight Compute counts for it.
// Built by nvcc and run under ncu for the record; run by the emulator to be compared with it.
#include <cstdio>

template <class T> __device__ T from(int x);
template <> __device__ unsigned char from(int x) { return x; }
template <> __device__ unsigned short from(int x) { return x; }
template <> __device__ int from(int x) { return x; }
template <> __device__ int2 from(int x) { return {x, x}; }
template <> __device__ int4 from(int x) { return {x, x, x, x}; }

constexpr int ELEMENTS = 1056;

template <class T> __device__ void shared_load(const int* index, T* out) {
    __shared__ T box[ELEMENTS];
    for (int i = threadIdx.x; i < ELEMENTS; i += 32) box[i] = from<T>(i);
    __syncwarp();
    out[threadIdx.x] = box[index[threadIdx.x]];
}
template <class T> __device__ void shared_store(const int* index, T* out) {
    __shared__ T box[ELEMENTS];
    int i = index[threadIdx.x];
    box[i] = from<T>(threadIdx.x + 1);
    __syncwarp();
    out[threadIdx.x] = box[threadIdx.x];
}
template <class T> __device__ void global_load(const int* index, const T* in, T* out) {
    out[threadIdx.x] = in[index[threadIdx.x]];
}
template <class T> __device__ void global_store(const int* index, T* out) {
    out[index[threadIdx.x]] = from<T>(threadIdx.x);
}

#define KERNELS(NAME, T)                                                                          \
    extern "C" __global__ void shared_load_##NAME(const int* i, T* o) { shared_load<T>(i, o); }     \
    extern "C" __global__ void shared_store_##NAME(const int* i, T* o) { shared_store<T>(i, o); }   \
    extern "C" __global__ void global_load_##NAME(const int* i, const T* a, T* o) {                 \
        global_load<T>(i, a, o);                                                                    \
    }                                                                                               \
    extern "C" __global__ void global_store_##NAME(const int* i, T* o) { global_store<T>(i, o); }
KERNELS(1, unsigned char)
KERNELS(2, unsigned short)
KERNELS(4, int)
KERNELS(8, int2)
KERNELS(16, int4)

constexpr int PATTERNS = 22;
int pattern(int p, int lane) {
    switch (p) {
        case 0: return lane;            case 1: return 2 * lane;       case 2: return 3 * lane;
        case 3: return 4 * lane;        case 4: return 8 * lane;       case 5: return 16 * lane;
        case 6: return 32 * lane;       case 7: return 33 * lane;      case 8: return 5;
        case 9: return lane / 2;        case 10: return lane / 4;      case 11: return lane / 8;
        case 12: return lane / 16;      case 13: return lane % 2;      case 14: return 31 - lane;
        case 15: return (7 * lane + 3) % 32;                           case 16: return lane + 1;
        case 17: return lane % 8 * 32 + lane / 8;                      case 18: return lane % 2 * 32;
        case 19: return lane < 16 ? 2 * lane : 2 * lane - 31;          case 20: return lane % 4 * 8;
        default: return (13 * lane * lane + lane) % 997;
    }
}

int main() {
    static int host[PATTERNS * 32];
    int* index; int4 *in, *out;
    cudaMalloc(&index, sizeof host);
    cudaMalloc(&in, ELEMENTS * 16); cudaMalloc(&out, ELEMENTS * 16);
    for (int p = 0; p < PATTERNS; ++p)
        for (int lane = 0; lane < 32; ++lane) host[32 * p + lane] = pattern(p, lane);
    cudaMemcpy(index, host, sizeof host, cudaMemcpyHostToDevice);
    for (int p = 0; p < PATTERNS; ++p) {
        const int* i = index + 32 * p;
#define RUN(NAME, T)                                                                              \
    shared_load_##NAME<<<1, 32>>>(i, (T*)out); shared_store_##NAME<<<1, 32>>>(i, (T*)out);          \
    global_load_##NAME<<<1, 32>>>(i, (T*)in, (T*)out); global_store_##NAME<<<1, 32>>>(i, (T*)out);
        RUN(1, unsigned char) RUN(2, unsigned short) RUN(4, int) RUN(8, int2) RUN(16, int4)
    }
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
