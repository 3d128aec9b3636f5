// A scheduler puts the next tile into a mailbox, and tells its readers by an mbarrier. Nobody tells
// the scheduler that the mailbox has been read.
#include "bug.cuh"
#include "ptx_sm90.cuh"

constexpr int READERS = 4, THREADS = 32 * (READERS + 1), TILES = 5;

__global__ void work(int* out)  // (READERS, TILES): the tiles that each reader was given
{
    __shared__ unsigned long long ready, taken;
    __shared__ int mailbox;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&ready, 1);
        ptx::mbarrier_init(&taken, READERS);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    if (lane != 0) return;
    for (int i = 0; i < TILES; ++i) {
        if (warp == READERS) {
            mailbox = 10 * i;
            ptx::mbarrier_arrive(&ready);
        } else {
            ptx::mbarrier_wait(&ready, i % 2);
            out[warp * TILES + i] = mailbox;
            ptx::mbarrier_arrive(&taken);
        }
    }
}

int main() {
    std::vector<int> wanted(READERS * TILES);
    for (int i = 0; i < READERS * TILES; ++i) wanted[i] = 10 * (i % TILES);
    int* out = poisoned<int>(wanted.size());
    work<<<1, THREADS>>>(out);
    return verdict(to_host(out, wanted.size()), wanted);
}
