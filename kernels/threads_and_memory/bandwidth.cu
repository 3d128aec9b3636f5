// How fast 256 MiB are copied: with what stride a warp walks, and with how many warps resident.
// Writes every time, in microseconds, as JSON to the file named by --json.
#include "check.cuh"
#include <cstring>
#include <random>
#include <vector>

constexpr unsigned COUNT = 1u << 26;  // floats: 256 MiB, more than any L2 cache
constexpr int THREADS = 64;           // a block of `resident` and `wide`: two warps
constexpr int WARM_UP = 5, ROUNDS = 20;

// Copies everything, four elements a thread. Lane after lane takes the element 2^log further on:
// the order changes, the elements do not. (The bits of the number are turned by log places.)
__global__ void strided(const float* __restrict__ in, float* __restrict__ out, int log) {
    unsigned at[4];
    float value[4];
    for (int k = 0; k < 4; ++k) {
        const unsigned i = (blockIdx.x * 4 + k) * 256 + threadIdx.x;
        at[k] = (i << log & (COUNT - 1)) | i >> (26 - log);
        value[k] = in[at[k]];
    }
    for (int k = 0; k < 4; ++k) out[at[k]] = value[k];
}

// As many blocks as are resident, each copying its share: one load in flight a lane.
__global__ void resident(const float* __restrict__ in, float* __restrict__ out) {
#pragma unroll 1  // or the compiler would have four loads in flight
    for (unsigned i = blockIdx.x * THREADS + threadIdx.x; i < COUNT; i += gridDim.x * THREADS)
        out[i] = in[i];
}

// The same with 16 bytes a load, and four loads a lane before the first store.
__global__ void wide(const float4* __restrict__ in, float4* __restrict__ out) {
    const unsigned step = gridDim.x * THREADS;
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    for (; i + 3 * step < COUNT / 4; i += 4 * step) {
        const float4 a = in[i], b = in[i + step], c = in[i + 2 * step], d = in[i + 3 * step];
        out[i] = a, out[i + step] = b, out[i + 2 * step] = c, out[i + 3 * step] = d;
    }
    for (; i < COUNT / 4; i += step) out[i] = in[i];
}

float *in, *out;
cudaEvent_t before, after;
const char* separator = "";  // before the next line of JSON

template <class Launch> double time_once(Launch launch) {
    CHECK(cudaEventRecord(before));
    launch();
    CHECK(cudaEventRecord(after));
    CHECK(cudaGetLastError());
    CHECK(cudaEventSynchronize(after));
    float milliseconds;
    CHECK(cudaEventElapsedTime(&milliseconds, before, after));
    return milliseconds * 1e3;
}

template <class Launch> void times(FILE* json, const char* what, int number, Launch launch) {
    CHECK(cudaMemset(out, 0xff, size_t(COUNT) * 4));
    launch();
    static std::vector<float> expected(COUNT), got(COUNT);
    CHECK(cudaMemcpy(expected.data(), in, size_t(COUNT) * 4, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(got.data(), out, size_t(COUNT) * 4, cudaMemcpyDeviceToHost));
    if (expected != got) {
        fprintf(stderr, "%s %d: the copy is wrong\n", what, number);
        exit(2);
    }
    for (int i = 0; i < WARM_UP; ++i) launch();
    fprintf(json, "%s\n {\"what\": \"%s\", \"number\": %d, \"us\": [", separator, what, number);
    separator = ",";
    for (int i = 0; i < ROUNDS; ++i) fprintf(json, i ? ", %.3f" : "%.3f", time_once(launch));
    fprintf(json, "], \"memcpy_us\": [");
    auto vendor = [] {
        CHECK(cudaMemcpyAsync(out, in, size_t(COUNT) * 4, cudaMemcpyDeviceToDevice));
    };
    for (int i = 0; i < 3; ++i) fprintf(json, i ? ", %.3f" : "%.3f", time_once(vendor));
    fprintf(json, "]}");
}

int main(int argc, char** argv) {
    FILE* json = argc == 3 && strcmp(argv[1], "--json") == 0 ? fopen(argv[2], "w") : nullptr;
    if (!json) return fprintf(stderr, "give the file to write: --json FILE\n"), 1;
    CHECK(cudaEventCreate(&before));
    CHECK(cudaEventCreate(&after));
    CHECK(cudaMalloc(&in, size_t(COUNT) * 4));
    CHECK(cudaMalloc(&out, size_t(COUNT) * 4));
    std::vector<float> data(COUNT);
    std::mt19937 random(std::random_device{}());
    for (float& value : data) value = float(random() >> 8);
    CHECK(cudaMemcpy(in, data.data(), size_t(COUNT) * 4, cudaMemcpyHostToDevice));
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    const int most = int(device.sharedMemPerBlockOptin);
    for (const void* kernel : {(const void*)resident, (const void*)wide})
        CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most));

    fprintf(json, "{\"multiprocessors\": %d, \"rows\": [", device.multiProcessorCount);
    for (int log = 0; log <= 5; ++log)
        times(json, "stride", 1 << log, [=] { strided<<<COUNT / 1024, 256>>>(in, out, log); });
    // Shared memory that nobody uses keeps further blocks out.
    for (int blocks : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32}) {
        const int each = int(device.sharedMemPerMultiprocessor) / blocks / 128 * 128;
        const int room = each - int(device.reservedSharedMemPerBlock);
        const int bytes = room < most ? room : most;
        int fits = 0, fits_wide = 0;
        CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fits, resident, THREADS, bytes));
        CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fits_wide, wide, THREADS, bytes));
        if (fits != blocks || fits_wide != blocks)
            return fprintf(stderr, "%d and %d blocks fit, not %d\n", fits, fits_wide, blocks), 2;
        const int grid = blocks * device.multiProcessorCount, warps = blocks * THREADS / 32;
        times(json, "resident", warps, [=] { resident<<<grid, THREADS, bytes>>>(in, out); });
        times(json, "wide", warps, [=] {
            wide<<<grid, THREADS, bytes>>>((const float4*)in, (float4*)out);
        });
    }
    fprintf(json, "\n]}\n");
    fclose(json);
    return 0;
}
