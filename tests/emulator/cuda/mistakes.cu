// Planted mistakes: -DMISTAKE=n puts one in; without it every kernel is right.
#ifndef MISTAKE
#define MISTAKE 0
#endif

__device__ inline unsigned address(const void* p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// out[t] = in[t] + in[neighbour], through shared memory. 1: no barrier before the neighbour reads.
// 2: no barrier before the buffer is written again. 3: one thread does not write.
// 4: one element too far. 5: a barrier that half the threads miss.
__global__ void neighbours(const int* in, int* out, int rounds) {
    __shared__ int tile[128];
    int t = threadIdx.x, sum = 0;
    for (int r = 0; r < rounds; ++r) {
        if (MISTAKE != 3 || t != 77) tile[t] = in[t] + r;
        if (MISTAKE == 5 && t >= 64) { sum += tile[t]; continue; }
        if (MISTAKE != 1) __syncthreads();
        sum += tile[t] + tile[(t + 1) % 128 + (MISTAKE == 4 && r == rounds - 1)];
        if (MISTAKE != 2) __syncthreads();
    }
    out[t] = sum;
}

// A ring of two slots with mbarriers, one producer warp, one consumer warp, as in *Barriers*.
// 11: no wait for empty. 12: no wait for full. 13: the consumer's arrival is missing.
// 14: full expects one arrival too many. 15: the consumer arrives before it reads.
// 16: parity never flips. 17: lane 0 arrives for the warp, without __syncwarp (18: with it).
__global__ void ring(const int* in, int* out, int jobs) {
    __shared__ int slot[2][32];
    __shared__ unsigned long long full[2], empty[2];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    constexpr bool single = MISTAKE == 17 || MISTAKE == 18;
    if (threadIdx.x < 2) {
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(address(&full[threadIdx.x])), "r"(32 + (MISTAKE == 14)));
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(address(&empty[threadIdx.x])), "r"(single ? 1 : 32));
    }
    __syncthreads();
    auto arrive = [](unsigned long long* b) {
        asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" :: "r"(address(b)) : "memory");
    };
    auto wait = [](unsigned long long* b, int parity) {
        asm volatile("{ .reg .pred p;\n"
                     "AGAIN: mbarrier.test_wait.parity.shared.b64 p, [%0], %1;\n"
                     "@p bra DONE;\n bra AGAIN;\nDONE: }" :: "r"(address(b)), "r"(parity) : "memory");
    };
    int sum = 0;
    for (int job = 0; job < jobs; ++job) {
        int s = job % 2, parity = MISTAKE == 16 ? 0 : job / 2 & 1;
        if (warp == 0) {
            if (MISTAKE != 11) wait(&empty[s], parity ^ 1);
            slot[s][lane] = in[job * 32 + lane];
            arrive(&full[s]);
        } else {
            if (MISTAKE != 12) wait(&full[s], parity);
            if (MISTAKE == 15) arrive(&empty[s]);
            sum += slot[s][31 - lane];
            if (MISTAKE == 17) { if (lane == 0) arrive(&empty[s]); }
            else if (single) { __syncwarp(); if (lane == 0) arrive(&empty[s]); }
            else if (MISTAKE != 13 && MISTAKE != 15) arrive(&empty[s]);
        }
    }
    if (warp == 1) out[31 - lane] = sum;
}

// cp.async with two slots. 21: no wait_group. 22: waits for one group too few. 23: no barrier.
#if __CUDA_ARCH__ >= 800 || !defined(__CUDA_ARCH__)
__global__ void copies(const int* in, int* out, int jobs) {
    __shared__ int slot[2][128];
    int t = threadIdx.x, sum = 0;
    auto copy = [&](int job) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\ncp.async.commit_group;"
                     :: "r"(address(&slot[job % 2][t])), "l"(in + job * 128 + t) : "memory");
    };
    copy(0);
    for (int job = 0; job < jobs; ++job) {
        if (job + 1 < jobs) copy(job + 1);
        if (MISTAKE == 22 || (MISTAKE != 21 && job + 1 < jobs)) {
            asm volatile("cp.async.wait_group %0;" :: "n"(MISTAKE == 22 ? 2 : 1) : "memory");
        } else if (MISTAKE != 21) {
            asm volatile("cp.async.wait_all;" ::: "memory");
        }
        if (MISTAKE != 23) __syncthreads();
        sum += slot[job % 2][t ^ 1];
        __syncthreads();
    }
    out[t] = sum;
}
#endif

// Global memory. 31: two blocks write one element. 32: a flag without order. 33: past the end.
// 34: misaligned. 35: a kernel that never ends.
__global__ void blocks(int* out, int* flag, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (MISTAKE == 31) out[threadIdx.x] = i;
    if (MISTAKE == 32) {
        if (i == 0) { out[0] = 42; *flag = 1; }
        if (i == (int)blockDim.x) out[1] = *flag ? out[0] : 0;
    } else if (MISTAKE == 33) {
        out[i + 1] = i;
    } else if (MISTAKE == 34) {
        *(int*)((char*)out + 2 * i) = i;
    } else if (MISTAKE == 35) {
        while (((volatile int*)flag)[0] == 0) { }
    } else if (MISTAKE != 31) {
        out[i] = i;
    }
}
