// A mailbox for two blocks: one writes it and sets a flag in the shared memory of the other. The
// handshake was written for one block: its store releases with .cta scope.
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

// Store 1 to the flag of the block of this rank.
__device__ void set_flag(unsigned* flag, unsigned rank) {
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
                 "st.release.cluster.shared::cluster.u32 [there], 1; }"
                 :: "r"(ptx::shared_address(flag)), "r"(rank) : "memory");
}

__device__ unsigned look(const unsigned* flag) {
    unsigned value;
    asm volatile("ld.acquire.cluster.shared::cta.u32 %0, [%1];"
                 : "=r"(value) : "r"(ptx::shared_address(flag)) : "memory");
    return value;
}

__global__ void __cluster_dims__(2) share(int* out)  // (THREADS): THREADS … 1
{
    __shared__ int mailbox[THREADS];
    __shared__ unsigned flag;
    const int t = threadIdx.x, rank = blockIdx.x % 2;
    if (t == 0) flag = 0;
    ptx::cluster_arrive();
    ptx::cluster_wait();
    if (rank == 1) {
        mailbox[t] = t + 1;
        __syncthreads();
        if (t == 0) set_flag(&flag, 0);
    } else {
        while (!look(&flag)) {}
        out[t] = at_peer(&mailbox[THREADS - 1 - t], 1);
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
