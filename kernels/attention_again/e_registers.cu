// A row of scores stays in its thread's registers: fetched once, and masked, searched and made into
// weights there. Other roles give registers up for it, and arithmetic takes two numbers at a time.
// Of all heads the longest blocks begin first.
#include "attention_again/correction.cuh"
#include "attention_again/pairs.cuh"

constexpr int POLYNOMIAL = 2;  // of eight exponentials
constexpr int THREADS = 512;   // four warp groups: setmaxnreg is an instruction of a whole one
// Registers of a thread, by warp group: the two of the softmax, the correction, the other roles.
constexpr int SOFTMAX = 192, CORRECTING = 80, OTHERS = 48;
static_assert(2 * SOFTMAX + CORRECTING + OTHERS == 4 * 128, "65,536 for 512 threads");

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM100_ALL)

using Scores = unsigned[ROWS / PIECE][PIECE];  // bits of f32: a row's, of a tile of keys

// All of them, with one wait.
__device__ inline void fetch_row(Scores& r, unsigned s) {
    for (int i = 0; i < ROWS / PIECE; ++i) ptx::tcgen05_ld_32x32b_x32(r[i], s + i * PIECE);
    ptx::tcgen05_wait_ld();
}

// Minus infinity for the keys of this tile that the row does not see, from number `seen` on: a bit
// for each of 32 keys, which the machine moves to predicates, several at a time.
__device__ inline void mask(Scores& r, int seen) {
#pragma unroll
    for (int i = 0; i < ROWS / PIECE; ++i) {
        const int here = min(max(seen - i * PIECE, 0), PIECE);
        const unsigned bits = here < PIECE ? (1u << here) - 1 : ~0u;
        for (int j = 0; j < PIECE; ++j)
            if (!(bits >> j & 1)) r[i][j] = 0xff800000;
    }
}

__device__ inline float largest(const Scores& r) {
    unsigned most[ROWS / PIECE];
#pragma unroll
    for (int i = 0; i < ROWS / PIECE; ++i) {
        most[i] = r[i][0];
        for (int j = 1; j < PIECE; j += 2) most[i] = max3(most[i], r[i][j], r[i][(j + 1) % PIECE]);
    }
    return __uint_as_float(max3(max3(most[0], most[1], most[2]), most[3], most[3]));
}

// exp2_polynomial of two numbers.
__device__ inline uint2 exp2_polynomial(Pair x) {
    const uint2 two = parts(x);
    x = pair(at_least(two.x, -126), at_least(two.y, -126));
    const Pair whole = add2(x, pair(12582912.f));
    const Pair f = fma2(add2(whole, pair(-12582912.f)), pair(-1.f), x);
    const Pair p = fma2(fma2(fma2(pair(C3), f, pair(C2)), f, pair(C1)), f, pair(C0));
    const uint2 power = parts(p), n = parts(whole);
    return {power.x + (n.x << 23), power.y + (n.y << 23)};
}

// P in place of S, and the sum of its weights, from the scores in registers.
template <int SHARE>
__device__ float weights(const Scores& r, unsigned s, float scale, float reference) {
    const Pair by = pair(scale), below = pair(-reference * scale);
    Pair sum = pair(0.f);
#pragma unroll
    for (int i = 0; i < ROWS / PIECE; ++i) {
        unsigned p[PIECE / 2];
        for (int j = 0; j < PIECE; j += 2) {
            const Pair x = fma2(pair(r[i][j], r[i][j + 1]), by, below);
            const uint2 power = parts(x);
            const uint2 w = j % 8 < SHARE ? exp2_polynomial(x)
                                          : uint2{exp2_bits(power.x), exp2_bits(power.y)};
            sum = add2(sum, pair(w.x, w.y));
            p[j / 2] = bf16_pair(w);
        }
        tcgen05_st_32x32b_x16(s + i * PIECE / 2, p);
    }
    ptx::tcgen05_wait_st();
    const uint2 halves = parts(sum);
    return __uint_as_float(halves.x) + __uint_as_float(halves.y);
}

// A softmax group: the same as before, but for where a row is while it works.
template <int SHARE>
__device__ void soften_row(Shared& s, const Problem& p, int tile, int first, int steps) {
    const int warp = threadIdx.x / 32 % WARPS, t = warp * 32 + threadIdx.x % 32;
    const unsigned scores = s.tensor_memory + (warp * 32 << 16) + s_columns(tile);
    const int seen = p.seen(first + t);
    Row row;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        const int key = step * ROWS;
        Scores r;
        ptx::mbarrier_wait(&s.s_full[tile], step % 2);
        ptx::tcgen05_fence_after_thread_sync();
        fetch_row(r, scores);
        if (p.seen(first) < key + ROWS) mask(r, seen - key);  // the first row sees the fewest
        const float factor = follow(row, largest(r), p.scale, p.threshold);
        s.factors[tile][t] = factor;
        arrive(&s.factor_full[tile]);  // O is corrected while the weights are made
        row.sum = row.sum * factor + weights<SHARE>(r, scores, p.scale, row.reference);
        ptx::tcgen05_fence_before_thread_sync();
        arrive(&s.ready[tile]);
    }
    s.sums[tile][t] = row.sum;
    arrive(&s.sum_full[tile]);
}

#endif

__global__ void __launch_bounds__(THREADS, 1)
attend(const __grid_constant__ CUtensorMap Q,  // (queries, heads · DEPTH), boxes of 128 × 64
       const __grid_constant__ CUtensorMap K,  // (keys, heads · DEPTH), the same boxes
       const __grid_constant__ CUtensorMap V,  // (keys, heads · DEPTH)
       const __grid_constant__ CUtensorMap O,  // (queries, heads · DEPTH)
       const Problem p) {
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    extern __shared__ __align__(1024) char memory[];
    Shared& s = *reinterpret_cast<Shared*>(memory);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // Causal, the last tiles of a head see most keys: those of all heads begin first.
    const int number = blockIdx.y * gridDim.x + blockIdx.x, head = number % gridDim.y;
    const int first = (gridDim.x - 1 - number / gridDim.y) * TILES * ROWS;
    const int steps = p.steps(first + TILES * ROWS - 1);
    begin(s, 2);
    if (warp < CORRECTION) {
        ptx::setmaxnreg_inc<SOFTMAX>();
        soften_row<POLYNOMIAL>(s, p, warp / WARPS, first + warp / WARPS * ROWS, steps);
    } else if (warp < LOADER) {
        ptx::setmaxnreg_dec<CORRECTING>();
        correct(s, steps);
    } else {
        ptx::setmaxnreg_dec<OTHERS>();
        if (warp == LOADER && lane == 0) load_tiles(s, Q, K, V, first, head, steps);
        else if (warp == MULTIPLIER && lane == 0) multiply(s, steps);
        else if (warp == STORER && lane == 0) store_tiles(s, O, first, head);
    }
    end(s);
#endif
}

#include "attention_again/harness.cuh"
