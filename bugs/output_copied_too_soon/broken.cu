// Four warps put their rows into shared memory; then every thread copies a run of 16 bytes from
// there to memory, whichever warp has put it. Where one thread alone hands the tile to the copy
// engine there is a barrier; the path of the threads has none.
#include "bug.cuh"

constexpr int THREADS = 128, ROWS = 16, COLUMNS = 32;

__global__ void epilogue(const float* sums,  // (THREADS, 4): of each thread a column's four rows
                         float* out)         // (ROWS, COLUMNS)
{
    __shared__ alignas(16) float tile[ROWS * COLUMNS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int i = 0; i < 4; ++i) tile[(4 * warp + i) * COLUMNS + lane] = sums[4 * threadIdx.x + i];
    const int run = THREADS - 1 - threadIdx.x;
    reinterpret_cast<float4*>(out)[run] = reinterpret_cast<float4*>(tile)[run];
}

int main() {
    std::vector<float> sums(4 * THREADS), wanted(ROWS * COLUMNS);
    for (int i = 0; i < 4 * THREADS; ++i) {
        const int thread = i / 4, row = thread / 32 * 4 + i % 4;
        wanted[row * COLUMNS + thread % 32] = sums[i] = float(i);
    }
    float* out = poisoned<float>(wanted.size());
    epilogue<<<1, THREADS>>>(to_device(sums), out);
    return verdict(to_host(out, wanted.size()), wanted);
}
