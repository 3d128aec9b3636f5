// The other block of the pair releases with cluster scope; the wait is written without a scope,
// which is .cta, and acquires nothing of what another block did.
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

__global__ void __cluster_dims__(2) share(int* out)  // (THREADS): THREADS … 1
{
    __shared__ int tile[THREADS];
    __shared__ unsigned long long full;
    const int t = threadIdx.x, rank = blockIdx.x % 2;
    if (t == 0) {
        ptx::mbarrier_init(&full, THREADS);
        ptx::fence_mbarrier_init();
    }
    ptx::cluster_arrive();
    ptx::cluster_wait();
    if (rank == 1) {
        tile[t] = t + 1;
        ptx::mbarrier_arrive_at(&full, 0);
    } else {
        ptx::mbarrier_wait(&full, 0);
        out[t] = at_peer(&tile[THREADS - 1 - t], 1);
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
