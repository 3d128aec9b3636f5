// What is a prefetch worth? One thread asks the engine to bring a piece into the L2 cache, waits a
// while, and then asks for the same piece in shared memory: how long does that copy take?
#include "check.cuh"
#include "ptx_sm90.cuh"
#include "timing.cuh"
#include <vector>

constexpr int BYTES = 8192, PIECES = 256;
constexpr int WHILES[] = {0, 250, 500, 750, 1000, 1500, 2000};  // cycles between the two

// cp.async.bulk.prefetch.L2, 9.7.9.25.4.3: bytes from global memory into the L2 cache. sm_90.
__device__ inline void prefetch(const void* global) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" :: "l"(global), "r"(BYTES)
                 : "memory");
}

// x: (PIECES · BYTES). took: cycles from asking for a piece to having it. Each piece comes once
// where `twice` is false; where it is true, once before, so that it is in the cache.
__global__ void pieces(const char* __restrict__ x, unsigned* __restrict__ took,
                       unsigned* __restrict__ sum, int cycles, bool ahead, bool twice)
{
    extern __shared__ __align__(128) char memory[];
    __shared__ unsigned long long full;
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init();
    unsigned seen = 0;
    for (int copy = 0; copy < PIECES << twice; ++copy) {
        const char* from = x + size_t(copy >> twice) * BYTES;
        if (ahead) prefetch(from);
        const long long asked = clock64();
        while (clock64() - asked < cycles) {}
        const long long begin = clock64();
        ptx::mbarrier_arrive_expect_tx(&full, BYTES);
        ptx::cp_async_bulk_load(memory, from, BYTES, &full);
        ptx::mbarrier_wait(&full, copy & 1);
        took[copy >> twice] = unsigned(clock64() - begin);
        if (!twice || copy % 2) seen ^= *reinterpret_cast<const unsigned*>(memory);
        ptx::fence_proxy_async_shared();  // it has been read: the next may come
    }
    *sum = seen;
}

int main(int argc, char** argv) {
    const bool time = argc > 1 && !strcmp(argv[1], "time") && !timing::emulated();
    std::vector<unsigned> host(size_t(PIECES) * BYTES / 4), got(PIECES);
    unsigned right = 0, seen;
    for (size_t i = 0; i < host.size(); ++i) host[i] = unsigned(i * 2654435761u);
    for (int piece = 0; piece < PIECES; ++piece) right ^= host[size_t(piece) * (BYTES / 4)];
    char* x;
    unsigned *took, *sum;
    CHECK(cudaMalloc(&x, host.size() * 4));
    CHECK(cudaMemcpy(x, host.data(), host.size() * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMalloc(&took, PIECES * 4));
    CHECK(cudaMalloc(&sum, 4));
    timing::Flush flush;
    auto run = [&](const char* name, int cycles, bool ahead, bool twice) {
        flush();
        pieces<<<1, 1, BYTES>>>(x, took, sum, cycles, ahead, twice);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(got.data(), took, PIECES * 4, cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(&seen, sum, 4, cudaMemcpyDeviceToHost));
        if (seen != right) printf("prefetched: WRONG\n"), exit(2);
        std::sort(got.begin(), got.end());
        if (time) printf("⏱ %s, %d cycles before: %u\n", name, cycles, got[PIECES / 2]);
    };
    const int rounds = time ? 5 : 1;
    for (int round = 0; round < rounds; ++round) {
        for (int cycles : WHILES) {
            run("prefetched", cycles, true, false);
            if (timing::emulated()) break;  // its clock is no time
        }
        run("from memory", 0, false, false);
        run("in the cache", 0, false, true);
    }
    printf("prefetched: OK, every piece was the right one\n");
}
