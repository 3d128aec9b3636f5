// All lanes of the load warp wait until the slot is empty; lane 0 has it filled. Nothing keeps the
// others beside it: one that comes a round late sees another parity, and waits for ever.
#include "bug.cuh"
#include "ptx_sm90.cuh"

constexpr int WARP = 32, TILES = 3;

__global__ void sums(const int* in,  // (TILES, WARP)
                     int* out)       // (WARP): sums of the columns
{
    __shared__ alignas(128) int slot[WARP];
    __shared__ unsigned long long full, empty;
    const int lane = threadIdx.x % WARP;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&full, 1);
        ptx::mbarrier_init(&empty, WARP);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    int sum = 0;
    for (int i = 0; i < TILES; ++i) {
        if (threadIdx.x < WARP) {  // the producer
            ptx::mbarrier_wait(&empty, i % 2 ^ 1);
            __syncwarp();
            if (lane == 0) {
                ptx::mbarrier_arrive_expect_tx(&full, sizeof slot);
                ptx::cp_async_bulk_load(slot, in + i * WARP, sizeof slot, &full);
            }
        } else {
            ptx::mbarrier_wait(&full, i % 2);
            sum += slot[lane];
            ptx::mbarrier_arrive(&empty);
        }
    }
    if (threadIdx.x >= WARP) out[lane] = sum;
}

int main() {
    std::vector<int> in(TILES * WARP), wanted(WARP);
    for (int i = 0; i < TILES * WARP; ++i) wanted[i % WARP] += in[i] = i * i;
    int* out = poisoned<int>(WARP);
    sums<<<1, 2 * WARP>>>(to_device(in), out);
    return verdict(to_host(out, WARP), wanted);
}
