"""What a copy of 16 bytes costs that each thread asks for by itself, as cuda::memcpy_async does.

    python bench/bench_copies.py

Microseconds a copy, without checks and with all of them, the least of several times that the
processor spent; a launch before them compiles and translates. nvcc makes of each such copy one of
the copy engine, `cp.async.bulk`: the goal, with all checks, is three times the cost without.
"""

from __future__ import annotations

import time

import numpy as np

from phasebit.launching.launch import compile

BLOCKS, THREADS, ROUNDS, TIMES = 8, 256, 4, 5
SOURCE = """
#include <cuda/barrier>
using barrier = cuda::barrier<cuda::thread_scope_block>;

extern "C" __global__ void copy(const float4* in, float4* out, int rounds) {
    __shared__ alignas(128) float4 tile[256];
    __shared__ barrier full;
    if (threadIdx.x == 0) init(&full, blockDim.x);
    __syncthreads();
    for (int r = 0; r < rounds; ++r) {
        int i = (r * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
        cuda::aligned_size_t<16> bytes(sizeof(float4));
        cuda::memcpy_async(&tile[threadIdx.x], in + i, bytes, full);
        full.arrive_and_wait();
        out[i] = tile[threadIdx.x ^ 1];
        __syncthreads();
    }
}
"""


def main() -> None:
    """Time both modes."""
    kernel = compile(SOURCE, "sm_90a")["copy"]
    copies = BLOCKS * THREADS * ROUNDS
    given = np.random.default_rng(0).random((copies, 4), dtype=np.float32)
    pairs = given.reshape(-1, 2, 4)[:, ::-1].reshape(copies, 4)
    for check in (False, True):
        seconds = []
        for _ in range(1 + TIMES):
            out = np.zeros_like(given)
            begin = time.process_time()
            run = kernel.launch(BLOCKS, THREADS, [given, out, ROUNDS], check=check)
            seconds.append(time.process_time() - begin)
            assert np.array_equal(out, pairs) and not run.findings
        what = "with all checks" if check else "without checks"
        print(
            f"{copies:,} copies of 16 bytes, {what}: {min(seconds[1:]) / copies * 1e6:.0f} µs each"
        )


if __name__ == "__main__":
    main()
