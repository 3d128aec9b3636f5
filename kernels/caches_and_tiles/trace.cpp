// A list of addresses, looked up one after the other.
#include "watch.h"

// addresses (n), in bytes. levels (count, 4): see Memory. counts (1 + count): accesses, and misses
// of each level.
extern "C" void trace(int64_t n, const uint64_t* addresses, int64_t count, const int64_t* levels,
                      int64_t* counts) {
    Memory memory(count, levels);
    for (int64_t i = 0; i < n; i++) memory.touch(addresses[i]);
    memory.report(counts);
}
