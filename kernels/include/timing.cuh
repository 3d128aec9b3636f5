// The right ways to take a time, of any kernel. *Measuring honestly* builds them up.
//
// A device whose clock is no time, the emulator, is told by emulated(): check there, do not time.
#pragma once
#include "check.cuh"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace timing {

using Work = std::function<void()>;
using Times = std::vector<double>;  // microseconds, one for each launch, in their order

// Whether this device is the one that runs in Python.
inline bool emulated() {
    static const bool answer = [] {
        cudaDeviceProp device;
        CHECK(cudaGetDeviceProperties(&device, 0));
        return std::string(device.name).rfind("phasebit emulator", 0) == 0;
    }();
    return answer;
}

// What happened on the device between two of these, in its own time.
class Event {
  public:
    Event() { CHECK(cudaEventCreate(&event)); }
    ~Event() { cudaEventDestroy(event); }
    Event(const Event&) = delete;
    void record(cudaStream_t stream = 0) { CHECK(cudaEventRecord(event, stream)); }
    void wait() { CHECK(cudaEventSynchronize(event)); }
    // Microseconds since another event. CUDA gives milliseconds.
    double since(const Event& other) const {
        float milliseconds;
        CHECK(cudaEventElapsedTime(&milliseconds, other.event, event));
        return milliseconds * 1e3;
    }

  private:
    cudaEvent_t event;
};

// Launches in one queue with events around each; what `before` does is not counted.
inline Times each(int count, const Work& run, const Work& before = [] {}) {
    std::vector<Event> start(count), end(count);
    for (int i = 0; i < count; ++i) {
        before();
        start[i].record();
        run();
        end[i].record();
    }
    CHECK(cudaDeviceSynchronize());
    Times times(count);
    for (int i = 0; i < count; ++i) times[i] = end[i].since(start[i]);
    return times;
}

// Pushes other data into the caches, by reading: what was written would be written back later,
// while the kernel runs. 256 MiB are more than the L2 cache of any GPU so far.
__global__ void flush(const uint4* other, size_t count, unsigned* sink) {
    unsigned sum = 0;
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        sum |= other[i].x | other[i].y | other[i].z | other[i].w;
    if (sum) *sink = sum;  // never: it is all zeros, but the compiler cannot know
}

class Flush {
  public:
    Flush() {
        CHECK(cudaMalloc(&other, bytes));
        CHECK(cudaMemset(other, 0, bytes));
    }
    ~Flush() { cudaFree(other); }
    Flush(const Flush&) = delete;
    void operator()() const {
        flush<<<1024, 256>>>(other, bytes / sizeof(uint4), (unsigned*)other);
    }

  private:
    const size_t bytes = emulated() ? 1 << 16 : 256 << 20;
    uint4* other;
};

// The value that a share q of the times lies below.
inline double quantile(Times times, double q) {
    std::sort(times.begin(), times.end());
    return times[size_t(q * (times.size() - 1) + 0.5)];
}

inline const char* option(int argc, char** argv, const char* name) {
    for (int i = 1; i + 1 < argc; ++i)
        if (!strcmp(argv[i], name)) return argv[i + 1];
    return nullptr;
}

// Says the median and the spread of some times, and with --json FILE keeps every one of them.
// It speaks when main ends: what depends on the machine comes after what does not.
class Report {
  public:
    Report(int argc, char** argv) {
        const char* path = option(argc, argv, "--json");
        if (!path) return;
        if (emulated()) stop("--json wants times, and the emulator has none: use a GPU");
        file = fopen(path, "w");
        if (!file) stop("the file of --json cannot be written");
    }
    ~Report() {
        if (!emulated()) fputs(words.c_str(), stdout);
        if (!file) return;
        fprintf(file, "%s\n}\n", *separator == ',' ? "" : separator);
        fclose(file);
    }
    Report(const Report&) = delete;

    void operator()(const char* name, const Times& times) {
        if (times.size() > 1)
            say("%-34s median %8.2f µs, middle half %.2f to %.2f", name, quantile(times, 0.5),
                quantile(times, 0.25), quantile(times, 0.75));
        else say("%-34s %15.2f µs", name, times[0]);
        keep(name, times);
    }

    template <class... Values> void say(const char* format, Values... values) {
        char line[200];
        snprintf(line, sizeof line, format, values...);
        words += std::string("⏱ ") + line + "\n";
    }

    // Only keeps them: times, or other numbers that belong to the launches.
    void keep(const char* name, const Times& numbers) {
        if (!file) return;
        fprintf(file, "%s\n \"%s\": [", separator, name);
        separator = ",";
        for (size_t i = 0; i < numbers.size(); ++i)
            fprintf(file, i ? ", %.3f" : "%.3f", numbers[i]);
        fprintf(file, "]");
    }

  private:
    FILE* file = nullptr;
    const char* separator = "{";
    std::string words;
    [[noreturn]] static void stop(const char* why) {
        fprintf(stderr, "%s\n", why);
        exit(1);
    }
};

}  // namespace timing
