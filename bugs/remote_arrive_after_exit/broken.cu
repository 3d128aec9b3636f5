// Two blocks of a cluster share a tile: each consumer tells both producers that the slot is empty.
// After the last job nobody waits for these arrivals, and nothing keeps a block there for them.
#include "bug.cuh"
#include "ptx_sm90.cuh"

constexpr int BLOCKS = 2, THREADS = 64, JOBS = 3;

__shared__ unsigned long long empty;  // one arrival of each block a phase
__shared__ int slot;

__global__ void __cluster_dims__(BLOCKS)
sum(const int* in,  // (BLOCKS, JOBS)
    int* out)       // (BLOCKS): sums of the rows
{
    const int block = blockIdx.x;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&empty, BLOCKS);
        ptx::fence_mbarrier_init();
    }
    ptx::cluster_arrive();
    ptx::cluster_wait();
    int total = 0;
    for (int job = 0; job < JOBS; ++job) {
        if (threadIdx.x == 0) {  // the producer
            if (job > 0) ptx::mbarrier_wait(&empty, (job - 1) % 2);
            slot = in[block * JOBS + job];
        }
        __syncthreads();
        total += slot;
        __syncthreads();
        if (threadIdx.x < BLOCKS) ptx::mbarrier_arrive_at(&empty, threadIdx.x);
    }
    if (threadIdx.x == 0) out[block] = total;
}

int main() {
    std::vector<int> in(BLOCKS * JOBS), wanted(BLOCKS);
    for (int i = 0; i < BLOCKS * JOBS; ++i) wanted[i / JOBS] += in[i] = i * i + 1;
    int* out = poisoned<int>(BLOCKS);
    sum<<<BLOCKS, THREADS>>>(to_device(in), out);
    return verdict(to_host(out, BLOCKS), wanted);
}
