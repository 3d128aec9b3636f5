// How many threads does it take to keep memory busy? The same array is read by loads of 16 bytes,
// by many threads, and by bulk copies, for which one thread asks. What counts in both cases is how
// many bytes are under way at a time.
#include "check.cuh"
#include "ptx_sm90.cuh"
#include "timing.cuh"
#include <vector>

constexpr int SLOTS_MOST = 8;

// Each thread has BATCH loads under way; blockDim.x threads a block, one block a multiprocessor.
template <int BATCH>
__global__ void loads(const uint4* __restrict__ x,  // (n), n a multiple of all threads · BATCH
                      unsigned* __restrict__ out,   // (threads): the xor of the first words
                      size_t n)
{
    const size_t all = size_t(gridDim.x) * blockDim.x;
    const size_t me = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    unsigned seen = 0;
    for (size_t i = me; i < n; i += all * BATCH) {
        uint4 v[BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; ++b) v[b] = x[i + b * all];
#pragma unroll
        for (int b = 0; b < BATCH; ++b) seen ^= v[b].x ^ v[b].y ^ v[b].z ^ v[b].w;
    }
    out[me] = seen;
}

// One thread: `slots` copies of `bytes` are under way. Of each it looks at the first word.
__global__ void copies(const char* __restrict__ x,   // (n), n a multiple of `bytes`
                       unsigned* __restrict__ out,   // (blocks): the xor of what was looked at
                       size_t n, unsigned bytes, int slots)
{
    extern __shared__ __align__(128) char memory[];
    __shared__ unsigned long long full[SLOTS_MOST];
    for (int s = 0; s < slots; ++s) ptx::mbarrier_init(&full[s], 1);
    ptx::fence_mbarrier_init();
    const size_t step = size_t(gridDim.x) * bytes;
    size_t ask = size_t(blockIdx.x) * bytes;
    unsigned seen = 0;
    for (int s = 0; s < slots && ask < n; ++s, ask += step) {
        ptx::mbarrier_arrive_expect_tx(&full[s], bytes);
        ptx::cp_async_bulk_load(memory + s * bytes, x + ask, bytes, &full[s]);
    }
    int s = 0;
    bool phase = false;
    for (size_t at = size_t(blockIdx.x) * bytes; at < n; at += step) {
        ptx::mbarrier_wait(&full[s], phase);
        seen ^= *reinterpret_cast<const unsigned*>(memory + s * bytes);
        if (ask < n) {
            ptx::fence_proxy_async_shared();  // the engine writes after our read
            ptx::mbarrier_arrive_expect_tx(&full[s], bytes);
            ptx::cp_async_bulk_load(memory + s * bytes, x + ask, bytes, &full[s]);
            ask += step;
        }
        if (++s == slots) s = 0, phase = !phase;
    }
    out[blockIdx.x] = seen;
}

struct Bench {
    const uint4* x;
    unsigned* out;
    size_t bytes;
    int blocks;
};

void print(const char* how, int threads, int under_way, size_t bytes, const timing::Times& us) {
    for (double each : us)
        printf("⏱ %s threads=%d bytes=%d %.1f\n", how, threads, under_way, bytes / each * 1e-3);
}

template <int BATCH> void run_loads(const Bench& b, int threads, bool time) {
    const size_t n = b.bytes / 16 / (size_t(b.blocks) * threads * BATCH)
                     * (size_t(b.blocks) * threads * BATCH);
    auto launch = [&] { loads<BATCH><<<b.blocks, threads>>>(b.x, b.out, n); };
    launch();
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    if (time)
        print("loads", threads, threads * BATCH * 16, n * 16, timing::each(5, launch));
}

void run_copies(const Bench& b, unsigned bytes, int slots, bool time) {
    const size_t n = b.bytes / bytes * bytes;
    CHECK(cudaFuncSetAttribute(copies, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes * slots));
    auto launch = [&] {
        copies<<<b.blocks, 1, bytes * slots>>>((const char*)b.x, b.out, n, bytes, slots);
    };
    launch();
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    if (time) print("copies", 1, bytes * slots, n, timing::each(5, launch));
}

int main(int argc, char** argv) {
    const bool time = argc > 1 && !strcmp(argv[1], "time") && !timing::emulated();
    const int blocks = timing::emulated() ? 2 : 132;
    const size_t bytes = timing::emulated() ? 1 << 18 : size_t(1) << 30;
    std::vector<unsigned> host(bytes / 4);
    for (size_t i = 0; i < host.size(); ++i) host[i] = unsigned(i * 2654435761u);
    Bench b{nullptr, nullptr, bytes, blocks};
    CHECK(cudaMalloc((void**)&b.x, bytes));
    CHECK(cudaMalloc((void**)&b.out, blocks * 1024 * 4));
    CHECK(cudaMemcpy((void*)b.x, host.data(), bytes, cudaMemcpyHostToDevice));

    run_copies(b, 4096, 4, false);  // right? what each block saw, again on the host
    std::vector<unsigned> got(blocks), right(blocks);
    CHECK(cudaMemcpy(got.data(), b.out, blocks * 4, cudaMemcpyDeviceToHost));
    for (size_t at = 0; at < bytes; at += 4096) right[at / 4096 % blocks] ^= host[at / 4];
    run_loads<2>(b, 128, false);
    std::vector<unsigned> each(blocks * 128);
    CHECK(cudaMemcpy(each.data(), b.out, each.size() * 4, cudaMemcpyDeviceToHost));
    unsigned all = 0, seen = 0;
    const size_t n = bytes / 16 / (size_t(blocks) * 256) * (size_t(blocks) * 256);
    for (size_t i = 0; i < n * 4; ++i) all ^= host[i];
    for (unsigned x : each) seen ^= x;
    if (got != right || all != seen) return printf("few_threads: WRONG\n"), 2;
    printf("few_threads: OK, both ways read every byte they should\n");
    if (!time) return 0;
    for (int round = 0; round < 3; ++round) {
        for (int threads : {32, 128, 256, 512, 1024}) {
            run_loads<1>(b, threads, true);
            run_loads<2>(b, threads, true);
            run_loads<4>(b, threads, true);
            if (threads <= 512) run_loads<8>(b, threads, true);
        }
        for (int slots : {1, 2, 4, 8})
            for (unsigned one : {512u, 1024u, 2048u, 4096u, 8192u, 16384u})
                if (one * slots <= 131072) run_copies(b, one, slots, true);
    }
}
