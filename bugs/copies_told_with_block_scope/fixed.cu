// Each block of a pair fetches its half by cp.async, waits for its own copies, and arrives at the
// leader's barrier with .cta scope. The leader reads both halves.
#include "bug.cuh"
#include "ptx_sm90.cuh"
#include "ptx.cuh"

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

__global__ void __cluster_dims__(2) share(const int* in, int* out)  // (2, THREADS), (THREADS)
{
    __shared__ alignas(16) int half[THREADS];
    __shared__ unsigned long long full;
    const int t = threadIdx.x, rank = blockIdx.x % 2;
    if (t == 0) {
        ptx::mbarrier_init(&full, 2 * THREADS);
        ptx::fence_mbarrier_init();
    }
    ptx::cluster_arrive();
    ptx::cluster_wait();
    if (t < THREADS / 4) ptx::cp_async<16>(half + 4 * t, in + rank * THREADS + 4 * t);
    asm volatile("cp.async.wait_all;" ::: "memory");
    arrive_at(&full, 0);
    if (rank == 0) {
        ptx::mbarrier_wait_cluster(&full, 0);
        out[t] = half[t] + at_peer(&half[t], 1);
    }
    ptx::cluster_arrive();
    ptx::cluster_wait();
}

int main() {
    std::vector<int> in(2 * THREADS), wanted(THREADS);
    for (int i = 0; i < 2 * THREADS; ++i) wanted[i % THREADS] += in[i] = i * i;
    int* out = poisoned<int>(THREADS);
    share<<<2, THREADS>>>(to_device(in), out);
    return verdict(to_host(out, THREADS), wanted);
}
