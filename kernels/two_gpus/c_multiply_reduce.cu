// The producer multiplies, and the consumer adds: product and reduce-scatter in one kernel.
//
// X and W are divided along K: a GPU has 16 columns of X (64, 32) and 16 rows of W (32, 32), so each
// computes a part of every sum. GPU 0 owns the upper 32 rows of the result, GPU 1 the lower. The
// first blocks compute parts of tiles that the peer owns, and send them; the others compute parts of
// tiles of this GPU, and add what has come.
#include "two_gpus/peers.cuh"

constexpr int ROWS = 32, K = 16, N = 32;  // rows that one GPU owns, its part of K, columns
constexpr int COLUMNS = N / TILE;
constexpr int TILES = ROWS / TILE * COLUMNS;  // that a GPU sends
constexpr int OWN = 2 * ROWS * K, SENT = ROWS * N, WEIGHTS = K * N, RESULT = SENT;

// X: (64, 16), this GPU's columns. W: (16, 32), its rows. Y: (32, 32), the rows that it owns.
__global__ void multiply_reduce(Link link, const float* X, const float* W, float* Y, int device,
                                unsigned turn) {
    const int tile = blockIdx.x % TILES, slot = turn % SLOTS * SENT;
    const bool send = blockIdx.x < TILES;
    const int row = tile / COLUMNS * TILE, column = tile % COLUMNS * TILE;
    const int half = send ? 1 - device : device;  // whose rows these are
    float part[4];
    multiply<K, N>(X + (half * ROWS + row) * K, W + column, part);

    int at[4];  // of this thread's elements, in a half
    for (int i = 0; i < 4; ++i)
        at[i] = (row + threadIdx.x / TILE + 4 * i) * N + column + threadIdx.x % TILE;
    if (send) {
        for (int i = 0; i < 4; ++i) link.there[slot + at[i]] = part[i];
        raise(&link.there_full[tile], turn);
    } else {
        wait_for(&link.full[tile], turn);
        for (int i = 0; i < 4; ++i) Y[at[i]] = part[i] + link.here[slot + at[i]];
    }
}

void launch(Link link, const float* X, const float* W, float* Y, unsigned turn) {
    int device;
    cudaGetDevice(&device);
    multiply_reduce<<<2 * TILES, THREADS>>>(link, X, W, Y, device, turn);
}

double expected(int device, int i, const double (&X)[2][OWN], const double (&W)[2][WEIGHTS]) {
    const int row = device * ROWS + i / N, column = i % N;
    double sum = 0;
    for (int part = 0; part < 2; ++part)
        for (int k = 0; k < K; ++k) sum += X[part][row * K + k] * W[part][k * N + column];
    return sum;
}

#include "two_gpus/harness.cuh"
