// For kernels that move f32 numbers from one array to another: checks them, then times them.
//     int main(int argc, char** argv) { return moves::run({{"naive", naive, true}, …}, argc, argv); }
//
// 1. Each kernel moves fresh random bits, in several shapes, ragged ones among them. The output is
//    filled with a word that no input holds, so a number that is not written is wrong, and it is
//    compared bit by bit. Behind the output lie words that must stay as they were.
// 2. On a GPU each kernel is timed on a matrix larger than any cache, by turns with cudaMemcpy from
//    device to device. With --json FILE every time is written, in microseconds.
//
// A line that depends on the machine begins with ⏱. On the emulator nothing is timed.
#pragma once
#include "check.cuh"
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace moves {

using Kernel = void (*)(const float* in, float* out, int rows, int cols);

struct Version {
    const char* name;
    Kernel kernel;    // in (rows, cols); out (rows, cols), or (cols, rows) if it transposes
    bool transposes;
};

constexpr int TILE = 32, THREADS_Y = 8;  // a block of 32 × 8 threads has a tile of 32 × 32
constexpr uint32_t POISON = 0xdeadbeef;  // no input holds this word
constexpr int BEHIND = 64;               // words behind the output
constexpr int BIG = 8192;                // rows and columns of the timed matrix: 256 MiB
constexpr int WARM_UP = 5, ROUNDS = 40;

inline void launch(const Version& version, const float* in, float* out, int rows, int cols) {
    const dim3 grid((cols + TILE - 1) / TILE, (rows + TILE - 1) / TILE), block(TILE, THREADS_Y);
    version.kernel<<<grid, block>>>(in, out, rows, cols);
    CHECK(cudaGetLastError());
}

// Whether this device is the one that runs in Python.
inline bool emulated() {
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    return std::string(device.name).rfind("phasebit emulator", 0) == 0;
}

// Moves one matrix of random bits; a wrong word ends the program.
inline void check(const Version& version, int rows, int cols, std::mt19937& random) {
    const size_t count = size_t(rows) * cols, bytes = count * sizeof(float);
    std::vector<uint32_t> in(count), out(count + BEHIND, POISON);
    for (uint32_t& word : in)
        do word = random();
        while (word == POISON);
    float *from, *to;
    CHECK(cudaMalloc(&from, bytes));
    CHECK(cudaMalloc(&to, bytes + BEHIND * sizeof(float)));
    CHECK(cudaMemcpy(from, in.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(to, out.data(), out.size() * sizeof(float), cudaMemcpyHostToDevice));
    launch(version, from, to, rows, cols);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(out.data(), to, out.size() * sizeof(float), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < out.size(); ++i) {
        size_t source = i;
        if (version.transposes && i < count) source = i % rows * cols + i / rows;
        const uint32_t right = i < count ? in[source] : POISON;
        if (out[i] == right) continue;
        printf("%s: WRONG for %d × %d\n", version.name, rows, cols);
        fflush(stdout);
        fprintf(stderr, "wrong result: %s of %d × %d: word %zu of the output is %s\n", version.name,
                rows, cols, i, i >= count ? "behind its end and was written"
                               : out[i] == POISON ? "not written" : "another one's");
        exit(2);
    }
    CHECK(cudaFree(from));
    CHECK(cudaFree(to));
}

// Microseconds of one launch, or of one cudaMemcpy if there is no version.
inline double time_once(const Version* version, float* in, float* out) {
    static cudaEvent_t before = nullptr, after = nullptr;
    if (!before) CHECK(cudaEventCreate(&before));
    if (!after) CHECK(cudaEventCreate(&after));
    const size_t bytes = size_t(BIG) * BIG * sizeof(float);
    CHECK(cudaEventRecord(before));
    if (version) launch(*version, in, out, BIG, BIG);
    else CHECK(cudaMemcpyAsync(out, in, bytes, cudaMemcpyDeviceToDevice));
    CHECK(cudaEventRecord(after));
    CHECK(cudaEventSynchronize(after));
    float milliseconds;
    CHECK(cudaEventElapsedTime(&milliseconds, before, after));
    return milliseconds * 1e3;
}

inline double median(std::vector<double> times) {
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

inline void time_all(const std::vector<Version>& versions, std::mt19937& random, FILE* json) {
    const size_t count = size_t(BIG) * BIG;
    float *in, *out;
    CHECK(cudaMalloc(&in, count * sizeof(float)));
    CHECK(cudaMalloc(&out, count * sizeof(float)));
    std::vector<uint32_t> bits(count);
    for (uint32_t& word : bits) word = random();
    CHECK(cudaMemcpy(in, bits.data(), count * sizeof(float), cudaMemcpyHostToDevice));
    std::vector<std::vector<double>> times(versions.size() + 1);
    for (int round = -WARM_UP; round < ROUNDS; ++round)
        for (size_t i = 0; i <= versions.size(); ++i) {
            const double time = time_once(i ? &versions[i - 1] : nullptr, in, out);
            if (round >= 0) times[i].push_back(time);
        }
    for (size_t i = 0; i <= versions.size(); ++i) {
        const char* name = i ? versions[i - 1].name : "cudaMemcpy";
        printf("⏱ %s: median %.0f µs of %d, %.0f GB/s read and written\n", name, median(times[i]),
               ROUNDS, 2.0 * count * sizeof(float) / median(times[i]) / 1e3);
        if (!json) continue;
        fprintf(json, "%s\n \"%s\": [", i ? "," : "{", name);
        for (int k = 0; k < ROUNDS; ++k) fprintf(json, k ? ", %.3f" : "%.3f", times[i][k]);
        fprintf(json, "]");
    }
    if (json) fprintf(json, "\n}\n");
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}

inline int run(const std::vector<Version>& versions, int argc, char** argv) {
    std::mt19937 random(std::random_device{}());
    const int shapes[][2] = {{32, 32}, {64, 96}, {33, 65}, {1, 70}, {97, 1}};
    for (const Version& version : versions) {
        for (auto& shape : shapes) check(version, shape[0], shape[1], random);
        printf("%s: OK, every bit, in %zu shapes\n", version.name, sizeof shapes / sizeof *shapes);
    }
    if (emulated()) return 0;
    const char* path = argc == 3 && !strcmp(argv[1], "--json") ? argv[2] : nullptr;
    FILE* json = path ? fopen(path, "w") : nullptr;
    if (path && !json) return fprintf(stderr, "cannot write %s\n", path), 1;
    time_all(versions, random, json);
    if (json) fclose(json);
    return 0;
}

}  // namespace moves
