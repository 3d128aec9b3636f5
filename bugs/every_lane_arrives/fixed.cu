// The barrier is made for one arrival, that of a leader. All lanes of the warp arrive: 32 phases go
// by where one was meant, and the parity that a wait asks for says nothing any more.
#include "bug.cuh"
#include "ptx_sm90.cuh"

constexpr int WARP = 32;

__global__ void hand_over(int* out)  // (WARP): 1 … WARP
{
    __shared__ int tile[WARP];
    __shared__ unsigned long long full;
    const int lane = threadIdx.x % WARP;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&full, 1);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x < WARP) {
        tile[lane] = lane + 1;
        __syncwarp();
        if (lane == 0) ptx::mbarrier_arrive(&full);
    } else {
        ptx::mbarrier_wait(&full, 0);
        out[lane] = tile[lane];
    }
}

int main() {
    std::vector<int> wanted(WARP);
    for (int i = 0; i < WARP; ++i) wanted[i] = i + 1;
    int* out = poisoned<int>(WARP);
    hand_over<<<1, 2 * WARP>>>(out);
    return verdict(to_host(out, WARP), wanted);
}
