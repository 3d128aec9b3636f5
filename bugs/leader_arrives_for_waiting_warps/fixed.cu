// Two warps read a slot, and one of them says that it is empty. The other warp may still stand at
// its wait: when it looks, the next phase may be over, and its parity names one to come.
#include "bug.cuh"
#include "ptx_sm90.cuh"

constexpr int WARP = 32, ROUNDS = 4;

__global__ void twice(int* out)  // (ROUNDS, 2 · WARP)
{
    __shared__ int slot;
    __shared__ unsigned long long full, empty;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&full, 1);
        ptx::mbarrier_init(&empty, 1);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 2 * WARP) {  // the producer
        for (int round = 0; round < ROUNDS; ++round) {
            ptx::mbarrier_wait(&empty, round % 2 ^ 1);
            slot = 7 * round;
            ptx::mbarrier_arrive(&full);
        }
    } else if (threadIdx.x < 2 * WARP) {
        for (int round = 0; round < ROUNDS; ++round) {
            ptx::mbarrier_wait(&full, round % 2);
            const int value = slot;  // both warps have seen the phase, and read
            asm volatile("bar.sync 1, 64;" ::: "memory");
            if (threadIdx.x == 0) ptx::mbarrier_arrive(&empty);
            out[round * 2 * WARP + threadIdx.x] = value + threadIdx.x;
        }
    }
}

int main() {
    std::vector<int> wanted(ROUNDS * 2 * WARP);
    for (int i = 0; i < ROUNDS * 2 * WARP; ++i) wanted[i] = i / (2 * WARP) * 7 + i % (2 * WARP);
    int* out = poisoned<int>(wanted.size());
    twice<<<1, 3 * WARP>>>(out);
    return verdict(to_host(out, wanted.size()), wanted);
}
