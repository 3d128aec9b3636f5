// Global memory, one access pattern a kernel. Every kernel runs as 2 blocks of 64 threads;
// `in` and `out` are 64 KiB each and begin at a multiple of 256 bytes.
#define KERNEL extern "C" __global__ void
#define ARGUMENTS (const float* __restrict__ in, float* __restrict__ out)

__device__ int me() { return blockIdx.x * 64 + threadIdx.x; }
__device__ unsigned shuffled(unsigned i) { return i * 2654435761u >> 20; }  // 0 … 4095
template <class T> __device__ const T* as(const float* p) { return (const T*)p; }
template <class T> __device__ T* as(float* p) { return (T*)p; }

// Loads
KERNEL load_coalesced ARGUMENTS { out[me()] = in[me()]; }
KERNEL load_stride_2 ARGUMENTS { out[me()] = in[2 * me()]; }
KERNEL load_stride_4 ARGUMENTS { out[me()] = in[4 * me()]; }
KERNEL load_stride_8 ARGUMENTS { out[me()] = in[8 * me()]; }
KERNEL load_stride_32 ARGUMENTS { out[me()] = in[32 * me()]; }
KERNEL load_misaligned_4 ARGUMENTS { out[me()] = in[me() + 1]; }
KERNEL load_misaligned_16 ARGUMENTS { out[me()] = in[me() + 4]; }
KERNEL load_misaligned_32 ARGUMENTS { out[me()] = in[me() + 8]; }
KERNEL load_backwards ARGUMENTS { out[me()] = in[127 - me()]; }
KERNEL load_broadcast ARGUMENTS { out[me()] = in[blockIdx.x]; }
KERNEL load_two_addresses ARGUMENTS { out[me()] = in[me() % 2 * 100]; }
KERNEL load_gather ARGUMENTS { out[me()] = in[shuffled(me())]; }
KERNEL load_gather_near ARGUMENTS { out[me()] = in[shuffled(me()) % 64]; }
KERNEL load_half_warp ARGUMENTS { if (me() % 32 < 16) out[me()] = in[me()]; }
KERNEL load_every_second_lane ARGUMENTS { if (me() % 2) out[me()] = in[me()]; }
KERNEL load_one_lane ARGUMENTS { if (me() % 32 == 5) out[me()] = in[me()]; }
KERNEL load_float2 ARGUMENTS { as<float2>(out)[me()] = as<float2>(in)[me()]; }
KERNEL load_float4 ARGUMENTS { as<float4>(out)[me()] = as<float4>(in)[me()]; }
KERNEL load_float4_shifted ARGUMENTS { as<float4>(out)[me()] = as<float4>(in)[me() + 1]; }
KERNEL load_float4_stride_2 ARGUMENTS { as<float4>(out)[me()] = as<float4>(in)[2 * me()]; }
KERNEL load_float4_broadcast ARGUMENTS { as<float4>(out)[me()] = as<float4>(in)[blockIdx.x]; }
KERNEL load_float4_gather ARGUMENTS { as<float4>(out)[me()] = as<float4>(in)[shuffled(me())]; }
KERNEL load_float2_gather ARGUMENTS { as<float2>(out)[me()] = as<float2>(in)[shuffled(me())]; }
KERNEL load_double ARGUMENTS { as<double>(out)[me()] = as<double>(in)[me()]; }
KERNEL load_8_bit ARGUMENTS { as<char>(out)[me()] = as<char>(in)[me()]; }
KERNEL load_16_bit ARGUMENTS { as<short>(out)[me()] = as<short>(in)[me()]; }
KERNEL load_8_bit_shifted ARGUMENTS { as<char>(out)[me()] = as<char>(in)[me() + 7]; }
KERNEL load_row_and_column ARGUMENTS { out[me()] = in[me()] + in[64 * (me() % 32)]; }
KERNEL load_read_only ARGUMENTS { out[me()] = __ldg(in + me()); }
KERNEL load_past_l1 ARGUMENTS { out[me()] = __ldcg(in + me()); }
KERNEL load_volatile ARGUMENTS { out[me()] = *(const volatile float*)(in + me()); }
KERNEL load_in_a_loop ARGUMENTS {
    float sum = 0;
    for (int i = me(); i < 4096; i += 128) sum += in[i];
    out[me()] = sum;
}

// Stores
KERNEL store_stride_2 ARGUMENTS { out[2 * me()] = 1; }
KERNEL store_stride_4 ARGUMENTS { out[4 * me()] = 1; }
KERNEL store_stride_8 ARGUMENTS { out[8 * me()] = 1; }
KERNEL store_stride_32 ARGUMENTS { out[32 * me()] = 1; }
KERNEL store_misaligned_4 ARGUMENTS { out[me() + 1] = 1; }
KERNEL store_misaligned_16 ARGUMENTS { out[me() + 4] = 1; }
KERNEL store_same_address ARGUMENTS { out[0] = 1; }
KERNEL store_scatter ARGUMENTS { out[shuffled(me())] = 1; }
KERNEL store_half_warp ARGUMENTS { if (me() % 32 < 16) out[me()] = 1; }
KERNEL store_float2_stride_2 ARGUMENTS { as<float2>(out)[2 * me()] = float2{1, 2}; }
KERNEL store_float4_stride_2 ARGUMENTS { as<float4>(out)[2 * me()] = float4{1, 2, 3, 4}; }
KERNEL store_float4_shifted ARGUMENTS { as<float4>(out)[me() + 1] = float4{1, 2, 3, 4}; }
KERNEL store_float4_scatter ARGUMENTS { as<float4>(out)[shuffled(me())] = float4{1, 2, 3, 4}; }
KERNEL store_8_bit_stride_3 ARGUMENTS { as<char>(out)[3 * me()] = 1; }
KERNEL store_16_bit_shifted ARGUMENTS { as<short>(out)[me() + 5] = 1; }
