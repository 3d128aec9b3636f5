// Which direction of a strided copy moves which bytes: loads alone, stores alone, and how much the
// L2 cache fetches at a time. For a profiler that counts the bytes of DRAM, launch by launch.
#include "check.cuh"
#include <cstdlib>
#include <cstring>
#include <vector>

// Neighbouring lanes are 2^log elements apart; each of the 2^bits elements is touched once.
__device__ unsigned place(unsigned i, int log, int bits) {
    return (i << log & ((1u << bits) - 1)) | i >> (bits - log);
}

__global__ void loads(const float* in, float* out, int log, int bits) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (in[place(i, log, bits)] != 0) out[0] = 1;  // never: it is all zeros
}

__global__ void stores(float* out, int log, int bits) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    out[place(i, log, bits)] = log + 1;
}

// one_way [BYTES]: at most BYTES fetched at a time, 32, 64 or 128.
int main(int argc, char** argv) {
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    const int bits = strstr(device.name, "phasebit emulator") ? 12 : 26;  // 256 MiB on a GPU
    if (argc == 2) CHECK(cudaDeviceSetLimit(cudaLimitMaxL2FetchGranularity, atoi(argv[1])));
    const size_t bytes = sizeof(float) << bits;
    float *in, *out;
    CHECK(cudaMalloc(&in, bytes));
    CHECK(cudaMalloc(&out, bytes));
    CHECK(cudaMemset(in, 0, bytes));
    CHECK(cudaMemset(out, 0, bytes));
    const int blocks = (1 << bits) / 256;
    for (int log = 0; log <= 5; ++log) loads<<<blocks, 256>>>(in, out, log, bits);
    std::vector<float> host(size_t(1) << bits);
    int missed = 0;
    for (int log = 0; log <= 5; ++log) {
        stores<<<blocks, 256>>>(in, log, bits);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(host.data(), in, bytes, cudaMemcpyDeviceToHost));
        for (float value : host) missed += value != log + 1;
    }
    CHECK(cudaMemcpy(host.data(), out, sizeof(float), cudaMemcpyDeviceToHost));
    const bool right = missed == 0 && host[0] == 0;
    printf("one way: %s\n", right ? "OK, every element once" : "WRONG");
    return right ? 0 : 2;
}
