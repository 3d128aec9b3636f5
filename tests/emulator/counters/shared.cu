// Shared memory, one access pattern a kernel. Every kernel runs as 2 blocks of 64 threads.
// The tile is filled and written back without conflicts, so what differs is the pattern.
#define KERNEL extern "C" __global__ void
#define ARGUMENTS (const float* __restrict__ in, float* __restrict__ out)
constexpr int WORDS = 2048 + 64;

__device__ int me() { return threadIdx.x; }
__device__ unsigned shuffled(unsigned i, unsigned limit) { return (i * 2654435761u >> 20) % limit; }

// Fills the tile, then every thread reads the T at `index`.
template <class T, class Index>
__device__ void load(const float* in, float* out, Index index, bool active = true) {
    __shared__ alignas(16) float tile[WORDS];
    for (int i = me(); i < WORDS; i += 64) tile[i] = in[i];
    __syncthreads();
    if (active) ((T*)out)[blockIdx.x * 64 + me()] = ((T*)tile)[index(me())];
}
#define LOAD(name, T, expression) \
    KERNEL name ARGUMENTS { load<T>(in, out, [](int i) -> int { return expression; }); }
#define LOAD_IF(name, T, expression, condition) \
    KERNEL name ARGUMENTS { load<T>(in, out, [](int i) -> int { return expression; }, condition); }

LOAD(load_row, float, i)
LOAD(load_stride_2, float, 2 * i)
LOAD(load_stride_4, float, 4 * i)
LOAD(load_stride_8, float, 8 * i)
LOAD(load_stride_16, float, 16 * i)
LOAD(load_column_32, float, 32 * i)
LOAD(load_column_33, float, 33 * i)
LOAD(load_backwards, float, 63 - i)
LOAD(load_broadcast, float, 5)
LOAD(load_two_words_of_a_bank, float, i % 2 * 32)
LOAD(load_four_words, float, i / 8)
LOAD(load_shuffled, float, shuffled(i, 1024))
LOAD(load_shuffled_near, float, shuffled(i, 64))
LOAD_IF(load_half_warp_column, float, 32 * i, me() % 32 < 16)
LOAD_IF(load_every_second_lane_stride_2, float, 2 * i, me() % 2)
LOAD(load_float2_row, float2, i)
LOAD(load_float2_stride_2, float2, 2 * i)
LOAD(load_float2_column, float2, 16 * i)
LOAD(load_float2_broadcast, float2, 3)
LOAD(load_float2_pairs, float2, i / 2)
LOAD(load_float2_halves_same, float2, i % 16)
LOAD(load_float2_shuffled, float2, shuffled(i, 1024))
LOAD(load_float2_shuffled_near, float2, shuffled(i, 32))
LOAD_IF(load_float2_half_warp, float2, i, me() % 32 < 16)
LOAD_IF(load_float2_every_second_lane, float2, i, me() % 2)
LOAD(load_float4_row, float4, i)
LOAD(load_float4_stride_2, float4, 2 * i)
LOAD(load_float4_column, float4, 8 * i)
LOAD(load_float4_column_padded, float4, 9 * i % 500)
LOAD(load_float4_broadcast, float4, 3)
LOAD(load_float4_pairs, float4, i / 2)
LOAD(load_float4_fours, float4, i / 4)
LOAD(load_float4_eights, float4, i / 8)
LOAD(load_float4_quarters_same, float4, i % 8)
LOAD(load_float4_halves_same, float4, i % 16)
LOAD(load_float4_alternating, float4, i % 2 * 8)
LOAD(load_float4_shuffled, float4, shuffled(i, 512))
LOAD(load_float4_shuffled_near, float4, shuffled(i, 16))
LOAD(load_float4_shuffled_very_near, float4, shuffled(i, 4))
LOAD_IF(load_float4_half_warp, float4, i, me() % 32 < 16)
LOAD_IF(load_float4_every_second_lane, float4, i, me() % 2)
LOAD_IF(load_float4_every_fourth_lane, float4, i, me() % 4 == 0)
LOAD(load_double_row, double, i)
LOAD(load_8_bit_row, char, i)
LOAD(load_8_bit_stride_4, char, 4 * i)
LOAD(load_16_bit_row, short, i)
LOAD(load_16_bit_stride_2, short, 2 * i)
LOAD(load_16_bit_stride_64, short, 64 * i)

// Every thread writes a T at `index`, then the tile is written back row by row.
template <class T, class Index>
__device__ void store(const float* in, float* out, Index index, bool active = true) {
    __shared__ alignas(16) float tile[WORDS];
    const T mine = ((const T*)in)[me()];
    for (int i = me(); i < WORDS; i += 64) tile[i] = 0;
    __syncthreads();
    if (active) ((T*)tile)[index(me())] = mine;
    __syncthreads();
    for (int i = me(); i < WORDS; i += 64) out[blockIdx.x * WORDS + i] = tile[i];
}
#define STORE(name, T, expression) \
    KERNEL name ARGUMENTS { store<T>(in, out, [](int i) -> int { return expression; }); }
#define STORE_IF(name, T, expression, condition) \
    KERNEL name ARGUMENTS { store<T>(in, out, [](int i) -> int { return expression; }, condition); }

STORE(store_row, float, i)
STORE(store_stride_2, float, 2 * i)
STORE(store_stride_4, float, 4 * i)
STORE(store_stride_8, float, 8 * i)
STORE(store_column_32, float, 32 * i)
STORE(store_column_33, float, 33 * i)
STORE(store_shuffled, float, 64 * (i / 4) + shuffled(i, 16) * 4 + i % 4)
STORE_IF(store_half_warp_column, float, 32 * i, me() % 32 < 16)
STORE(store_float2_row, float2, i)
STORE(store_float2_stride_2, float2, 2 * i)
STORE(store_float2_column, float2, 16 * i)
STORE(store_float2_far, float2, i % 16 * 64 + i / 16)
STORE_IF(store_float2_every_second_lane, float2, i, me() % 2)
STORE(store_float4_row, float4, i)
STORE(store_float4_stride_2, float4, 2 * i)
STORE(store_float4_column, float4, 8 * i)
STORE(store_float4_far, float4, i % 8 * 64 + i / 8)
STORE_IF(store_float4_half_warp, float4, i, me() % 32 < 16)
STORE_IF(store_float4_every_second_lane, float4, i, me() % 2)
STORE(store_8_bit_row, char, i)
STORE(store_16_bit_row, short, i)
STORE(store_16_bit_stride_64, short, 64 * i)

// All threads write the same number to the same place.
KERNEL store_same_word ARGUMENTS {
    __shared__ float word[2];
    word[me() / 64] = in[0];
    __syncthreads();
    out[blockIdx.x * 64 + me()] = word[0];
}

// A matrix of 8×8 halves is eight rows of 16 bytes, each named by one lane.
template <int PITCH, bool TRANSPOSED, int MATRICES>
__device__ void matrices(const float* in, float* out) {
    __shared__ alignas(16) float tile[WORDS];
    for (int i = me(); i < WORDS; i += 64) tile[i] = in[i];
    __syncthreads();
    unsigned r[4] = {}, row = (unsigned)__cvta_generic_to_shared(tile) + me() % 32 * PITCH;
    if (MATRICES == 1)
        asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(row) : "memory");
    else if (MATRICES == 2)
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                     : "=r"(r[0]), "=r"(r[1]) : "r"(row) : "memory");
    else if (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(row) : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(row) : "memory");
    ((unsigned*)out)[blockIdx.x * 64 + me()] = r[0] ^ r[1] ^ r[2] ^ r[3];
}
KERNEL ldmatrix_x1 ARGUMENTS { matrices<16, false, 1>(in, out); }
KERNEL ldmatrix_x2 ARGUMENTS { matrices<16, false, 2>(in, out); }
KERNEL ldmatrix_x4 ARGUMENTS { matrices<16, false, 4>(in, out); }
KERNEL ldmatrix_x4_pitch_32 ARGUMENTS { matrices<32, false, 4>(in, out); }
KERNEL ldmatrix_x4_pitch_128 ARGUMENTS { matrices<128, false, 4>(in, out); }
KERNEL ldmatrix_x4_pitch_144 ARGUMENTS { matrices<144, false, 4>(in, out); }
KERNEL ldmatrix_x4_trans ARGUMENTS { matrices<16, true, 4>(in, out); }

// cp.async writes shared memory by another way than stores do.
template <int BYTES>
__device__ void copy(const float* in, float* out) {
    __shared__ alignas(16) float tile[WORDS];
    unsigned to = (unsigned)__cvta_generic_to_shared(tile) + me() * BYTES;
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                 :: "r"(to), "l"((const char*)in + me() * BYTES), "n"(BYTES) : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    out[blockIdx.x * 64 + me()] = tile[me()];
}
KERNEL cp_async_4 ARGUMENTS { copy<4>(in, out); }
KERNEL cp_async_8 ARGUMENTS { copy<8>(in, out); }
KERNEL cp_async_16 ARGUMENTS { copy<16>(in, out); }
