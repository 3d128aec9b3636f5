// A thread a row. The guard lets one thread too many through, which works on the row behind the
// last one.
#include "bug.cuh"

constexpr int THREADS = 32, ROWS = 40, COLUMNS = 4;

__global__ void add(const float* a,  // (ROWS, COLUMNS)
                    const float* b,  // (ROWS, COLUMNS)
                    float* sum)      // (ROWS, COLUMNS)
{
    const int row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= ROWS) return;
    for (int i = row * COLUMNS; i < (row + 1) * COLUMNS; ++i) sum[i] = a[i] + b[i];
}

int main() {
    std::vector<float> a = whole_numbers(ROWS * COLUMNS), wanted(a.size());
    for (size_t i = 0; i < a.size(); ++i) wanted[i] = 2 * a[i];
    float* sum = poisoned<float>(a.size());
    add<<<(ROWS + THREADS - 1) / THREADS, THREADS>>>(to_device(a), to_device(a), sum);
    return verdict(to_host(sum, a.size()), wanted);
}
