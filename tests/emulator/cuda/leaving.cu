// Blocks that leave while bulk stores still read their shared memory, each followed on its
// multiprocessor by one that writes there at once. What arrives is compared word by word; beside it,
// the time from a block's last instruction to the first of the next: with a wait, and without.
#include <cstdio>
#include <cstdint>
#include <vector>
#include <cuda_runtime.h>
#define CK(x) do { cudaError_t e = (x); if (e) { printf("%s: %s\n", #x, cudaGetErrorString(e)); return 1; } } while (0)
constexpr int BYTES = 200 * 1024;
__global__ void leave(uint32_t* out, long long* when, int wait) {
    extern __shared__ __align__(128) uint32_t tile[];
    long long begin = 0, end = 0;
    if (threadIdx.x == 0) asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    for (int i = threadIdx.x; i < BYTES / 4; i += blockDim.x) tile[i] = blockIdx.x * 65536u + i;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        const uint32_t from = (uint32_t)__cvta_generic_to_shared(tile);
        char* to = (char*)out + (size_t)blockIdx.x * BYTES;
        for (int c = 0; c < BYTES; c += 20480)
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                         :: "l"(to + c), "r"(from + c), "r"(20480) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        if (wait) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end));
        unsigned sm; asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
        when[blockIdx.x * 3] = begin, when[blockIdx.x * 3 + 1] = end, when[blockIdx.x * 3 + 2] = sm;
    }
}
int main() {
    const int blocks = 132 * 12;
    CK(cudaFuncSetAttribute(leave, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES));
    uint32_t *host, *device; long long* when;
    CK(cudaMallocHost(&host, (size_t)blocks * BYTES));
    CK(cudaMalloc(&device, (size_t)blocks * BYTES));
    CK(cudaMallocManaged(&when, blocks * 24));
    for (int place = 0; place < 2; ++place) for (int wait = 0; wait < 2; ++wait) for (int rep = 0; rep < 5; ++rep) {
        uint32_t* out = place ? device : host;
        CK(cudaMemset(out, 0xff, (size_t)blocks * BYTES));
        leave<<<blocks, 256, BYTES>>>(out, when, wait);
        CK(cudaGetLastError()); CK(cudaDeviceSynchronize());
        std::vector<uint32_t> got((size_t)blocks * BYTES / 4);
        CK(cudaMemcpy(got.data(), out, got.size() * 4, cudaMemcpyDefault));
        long wrong = 0;
        for (int b = 0; b < blocks; ++b) for (int i = 0; i < BYTES / 4; ++i)
            wrong += got[(size_t)b * (BYTES / 4) + i] != b * 65536u + i;
        // from a block's last instruction to the next block's first on the same multiprocessor
        double gap = 0; int n = 0; long long low = when[0], high = 0;
        for (int b = 0; b < blocks; ++b) {
            long long next = -1;
            for (int o = 0; o < blocks; ++o)
                if (when[o * 3 + 2] == when[b * 3 + 2] && when[o * 3] >= when[b * 3 + 1] && (next < 0 || when[o * 3] < next)) next = when[o * 3];
            if (next >= 0) gap += next - when[b * 3 + 1], ++n;
            if (when[b * 3] < low) low = when[b * 3];
            if (when[b * 3 + 1] > high) high = when[b * 3 + 1];
        }
        printf("%s, %s: %ld wrong words of %zu; first to last %.1f us; end to next begin %.2f us (%d)\n", place ? "device memory" : "host memory",
               wait ? "waits" : "leaves at once", wrong, got.size(), (high - low) / 1e3, gap / n / 1e3, n);
    }
}
