// Memory that nobody has written.
#include "planted.cuh"

KERNEL shared_never_written ARGUMENTS {
    __shared__ int tile[64];
    PLANT(if (in[0]), ) tile[threadIdx.x] = in[me()];
    __syncthreads();
    out[me()] = tile[threadIdx.x];  // <- uninitialised
}

KERNEL shared_half_written ARGUMENTS {
    __shared__ int tile[64];
    if (threadIdx.x < PLANT(32, 64)) tile[threadIdx.x] = in[me()];
    __syncthreads();
    out[me()] = tile[63 - threadIdx.x];  // <- uninitialised
}

KERNEL sum_into_unset_memory ARGUMENTS {
    __shared__ int sum;
    PLANT(if (in[0]), if (threadIdx.x == 0)) sum = 0;
    __syncthreads();
    atomicAdd(&sum, in[me()]);  // <- uninitialised
    __syncthreads();
    out[me()] = sum;
}

KERNEL global_never_written ARGUMENTS {
    PLANT(, scratch[me()] = me());
    out[me()] = scratch[me()];  // <- uninitialised
}
