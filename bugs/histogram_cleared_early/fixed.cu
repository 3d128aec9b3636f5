// Rounds of a selection share one histogram. At the end of a round each thread reads the bin of the
// threshold; at the start of the next the histogram is cleared, and no barrier lies between.
#include "bug.cuh"

constexpr int THREADS = 128, BINS = 64, ROUNDS = 3;

__global__ void select(const int* keys,  // (THREADS), 0 … BINS − 1
                       int* out)         // (THREADS): what each thread has counted
{
    __shared__ int histogram[BINS];
    int counted = 0;
    for (int round = 0; round < ROUNDS; ++round) {
        if (threadIdx.x < BINS) histogram[threadIdx.x] = 0;
        __syncthreads();
        atomicAdd(&histogram[(keys[threadIdx.x] + round) % BINS], 1);
        __syncthreads();
        counted += histogram[round];
        __syncthreads();
    }
    out[threadIdx.x] = counted;
}

int main() {
    std::vector<int> keys(THREADS);
    int count = 0;
    for (int i = 0; i < THREADS; ++i) {
        keys[i] = i * i % BINS;
        for (int round = 0; round < ROUNDS; ++round) count += (keys[i] + round) % BINS == round;
    }
    int* out = poisoned<int>(THREADS);
    select<<<1, THREADS>>>(to_device(keys), out);
    return verdict(to_host(out, THREADS), std::vector<int>(THREADS, count));
}
