// Two kernels of one module, each with a tile of its own. A compiler has numbered their barriers,
// and went on counting from the first one to the second: its bytes are told to a barrier behind
// its own, and nobody ever tells the one at which it waits.
#include "bug.cuh"
#include "ptx_sm90.cuh"

constexpr int THREADS = 64, FIRST = 0;
constexpr int SECOND = 0;

template <int TELL>
__device__ void copy(const int* in, int* out) {
    __shared__ alignas(128) int slot[THREADS];
    __shared__ unsigned long long full[2];
    if (threadIdx.x < 2) ptx::mbarrier_init(&full[threadIdx.x], 1);
    ptx::fence_mbarrier_init();
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::mbarrier_arrive_expect_tx(&full[TELL], sizeof slot);
        ptx::cp_async_bulk_load(slot, in, sizeof slot, &full[TELL]);
    }
    ptx::mbarrier_wait(&full[0], 0);
    out[threadIdx.x] = slot[threadIdx.x] + 1;
}

__global__ void first(const int* in, int* out) { copy<FIRST>(in, out); }
__global__ void second(const int* in, int* out) { copy<SECOND>(in, out); }

int main() {
    std::vector<int> in(THREADS), wanted(THREADS);
    for (int i = 0; i < THREADS; ++i) wanted[i] = (in[i] = 3 * i) + 2;
    int *middle = poisoned<int>(THREADS), *out = poisoned<int>(THREADS);
    first<<<1, THREADS>>>(to_device(in), middle);
    second<<<1, THREADS>>>(middle, out);
    return verdict(to_host(out, THREADS), wanted);
}
