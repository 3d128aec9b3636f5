// Two blocks of a cluster share a tile: each producer fills its part of both slots, each consumer
// tells both producers that its slot is empty. After the last job nobody waits for these arrivals,
// and nothing keeps a block there for them.
#include "bug.cuh"
#include "ptx_sm90.cuh"

constexpr int BLOCKS = 2, THREADS = 64, JOBS = 3;

__shared__ unsigned long long full, empty;  // one arrival of each block a phase
__shared__ int slot[BLOCKS];

__device__ void put(int* there, unsigned rank, int value) {  // a store to a block of the cluster
    asm volatile("{ .reg .b32 at; mapa.shared::cluster.u32 at, %0, %1;\n"
                 "st.shared::cluster.u32 [at], %2; }"
                 :: "r"(ptx::shared_address(there)), "r"(rank), "r"(value) : "memory");
}

__global__ void __cluster_dims__(BLOCKS)
sum(const int* in,  // (BLOCKS, JOBS)
    int* out)       // (BLOCKS): sums of all
{
    const int block = blockIdx.x;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&full, BLOCKS);
        ptx::mbarrier_init(&empty, BLOCKS);
        ptx::fence_mbarrier_init();
    }
    ptx::cluster_arrive();
    ptx::cluster_wait();
    int total = 0;
    for (int job = 0; job < JOBS; ++job) {
        if (threadIdx.x == 0) {  // the producer
            if (job > 0) ptx::mbarrier_wait_cluster(&empty, (job - 1) % 2);
            for (int to = 0; to < BLOCKS; ++to) {
                put(&slot[block], to, in[block * JOBS + job]);
                ptx::mbarrier_arrive_at(&full, to);
            }
        }
        ptx::mbarrier_wait_cluster(&full, job % 2);
        for (int part : slot) total += part;
        __syncthreads();
        if (threadIdx.x < BLOCKS) ptx::mbarrier_arrive_at(&empty, threadIdx.x);
    }
    if (threadIdx.x == 0) out[block] = total;
}

int main() {
    std::vector<int> in(BLOCKS * JOBS);
    int all = 0;
    for (int i = 0; i < BLOCKS * JOBS; ++i) all += in[i] = i * i + 1;
    int* out = poisoned<int>(BLOCKS);
    sum<<<BLOCKS, THREADS>>>(to_device(in), out);
    return verdict(to_host(out, BLOCKS), std::vector<int>(BLOCKS, all));
}
