// Many products in one launch, whose rows only the device knows: blocks that stay walk the tiles of
// all groups, and tensor maps, one of A and one of C, are rewritten for each group. They lie in a
// ring of their own: the producer's warp fills a slot, the copy engine reads it.
constexpr int TEAM = 2;  // warp groups that share a tile
constexpr int BN = 256;  // columns of a tile of C
constexpr int SLOTS = 3;
constexpr int BOXES = 4;  // of a warp
#include "epilogues_and_groups/maps.cuh"
#include "epilogues_and_groups/ring.cuh"
#include "epilogues_and_groups/steps.cuh"

constexpr int MAPS = 2;  // slots for maps
struct Maps {
    CUtensorMap a, c;
};
struct Shared {
    Ring ring;
    alignas(128) Maps draft;
    unsigned long long map_empty[MAPS];
};
static_assert(sizeof(Shared) <= 227 * 1024, "more than a block can have");

// Rows of A and C (rows, ·) are those of group 0, then of group 1, …: sizes[g] each, 0 among them.
struct Groups {
    const int* sizes;
    int groups, N, K;
};

// The tiles of all groups, in order. Each role walks by itself; a group without rows has no tile.
struct Walk {
    Groups all;
    int group = 0, first_tile = 0, first_row = 0;  // of the group

    __device__ int size() const { return all.sizes[group]; }
    __device__ int tiles() const { return over(size(), BM) * over(all.N, BN); }
    // On to the group of tile `number`, which grows from call to call; false behind the last tile.
    __device__ bool go(int number) {
        for (; group < all.groups; ++group) {
            if (number < first_tile + tiles()) return true;
            first_tile += tiles(), first_row += size();
        }
        return false;
    }
    __device__ int row(int number) const {  // in the group
        return (number - first_tile) / over(all.N, BN) * BM;
    }
    __device__ int col(int number) const { return (number - first_tile) % over(all.N, BN) * BN; }
};

// The producer's warp writes the maps of a group: A and C from its first row to its last.
__device__ void rewrite(Shared& s, const Walk& walk, const bf16* A, bf16* C, Maps* to) {
    if (threadIdx.x % 32 == 0) {
        ptx::tensormap_replace_address(&s.draft.a, A + size_t(walk.first_row) * walk.all.K);
        ptx::tensormap_replace_rows(&s.draft.a, walk.size());
        ptx::tensormap_replace_address(&s.draft.c, C + size_t(walk.first_row) * walk.all.N);
        ptx::tensormap_replace_rows(&s.draft.c, walk.size());
    }
    __syncwarp();
    ptx::tensormap_publish(&to->a, &s.draft.a);
    ptx::tensormap_publish(&to->c, &s.draft.c);
}

// The producer, one warp; its first thread asks for the copies.
__device__ void produce(Shared& s, const bf16* A, bf16* C, const CUtensorMap& B, Maps* maps,
                        Walk walk) {
    int at = 0, seen = -1, group = -1;  // groups of which this block has tiles, from 0; the last
    for (int n = blockIdx.x; walk.go(n); n += gridDim.x) {
        if (walk.group != group) {
            group = walk.group, ++seen;
            ptx::mbarrier_wait(&s.map_empty[seen % MAPS], !(seen / MAPS % 2));
            rewrite(s, walk, A, C, maps + seen % MAPS);
            ptx::tensormap_acquire(&maps[seen % MAPS].a);
        }
        if (threadIdx.x % 32 == 0)
            for (int k = 0; k < walk.all.K; k += BK, ++at) {
                Stage& to = take(s.ring, at);
                unsigned long long* full = &s.ring.full[slot(at)];
                ptx::cp_async_bulk_tensor_load(to.a, maps[seen % MAPS].a, k, walk.row(n), full);
                ptx::cp_async_bulk_tensor_load(to.b, B, k, group * walk.all.N + walk.col(n), full);
            }
        __syncwarp();
    }
}

// A consumer, one warp group. The tiles of A that it waits for come behind the maps of their group.
__device__ void consume(Shared& s, const Maps* maps, Walk walk, const float* row_scale) {
    const int warp = threadIdx.x / 32, steps = over(walk.all.K, BK);
    int at = 0, tile = 0, seen = -1, group = -1, acquired = -1;
    for (int n = blockIdx.x; walk.go(n); n += gridDim.x, ++tile) {
        if (walk.group != group) {
            if (seen >= 0 && threadIdx.x % 32 == 0) {  // this warp's copies have read the old map
                ptx::cp_async_bulk_wait_group_read<0>();
                ptx::mbarrier_arrive(&s.map_empty[seen % MAPS]);
            }
            group = walk.group, ++seen;
        }
        if (tile % TURNS != warp / 4 % TURNS) {
            at += steps;
            continue;
        }
        Sums sums;
        multiply(s.ring, sums, warp / 4, tile, at, steps);
        const CUtensorMap& C = maps[seen % MAPS].c;
        if (acquired != seen) ptx::tensormap_acquire(&C);
        acquired = seen;
        Given given{walk.size(), walk.all.N, nullptr, row_scale + walk.first_row};
#pragma unroll
        for (int h = 0; h < HALVES; ++h)
            store<BN>(s.ring.boxes[warp], C, walk.row(n) + row_of(warp, h), walk.col(n),
                      [&](int i, int row, int col) {
                          const float2 x{sums[h][i], sums[h][i + 1]};
                          return row < given.M ? Chain<RowScale>::apply(x, row, col, given) : x;
                      });
    }
    ptx::cp_async_bulk_wait_group_read<0>();  // shared memory must stay until it has been read
}

__global__ void __launch_bounds__(THREADS, 1)
matmul(const __grid_constant__ CUtensorMap map_a,  // (rows, K) in boxes of BM × BK
       const __grid_constant__ CUtensorMap B,      // (groups · N, K) in boxes of BN × BK
       const __grid_constant__ CUtensorMap map_c,  // (rows, N) in boxes of BOX_ROWS × BOX_COLS
       const bf16* A, bf16* C, const int* sizes, int groups, int N, int K,
       const float* row_scale,  // (rows)
       Maps* maps)  // room for MAPS of each block, at a multiple of 128 bytes
{
    extern __shared__ __align__(1024) char memory[];
    Shared& s = *reinterpret_cast<Shared*>(memory);
    if (threadIdx.x == 0) {
        begin_ring(s.ring);
        for (auto& barrier : s.map_empty) ptx::mbarrier_init(&barrier, CONSUMERS / 32);
        ptx::fence_mbarrier_init();
    }
    if (threadIdx.x < 32) {  // a draft is made from whole maps
        reinterpret_cast<int*>(&s.draft.a)[threadIdx.x] =
            reinterpret_cast<const int*>(&map_a)[threadIdx.x];
        reinterpret_cast<int*>(&s.draft.c)[threadIdx.x] =
            reinterpret_cast<const int*>(&map_c)[threadIdx.x];
    }
    __syncthreads();  // the others see barriers and draft
    maps += blockIdx.x * MAPS;
    if (threadIdx.x >= CONSUMERS) {
        ptx::setmaxnreg_dec<40>();  // registers for the consumers' sums
        if (threadIdx.x < CONSUMERS + 32) produce(s, A, C, B, maps, {{sizes, groups, N, K}});
    } else {
        ptx::setmaxnreg_inc<232>();
        consume(s, maps, {{sizes, groups, N, K}}, row_scale);
    }
}
