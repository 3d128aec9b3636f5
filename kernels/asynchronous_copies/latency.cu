// How long one load takes: a thread that needs each answer before it can ask again.
#include "timing.cuh"
#include <numeric>
#include <random>

constexpr int STEPS = 4096;        // loads, one after the other
constexpr size_t BYTES = 4 << 20;  // to walk about in: 32768 lines

__global__ void chase(const unsigned* next,  // (length): where to go from each place
                      long long* cycles,     // (1): for all steps
                      unsigned* last)        // (1): where it ended
{
    unsigned at = *last;
    const long long start = clock64();
    for (int step = 0; step < STEPS; ++step)
        at = __ldcg(&next[at]);  // .cg: from the L2 cache or from behind it, never from L1
    *cycles = clock64() - start;
    *last = at;
}

// One ring through all lines of `bytes`, in random order: no line is visited twice in a round.
std::vector<unsigned> ring(size_t bytes, std::mt19937& random) {
    constexpr unsigned line = 128 / sizeof(unsigned);
    std::vector<unsigned> order(bytes / 128), next(bytes / sizeof(unsigned), 0);
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), random);
    for (size_t i = 0; i < order.size(); ++i)
        next[order[i] * line] = order[(i + 1) % order.size()] * line;
    return next;
}

int main(int argc, char** argv) {
    std::mt19937 random(12);
    timing::Report report(argc, argv);
    const bool slow = timing::emulated();
    struct { const char* name; const char* words; bool flush; } places[] = {
        {"l2_us", "from the L2 cache", false},
        {"memory_us", "from memory", true},
    };
    timing::Flush flush;
    for (auto& place : places) {
        const std::vector<unsigned> next = ring(BYTES, random);
        unsigned *device, *last;
        long long* cycles;
        CHECK(cudaMalloc(&device, next.size() * sizeof(unsigned)));
        CHECK(cudaMalloc(&last, sizeof(unsigned)));
        CHECK(cudaMalloc(&cycles, sizeof(long long)));
        CHECK(cudaMemcpy(device, next.data(), next.size() * sizeof(unsigned),
                         cudaMemcpyHostToDevice));
        CHECK(cudaMemset(last, 0, sizeof(unsigned)));
        unsigned at = 0, found;
        for (int step = 0; step < STEPS; ++step) at = next[at];
        chase<<<1, 1>>>(device, cycles, last);
        CHECK(cudaMemcpy(&found, last, sizeof found, cudaMemcpyDeviceToHost));
        if (found != at) return fprintf(stderr, "the walk ended at %u, not %u\n", found, at), 2;
        printf("%s: the walk of %d steps ends where it should\n", place.words, STEPS);
        auto begin = [&] {
            CHECK(cudaMemsetAsync(last, 0, sizeof(unsigned)));
            if (place.flush) flush();
        };
        auto run = [&] { chase<<<1, 1>>>(device, cycles, last); };
        if (!slow) {
            timing::each(2, run, begin);
            report(place.name, timing::each(20, run, begin));
        }
        CHECK(cudaFree(device)), CHECK(cudaFree(last)), CHECK(cudaFree(cycles));
    }
    return 0;
}
