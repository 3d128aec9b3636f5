// The harness of the two GPUs: links them, launches several turns on both without a wait between,
// then checks each turn's results. Include it last, after
//     constexpr int TILES;        flags each way: tiles that one GPU sends in a turn
//     constexpr int SENT;         floats that one GPU sends in a turn
//     constexpr int OWN, WEIGHTS, RESULT;    floats of a GPU's two operands and of its result
//     void launch(Link link, const float* own, const float* weights, float* result, unsigned turn);
//     double expected(int device, int i, const double (&own)[2][OWN], const double (&w)[2][WEIGHTS]);
// The data are small whole numbers, so every sum is exact in f32. Results are NaN before a launch.
#pragma once
#include "check.cuh"
#include <cstdio>
#include <vector>

constexpr int TURNS = 4;  // twice as many as there are slots: each is used again

template <class T> T* on_device(size_t count, int byte) {
    T* made;
    CHECK(cudaMalloc(&made, count * sizeof(T)));
    CHECK(cudaMemset(made, byte, count * sizeof(T)));
    return made;
}

int main() {
    int devices = 0;
    CHECK(cudaGetDeviceCount(&devices));
    if (devices < 2) {
        puts("two GPUs are needed, and there is one: on the emulator, phasebit run --devices 2");
        return 3;
    }
    float *slots[2], *own[2][TURNS], *weights[2], *result[2][TURNS];
    unsigned* full[2];
    static double values[TURNS][2][OWN], factors[2][WEIGHTS];
    unsigned seed = 1;
    auto draw = [&] { return int((seed = seed * 1664525u + 1013904223u) >> 29) - 3; };
    for (int d = 0; d < 2; ++d) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaDeviceEnablePeerAccess(1 - d, 0));
        slots[d] = on_device<float>(SLOTS * SENT, 0xff);
        full[d] = on_device<unsigned>(TILES, 0);
        weights[d] = on_device<float>(WEIGHTS, 0xff);
        std::vector<float> host(WEIGHTS > OWN ? WEIGHTS : OWN);
        for (int i = 0; i < WEIGHTS; ++i) host[i] = factors[d][i] = draw();
        CHECK(cudaMemcpy(weights[d], host.data(), WEIGHTS * sizeof(float), cudaMemcpyDefault));
        for (int turn = 0; turn < TURNS; ++turn) {
            own[d][turn] = on_device<float>(OWN, 0xff);
            result[d][turn] = on_device<float>(RESULT, 0xff);
            for (int i = 0; i < OWN; ++i) host[i] = values[turn][d][i] = draw();
            CHECK(cudaMemcpy(own[d][turn], host.data(), OWN * sizeof(float), cudaMemcpyDefault));
        }
    }
    for (int d = 0; d < 2; ++d) CHECK(cudaSetDevice(d)), CHECK(cudaDeviceSynchronize());
    for (int turn = 0; turn < TURNS; ++turn)
        for (int d = 0; d < 2; ++d) {
            CHECK(cudaSetDevice(d));
            launch({slots[1 - d], full[1 - d], slots[d], full[d]}, own[d][turn], weights[d],
                   result[d][turn], turn + 1);
            CHECK(cudaGetLastError());
        }
    int wrong = 0;
    std::vector<float> host(RESULT);
    for (int d = 0; d < 2; ++d) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaDeviceSynchronize());
        for (int turn = 0; turn < TURNS; ++turn) {
            CHECK(cudaMemcpy(host.data(), result[d][turn], RESULT * sizeof(float), cudaMemcpyDefault));
            for (int i = 0; i < RESULT; ++i)
                wrong += !(host[i] == expected(d, i, values[turn], factors));  // true for NaN
        }
    }
    if (wrong) printf("wrong: %d of %d elements\n", wrong, 2 * TURNS * RESULT);
    else puts("right");
    return wrong ? 2 : 0;
}
