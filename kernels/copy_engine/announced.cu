// What if too few bytes are announced, or too many? The thread that waits gives up after a while, so
// that the program ends in every case; it says whether the phase had completed, and what had come.
#include "check.cuh"
#include "ptx_sm90.cuh"
#include "timing.cuh"
#include <vector>

constexpr int COPY = 4096;         // bytes of a copy
constexpr int PATIENCE = 200000;  // looks at the barrier
enum Outcome { COMPLETE, TOO_EARLY, NEVER, OUTCOMES };

__device__ inline bool completed(unsigned long long* barrier, unsigned parity) {
    unsigned done;
    asm volatile("{ .reg .pred done; mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, done; }"
                 : "=r"(done) : "r"(ptx::shared_address(barrier)), "r"(parity) : "memory");
    return done;
}

// One thread a block: `copies` copies at one barrier, for which `announced` bytes are announced.
__global__ void announce(const unsigned* __restrict__ x,  // (copies · COPY / 4), all ones
                         int* __restrict__ outcomes,      // (blocks)
                         int copies, unsigned announced)
{
    __shared__ alignas(128) unsigned slot[2 * COPY / 4];
    __shared__ unsigned long long full;
    for (int i = 0; i < copies * COPY / 4; ++i) slot[i] = 0;
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init();
    ptx::fence_proxy_async_shared();
    ptx::mbarrier_arrive_expect_tx(&full, announced);
    for (int c = 0; c < copies; ++c)
        ptx::cp_async_bulk_load(slot + c * COPY / 4, x + c * COPY / 4, COPY, &full);
    int looks = 0;
    while (looks < PATIENCE && !completed(&full, 0)) ++looks;
    const bool done = looks < PATIENCE;
    // The last word of each copy; a volatile look, since the barrier may not vouch for it.
    bool all = true;
    for (int c = 0; c < copies; ++c)
        all &= *(volatile unsigned*)&slot[(c + 1) * COPY / 4 - 1] == 1;
    outcomes[blockIdx.x] = !done ? NEVER : all ? COMPLETE : TOO_EARLY;
    // Nothing may be under way when the block ends: all that comes has come after a millisecond.
    const long long begin = clock64();
    while (clock64() - begin < 2000000) {}
}

int main() {
    const int blocks = timing::emulated() ? 1 : 132 * 16;
    std::vector<unsigned> host(2 * COPY / 4, 1);
    unsigned* x;
    int* outcomes;
    CHECK(cudaMalloc(&x, 2 * COPY));
    CHECK(cudaMalloc(&outcomes, blocks * sizeof(int)));
    CHECK(cudaMemcpy(x, host.data(), 2 * COPY, cudaMemcpyHostToDevice));
    struct Case { int copies; int more; };
    for (auto [copies, more] : {Case{1, 0}, {1, -16}, {1, 16}, {2, 0}, {2, -16}, {2, 16},
                                {2, -COPY}, {2, COPY}}) {
        if (timing::emulated() && more) continue;
        announce<<<blocks, 1>>>(x, outcomes, copies, copies * COPY + more);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        std::vector<int> got(blocks), counts(OUTCOMES);
        CHECK(cudaMemcpy(got.data(), outcomes, blocks * sizeof(int), cudaMemcpyDeviceToHost));
        for (int each : got) ++counts[each];
        printf("%d copies, %+d bytes: complete %d, too early %d, never %d\n", copies, more,
               counts[COMPLETE], counts[TOO_EARLY], counts[NEVER]);
    }
}
