// Shared memory: ways in which the 32 lanes of a warp can read a tile, one warp
// each. x (4096 floats) is copied to the tile, y (32) takes what each lane read.
#define WORDS 1120  // of the tile: 35 for each lane

struct Tile {
    __align__(16) float word[WORDS];
    __device__ void fill(const float* x) {  // lane t: words t, t + 32, t + 64, …
        for (int i = threadIdx.x; i < WORDS; i += 32) word[i] = x[i];
        __syncthreads();
    }
};

// Reads the tile at word `where`, 4, 8 or 16 bytes: float, float2 or float4.
template <class T> __device__ float read(const float* x, int where) {
    __shared__ Tile tile;
    tile.fill(x);
    const T value = *reinterpret_cast<const T*>(tile.word + where);
    const float* part = reinterpret_cast<const float*>(&value);
    float sum = 0;
    for (unsigned i = 0; i < sizeof(T) / 4; ++i) sum += part[i];
    return sum;
}

#define READS(name, T, where)                                 \
    extern "C" __global__ void name(const float* x, float* y) \
    {                                                         \
        const int t = threadIdx.x;                            \
        y[t] = read<T>(x, where);                             \
    }

READS(row, float, t)
READS(broadcast, float, 5)
READS(pairs, float, t / 2)
READS(by_2, float, 2 * t)
READS(by_3, float, 3 * t)
READS(by_8, float, 8 * t)
READS(by_32, float, 32 * t)
READS(by_33, float, 33 * t)
READS(two_of_a_bank, float, t % 2 * 32)
READS(wide_2, float2, 2 * t)
READS(wide_4, float4, 4 * t)
READS(wide_4_by_32, float4, 32 * t)
READS(wide_4_by_36, float4, 36 * t)
