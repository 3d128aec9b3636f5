// Each block of a pair fetches its half of the scales, told by a barrier of its own. The leader
// uses both halves. It has waited for its own; the other block tells it of its other data only.
#include "bug.cuh"
#include "ptx_sm90.cuh"

constexpr int THREADS = 64, HALF = THREADS / 2;

__device__ int at_peer(const int* mine) {
    int value;
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %1, 1;\n"
                 "ld.shared::cluster.u32 %0, [there]; }"
                 : "=r"(value) : "r"(ptx::shared_address(mine)) : "memory");
    return value;
}

__global__ void __cluster_dims__(2)
product(const int* scales,  // (THREADS)
        int* out)           // (THREADS)
{
    __shared__ alignas(128) int half[HALF];
    __shared__ int data;
    __shared__ unsigned long long scales_full, data_full;
    const int t = threadIdx.x, rank = blockIdx.x;
    if (t == 0) {
        ptx::mbarrier_init(&scales_full, 1);
        ptx::mbarrier_init(&data_full, 1);
        ptx::fence_mbarrier_init();
    }
    ptx::cluster_arrive();
    ptx::cluster_wait();
    if (t == 0) {
        ptx::mbarrier_arrive_expect_tx(&scales_full, sizeof half);
        ptx::cp_async_bulk_load(half, scales + rank * HALF, sizeof half, &scales_full);
    }
    if (rank == 1 && t == 0) {
        data = 10;
        ptx::mbarrier_arrive_at(&data_full, 0);
    }
    if (rank == 0) {
        ptx::mbarrier_wait(&scales_full, 0);
        ptx::mbarrier_wait_cluster(&data_full, 0);
        const int scale = t < HALF ? half[t] : at_peer(&half[t - HALF]);
        out[t] = at_peer(&data) * scale;
    }
    ptx::cluster_arrive();
    ptx::cluster_wait();
}

int main() {
    std::vector<int> scales(THREADS), wanted(THREADS);
    for (int i = 0; i < THREADS; ++i) wanted[i] = 10 * (scales[i] = i + 1);
    int* out = poisoned<int>(THREADS);
    product<<<2, THREADS>>>(to_device(scales), out);
    return verdict(to_host(out, THREADS), wanted);
}
