// How long one load takes, by how much memory a thread walks about in: it follows a ring of
// pointers, so it needs each answer before it can ask again.
#include "timing.cuh"
#include <numeric>
#include <random>

constexpr int STEPS = 4096;                 // loads that are timed, one after the other
constexpr unsigned LINE = 128 / sizeof(unsigned);  // words of a line: one pointer each
constexpr unsigned SHARED = 32 * LINE;      // words of the ring in shared memory
constexpr unsigned MOST_WARM = 1u << 18;    // steps before the clock: 32 MiB of lines
constexpr int LAUNCHES = 11;

__global__ void in_shared(const unsigned* next,  // (SHARED): where to go from each place
                          long long* cycles,     // (1): for all steps
                          unsigned* last)        // (1): where it ended
{
    __shared__ unsigned ring[SHARED];
    for (unsigned i = 0; i < SHARED; ++i) ring[i] = next[i];
    unsigned at = 0;
    const long long start = clock64();
    for (int step = 0; step < STEPS; ++step) at = ring[at];
    *cycles = clock64() - start;
    *last = at;
}

__global__ void in_global(const unsigned* next, int warm, long long* cycles, unsigned* last) {
    unsigned at = 0;
    for (int step = 0; step < warm; ++step) at = __ldca(&next[at]);  // .ca: L1 may keep it
    const long long start = clock64();
    for (int step = 0; step < STEPS; ++step) at = __ldca(&next[at]);
    *cycles = clock64() - start;
    *last = at;
}

// One ring through all lines, in random order: no line is visited twice in a round.
std::vector<unsigned> ring(size_t words, std::mt19937& random) {
    std::vector<unsigned> order(words / LINE), next(words, 0);
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), random);
    for (size_t i = 0; i < order.size(); ++i)
        next[size_t(order[i]) * LINE] = order[(i + 1) % order.size()] * LINE;
    return next;
}

int main(int argc, char** argv) {
    std::mt19937 random(4);
    timing::Report report(argc, argv);
    timing::Flush flush;
    long long* cycles;
    unsigned* last;
    CHECK(cudaMalloc(&cycles, sizeof *cycles));
    CHECK(cudaMalloc(&last, sizeof *last));
    auto walk = [&](const std::string& name, size_t bytes, bool shared) {
        const std::vector<unsigned> next = ring(bytes / sizeof(unsigned), random);
        const int warm = shared ? 0 : int(std::min<size_t>(next.size() / LINE, MOST_WARM));
        unsigned *device, at = 0, found;
        for (int step = 0; step < warm + STEPS; ++step) at = next[at];
        CHECK(cudaMalloc(&device, bytes));
        CHECK(cudaMemcpy(device, next.data(), bytes, cudaMemcpyHostToDevice));
        timing::Times loads;  // cycles for one
        for (int i = 0; i < (timing::emulated() ? 1 : LAUNCHES); ++i) {
            flush();  // what the copy to the device left in the caches
            if (shared) in_shared<<<1, 1>>>(device, cycles, last);
            else in_global<<<1, 1>>>(device, warm, cycles, last);
            CHECK(cudaGetLastError());
            long long taken;
            CHECK(cudaMemcpy(&taken, cycles, sizeof taken, cudaMemcpyDeviceToHost));
            CHECK(cudaMemcpy(&found, last, sizeof found, cudaMemcpyDeviceToHost));
            if (found != at) {
                fprintf(stderr, "%s: the walk ended at %u, not %u\n", name.c_str(), found, at);
                exit(2);
            }
            loads.push_back(double(taken) / STEPS);
        }
        CHECK(cudaFree(device));
        printf("%s: the walk ends where it should\n", name.c_str());
        if (timing::emulated()) return;
        report.say("%s: %.0f cycles a load", name.c_str(), timing::quantile(loads, 0.5));
        report.keep(name.c_str(), loads);
    };
    walk("shared memory", SHARED * sizeof(unsigned), true);
    for (size_t kib : {16, 64, 128, 512, 2048, 8192, 16384, 32768, 131072, 524288}) {
        walk(std::to_string(kib) + " KiB", kib << 10, false);
        if (timing::emulated()) break;
    }
    CHECK(cudaFree(cycles));
    CHECK(cudaFree(last));
    return 0;
}
