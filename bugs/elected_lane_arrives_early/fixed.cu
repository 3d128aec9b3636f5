// A warp fills a slot together, and one lane says that it is full. The other lanes may not have
// stored yet: that one lane has arrived says nothing of them.
#include "bug.cuh"
#include "ptx_sm90.cuh"

constexpr int WARP = 32, ROUNDS = 4;

__global__ void hand_over(int* out)  // (ROUNDS, WARP)
{
    __shared__ int slot[WARP];
    __shared__ unsigned long long full, empty;
    const int lane = threadIdx.x % WARP;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&full, 1);
        ptx::mbarrier_init(&empty, WARP);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    for (int round = 0; round < ROUNDS; ++round) {
        if (threadIdx.x < WARP) {
            ptx::mbarrier_wait(&empty, round % 2 ^ 1);
            slot[lane] = round * WARP + lane;
            __syncwarp();
            if (lane == 0) ptx::mbarrier_arrive(&full);
        } else {
            ptx::mbarrier_wait(&full, round % 2);
            out[round * WARP + lane] = slot[WARP - 1 - lane];
            ptx::mbarrier_arrive(&empty);
        }
        __syncwarp();
    }
}

int main() {
    std::vector<int> wanted(ROUNDS * WARP);
    for (int i = 0; i < ROUNDS * WARP; ++i) wanted[i] = i / WARP * WARP + WARP - 1 - i % WARP;
    int* out = poisoned<int>(wanted.size());
    hand_over<<<1, 2 * WARP>>>(out);
    return verdict(to_host(out, wanted.size()), wanted);
}
