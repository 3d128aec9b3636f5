// A loop of one round takes another path through the compiler: it announces the bytes, and does not
// arrive. The bytes come; the one arrival that the barrier was made for never does.
#include "bug.cuh"
#include "ptx_sm90.cuh"

constexpr int THREADS = 32;

__device__ void expect(unsigned long long* barrier, unsigned bytes) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;"
                 :: "r"(ptx::shared_address(barrier)), "r"(bytes) : "memory");
}

__global__ void twice(const int* in, int* out)  // (THREADS)
{
    __shared__ alignas(128) int slot[THREADS];
    __shared__ unsigned long long full;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&full, 1);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&full, sizeof slot);
        ptx::cp_async_bulk_load(slot, in, sizeof slot, &full);
        ptx::mbarrier_arrive(&full);
    }
    ptx::mbarrier_wait(&full, 0);
    out[threadIdx.x] = 2 * slot[threadIdx.x];
}

int main() {
    std::vector<int> in(THREADS), wanted(THREADS);
    for (int i = 0; i < THREADS; ++i) wanted[i] = 2 * (in[i] = i + 1);
    int* out = poisoned<int>(THREADS);
    twice<<<1, THREADS>>>(to_device(in), out);
    return verdict(to_host(out, THREADS), wanted);
}
