// Barriers of a block and of a warp, used wrongly.
#include "planted.cuh"

KERNEL half_a_warp_at_the_barrier ARGUMENTS {
    __shared__ int tile[64];
    tile[threadIdx.x] = in[me()];
    if (PLANT(lane() < 16, true)) __syncthreads();  // <- barrier
    out[me()] = tile[threadIdx.x];
}

KERNEL one_warp_at_the_barrier ARGUMENTS {
    __shared__ int tile[64];
    tile[threadIdx.x] = in[me()];
    if (PLANT(warp() == 0, true)) __syncthreads();
    out[me()] = tile[63 - threadIdx.x];  // <- race
}

KERNEL barrier_in_one_branch_of_a_warp ARGUMENTS {
    __shared__ int tile[64];
    tile[threadIdx.x] = in[me()];
    if (PLANT(lane() % 2, (int)blockIdx.x) == 0) {
        __syncthreads();  // <- barrier
        tile[threadIdx.x] += 1;
    } else {
        __syncthreads();  // <- barrier
        tile[threadIdx.x] += 2;
    }
    out[me()] = tile[threadIdx.x];
}

KERNEL barrier_expects_too_many ARGUMENTS {
    out[me()] = in[me()];
    asm volatile("bar.sync 1, %0;" :: "r"(PLANT(96, 64)) : "memory");  // <- deadlock
    out[me()] += 1;
}

KERNEL barrier_of_48_threads ARGUMENTS {
    out[me()] = in[me()];
    asm volatile("bar.sync 1, %0;" :: "r"(in[PLANT(48, 64)]) : "memory");  // <- fault
    out[me()] += 1;
}

KERNEL barriers_in_two_orders ARGUMENTS {
    const int first = PLANT(1 + warp(), 1), second = 3 - first;
    asm volatile("bar.sync %0, 64;" :: "r"(first) : "memory");  // <- deadlock
    asm volatile("bar.sync %0, 64;" :: "r"(second) : "memory");
    out[me()] = in[me()];
}

KERNEL two_counts_for_one_barrier ARGUMENTS {
    if (warp() == 0) {
        asm volatile("bar.sync 1, 64;" ::: "memory");  // <- deadlock
    } else {
        asm volatile("bar.sync 1, %0;" :: "r"(PLANT(32, 64)) : "memory");  // <- deadlock
    }
    out[me()] = in[me()];
}

KERNEL warp_barrier_names_absent_lanes ARGUMENTS {
    int value = in[me()];
    if (lane() < 16) {
        __syncwarp(PLANT(0xffffffff, 0xffff));  // <- barrier
        value += 1;
    }
    out[me()] = value;
}

KERNEL warp_barrier_without_oneself ARGUMENTS {
    __syncwarp(PLANT(0xffff, 0xffffffff));  // <- barrier
    out[me()] = in[me()];
}

KERNEL shuffle_names_absent_lanes ARGUMENTS {
    int other = 0;
    if (lane() < 16) other = __shfl_xor_sync(PLANT(0xffffffff, 0xffff), in[me()], 1);  // <- barrier
    out[me()] = other;
}

KERNEL nobody_sets_the_flag ARGUMENTS {
    if (threadIdx.x == 0)
        while (atomicAdd(out, 0) == PLANT(0, 1)) {}  // <- deadlock livelock
}
