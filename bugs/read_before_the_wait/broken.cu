// A producer warp fetches a tile by the copy engine, and stores scales of it itself; one barrier
// tells of both. The consumer waits before the tile's first use. It uses the scales before that.
#include "bug.cuh"
#include "ptx_sm90.cuh"

constexpr int WARP = 32, TILES = 4;

__global__ void scaled(const int* tiles,   // (TILES, WARP)
                       const int* scales,  // (TILES, WARP)
                       int* out)           // (TILES, WARP)
{
    __shared__ alignas(128) int tile[WARP];
    __shared__ int scale[WARP];
    __shared__ unsigned long long full, empty;
    const int lane = threadIdx.x % WARP;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&full, WARP + 1);
        ptx::mbarrier_init(&empty, WARP);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    for (int i = 0; i < TILES; ++i) {
        if (threadIdx.x < WARP) {
            ptx::mbarrier_wait(&empty, i % 2 ^ 1);
            __syncwarp();
            if (lane == 0) {
                ptx::mbarrier_arrive_expect_tx(&full, sizeof tile);
                ptx::cp_async_bulk_load(tile, tiles + i * WARP, sizeof tile, &full);
            }
            scale[lane] = scales[i * WARP + lane];
            ptx::mbarrier_arrive(&full);
        } else {
            const int factor = 10 * scale[WARP - 1 - lane];
            ptx::mbarrier_wait(&full, i % 2);
            out[i * WARP + lane] = factor + tile[lane];
            ptx::fence_proxy_async_shared();
            ptx::mbarrier_arrive(&empty);
        }
    }
}

int main() {
    std::vector<int> tiles(TILES * WARP), scales(tiles.size()), wanted(tiles.size());
    for (int i = 0; i < TILES * WARP; ++i) tiles[i] = i % 10, scales[i] = i / 3;
    for (int i = 0; i < TILES * WARP; ++i)
        wanted[i] = 10 * scales[i / WARP * WARP + WARP - 1 - i % WARP] + tiles[i];
    int* out = poisoned<int>(wanted.size());
    scaled<<<1, 2 * WARP>>>(to_device(tiles), to_device(scales), out);
    return verdict(to_host(out, wanted.size()), wanted);
}
