// Two blocks share the work on a sum. The one that receives clears its mailboxes when the cluster
// has met: a part that has come by then is lost.
#include "bug.cuh"
#include "ptx_sm90.cuh"

constexpr int THREADS = 64;

// Store to what lies at the same place in the block of this rank.
__device__ void put_at(int* mine, unsigned rank, int value) {
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
                 "st.shared::cluster.u32 [there], %2; }"
                 :: "r"(ptx::shared_address(mine)), "r"(rank), "r"(value) : "memory");
}

__global__ void __cluster_dims__(2) sums(const int* in,  // (2, THREADS)
                                         int* out)       // (THREADS): sums of the columns
{
    __shared__ int mailbox[THREADS];
    const int t = threadIdx.x, rank = blockIdx.x % 2;
    if (rank == 0) mailbox[t] = 0;
    ptx::cluster_arrive();
    ptx::cluster_wait();
    const int part = in[rank * THREADS + t];
    if (rank == 1 && part != 0) put_at(&mailbox[t], 0, part);  // nothing to add, nothing to send
    ptx::cluster_arrive();
    ptx::cluster_wait();
    if (rank == 0) out[t] = part + mailbox[t];
}

int main() {
    std::vector<int> in(2 * THREADS), wanted(THREADS);
    for (int i = 0; i < 2 * THREADS; ++i) wanted[i % THREADS] += in[i] = i % 7 * i;
    int* out = poisoned<int>(THREADS);
    sums<<<2, THREADS>>>(to_device(in), out);
    return verdict(to_host(out, THREADS), wanted);
}
