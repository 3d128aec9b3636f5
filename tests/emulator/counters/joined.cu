// Adjacent words read one by one: the assembler joins them where it knows their alignment.
// Every kernel runs as 2 blocks of 64 threads.
#define KERNEL extern "C" __global__ void
#define ARGUMENTS (const float* __restrict__ in, float* __restrict__ out)

__device__ int me() { return threadIdx.x; }
__device__ int place() { return blockIdx.x * 64 + threadIdx.x; }
__device__ void fill(float* tile, const float* in, int words) {
    for (int i = me(); i < words; i += 64) tile[i] = in[i];
    __syncthreads();
}

KERNEL four_words_of_ones_own ARGUMENTS {
    __shared__ float tile[256];
    fill(tile, in, 256);
    const float* p = tile + 4 * me();
    out[place()] = p[0] + p[1] * p[2] - p[3];
}
KERNEL three_words_of_ones_own ARGUMENTS {
    __shared__ float tile[256];
    fill(tile, in, 256);
    const float* p = tile + 3 * me();
    out[place()] = p[0] + p[1] * p[2];
}
KERNEL two_words_at_an_odd_place ARGUMENTS {
    __shared__ float tile[256];
    fill(tile, in, 256);
    const float* p = tile + 4 * me() + 1;
    out[place()] = p[0] + p[1];
}
KERNEL eight_words_for_everyone ARGUMENTS {
    __shared__ float tile[256];
    fill(tile, in, 256);
    float sum = 0;
    for (int i = 0; i < 8; ++i) sum = sum * 3 + tile[i];
    out[place()] = sum + me();
}
KERNEL a_row_for_each_warp ARGUMENTS {
    __shared__ float tile[8][32];
    fill(&tile[0][0], in, 256);
    float sum = 0;
    for (int i = 0; i < 32; ++i) sum += tile[me() / 32][i] * tile[i % 8][me() % 32];
    out[place()] = sum;
}
KERNEL words_from_a_place_read_at_run_time ARGUMENTS {
    __shared__ float tile[256];
    fill(tile, in, 256);
    const float* p = tile + (int)in[4];
    out[place()] = p[0] + p[1] * p[2] - p[3] + me();
}
KERNEL stores_of_four_words ARGUMENTS {
    __shared__ float tile[256];
    const float x = in[place()];
    float* p = tile + 4 * me();
    p[0] = x, p[1] = x + 1, p[2] = x + 2, p[3] = x + 3;
    __syncthreads();
    out[place()] = tile[me()] + tile[me() + 64];
}
KERNEL four_words_of_global_memory ARGUMENTS {
    const float* p = in + 4 * place();
    out[place()] = p[0] + p[1] * p[2] - p[3];
}
