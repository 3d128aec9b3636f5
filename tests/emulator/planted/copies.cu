// Asynchronous copies to shared memory, and who waits for them.
#include "planted.cuh"

__device__ void copy(int* to, const int* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
                 :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ void wait() { asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory"); }

KERNEL nobody_waits ARGUMENTS {
    __shared__ int tile[64];
    copy(tile + threadIdx.x, in + me());
    commit();
    PLANT(, wait<0>());
    __syncthreads();
    out[me()] = tile[63 - threadIdx.x];  // <- async
}

KERNEL own_copy_not_awaited ARGUMENTS {
    __shared__ int tile[64];
    copy(tile + threadIdx.x, in + me());
    commit();
    PLANT(, wait<0>());
    out[me()] = tile[threadIdx.x];  // <- async
}

KERNEL one_group_too_many_pending ARGUMENTS {
    __shared__ int tile[2][64];
    for (int i = 0; i < 2; ++i) {
        copy(tile[i] + threadIdx.x, in + me());
        commit();
    }
    wait<PLANT(1, 0)>();
    __syncthreads();
    out[me()] = tile[1][63 - threadIdx.x];  // <- async
}

KERNEL never_committed ARGUMENTS {
    __shared__ int tile[64];
    copy(tile + threadIdx.x, in + me());
    PLANT(, commit());
    wait<0>();
    __syncthreads();
    out[me()] = tile[63 - threadIdx.x];  // <- async
}

KERNEL waited_alone ARGUMENTS {
    __shared__ int tile[64];
    copy(tile + threadIdx.x, in + me());
    commit();
    wait<0>();
    PLANT(, __syncthreads());
    out[me()] = tile[63 - threadIdx.x];  // <- async race
}

KERNEL copy_over_what_others_read ARGUMENTS {
    __shared__ int tile[64];
    tile[threadIdx.x] = in[me()];
    __syncthreads();
    const int before = tile[63 - threadIdx.x];  // <- race
    PLANT(, __syncthreads());
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"((unsigned)__cvta_generic_to_shared(tile + threadIdx.x)), "l"(in + me()) : "memory");  // <- race async
    commit();
    wait<0>();
    out[me()] = before + tile[threadIdx.x];
}

KERNEL store_under_a_copy ARGUMENTS {
    __shared__ int tile[64];
    copy(tile + threadIdx.x, in + me());
    commit();
    PLANT(, wait<0>());
    tile[threadIdx.x] = 7;  // <- async
    wait<0>();
    __syncthreads();
    out[me()] = tile[threadIdx.x];
}
