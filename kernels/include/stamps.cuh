// Clock stamps: when a thread came to a place in its loop, on the clock of its multiprocessor.
// Include first; the harness then writes the stamps of one warm launch, and of one after a flush,
// to its JSON file. A benchmark puts the calls into a copy of a kernel.
#pragma once
#define STAMPS
constexpr int PLACES = 8, PASSES = 256;
__device__ long long stamps[PLACES][PASSES];  // cycles; rows: places, columns: passes of the loop
__device__ long long stamp_span[2][2];        // the first stamp and the last: cycles, nanoseconds

// `thread` comes to `place` for the `pass`-th time.
__device__ inline void stamp(unsigned thread, int place, int pass) {
    if (threadIdx.x == thread) stamps[place][pass] = clock64();
}

// Begin (0) and end (1) on two clocks, to tell how long a cycle is.
__device__ inline void stamp_both(int end) {
    long long nanoseconds;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
    stamp_span[end][0] = clock64();
    stamp_span[end][1] = nanoseconds;
}
