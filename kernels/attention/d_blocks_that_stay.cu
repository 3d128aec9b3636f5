// The same with blocks that stay: each makes several tiles of the output, the long ones first, and
// its producer fetches the next queries while the consumers still work on the last.
#include "attention/attention.cuh"

constexpr int GROUPS = 2;           // warp groups that multiply, 64 queries each
constexpr int ROWS = 64 * GROUPS;   // queries of a block
constexpr int KEYS = 128;           // of a tile
constexpr int SLOTS = 2;            // tiles of K, and tiles of V
constexpr size_t L2_BYTES = 24 << 20;  // of K and V that blocks share at a time
constexpr int CONSUMERS = 128 * GROUPS, THREADS = CONSUMERS + 128;

template <int D> struct Shared {
    alignas(1024) bf16 q[GROUPS][64 * D];  // a slot for each group: it is free when that group is done
    bf16 k[SLOTS][KEYS * D], v[SLOTS][KEYS * D];
    unsigned long long q_full[GROUPS], q_empty[GROUPS];
    unsigned long long k_full[SLOTS], k_empty[SLOTS], v_full[SLOTS], v_empty[SLOTS];
};

// The tiles of the output, ROWS queries of a layer each, in the order in which blocks take them. A
// section is `section` layers whose K and V fit into the L2 cache. In a section the last queries come
// first: causal, they see the most keys.
struct Work {
    int rows, layers, section;  // tiles of a layer; layers; layers of a section

    __device__ int count() const { return rows * layers; }
    // The turn-th tile of this block. Every other turn goes backwards: who had the longest tile gets
    // the shortest.
    __device__ int tile(int turn) const {
        return turn * gridDim.x + (turn % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
    }
    struct Place { int row, layer; };  // the first query
    __device__ Place place(int tile) const {
        const int first = tile / (rows * section) * section, within = tile % (rows * section);
        const int wide = min(section, layers - first);
        return {(rows - 1 - within / wide) * ROWS, first + within % wide};
    }
};

// The producer, one thread. The rings know nothing of where a tile of the output ends.
template <int D, bool CAUSAL>
__device__ void produce(Shared<D>& s, const CUtensorMap& Q, const CUtensorMap& K,
                        const CUtensorMap& V, const Shape& shape, const Work& work) {
    Place<SLOTS> at;
    for (int turn = 0; work.tile(turn) < work.count(); ++turn) {
        const auto [row, layer] = work.place(work.tile(turn));
        for (int group = 0; group < GROUPS; ++group) {
            ptx::mbarrier_wait(&s.q_empty[group], (turn + 1) % 2);
            load<64, D>(s.q[group], Q, row + 64 * group, layer, &s.q_full[group]);
        }
        for (int tile = shape.tiles<CAUSAL>(row + ROWS, KEYS) - 1; tile >= 0; --tile, at.advance()) {
            ptx::mbarrier_wait(&s.k_empty[at.slot], !at.phase);
            load<KEYS, D>(s.k[at.slot], K, tile * KEYS, layer / shape.sharing, &s.k_full[at.slot]);
            ptx::mbarrier_wait(&s.v_empty[at.slot], !at.phase);
            load<KEYS, D>(s.v[at.slot], V, tile * KEYS, layer / shape.sharing, &s.v_full[at.slot]);
        }
    }
}

// Who multiplies next: named barrier 1 + g lets group g begin; 0 is __syncthreads'. Each phase takes
// the group that waits and the group that lets it.
__device__ void wait_for_turn(int group) { ptx::bar_sync(1 + group, 2 * 128); }
__device__ void give_turn(int group) { ptx::bar_arrive(1 + (group + 1) % GROUPS, 2 * 128); }

// A consumer, one warp group: 64 queries, from `first` + 64 · group on.
template <int D, bool CAUSAL>
__device__ void consume(Shared<D>& s, bf16* O, const Shape& shape, int first, int tiles, int turn,
                        Place<SLOTS>& k, Place<SLOTS>& v, int group) {
    float o[D / 2] = {}, scores[KEYS / 2], shrink[2];
    unsigned p[KEYS / 16][4];
    Softmax softmax;
    const int row = first + group * 64;
    const bf16* q = s.q[group];
    ptx::mbarrier_wait(&s.q_full[group], turn % 2);
    ptx::mbarrier_wait(&s.k_full[k.slot], k.phase);
    ptx::wgmma_fence();
    begin_scores<D, 64, KEYS>(scores, q, s.k[k.slot]);
    ptx::wgmma_wait_group<0>();
    complete(scores);
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.k_empty[k.slot]);
    k.advance();
    mask_tile<CAUSAL, KEYS>(scores, shape, row, tiles - 1);
    softmax.step(scores, shrink, shape.factor);
    round_to_bf16<KEYS>(p, scores);

    for (int tile = tiles - 2; tile >= 0; --tile, k.advance(), v.advance()) {
        ptx::mbarrier_wait(&s.k_full[k.slot], k.phase);
        wait_for_turn(group);
        ptx::wgmma_fence();
        begin_scores<D, 64, KEYS>(scores, q, s.k[k.slot]);  // of this tile
        ptx::mbarrier_wait(&s.v_full[v.slot], v.phase);
        ptx::wgmma_fence();
        begin_output<D, KEYS>(o, p, s.v[v.slot]);  // of the one before
        give_turn(group);
        ptx::wgmma_wait_group<1>();
        complete(scores);
        if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.k_empty[k.slot]);
        mask_tile<CAUSAL, KEYS>(scores, shape, row, tile);
        softmax.step(scores, shrink, shape.factor);  // while the output is added up
        ptx::wgmma_wait_group<0>();
        complete(o);
        if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.v_empty[v.slot]);
        rescale(o, shrink);
        round_to_bf16<KEYS>(p, scores);
    }
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.q_empty[group]);
    ptx::mbarrier_wait(&s.v_full[v.slot], v.phase);
    ptx::wgmma_fence();
    begin_output<D, KEYS>(o, p, s.v[v.slot]);
    ptx::wgmma_wait_group<0>();
    complete(o);
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.v_empty[v.slot]);
    v.advance();
    float inverse[2];
    softmax.invert(inverse);
    rescale(o, inverse);
    store(o, O, row, shape.queries);
}

template <int D, bool CAUSAL>
__global__ void __launch_bounds__(THREADS, 1)
attention(const __grid_constant__ CUtensorMap Q,  // (layers, queries, D) in boxes of 64
          const __grid_constant__ CUtensorMap K,  // (layers / sharing, keys, D) in boxes of KEYS
          const __grid_constant__ CUtensorMap V,
          bf16* O,                                // (layers, queries, D)
          Shape shape, Work work)
{
    extern __shared__ __align__(1024) char memory[];
    Shared<D>& s = *reinterpret_cast<Shared<D>*>(memory);
    if (threadIdx.x == 0) {
        for (int group = 0; group < GROUPS; ++group) {
            ptx::mbarrier_init(&s.q_full[group], 1);
            ptx::mbarrier_init(&s.q_empty[group], 128 / 32);
        }
        for (int slot = 0; slot < SLOTS; ++slot) {
            ptx::mbarrier_init(&s.k_full[slot], 1);
            ptx::mbarrier_init(&s.v_full[slot], 1);
            ptx::mbarrier_init(&s.k_empty[slot], CONSUMERS / 32);  // a lane of each warp arrives
            ptx::mbarrier_init(&s.v_empty[slot], CONSUMERS / 32);
        }
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x >= CONSUMERS) {
        ptx::setmaxnreg_dec<GROUPS == 2 ? 24 : 32>();  // registers for the consumers
        if (threadIdx.x == CONSUMERS) produce<D, CAUSAL>(s, Q, K, V, shape, work);
    } else {
        ptx::setmaxnreg_inc<GROUPS == 2 ? 240 : 160>();
        const int group = threadIdx.x / 128;
        Place<SLOTS> k, v;
        if (group == GROUPS - 1) give_turn(group);  // group 0 begins
        for (int turn = 0; work.tile(turn) < work.count(); ++turn) {
            const auto [row, layer] = work.place(work.tile(turn));
            consume<D, CAUSAL>(s, O + size_t(layer) * shape.queries * D, shape, row,
                               shape.tiles<CAUSAL>(row + ROWS, KEYS), turn, k, v, group);
        }
        if (group == 0) wait_for_turn(group);  // the last turn that it is given
    }
}

template <int D, bool CAUSAL> void launch(const Attention& a) {
    const auto kernel = attention<D, CAUSAL>;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               sizeof(Shared<D>)));
    const int layers = a.batches * a.heads, kv_layers = a.batches * a.kv_heads;
    const int rows = (a.queries + ROWS - 1) / ROWS;
    const size_t layer_bytes = size_t(a.keys) * D * 2 * sizeof(bf16) * a.kv_heads / a.heads;
    const Work work{rows, layers, std::clamp(int(L2_BYTES / layer_bytes), 1, layers)};
    const int blocks = std::min(rows * layers, a.multiprocessors);
    kernel<<<blocks, THREADS, sizeof(Shared<D>), a.stream>>>(
        map_heads<D>(a.Q, layers, a.queries, 64), map_heads<D>(a.K, kv_layers, a.keys, KEYS),
        map_heads<D>(a.V, kv_layers, a.keys, KEYS), a.O, shape_of(a), work);
}

#include "attention/attention_harness.cuh"
