// What the steps read is fetched while the products run: bias and residual by the copy engine, the
// latter into the boxes in which C will leave. One loop goes through them; tiles come in bands.
constexpr int TEAM = 1;  // warp groups that share a tile; large K: 2, BN = 256, SLOTS = 3, BAND 16
constexpr int BN = 128;  // columns of a tile of C
constexpr int SLOTS = 4;
constexpr int BOXES = 4;  // of a warp
#include "epilogues_and_groups/ring.cuh"
#include "epilogues_and_groups/steps.cuh"

#ifndef STEPS
#define STEPS Alpha, RowScale, Bias, GeluByTail, Residual, Amax
#endif

constexpr int BAND = 8;  // rows of tiles that are walked together, column by column
constexpr int PARTS = BN / BOX_COLS, ALL = HALVES * PARTS;  // boxes in a warp's 16 rows; all

// The tiles of C (M, N), numbered in bands.
struct Tiles {
    int M, N, K;
    struct Place { int row, col; };
    __device__ int count() const { return over(M, BM) * over(N, BN); }
    __device__ Place place(int number) const {
        const int wide = BAND * over(N, BN), first = number / wide * BAND;
        const int high = min(BAND, over(M, BM) - first);
        return {(first + number % wide % high) * BM, number % wide / high * BN};
    }
};

struct Shared {
    Ring ring;
    float bias[CONSUMERS / 32][BN];              // a warp's
    unsigned long long fetched[CONSUMERS / 32];  // it is there, and the residual in its boxes
};
static_assert(sizeof(Shared) <= 227 * 1024, "more than a block can have");

template <class Step, class... Steps> constexpr bool one_of(Chain<Steps...>*) {
    return (std::is_same_v<Step, Steps> || ...);
}
constexpr bool RESIDUAL = one_of<Residual>((Chain<STEPS>*)nullptr);

// Where one of a warp's boxes begins in C.
struct Place {
    int row, col;
    __device__ Place of(int box) const {
        return {row + box / PARTS * 64, col + box % PARTS * BOX_COLS};
    }
};

// What the steps ask for: it is here.
struct Fetched {
    unsigned* amax;
    float alpha, beta;
    unsigned seen = 0;
    unsigned down, across;  // all bits set where the row and the column are in C
    float scale;
    float2 bias, residual;

    __device__ void see(unsigned magnitude) { seen = max(seen, magnitude & down & across); }
    __device__ float scale_of(int) const { return scale; }
    __device__ float2 bias_of(int) const { return bias; }
    __device__ float2 residual_of(int, int) const { return residual; }
};

// Before the products of a tile: its bias, and the residual where the last tile has left.
__device__ void fetch(Shared& s, const CUtensorMap& residual, const CUtensorMap& bias,
                      Place place, bool boxes_too) {
    const int warp = threadIdx.x / 32;
    ptx::mbarrier_arrive_expect_tx(&s.fetched[warp],
                                   BN * sizeof(float) + boxes_too * sizeof(Boxes));
    ptx::cp_async_bulk_tensor_load(s.bias[warp], bias, place.col, 0, &s.fetched[warp]);
    for (int box = 0; boxes_too && box < ALL; ++box)
        ptx::cp_async_bulk_tensor_load(s.ring.boxes[warp].box[box], residual, place.of(box).col,
                                       place.of(box).row, &s.fetched[warp]);
}

// The sums of a box, which is not known when this is compiled.
__device__ void take(float (&now)[32], const Sums& sums, int box) {
#pragma unroll
    for (int b = 0; b < ALL; ++b)
        if (b == box)
#pragma unroll
            for (int i = 0; i < 32; ++i)  // as an instruction, or it is a choice among all boxes
                asm volatile("mov.f32 %0, %1;" : "=f"(now[i]) : "f"((&sums[0][0])[b * 32 + i]));
}

// One box of C: 32 sums a thread, through the steps, and to the place where the residual lay.
__device__ void fill(bf16* box, const float (&sums)[32], const float* bias, Fetched& f,
                     const float (&scale)[2], Tiles tiles, Place place) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < BOX_COLS / 16; ++j) {
        bf16* at = box + lane % 16 * BOX_COLS + ((2 * j + lane / 16) ^ lane % 8) * 8;
        unsigned four[4] = {};
        if (RESIDUAL && f.beta != 0) ptx::ldmatrix_x4(four[0], four[1], four[2], four[3], at);
#pragma unroll
        for (int p = 0; p < 4; ++p) {
            const int row = place.row + lane / 4 + p % 2 * 8;
            const int across = j * 16 + p / 2 * 8, col = place.col + across + lane % 4 * 2;
            f.down = row < tiles.M ? ~0u : 0, f.across = col < tiles.N ? ~0u : 0;
            f.scale = scale[p % 2];
            f.bias = *reinterpret_cast<const float2*>(bias + across + lane % 4 * 2);
            f.residual = __bfloat1622float2(reinterpret_cast<__nv_bfloat162&>(four[p]));
            const float2 x{sums[j * 8 + 2 * p], sums[j * 8 + 2 * p + 1]};
            four[p] = pack(Chain<STEPS>::apply(x, row, col, f));
        }
        ptx::stmatrix_x4(at, four[0], four[1], four[2], four[3]);
    }
}

// The producer, one thread. The ring knows nothing of where a tile of C ends.
__device__ void produce(Ring& ring, const CUtensorMap& A, const CUtensorMap& B, Tiles tiles) {
    int at = 0;
    for (int n = blockIdx.x; n < tiles.count(); n += gridDim.x) {
        const auto [row, col] = tiles.place(n);
        for (int k = 0; k < tiles.K; k += BK, ++at) {
            Stage& to = take(ring, at);
            ptx::cp_async_bulk_tensor_load(to.a, A, k, row, &ring.full[slot(at)]);
            ptx::cp_async_bulk_tensor_load(to.b, B, k, col, &ring.full[slot(at)]);
        }
    }
}

// A consumer, one warp group.
__device__ void consume(Shared& s, const CUtensorMap& C, const CUtensorMap& residual,
                        const CUtensorMap& bias, Tiles tiles, const float* row_scale, Fetched f) {
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);  // known to be one a warp
    const int group = warp / 4, steps = over(tiles.K, BK);
    const bool first = threadIdx.x % 32 == 0;
    auto& boxes = s.ring.boxes[warp].box;
    int at = 0, tile = 0;
    bool phase = false;
    for (int n = blockIdx.x; n < tiles.count(); n += gridDim.x, ++tile) {
        if (tile % TURNS != group % TURNS) {
            at += steps;
            continue;
        }
        const auto [down, across] = tiles.place(n);
        const Place place{down + row_of(warp, 0), across};
        const bool with_residual = RESIDUAL && f.beta != 0;
        float scale[HALVES][2];
#pragma unroll
        for (int i = 0; i < 2 * HALVES; ++i) {
            const int row = place.row + i / 2 * 64 + i % 2 * 8 + threadIdx.x % 32 / 4;
            scale[i / 2][i % 2] = row < tiles.M ? row_scale[row] : 0;
        }
        if (first) {
            ptx::cp_async_bulk_wait_group_read<0>();  // the last tile has left the boxes
            fetch(s, residual, bias, place, with_residual);
        }
        Sums sums;
        multiply(s.ring, sums, group, tile, at, steps);
        ptx::mbarrier_wait(&s.fetched[warp], phase);
        phase = !phase;
#pragma unroll 1  // its code is fetched once
        for (int box = 0; box < ALL; ++box) {
            float now[32];
            take(now, sums, box);
            const auto& rows = scale[box / PARTS];
            const float scales[2] = {rows[0], rows[1]};
            fill(boxes[box], now, s.bias[warp] + box % PARTS * BOX_COLS, f, scales, tiles,
                 place.of(box));
            ptx::fence_proxy_async_shared();  // the engine sees what this lane has stored,
            __syncwarp();                     // and the others
            if (first) {
                ptx::cp_async_bulk_tensor_store(C, place.of(box).col, place.of(box).row,
                                                boxes[box]);
                ptx::cp_async_bulk_commit_group();
            }
        }
    }
    finish(f);
    ptx::cp_async_bulk_wait_group_read<0>();  // shared memory must stay until it has been read
}

__global__ void __launch_bounds__(THREADS, 1)
matmul(const __grid_constant__ CUtensorMap A,  // (M, K) in boxes of BM × BK
       const __grid_constant__ CUtensorMap B,  // (N, K) in boxes of BN × BK
       const __grid_constant__ CUtensorMap C,  // (M, N) in boxes of BOX_ROWS × BOX_COLS
       const __grid_constant__ CUtensorMap residual,  // the same, and may be the same matrix
       const __grid_constant__ CUtensorMap bias,      // (1, N) in boxes of BN
       Tiles tiles, const float* row_scale, unsigned* amax, float alpha, float beta)
{
    extern __shared__ __align__(1024) char memory[];
    Shared& s = *reinterpret_cast<Shared*>(memory);
    if (threadIdx.x == 0) {
        begin_ring(s.ring);
        for (auto& barrier : s.fetched) ptx::mbarrier_init(&barrier, 1);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();  // the others see the barriers
    if (threadIdx.x >= CONSUMERS) {
        ptx::setmaxnreg_dec<40>();  // registers for the consumers' sums
        if (threadIdx.x == CONSUMERS) produce(s.ring, A, B, tiles);
    } else {
        ptx::setmaxnreg_inc<232>();
        Fetched f;
        f.amax = amax, f.alpha = alpha, f.beta = beta;
        consume(s, C, residual, bias, tiles, row_scale, f);
    }
}
