// Barriers. Every kernel runs as 2 blocks of 64 threads.
#define KERNEL extern "C" __global__ void
#define ARGUMENTS (const float* __restrict__ in, float* __restrict__ out)

__device__ int me() { return blockIdx.x * 64 + threadIdx.x; }

KERNEL one_barrier ARGUMENTS {
    __shared__ float tile[64];
    tile[threadIdx.x] = in[me()];
    __syncthreads();
    out[me()] = tile[63 - threadIdx.x];
}
KERNEL barriers_in_a_loop ARGUMENTS {
    __shared__ float tile[64];
    float sum = 0;
#pragma unroll 1
    for (int i = 0; i < 10; ++i) {
        tile[threadIdx.x] = in[me() + i];
        __syncthreads();
        sum += tile[63 - threadIdx.x];
        __syncthreads();
    }
    out[me()] = sum;
}
KERNEL named_barrier_of_one_warp ARGUMENTS {
    __shared__ float tile[64];
    tile[threadIdx.x] = in[me()];
    if (threadIdx.x < 32) {
        asm volatile("bar.sync 1, 32;" ::: "memory");
        out[me()] = tile[31 - threadIdx.x];
    }
}
KERNEL warp_barrier ARGUMENTS {
    __shared__ float tile[64];
    tile[threadIdx.x] = in[me()];
    __syncwarp();
    out[me()] = tile[threadIdx.x ^ 1];
}
KERNEL barrier_with_a_vote ARGUMENTS {
    out[me()] = __syncthreads_count(in[me()] > 10);
}
