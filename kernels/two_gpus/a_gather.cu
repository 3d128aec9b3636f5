// The slots of a ring lie on another GPU: an all-gather by peer stores, with a flag for each tile.
//
// Each GPU has half the rows of X, (32, 32) f32, and afterwards all of them. Block i sends tile i of
// its own half, then waits for tile i of the other. It sends before it waits: if both GPUs waited
// first, neither would ever send.
#include "two_gpus/peers.cuh"

constexpr int ROWS = 32, K = 32;     // of one GPU's half
constexpr int TILES = ROWS / TILE;   // of 16 rows each
constexpr int OWN = ROWS * K, SENT = OWN, WEIGHTS = 1, RESULT = 2 * OWN;

// own: (32, 32), this GPU's half. all: (2, 32, 32), the half of GPU 0 first.
__global__ void gather(Link link, const float* own, float* all, int device, unsigned turn) {
    const int tile = blockIdx.x, first = tile * TILE * K, slot = turn % SLOTS * SENT;
    for (int i = threadIdx.x; i < TILE * K; i += blockDim.x) {
        link.there[slot + first + i] = own[first + i];
        all[device * OWN + first + i] = own[first + i];
    }
    raise(&link.there_full[tile], turn);

    wait_for(&link.full[tile], turn);
    for (int i = threadIdx.x; i < TILE * K; i += blockDim.x)
        all[(1 - device) * OWN + first + i] = link.here[slot + first + i];
}

void launch(Link link, const float* own, const float*, float* all, unsigned turn) {
    int device;
    cudaGetDevice(&device);
    gather<<<TILES, THREADS>>>(link, own, all, device, turn);
}

double expected(int, int i, const double (&own)[2][OWN], const double (&)[2][WEIGHTS]) {
    return own[i / OWN][i % OWN];
}

#include "two_gpus/harness.cuh"
