// The harness of the filters of *Asynchronous copies*: checks, then times. Include it last, after
//     constexpr int TILE;         outputs of a tile
//     void launch(const float* x, float* y, int n, Weights weights, int blocks);
//
// 1. Checked for sizes that fill tiles and sizes that do not, with one block and with several:
//    - small whole numbers, where f32 makes no rounding error: the result must be exact;
//    - normal random numbers: |error| ≤ γ·Σ|w·x| with γ = 9u / (1 − 9u), u = 2⁻²⁴, which holds
//      for nine products added in any order (Higham 2002, section 3.1).
//    Before each launch y and what lies behind it are NaN: an element that nobody writes is
//    wrong, and so is one written behind the end.
// 2. With the argument `warm`: --tiles N by --blocks N are timed, warm and with
//    the caches flushed; --repeats N times each; --json FILE keeps every time.
#pragma once
#include "asynchronous_copies/filter.cuh"
#include "timing.cuh"
#include <limits>
#include <random>

namespace filter_harness {

constexpr int BEHIND = 64;       // floats behind y that nobody may write
constexpr int FRESH = 1000003;   // random numbers; a longer x repeats them

struct Data {
    int n;
    std::vector<float> host;
    float *x, *y;  // on the device: (n) and (n + BEHIND)

    explicit Data(int n) : n(n), host(n) {
        CHECK(cudaMalloc(&x, n * sizeof(float)));
        CHECK(cudaMalloc(&y, (n + BEHIND) * sizeof(float)));
    }
    ~Data() { cudaFree(x), cudaFree(y); }
    Data(const Data&) = delete;

    template <class Draw> void fill(Draw draw) {
        for (int i = 0; i < n; ++i)
            host[i] = i < FRESH ? draw() : host[i - FRESH];
        CHECK(cudaMemcpy(x, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
        CHECK(cudaMemset(y, 0xff, (n + BEHIND) * sizeof(float)));  // all bits set: NaN
    }

    // Compare y with a reference in double; a wrong element ends the program.
    void verify(const Weights& weights, double gamma, int blocks) const {
        std::vector<float> got(n + BEHIND);
        CHECK(cudaMemcpy(got.data(), y, got.size() * sizeof(float), cudaMemcpyDeviceToHost));
        for (int i = 0; i < n; ++i) {
            double sum = 0, sizes = 0;
            for (int j = 0; j < WIDTH; ++j) {
                const int at = i + j - RADIUS;
                const double product = at < 0 || at >= n ? 0 : double(weights.of[j]) * host[at];
                sum += product, sizes += std::abs(product);
            }
            if (std::abs(got[i] - sum) <= gamma * sizes) continue;  // false for NaN
            printf("filter: WRONG\n");
            fflush(stdout);
            fprintf(stderr, "wrong result: y[%d] of %d is %g and should be %g (blocks: %d)\n", i, n,
                    got[i], sum, blocks);
            exit(2);
        }
        for (int i = n; i < n + BEHIND; ++i) {
            if (std::isnan(got[i])) continue;
            printf("filter: WRONG\n");
            fflush(stdout);
            fprintf(stderr, "wrong result: y[%d] was written, and y has %d elements\n", i, n);
            exit(2);
        }
    }
};

}  // namespace filter_harness

int main(int argc, char** argv) {
    using namespace filter_harness;
    const char* given = timing::option(argc, argv, "--seed");
    std::mt19937 random(given ? std::stoul(given) : std::random_device{}());
    std::uniform_int_distribution<int> whole(-8, 8);
    std::normal_distribution<float> normal;
    const double gamma = WIDTH * std::ldexp(1.0, -24) / (1 - WIDTH * std::ldexp(1.0, -24));

#ifdef UNVERIFIED  // a kernel that leaves work out on purpose, to see what the rest takes
    const bool checked = false;
#else
    const bool checked = true;
#endif
    const int sizes[] = {1, TILE - 3, TILE, 5 * TILE + 2, 12 * TILE};
    for (int n : sizes)
        for (int blocks : {1, 3}) {
            if (!checked) break;
            Data data(n);
            Weights weights;
            for (float& weight : weights.of) weight = whole(random);
            data.fill([&] { return float(whole(random)); });
            launch(data.x, data.y, n, weights, blocks);
            CHECK(cudaGetLastError());
            data.verify(weights, 0, blocks);
            for (float& weight : weights.of) weight = normal(random);
            data.fill([&] { return normal(random); });
            launch(data.x, data.y, n, weights, blocks);
            data.verify(weights, gamma, blocks);
        }
    if (checked) printf("filter: OK for %zu sizes, whole tiles and ragged ones, by 1 block and by 3\n",
           std::size(sizes));

    if (timing::emulated() || argc < 2 || strcmp(argv[1], "warm")) return 0;
    const char* tiles = timing::option(argc, argv, "--tiles");
    const char* by = timing::option(argc, argv, "--blocks");
    const char* repeats = timing::option(argc, argv, "--repeats");
    const int blocks = by ? std::stoi(by) : 1, times = repeats ? std::stoi(repeats) : 100;
    Data data(TILE * (tiles ? std::stoi(tiles) : 1024));
    Weights weights;
    for (float& weight : weights.of) weight = normal(random);
    data.fill([&] { return normal(random); });
    auto run = [&] { launch(data.x, data.y, data.n, weights, blocks); };
    run();
    if (checked) data.verify(weights, gamma, blocks);
    timing::Report report(argc, argv);
    timing::Flush flush;
    timing::each(20, run);
    report("warm_us", timing::each(times, run));
    report("flushed_us", timing::each(times / 5 + 1, run, [&] { flush(); }));
    auto copy = [&] {
        CHECK(cudaMemcpyAsync(data.y, data.x, data.n * sizeof(float), cudaMemcpyDeviceToDevice));
    };
    timing::each(20, copy);
    report("copy_warm_us", timing::each(times, copy));
    report("copy_flushed_us", timing::each(times / 5 + 1, copy, [&] { flush(); }));
    return 0;
}
