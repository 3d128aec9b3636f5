// One warp a row; but threads beyond the number of columns return, as if a block had one row. With
// rows shorter than a block whole warps leave, and their rows are never written.
#include "bug.cuh"

constexpr int THREADS = 128, WARPS = THREADS / 32, ROWS = 8, COLUMNS = 64;

__global__ void sums(const float* in,  // (ROWS, COLUMNS)
                     float* out)       // (ROWS)
{
    if (threadIdx.x >= COLUMNS) return;
    const int row = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    float sum = 0;
    for (int i = lane; i < COLUMNS; i += 32) sum += in[row * COLUMNS + i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (lane == 0) out[row] = sum;
}

int main() {
    std::vector<float> in = whole_numbers(ROWS * COLUMNS), wanted(ROWS);
    for (int i = 0; i < ROWS * COLUMNS; ++i) wanted[i / COLUMNS] += in[i];
    float* out = poisoned<float>(ROWS);
    sums<<<ROWS / WARPS, THREADS>>>(to_device(in), out);
    return verdict(to_host(out, ROWS), wanted);
}
