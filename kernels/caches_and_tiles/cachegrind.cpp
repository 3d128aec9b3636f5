// The blocked product as a program of its own, for valgrind's cachegrind: "N LD BLOCK TIMES"
// multiplies TIMES times, and prints where the three matrices lie.
#include "caches_and_tiles/blocked.cpp"

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
    if (argc != 5) return 2;
    const int64_t n = atoll(argv[1]), ld = atoll(argv[2]), block = atoll(argv[3]);
    const size_t bytes = (n * ld * sizeof(float) + 4095) / 4096 * 4096;
    float* const all = static_cast<float*>(std::aligned_alloc(4096, 3 * bytes));
    if (all == nullptr) return 1;
    std::memset(all, 0, 3 * bytes);
    float *a = all, *b = all + bytes / 4, *c = all + bytes / 2;
    for (int i = 0; i < atoi(argv[4]); i++) blocked(n, ld, block, a, b, c);
    std::printf("%zu\n", reinterpret_cast<size_t>(all));
    return c[0] != 0;
}
