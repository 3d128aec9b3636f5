// Each block of a pair fetches half of a tile and sends it to both. Its threads tell its own loader
// that they have read the tile. The other loader writes there too, and hears nothing of them.
#include "bug.cuh"
#include "ptx_sm90.cuh"

constexpr int THREADS = 64, HALF = THREADS / 2, TILES = 4;

__device__ void load_to_both(int* slot, const int* in, unsigned long long* full) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1], %2, [%3], %4;"
                 :: "r"(ptx::shared_address(slot)), "l"(in), "r"(HALF * 4),
                    "r"(ptx::shared_address(full)), "h"((unsigned short)3) : "memory");
}

__global__ void __cluster_dims__(2)
sums(const int* in,  // (TILES, THREADS)
     int* out)       // (2, THREADS): of each column, in each block
{
    __shared__ alignas(128) int slot[THREADS];
    __shared__ unsigned long long full, empty;
    const int t = threadIdx.x, rank = blockIdx.x;
    if (t == 0) {
        ptx::mbarrier_init(&full, 1);
        ptx::mbarrier_init(&empty, 2 * THREADS);
        ptx::fence_mbarrier_init();
    }
    ptx::cluster_arrive();
    ptx::cluster_wait();
    if (t == THREADS) {  // the loader
        for (int i = 0; i < TILES; ++i) {
            ptx::mbarrier_wait_cluster(&empty, i % 2 ^ 1);
            ptx::mbarrier_arrive_expect_tx(&full, sizeof slot);
            load_to_both(slot + rank * HALF, in + i * THREADS + rank * HALF, &full);
        }
    } else if (t < THREADS) {
        int sum = 0;
        for (int i = 0; i < TILES; ++i) {
            ptx::mbarrier_wait_cluster(&full, i % 2);
            sum += slot[t];
            ptx::fence_proxy_async_shared();
            for (int block = 0; block < 2; ++block) ptx::mbarrier_arrive_at(&empty, block);
        }
        out[rank * THREADS + t] = sum;
    }
    ptx::cluster_arrive();  // nobody leaves before the last of the other's copies and arrivals
    ptx::cluster_wait();
}

int main() {
    std::vector<int> in(TILES * THREADS), wanted(2 * THREADS);
    for (int i = 0; i < TILES * THREADS; ++i)
        for (int block = 0; block < 2; ++block)
            wanted[block * THREADS + i % THREADS] += in[i] = i * i % 101;
    int* out = poisoned<int>(wanted.size());
    sums<<<2, THREADS + 32>>>(to_device(in), out);
    return verdict(to_host(out, wanted.size()), wanted);
}
