// The warp that computes tells the warp that writes out by bar.arrive, and goes on; the other one
// waits by bar.sync. Nothing keeps the first from arriving for the next tile before the second
// has come for this one: it is then counted twice in one generation, and missing in a later one.
#include "bug.cuh"

constexpr int WARP = 32, TILES = 3;

__device__ void arrive(int barrier) {
    asm volatile("bar.arrive %0, 64;" :: "r"(barrier) : "memory");
}
__device__ void sync(int barrier) { asm volatile("bar.sync %0, 64;" :: "r"(barrier) : "memory"); }

__global__ void hand_over(int* out)  // (TILES, WARP)
{
    __shared__ int tile[TILES][WARP];
    const int lane = threadIdx.x % WARP;
    for (int i = 0; i < TILES; ++i) {
        if (threadIdx.x < WARP) {
            tile[i][lane] = i * WARP + lane;
            arrive(1);
            sync(2);
        } else {
            sync(1);
            out[i * WARP + lane] = tile[i][WARP - 1 - lane];
            arrive(2);
        }
    }
}

int main() {
    std::vector<int> wanted(TILES * WARP);
    for (int i = 0; i < TILES * WARP; ++i) wanted[i] = i / WARP * WARP + WARP - 1 - i % WARP;
    int* out = poisoned<int>(wanted.size());
    hand_over<<<1, 2 * WARP>>>(out);
    return verdict(to_host(out, wanted.size()), wanted);
}
