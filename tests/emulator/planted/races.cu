// Two threads, one place, and nothing that orders them.
#include "planted.cuh"

KERNEL missing_barrier ARGUMENTS {
    __shared__ int tile[64];
    tile[threadIdx.x] = in[me()];
    PLANT(, __syncthreads());
    out[me()] = tile[63 - threadIdx.x];  // <- race
}

KERNEL missing_second_barrier ARGUMENTS {
    __shared__ int tile[64];
    int sum = 0;
#pragma unroll 1
    for (int round = 0; round < 4; ++round) {
        tile[threadIdx.x] = in[me()] + round;  // <- race
        __syncthreads();
        sum += tile[63 - threadIdx.x];  // <- race
        PLANT(, __syncthreads());
    }
    out[me()] = sum;
}

KERNEL neighbours_in_a_warp ARGUMENTS {
    __shared__ int tile[64];
    tile[threadIdx.x] = in[me()];
    PLANT(, __syncwarp());
    out[me()] = tile[threadIdx.x ^ 1];  // <- race
}

KERNEL warp_sum_without_barriers ARGUMENTS {
    __shared__ int tile[64];
    tile[threadIdx.x] = in[me()];
    __syncwarp();
#pragma unroll 1
    for (int step = 16; step > 0; step /= 2) {
        int other = lane() < step ? tile[threadIdx.x + step] : 0;  // <- race
        PLANT(, __syncwarp());
        tile[threadIdx.x] += other;  // <- race
        PLANT(, __syncwarp());
    }
    out[me()] = tile[threadIdx.x];
}

KERNEL all_write_one_word ARGUMENTS {
    __shared__ int word;
    PLANT(, if (threadIdx.x == 0))
    word = in[me()];  // <- race
    __syncthreads();
    out[me()] = word;
}

KERNEL counter_without_atomic ARGUMENTS {
    __shared__ int count;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    PLANT(count += in[me()], atomicAdd(&count, in[me()]));  // <- race
    __syncthreads();
    out[me()] = count;
}

KERNEL overlapping_halo ARGUMENTS {
    __shared__ int tile[65];
    tile[threadIdx.x] = in[me()];
    PLANT(, __syncthreads());
    if (threadIdx.x % 8 == 0) tile[threadIdx.x + 1] = 7;  // <- race
    __syncthreads();
    out[me()] = tile[threadIdx.x];
}

KERNEL barrier_of_one_warp ARGUMENTS {
    __shared__ int tile[64];
    tile[threadIdx.x] = in[me()];
    PLANT(asm volatile("bar.sync %0, 32;" :: "r"(1 + warp()) : "memory"), __syncthreads());
    out[me()] = tile[63 - threadIdx.x];  // <- race
}

KERNEL arrive_instead_of_wait ARGUMENTS {
    __shared__ int tile[32];
    if (warp() == 0) {
        tile[lane()] = in[me()];
        asm volatile("bar.sync 1, 64;" ::: "memory");
    } else {
        PLANT(asm volatile("bar.arrive 1, 64;" ::: "memory"), asm volatile("bar.sync 1, 64;" ::: "memory"));
        out[me()] = tile[lane()];  // <- race uninitialised
    }
}

KERNEL global_within_a_block ARGUMENTS {
    out[me()] = in[me()];
    PLANT(, __syncthreads());
    const int other = out[blockIdx.x * 64 + 63 - threadIdx.x];  // <- race
    __syncthreads();
    out[me()] = other + 1;
}

KERNEL global_between_blocks ARGUMENTS {
    if (threadIdx.x == 0) PLANT(out[0] += in[me()], atomicAdd(out, in[me()]));  // <- race
}

KERNEL blocks_share_a_row ARGUMENTS {
    out[PLANT(threadIdx.x, me())] = me();  // <- race
}

KERNEL flag_without_atomic ARGUMENTS {
    if (blockIdx.x == 0) {
        if (threadIdx.x == 0) {
            out[1] = 42;
            __threadfence();
            PLANT(out[0] = 1, atomicExch(out, 1));  // <- race
        }
    } else if (threadIdx.x == 0) {
        int ready = PLANT(out[0], atomicAdd(out, 0));  // <- race
        __threadfence();
        if (ready) out[2] = out[1];  // <- race
    }
}

KERNEL flag_without_fence ARGUMENTS {
    if (blockIdx.x == 0) {
        if (threadIdx.x == 0) {
            out[1] = 42;
            PLANT(, __threadfence());
            atomicExch(out, 1);
        }
    } else if (threadIdx.x == 0) {
        while (atomicAdd(out, 0) == 0) {}
        __threadfence();
        out[2] = out[1];  // <- race
    }
}

KERNEL flag_read_without_fence ARGUMENTS {
    if (blockIdx.x == 0) {
        if (threadIdx.x == 0) {
            out[1] = 42;
            __threadfence();
            atomicExch(out, 1);
        }
    } else if (threadIdx.x == 0) {
        while (atomicAdd(out, 0) == 0) {}
        PLANT(, __threadfence());
        out[2] = out[1];  // <- race
    }
}

KERNEL fence_that_ends_at_the_block ARGUMENTS {
    if (blockIdx.x == 0) {
        if (threadIdx.x == 0) {
            out[1] = 42;
            PLANT(__threadfence_block(), __threadfence());
            atomicExch(out, 1);
        }
    } else if (threadIdx.x == 0) {
        while (atomicAdd(out, 0) == 0) {}
        __threadfence();
        out[2] = out[1];  // <- race
    }
}

KERNEL fence_on_the_wrong_side_of_the_barrier ARGUMENTS {
    if (threadIdx.x == 0) PLANT(__threadfence(), );
    if (blockIdx.x == 0) scratch[threadIdx.x] = in[me()];
    __syncthreads();
    if (threadIdx.x == 0) {
        PLANT(, __threadfence());
        if (blockIdx.x == 0) atomicExch(out, 1);
        else while (atomicAdd(out, 0) == 0) {}
        __threadfence();
    }
    __syncthreads();
    if (blockIdx.x == 1) out[me()] = scratch[threadIdx.x];  // <- race
}

KERNEL blocks_meet_without_fences ARGUMENTS {
    scratch[me()] = in[me()];
    __syncthreads();
    if (threadIdx.x == 0) {
        PLANT(, __threadfence());
        atomicAdd(out, 1);
        while (atomicAdd(out, 0) < 2) {}
        PLANT(, __threadfence());
    }
    __syncthreads();
    if (me()) out[me()] = scratch[127 - me()];  // <- race
}

KERNEL neighbours_in_place ARGUMENTS {
    int sum = out[me()];
    if (me()) sum += out[me() - 1];  // <- race
    for (int i = 0; i < 3; ++i) sum += out[blockIdx.x * 64 + (threadIdx.x + i) % 64];  // <- race
    __syncthreads();
    PLANT(out, scratch)[me()] = sum;  // <- race
}

KERNEL one_reader_writes ARGUMENTS {
    const int first = out[0];  // <- race
    scratch[me()] = first;
    if (me() == 127) PLANT(out[0], scratch[127]) = first + 1;  // <- race
}
