// A copy, and three transposes: straight, through a tile of shared memory, and
// with the tile padded.
#include "threads_and_memory/moves.cuh"
// A block: 32 × 8 threads, for a tile of 32 × 32.
using moves::TILE, moves::THREADS_Y;

__global__ void copy(const float* __restrict__ in,  // (rows, cols), row-major
                     float* __restrict__ out,       // (rows, cols)
                     int rows, int cols) {
    const int x = blockIdx.x * TILE + threadIdx.x;  // column of the input
    for (int j = threadIdx.y; j < TILE; j += THREADS_Y) {
        const int y = blockIdx.y * TILE + j;  // row of the input
        if (x < cols && y < rows) out[y * cols + x] = in[y * cols + x];
    }
}

__global__ void naive(const float* __restrict__ in,  // (rows, cols), row-major
                      float* __restrict__ out,       // (cols, rows)
                      int rows, int cols) {
    const int x = blockIdx.x * TILE + threadIdx.x;
    for (int j = threadIdx.y; j < TILE; j += THREADS_Y) {
        const int y = blockIdx.y * TILE + j;
        if (x < cols && y < rows) out[x * rows + y] = in[y * cols + x];
    }
}

// WIDTH: floats from one row of the tile to the next.
template <int WIDTH>
__device__ void through_tile(const float* __restrict__ in,
                             float* __restrict__ out, int rows, int cols) {
    __shared__ float tile[TILE][WIDTH];
    for (int j = threadIdx.y; j < TILE; j += THREADS_Y) {
        const int x = blockIdx.x * TILE + threadIdx.x,
                  y = blockIdx.y * TILE + j;  // of the input
        if (x < cols && y < rows) tile[j][threadIdx.x] = in[y * cols + x];
    }
    __syncthreads();  // the tile is full
    for (int j = threadIdx.y; j < TILE; j += THREADS_Y) {
        const int x = blockIdx.y * TILE + threadIdx.x,
                  y = blockIdx.x * TILE + j;  // of the output
        if (x < rows && y < cols) out[y * rows + x] = tile[threadIdx.x][j];
    }
}

__global__ void tiled(const float* in, float* out, int rows, int cols) {
    through_tile<TILE>(in, out, rows, cols);
}

__global__ void padded(const float* in, float* out, int rows, int cols) {
    through_tile<TILE + 1>(in, out, rows, cols);
}

int main(int argc, char** argv) {
    return moves::run({{"copy", copy, false},
                       {"naive", naive, true},
                       {"tiled", tiled, true},
                       {"padded", padded, true}}, argc, argv);
}
