// Addresses that no thread may use.
#include "planted.cuh"

KERNEL read_past_the_end ARGUMENTS {
    out[me()] = in[me() + PLANT(1, 0)];  // <- fault
}

KERNEL write_past_the_end ARGUMENTS {
    out[me() + PLANT(1, 0)] = in[me()];  // <- fault
}

KERNEL read_before_the_start ARGUMENTS {
    out[me()] = in[me() - PLANT(1, 0)];  // <- fault
}

KERNEL read_far_away ARGUMENTS {
    out[me()] = in[me() * PLANT(1000000, 1)];  // <- fault
}

KERNEL write_through_null ARGUMENTS {
    int* place = PLANT(in[5] == 5 ? nullptr : out, out);
    place[me()] = 1;  // <- fault
}

KERNEL shared_past_the_end ARGUMENTS {
    __shared__ int tile[64];
    tile[threadIdx.x] = in[me()];
    __syncthreads();
    out[me()] = tile[threadIdx.x + PLANT(in[1], 0)];  // <- fault
}

KERNEL shared_write_past_the_end ARGUMENTS {
    __shared__ int tile[64];
    tile[threadIdx.x + PLANT(in[64], 0)] = in[me()];  // <- fault
    __syncthreads();
    out[me()] = tile[threadIdx.x];
}

KERNEL no_dynamic_shared_memory ARGUMENTS {
    extern __shared__ int dynamic[];
    PLANT(, __shared__ int tile[64]);
    int* place = PLANT(dynamic, tile);
    place[threadIdx.x] = in[me()];  // <- fault
    __syncthreads();
    out[me()] = place[63 - threadIdx.x];
}

KERNEL misaligned_global ARGUMENTS {
    const int2 two = *(const int2*)(in + PLANT(1, 0) * in[1]);  // <- fault
    out[me()] = two.x + two.y;
}

KERNEL misaligned_shared ARGUMENTS {
    __shared__ alignas(16) int tile[68];
    tile[threadIdx.x] = in[me()];
    if (threadIdx.x < 4) tile[64 + threadIdx.x] = 0;
    __syncthreads();
    const int4 four = *(int4*)(tile + threadIdx.x / 4 * 4 + PLANT(in[2], 0));  // <- fault
    out[me()] = four.x + four.y + four.z + four.w;
}

KERNEL stack_past_the_end ARGUMENTS {
    int stack[8];
    for (int i = 0; i < 8; ++i) stack[in[i]] = i;
    out[me()] = stack[in[PLANT(100, 7)]];  // <- fault
}
