// Global memory: eleven ways in which the 32 lanes of a warp can read, one warp
// each. x (4096 floats), y (32 floats), both at multiples of 256 bytes.
#define LANE const int t = threadIdx.x

extern "C" {
__global__ void neighbours(const float* x, float* y) { LANE; y[t] = x[t]; }
__global__ void backwards (const float* x, float* y) { LANE; y[t] = x[31 - t]; }
__global__ void shuffled  (const float* x, float* y) { LANE; y[t] = x[5 * t % 32]; }
__global__ void same_word (const float* x, float* y) { LANE; y[t] = x[7]; }
__global__ void one_off   (const float* x, float* y) { LANE; y[t] = x[t + 1]; }
__global__ void eight_off (const float* x, float* y) { LANE; y[t] = x[t + 8]; }
__global__ void stride_2  (const float* x, float* y) { LANE; y[t] = x[2 * t]; }
__global__ void stride_3  (const float* x, float* y) { LANE; y[t] = x[3 * t]; }
__global__ void stride_8  (const float* x, float* y) { LANE; y[t] = x[8 * t]; }
__global__ void stride_32 (const float* x, float* y) { LANE; y[t] = x[32 * t]; }
__global__ void four_each (const float* x, float* y) {
    LANE;
    const float4 v = reinterpret_cast<const float4*>(x)[t];  // 16 bytes a lane
    y[t] = v.x + v.y + v.z + v.w;
}
}
