// A buffer has the sums of all stages, and behind them the maxima. Where the maxima begin is
// written as if there were always two stages; with one they lie in what comes behind the buffer.
#include "bug.cuh"

constexpr int ROWS = 64, STAGES = 1;

struct Shared {
    int scale[2 * STAGES * ROWS];  // sums of each stage, then maxima of each stage
    int output[ROWS];              // what another warp is about to write out
};

__global__ void softmax(const int* in,  // (ROWS, 2): a sum, a maximum
                        int* out)       // (2, ROWS): their sums; what lies behind the buffer
{
    __shared__ Shared shared;
    constexpr int MAXIMA = STAGES * ROWS;
    const int row = threadIdx.x % ROWS;
    if (threadIdx.x < ROWS) {
        shared.scale[row] = in[2 * row];
        shared.scale[MAXIMA + row] = in[2 * row + 1];
        asm volatile("bar.sync 1, 64;" ::: "memory");
        const int other = ROWS - 1 - row;
        out[row] = shared.scale[other] + shared.scale[MAXIMA + other];
    } else {
        shared.output[row] = row;
        asm volatile("bar.sync 2, 64;" ::: "memory");
        out[ROWS + row] = shared.output[ROWS - 1 - row];
    }
}

int main() {
    std::vector<int> in(2 * ROWS), wanted(2 * ROWS);
    for (int i = 0; i < 2 * ROWS; ++i) in[i] = 3 * i;
    for (int row = 0; row < ROWS; ++row) {
        wanted[row] = in[2 * (ROWS - 1 - row)] + in[2 * (ROWS - 1 - row) + 1];
        wanted[ROWS + row] = ROWS - 1 - row;
    }
    int* out = poisoned<int>(2 * ROWS);
    softmax<<<1, 2 * ROWS>>>(to_device(in), out);
    return verdict(to_host(out, 2 * ROWS), wanted);
}
