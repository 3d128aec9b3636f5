// The consumer multiplies each tile as it comes: all-gather and product in one kernel.
//
// X (64, K) is divided by rows, W by columns: a GPU has 32 rows of X and 32 columns of W, and
// computes all 64 rows of its 32 columns of X · W. The first blocks send, so that the rest wait for
// nothing that has no room; the next ones multiply the rows that are here already, while the others
// are under way; the last ones wait for the tile that they multiply, and for no other.
#include "two_gpus/peers.cuh"

constexpr int ROWS = 32, K = 32, N = 32;  // of one GPU: rows of X, columns of W
constexpr int TILES = ROWS / TILE;        // of 16 rows each, that a GPU sends
constexpr int COLUMNS = N / TILE;         // blocks that read each of them
constexpr int OWN = ROWS * K, SENT = OWN, WEIGHTS = K * N, RESULT = 2 * ROWS * N;

// own: (32, K) of X. W: (K, 32). Y: (2, 32, 32), the rows of GPU 0 first.
__global__ void gather_multiply(Link link, const float* own, const float* W, float* Y, int device,
                                unsigned turn) {
    const int slot = turn % SLOTS * SENT;
    if (blockIdx.x < TILES) {  // producer
        const int tile = blockIdx.x, first = tile * TILE * K;
        for (int i = threadIdx.x; i < TILE * K; i += blockDim.x)
            link.there[slot + first + i] = own[first + i];
        raise(&link.there_full[tile], turn);
        return;
    }
    const int unit = blockIdx.x - TILES;  // consumer: own rows first
    const bool foreign = unit >= TILES * COLUMNS;
    const int tile = unit / COLUMNS % TILES, column = unit % COLUMNS * TILE;
    if (foreign) wait_for(&link.full[tile], turn);
    const float* X = foreign ? link.here + slot : own;
    float sum[4];
    multiply<K, N>(X + tile * TILE * K, W + column, sum);

    float* out = Y + ((foreign ? 1 - device : device) * ROWS + tile * TILE) * N + column;
    for (int i = 0; i < 4; ++i) out[(threadIdx.x / TILE + 4 * i) * N + threadIdx.x % TILE] = sum[i];
}

void launch(Link link, const float* own, const float* W, float* Y, unsigned turn) {
    int device;
    cudaGetDevice(&device);
    gather_multiply<<<TILES + 2 * TILES * COLUMNS, THREADS>>>(link, own, W, Y, device, turn);
}

double expected(int device, int i, const double (&own)[2][OWN], const double (&W)[2][WEIGHTS]) {
    const int row = i / N, column = i % N;
    double sum = 0;
    for (int k = 0; k < K; ++k)
        sum += own[row / ROWS][row % ROWS * K + k] * W[device][k * N + column];
    return sum;
}

#include "two_gpus/harness.cuh"
