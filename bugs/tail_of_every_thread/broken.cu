// Rows whose length is no multiple of four: a loop over vectors, then one over the rest. The rest
// is strided by one, so that every thread does all that lies behind its first element.
#include "bug.cuh"

constexpr int THREADS = 32, COLUMNS = 4 * 32 + 3;

__global__ void shifted(float* x)  // (COLUMNS): every element 1 more, in place
{
    for (int i = 4 * threadIdx.x; i + 3 < COLUMNS; i += 4 * THREADS)
        for (int k = 0; k < 4; ++k) x[i + k] += 1;
    const int rest = COLUMNS & ~3;
    for (int i = rest + threadIdx.x; i < COLUMNS; i++) x[i] += 1;
}

int main() {
    std::vector<float> x = whole_numbers(COLUMNS), wanted(COLUMNS);
    for (int i = 0; i < COLUMNS; ++i) wanted[i] = x[i] + 1;
    float* results = to_device(x);
    shifted<<<1, THREADS>>>(results);
    return verdict(to_host(results, COLUMNS), wanted);
}
