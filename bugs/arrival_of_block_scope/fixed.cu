// A block fetches scale factors, and tells the other block of its pair at that one's barrier. The
// arrival releases with .cta scope: to its own block, which does not wait there.
#include "bug.cuh"
#include "ptx_sm90.cuh"

constexpr int THREADS = 64;

// What lies at the same place in the block of this rank.
__device__ int at_peer(const int* mine, unsigned rank) {
    int value;
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %1, %2;\n"
                 "ld.shared::cluster.u32 %0, [there]; }"
                 : "=r"(value) : "r"(ptx::shared_address(mine)), "r"(rank) : "memory");
    return value;
}

// An arrival at the barrier of the block of this rank.
__device__ void arrive_at(unsigned long long* barrier, unsigned rank) {
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }"
                 :: "r"(ptx::shared_address(barrier)), "r"(rank) : "memory");
}

__global__ void __cluster_dims__(2) share(int* out)  // (THREADS): THREADS … 1
{
    __shared__ int scales[THREADS];
    __shared__ unsigned long long full;
    const int t = threadIdx.x, rank = blockIdx.x % 2;
    if (t == 0) {
        ptx::mbarrier_init(&full, THREADS);
        ptx::fence_mbarrier_init();
    }
    ptx::cluster_arrive();
    ptx::cluster_wait();
    if (rank == 1) {
        scales[t] = t + 1;
        arrive_at(&full, 0);
    } else {
        ptx::mbarrier_wait_cluster(&full, 0);
        out[t] = at_peer(&scales[THREADS - 1 - t], 1);
    }
    ptx::cluster_arrive();
    ptx::cluster_wait();
}

int main() {
    std::vector<int> wanted(THREADS);
    for (int i = 0; i < THREADS; ++i) wanted[i] = THREADS - i;
    int* out = poisoned<int>(THREADS);
    share<<<2, THREADS>>>(out);
    return verdict(to_host(out, THREADS), wanted);
}
