// Blocks of a grid find their tile from the number of tiles in a row and in a column; M and N are
// read in the wrong order. For square matrices the two are equal.
#include "bug.cuh"

constexpr int TILE = 8, M = 16, N = 32;

__global__ void transposed_tiles(const float* in,  // (M, N)
                                 float* out)       // (M, N): 2 · in
{
    const int n = N;
    const int row = blockIdx.x / (n / TILE) * TILE + threadIdx.y;
    const int column = blockIdx.x % (n / TILE) * TILE + threadIdx.x;
    if (row < M && column < N) out[row * N + column] = 2 * in[row * N + column];
}

int main() {
    std::vector<float> in = whole_numbers(M * N), wanted(in.size());
    for (size_t i = 0; i < in.size(); ++i) wanted[i] = 2 * in[i];
    float* out = poisoned<float>(in.size());
    transposed_tiles<<<M / TILE * (N / TILE), dim3(TILE, TILE)>>>(to_device(in), out);
    return verdict(to_host(out, in.size()), wanted);
}
