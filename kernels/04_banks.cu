// Shared memory: ways in which the 32 lanes of a warp can read a tile. One warp each.
// x (4096 floats) is copied to the tile, y (32 floats) takes what each lane read.
#define WORDS 1120  // of the tile: 35 for each lane

struct Tile {
    __align__(16) float word[WORDS];
    __device__ void fill(const float* x) {  // without conflicts: lane t, word t + 32 i
        for (int i = threadIdx.x; i < WORDS; i += 32) word[i] = x[i];
        __syncthreads();
    }
};

// Reads the tile at word `where`, 4, 8 or 16 bytes: float, float2 or float4.
template <class T> __device__ float read(const float* x, int where) {
    __shared__ Tile tile;
    tile.fill(x);
    const T v = *reinterpret_cast<const T*>(tile.word + where);
    float sum = 0;
    for (unsigned i = 0; i < sizeof(T) / 4; ++i) sum += reinterpret_cast<const float*>(&v)[i];
    return sum;
}

#define LANE const int t = threadIdx.x

extern "C" {
__global__ void row           (const float* x, float* y) { LANE; y[t] = read<float>(x, t); }
__global__ void broadcast     (const float* x, float* y) { LANE; y[t] = read<float>(x, 5); }
__global__ void pairs         (const float* x, float* y) { LANE; y[t] = read<float>(x, t / 2); }
__global__ void by_2          (const float* x, float* y) { LANE; y[t] = read<float>(x, 2 * t); }
__global__ void by_3          (const float* x, float* y) { LANE; y[t] = read<float>(x, 3 * t); }
__global__ void by_8          (const float* x, float* y) { LANE; y[t] = read<float>(x, 8 * t); }
__global__ void by_32         (const float* x, float* y) { LANE; y[t] = read<float>(x, 32 * t); }
__global__ void by_33         (const float* x, float* y) { LANE; y[t] = read<float>(x, 33 * t); }
__global__ void two_of_a_bank (const float* x, float* y) { LANE; y[t] = read<float>(x, t % 2 * 32); }
__global__ void wide_2        (const float* x, float* y) { LANE; y[t] = read<float2>(x, 2 * t); }
__global__ void wide_4        (const float* x, float* y) { LANE; y[t] = read<float4>(x, 4 * t); }
__global__ void wide_4_by_32  (const float* x, float* y) { LANE; y[t] = read<float4>(x, 32 * t); }
__global__ void wide_4_by_36  (const float* x, float* y) { LANE; y[t] = read<float4>(x, 36 * t); }
}
