// What the link carries: stores of so many blocks, their bulk copies, cudaMemcpyAsync, a flag there and
// back.
//
// Both GPUs send at the same time, as both kernels do. On the emulator it only checks what arrives.
#include "check.cuh"
#include "timing.cuh"
#include "two_gpus/ring.cuh"

constexpr int THREADS_THAT_SEND = 96, AT_ONCE = 4;  // as in d_gather_ring

// `count` pieces of 16 bytes, each thread AT_ONCE at a time.
__global__ void put(const uint4* from, uint4* to, int count) {
    const int all = gridDim.x * blockDim.x * AT_ONCE;
    for (int first = blockIdx.x * blockDim.x * AT_ONCE + threadIdx.x; first < count; first += all) {
        uint4 held[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i)
            if (first + i * blockDim.x < count) held[i] = from[first + i * blockDim.x];
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i)
            if (first + i * blockDim.x < count) to[first + i * blockDim.x] = held[i];
    }
}

constexpr int BOX = 64 << 10;  // bytes of shared memory that a block sends again and again

// `count` pieces of 16 bytes, `bytes` of them in each of a block's bulk copies, one at a time.
__global__ void put_boxes(const uint4* from, uint4* to, int count, int bytes) {
    extern __shared__ __align__(128) uint4 box[];
    const int each = bytes / int(sizeof(uint4));
    for (int i = threadIdx.x; i < each; i += blockDim.x) box[i] = from[i];
    ptx::fence_proxy_async_shared();
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int first = blockIdx.x * each; first < count; first += gridDim.x * each) {
            ptx::cp_async_bulk_store(to + first, box, bytes);
            ptx::cp_async_bulk_commit_group();
            ptx::cp_async_bulk_wait_group_read<0>();
        }
        ptx::cp_async_bulk_wait_group<0>();
    }
}

// A flag goes there and comes back, `rounds` times; GPU 0 begins. One thread on each.
__global__ void bounce(unsigned* there, const unsigned* here, unsigned rounds, bool begins) {
    for (unsigned round = 1; round <= rounds; ++round) {
        if (begins) ptx::store_release_sys(there, round);
        while (ptx::load_acquire_sys(here) < round) {}
        if (!begins) ptx::store_release_sys(there, round);
    }
}

struct Gpu {
    uint4 *own, *slot;
    unsigned* flag;
    cudaStream_t stream;
    cudaEvent_t begin, end;
};
static Gpu gpu[2];

// Microseconds of `work(device)`, begun on both GPUs; the slower one's.
template <class Work> double both(Work work, int repeats) {
    for (int d = 0; d < 2; ++d) CHECK(cudaSetDevice(d)), CHECK(cudaDeviceSynchronize());
    for (int d = 0; d < 2; ++d) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaEventRecord(gpu[d].begin, gpu[d].stream));
        for (int i = 0; i < repeats; ++i) work(d);
        CHECK(cudaGetLastError());
        CHECK(cudaEventRecord(gpu[d].end, gpu[d].stream));
    }
    double longest = 0;
    for (int d = 0; d < 2; ++d) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaEventSynchronize(gpu[d].end));
        float milliseconds;
        CHECK(cudaEventElapsedTime(&milliseconds, gpu[d].begin, gpu[d].end));
        longest = std::max(longest, milliseconds * 1e3);
    }
    return longest / repeats;
}

template <class Work> double median(Work work) {
    timing::Times times;
    for (int i = 0; i < 9; ++i) times.push_back(both(work, 10));
    return timing::quantile(timing::Times(times.begin() + 2, times.end()), 0.5);
}

int main() {
    int devices = 0;
    CHECK(cudaGetDeviceCount(&devices));
    if (devices < 2) {
        puts("two GPUs are needed, and there is one: on the emulator, phasebit run --devices 2");
        return 3;
    }
    const bool small = timing::emulated();
    const size_t bytes = small ? 1 << 14 : 64 << 20, count = bytes / sizeof(uint4);
    for (int d = 0; d < 2; ++d) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaDeviceEnablePeerAccess(1 - d, 0));
        CHECK(cudaMalloc(&gpu[d].own, bytes));
        CHECK(cudaMalloc(&gpu[d].slot, bytes));
        CHECK(cudaMemset(gpu[d].own, 17 + d, bytes));
        CHECK(cudaMalloc(&gpu[d].flag, sizeof(unsigned)));
        CHECK(cudaMemset(gpu[d].flag, 0, sizeof(unsigned)));
        CHECK(cudaStreamCreate(&gpu[d].stream));
        CHECK(cudaEventCreate(&gpu[d].begin));
        CHECK(cudaEventCreate(&gpu[d].end));
        CHECK(cudaFuncSetAttribute(put_boxes, cudaFuncAttributeMaxDynamicSharedMemorySize, BOX));
        CHECK(cudaDeviceSynchronize());
    }
    const auto stores = [&](int blocks, size_t pieces) {
        return [=](int d) {
            put<<<blocks, THREADS_THAT_SEND, 0, gpu[d].stream>>>(gpu[d].own, gpu[1 - d].slot,
                                                                 int(pieces));
        };
    };
    const auto copy = [&](size_t some) {
        return [=](int d) {
            CHECK(cudaMemcpyAsync(gpu[1 - d].slot, gpu[d].own, some, cudaMemcpyDefault,
                                  gpu[d].stream));
        };
    };
    const auto boxes = [&](int blocks, int some) {
        return [=](int d) {
            put_boxes<<<blocks, THREADS_THAT_SEND, some, gpu[d].stream>>>(
                gpu[d].own, gpu[1 - d].slot, int(count), some);
        };
    };
    bool good = true;
    const auto check = [&](auto work) {
        for (int d = 0; d < 2; ++d) CHECK(cudaMemset(gpu[d].slot, 0, bytes));
        both(work, 1);
        for (int d = 0; d < 2; ++d) {
            std::vector<unsigned char> got(bytes);
            CHECK(cudaMemcpy(got.data(), gpu[d].slot, bytes, cudaMemcpyDefault));
            for (unsigned char each : got) good &= each == 17 + 1 - d;
        }
    };
    check(stores(4, count));
    check(boxes(4, small ? 1 << 10 : BOX));
    const unsigned rounds = small ? 4 : 2000;
    const double there_and_back = both([&](int d) {
        bounce<<<1, 1, 0, gpu[d].stream>>>(gpu[1 - d].flag, gpu[d].flag, rounds, d == 0);
    }, 1) / rounds;
    puts(good ? "right" : "wrong");
    if (small) return good ? 0 : 2;
    printf("⏱ flag there and back: %.2f us\n", there_and_back);
    for (int blocks : {1, 2, 4, 8, 16, 32, 64, 132})
        printf("⏱ stores of %d blocks: %.1f GB/s\n", blocks,
               bytes / median(stores(blocks, count)) * 1e-3);
    for (int blocks : {1, 8, 32, 132})
        for (int some : {8 << 10, BOX})
            printf("⏱ bulk copies of %d blocks, %d KiB: %.1f GB/s\n", blocks, some >> 10,
                   bytes / median(boxes(blocks, some)) * 1e-3);
    for (size_t some = 64 << 10; some <= bytes; some *= 4)
        printf("⏱ copy engine, %zu KiB: %.1f GB/s\n", some >> 10, some / median(copy(some)) * 1e-3);
    return good ? 0 : 2;
}
