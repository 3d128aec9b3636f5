// The host side of a bug: data there and back, and one line that says whether the result is right.
#pragma once
#include "check.cuh"
#include <cmath>
#include <vector>

// Data on the device: a copy of what is on the host.
template <class T> T* to_device(const std::vector<T>& data) {
    T* copy;
    CHECK(cudaMalloc(&copy, data.size() * sizeof(T)));
    CHECK(cudaMemcpy(copy, data.data(), data.size() * sizeof(T), cudaMemcpyHostToDevice));
    return copy;
}

// Memory on the device for COUNT results, poisoned: every byte is ff, which is a NaN in f32 and −1
// in whole numbers, so that a result that nobody writes is wrong.
template <class T> T* poisoned(size_t count) {
    T* memory;
    CHECK(cudaMalloc(&memory, count * sizeof(T)));
    CHECK(cudaMemset(memory, 0xff, count * sizeof(T)));
    return memory;
}

// COUNT results on the host, when all launches so far have ended.
template <class T> std::vector<T> to_host(const T* results, size_t count) {
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    std::vector<T> copy(count);
    CHECK(cudaMemcpy(copy.data(), results, count * sizeof(T), cudaMemcpyDeviceToHost));
    return copy;
}

// Whole numbers from −3 to 3: their sums and products are exact in f32.
inline std::vector<float> whole_numbers(size_t count) {
    std::vector<float> data(count);
    for (size_t i = 0; i < count; ++i) data[i] = float((i * 2654435761u >> 16) % 7) - 3;
    return data;
}

// Print the verdict, and end: status 0 for a right result, 2 for a wrong one.
template <class T>
int verdict(const std::vector<T>& got, const std::vector<T>& wanted, double tolerance = 0) {
    size_t wrong = 0;
    for (size_t i = 0; i < wanted.size(); ++i)
        wrong += !(std::fabs(double(got[i]) - double(wanted[i])) <= tolerance);
    if (wrong) printf("wrong: %zu of %zu\n", wrong, wanted.size());
    else printf("right\n");
    return wrong ? 2 : 0;
}
