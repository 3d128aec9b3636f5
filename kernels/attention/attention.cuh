// What the kernels of *Attention* share: what they are asked for, tiles, the softmax, the store.
#pragma once
#include "attention/heads.cuh"
#include "attention/wgmma.cuh"
#include <algorithm>

// O = softmax(scale · Q Kᵀ) V for each query head of each batch; heads of D columns, row-major
// without gaps. The last query sees the last key: with `causal`, query q sees the keys up to
// q + keys − queries. A query that sees no key gets zeros.
struct Attention {
    const bf16* Q;  // (batches, heads, queries, D)
    const bf16* K;  // (batches, kv_heads, keys, D); heads is a multiple of kv_heads
    const bf16* V;  // (batches, kv_heads, keys, D)
    bf16* O;        // (batches, heads, queries, D)
    int batches, heads, kv_heads, queries, keys;
    float scale;
    int multiprocessors;
    cudaStream_t stream;

    // For kernel f alone. The batches are sequences of any lengths, one behind the other: Q and O
    // are (queries, heads, D), K and V (keys, kv_heads, D), and batch b has the queries from
    // first_query[b] to first_query[b + 1], and keys likewise. On the GPU, or null.
    const int *first_query = nullptr, *first_key = nullptr;
    unsigned* counter = nullptr;  // zero on the GPU, and zero again afterwards; one for each launch
};                                // that may be under way

constexpr float LOG2_E = 1.4426950408889634f;

// Begin to load ROWS rows of a layer, D columns: panel after panel. One thread.
template <int ROWS, int D>
__device__ void load(bf16* tile, const CUtensorMap& map, int row, int layer,
                     unsigned long long* full) {
    ptx::mbarrier_arrive_expect_tx(full, ROWS * D * sizeof(bf16));
    for (int panel = 0; panel < D / PANEL; ++panel)
        ptx::cp_async_bulk_tensor_load(tile + panel * ROWS * PANEL, map, panel * PANEL, row, layer,
                                       full);
}

// A place in a ring of SLOTS slots; each time around, the phases' parity flips.
template <int SLOTS> struct Place {
    int slot = 0;
    bool phase = false;
    __device__ void advance() {
        if (++slot == SLOTS) slot = 0, phase = !phase;
    }
};

// Begin s (64 queries, KEYS) = q · kᵀ. q: 64 rows of a tile of ROWS rows, from its first on.
template <int D, int ROWS, int KEYS>
__device__ void begin_scores(float (&s)[KEYS / 2], const bf16* q, const bf16* k) {
    const auto a = ptx::descriptor_128B(q), b = ptx::descriptor_128B(k);
#pragma unroll
    for (int step = 0; step < D / 16; ++step) {  // 16 columns are 32 bytes: 2 in a descriptor
        const int panel = step / 4, within = 2 * (step % 4);
        ptx::wgmma(s, a + panel * (ROWS * 8) + within, b + panel * (KEYS * 8) + within, step > 0);
    }
    ptx::wgmma_commit_group();
}

// Begin o (64 queries, D) += p · v.
template <int D, int KEYS>
__device__ void begin_output(float (&o)[D / 2], const unsigned (&p)[KEYS / 16][4], const bf16* v) {
    const auto b = ptx::descriptor_n_major(v, KEYS * PANEL * sizeof(bf16));
#pragma unroll
    for (int step = 0; step < KEYS / 16; ++step)  // 16 rows are 2048 bytes: 128 in a descriptor
        ptx::wgmma(o, p[step], b + 128 * step);
    ptx::wgmma_commit_group();
}

// The compiler moves no use and no change of these registers across this place: behind a wait, since
// their products are complete only then; before wgmma.fence, which must follow all changes. Without
// it a multiplication may slip past both, for they name no register.
template <int N> __device__ void settle(float (&d)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i]) :: "memory");
}
template <int N> __device__ void settle(unsigned (&p)[N][4]) {
#pragma unroll
    for (int i = 0; i < 4 * N; ++i) asm volatile("" : "+r"(p[i / 4][i % 4]) :: "memory");
}

// The scores of a thread as operand A of the second product: eight sums are two columns of each of
// four 8 × 8 matrices in both layouts, so that nothing moves between threads.
template <int KEYS>
__device__ void round_to_bf16(unsigned (&p)[KEYS / 16][4], const float (&s)[KEYS / 2]) {
#pragma unroll
    for (int i = 0; i < KEYS / 4; ++i) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(s[2 * i], s[2 * i + 1]);
        p[i / 4][i % 4] = reinterpret_cast<const unsigned&>(pair);
    }
}

// Scores that a query must not see become -∞. Row h of the thread's two sees the keys of this tile
// before seen[h].
template <int N> __device__ void mask(float (&s)[N], const int (&seen)[2]) {
    const int first = 2 * (threadIdx.x % 4);
#pragma unroll
    for (int i = 0; i < N; ++i)
        if (first + 8 * (i / 4) + i % 2 >= seen[i / 2 % 2]) s[i] = -INFINITY;
}

// The online softmax of a thread's two rows, h = 0 and 1; element i belongs to row i / 2 % 2. Four
// lanes share a row: each has seen a quarter of its sum, all know its maximum.
struct Softmax {
    float top[2] = {-INFINITY, -INFINITY};  // the largest score so far
    float sum[2] = {0, 0};                  // Σ 2^(factor · (score − top)) of this thread's columns

    // The largest score of a thread's columns and those before. Floats that are not negative are
    // ordered as whole numbers are, and of those an instruction takes the largest of three. Where
    // the whole number is negative, so are all scores, and the floats decide.
    template <int N> __device__ void highest(const float (&s)[N], float (&high)[2]) const {
        int bits[2][2];
#pragma unroll
        for (int i = 0; i < 4; ++i) bits[i / 2][i % 2] = __float_as_int(top[i / 2]);
#pragma unroll
        for (int i = 0; i < N; i += 2) {
            int& most = bits[i / 2 % 2][i / 4 % 2];
            most = __vimax3_s32(most, __float_as_int(s[i]), __float_as_int(s[i + 1]));
        }
#pragma unroll
        for (int h = 0; h < 2; ++h) high[h] = __int_as_float(max(bits[h][0], bits[h][1]));
        if (!__any_sync(~0u, signbit(high[0]) || signbit(high[1]))) return;
        high[0] = top[0], high[1] = top[1];
#pragma unroll
        for (int i = 0; i < N; ++i) high[i / 2 % 2] = fmaxf(high[i / 2 % 2], s[i]);
    }

    // s becomes 2^(factor · (s − top)); what was summed under the old top must be multiplied by
    // shrink[h]. factor: scale · log₂ e, positive.
    template <int N> __device__ void step(float (&s)[N], float (&shrink)[2], float factor) {
        float high[2], base[2];
        highest(s, high);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            float most = high[h];
            most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
            most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
            base[h] = most == -INFINITY ? 0 : most * factor;  // -∞ − -∞ would be NaN
            shrink[h] = ptx::ex2(top[h] * factor - base[h]);
            top[h] = most;
            sum[h] *= shrink[h];
        }
#pragma unroll
        for (int i = 0; i < N; ++i) {
            s[i] = ptx::ex2(s[i] * factor - base[i / 2 % 2]);
            sum[i / 2 % 2] += s[i];
        }
    }

    // 1 / the sum of a row, of all its columns; 0 for a row that has seen no key.
    __device__ void invert(float (&inverse)[2]) const {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            float whole = sum[h] + __shfl_xor_sync(~0u, sum[h], 1);
            whole += __shfl_xor_sync(~0u, whole, 2);
            inverse[h] = whole == 0 ? 0 : 1 / whole;
        }
    }
};

template <int N> __device__ void rescale(float (&o)[N], const float (&factor)[2]) {
#pragma unroll
    for (int i = 0; i < N; ++i) o[i] *= factor[i / 2 % 2];
}

// Store a warp group's 64 rows of the output (rows, 2N), from `row` on; what lies outside is not.
template <int N> __device__ void store(const float (&o)[N], bf16* O, int row, int rows) {
    const int t = threadIdx.x % 128;
    const int r = row + 16 * (t / 32) + t % 32 / 4;
#pragma unroll
    for (int i = 0; i < N; i += 2)  // o[i] and o[i + 1] are neighbours in a row
        if (r + 8 * (i / 2 % 2) < rows)
            *reinterpret_cast<__nv_bfloat162*>(O + size_t(r + 8 * (i / 2 % 2)) * (2 * N)
                                               + 8 * (i / 4) + 2 * (t % 4)) =
                __floats2bfloat162_rn(o[i], o[i + 1]);
}

// The same with 16 bytes a lane. Of each row and 32 columns a lane has a pair of each of four
// pieces of eight columns; the four lanes of the row exchange them, and each has a whole piece.
// Rows lie `stride` numbers apart.
template <int N>
__device__ void store_wide(const float (&o)[N], bf16* O, int row, int rows, int stride = 2 * N) {
    const int t = threadIdx.x % 128, lane = t % 4;
#pragma unroll
    for (int i = 0; i < N / 8; ++i) {
        const int first = i / 2 * 16, h = i % 2;  // 16 sums are 32 columns of two rows
        unsigned piece[4];
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            const float* pair = o + first + 4 * c + 2 * h;
            const __nv_bfloat162 both = __floats2bfloat162_rn(pair[0], pair[1]);
            piece[c] = reinterpret_cast<const unsigned&>(both);
        }
#pragma unroll
        for (int step = 1; step <= 2; step *= 2)
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                if (c & step) continue;
                const bool up = lane & step;
                const unsigned got = __shfl_xor_sync(~0u, up ? piece[c] : piece[c | step], step);
                if (up) piece[c] = got;
                else piece[c | step] = got;
            }
        const int r = row + 16 * (t / 32) + t % 32 / 4 + 8 * h;
        if (r < rows)
            *reinterpret_cast<uint4*>(O + size_t(r) * stride + 2 * first + 8 * lane) =
                make_uint4(piece[0], piece[1], piece[2], piece[3]);
    }
}

// What a kernel knows of the problem.
struct Shape {
    int queries, keys;
    int sharing;   // query heads for each head of K and V: those of `sharing` layers of Q are one's
    float factor;  // of the scores, in powers of two: scale · log₂ e

    // Tiles of `size` keys that the queries before `end` see; at least one.
    template <bool CAUSAL> __device__ int tiles(int end, int size) const {
        const int seen = CAUSAL ? min(keys, min(end, queries) + keys - queries) : keys;
        return max(1, (seen + size - 1) / size);
    }
};

// Which keys of tile `tile` the rows of a warp group see, whose first query is `row`; the scores of
// the tile are masked where one of them does not see all.
template <bool CAUSAL, int KEYS>
__device__ void mask_tile(float (&s)[KEYS / 2], const Shape& shape, int row, int tile) {
    const int first = tile * KEYS, shift = shape.keys - shape.queries;
    if (first + KEYS <= shape.keys && (!CAUSAL || first + KEYS <= row + 1 + shift)) return;
    const int t = threadIdx.x % 128, q = row + 16 * (t / 32) + t % 32 / 4;
    int seen[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        seen[h] = shape.keys - first;
        if (CAUSAL) seen[h] = min(seen[h], q + 8 * h + 1 + shift - first);
    }
    mask(s, seen);
}

inline Shape shape_of(const Attention& a) {
    return {a.queries, a.keys, a.heads / a.kv_heads, a.scale * LOG2_E};
}
