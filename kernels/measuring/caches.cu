// The same kernel, timed with events. What differs is where its data is, and
// what it is.
#define OWN_MAIN
#include "measuring/matvec.cu"
#include "timing.cuh"
#include <deque>

int main(int argc, char** argv) {
    timing::Report report(argc, argv);
    const bool emulated = timing::emulated();
    const int count = emulated ? 2 : 200;  // launches each way
    const int M = emulated ? 8 : 4096, K = emulated ? 64 : 2048;  // A: 32 MiB
    const int sets = emulated ? 2 : 8;     // together 256 MiB
    std::mt19937 random(std::random_device{}());
    std::normal_distribution<float> normal;
    std::deque<Problem<float>> inputs;
    for (int set = 0; set < sets; ++set) {
        inputs.emplace_back(M, K);
        inputs.back().fill([&] { return normal(random); });
    }
    int next = 0;
    auto same = [&] { inputs[0].run(); };
    auto rotated = [&] { inputs[next++ % sets].run(); };
    timing::Flush flush;

    timing::each(count, rotated);  // warm-up: does not count
    for (auto& input : inputs) input.verify("normal random numbers", false);
    report("same buffers", timing::each(count, same));
    report("8 sets in rotation", timing::each(count, rotated));
    report("caches flushed", timing::each(count, same, [&] { flush(); }));

    inputs[0].fill([] { return 0; });
    timing::each(count, same);
    inputs[0].verify("zeros", true);
    report("same buffers, zeros", timing::each(count, same));
    report("caches flushed, zeros",
           timing::each(count, same, [&] { flush(); }));
    printf("matvec: OK on all inputs\n");
}
