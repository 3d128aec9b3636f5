// The same with persistent blocks: each makes several tiles of the output, the long ones first, and
// its producer fetches the next queries while the consumers still work on the last.
#include "attention/attention.cuh"

constexpr int SLOTS = 2;  // tiles of K, and tiles of V

// Long sequences have larger tiles: three groups where registers allow it, else more keys.
template <int D, bool LONG> constexpr int GROUPS = D == 64 && LONG ? 3 : 2;  // that multiply
template <int D, bool LONG> constexpr int KEYS = D == 128 && LONG ? 176 : 128;
template <int D, bool LONG> constexpr int ROWS = 64 * GROUPS<D, LONG>;  // queries: 64 for a group
template <int D, bool LONG> constexpr int CONSUMERS = 128 * GROUPS<D, LONG>;
template <int D, bool LONG> constexpr int THREADS = CONSUMERS<D, LONG> + 128;
constexpr int LONG_FROM = 2049;  // keys

template <int D, bool LONG> struct Shared {
    alignas(1024) bf16 q[GROUPS<D, LONG>][64 * D];  // a slot for each group
    bf16 k[SLOTS][KEYS<D, LONG> * D], v[SLOTS][KEYS<D, LONG> * D];
    unsigned long long q_full[GROUPS<D, LONG>], q_empty[GROUPS<D, LONG>];
    unsigned long long k_full[SLOTS], k_empty[SLOTS], v_full[SLOTS], v_empty[SLOTS];
};

// The tiles of the output that a block makes, one after the other: ROWS queries of a layer each.
// Causal attention takes the longer the later the queries are in a layer, so a block makes tiles in
// pairs, the i-th from the end and the i-th: all pairs take equally long.
template <int D, bool CAUSAL, bool LONG> struct Work {
    int rows, layers;  // tiles of a layer; layers
    int unit = blockIdx.x;
    bool second = false;  // of the pair

    __host__ __device__ static int units(int rows) { return CAUSAL ? (rows + 1) / 2 : rows; }
    __device__ bool more() const { return unit < units(rows) * layers; }
    __device__ int layer() const { return unit / units(rows); }
    __device__ int row() const {  // the first query
        const int i = unit % units(rows);
        return (CAUSAL && !second ? rows - 1 - i : i) * ROWS<D, LONG>;
    }
    __device__ void advance() {
        const int i = unit % units(rows);
        second = CAUSAL && !second && i != rows - 1 - i;  // the middle one is alone
        if (!second) unit += gridDim.x;
    }
    __device__ int tiles(const Shape& shape) const {
        return shape.tiles<CAUSAL>(row() + ROWS<D, LONG>, KEYS<D, LONG>);
    }
};

// Three producers, a thread each: of queries, of K and of V. None waits for another's slot.
template <int D, bool CAUSAL, bool LONG>
__device__ void produce_queries(Shared<D, LONG>& s, const CUtensorMap& Q,
                                Work<D, CAUSAL, LONG> work) {
    for (bool phase = false; work.more(); work.advance(), phase = !phase)
        for (int group = 0; group < GROUPS<D, LONG>; ++group) {
            ptx::mbarrier_wait(&s.q_empty[group], !phase);
            load<64, D>(s.q[group], Q, work.row() + 64 * group, work.layer(), &s.q_full[group]);
        }
}

template <int D, bool CAUSAL, bool LONG>
__device__ void produce(bf16 (&slots)[SLOTS][KEYS<D, LONG> * D], unsigned long long* full,
                        unsigned long long* empty, const CUtensorMap& map, const Shape& shape,
                        Work<D, CAUSAL, LONG> work) {
    Place<SLOTS> at;
    for (; work.more(); work.advance())
        for (int tile = work.tiles(shape) - 1; tile >= 0; --tile, at.advance()) {
            ptx::mbarrier_wait(&empty[at.slot], !at.phase);
            load<KEYS<D, LONG>, D>(slots[at.slot], map, tile * KEYS<D, LONG>,
                                   work.layer() / shape.sharing, &full[at.slot]);
        }
}

// Who multiplies next: named barrier 1 + g lets group g begin; 0 is __syncthreads'. Each phase
// takes the group that waits and the group that lets it.
__device__ void wait_for_turn(int group) { ptx::bar_sync(1 + group, 2 * 128); }
template <int D, bool LONG> __device__ void give_turn(int group) {
    ptx::bar_arrive(1 + (group + 1) % GROUPS<D, LONG>, 2 * 128);
}

// A consumer, one warp group: 64 queries, from `row` on.
template <int D, bool CAUSAL, bool LONG>
__device__ void consume(Shared<D, LONG>& s, bf16* O, const Shape& shape, int row, int tiles,
                        bool phase, Place<SLOTS>& k, Place<SLOTS>& v, int group) {
    float o[D / 2] = {}, scores[KEYS<D, LONG> / 2] = {}, shrink[2];
    unsigned p[KEYS<D, LONG> / 16][4];
    Softmax softmax;
    const bf16* q = s.q[group];
    ptx::mbarrier_wait(&s.q_full[group], phase);
    ptx::mbarrier_wait(&s.k_full[k.slot], k.phase);
    ptx::wgmma_fence();
    begin_scores<D, 64, KEYS<D, LONG>>(scores, q, s.k[k.slot]);
    ptx::wgmma_wait_group<0>();
    settle(scores);
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.k_empty[k.slot]);
    k.advance();
    mask_tile<CAUSAL, KEYS<D, LONG>>(scores, shape, row, tiles - 1);
    softmax.step(scores, shrink, shape.factor);
    round_to_bf16<KEYS<D, LONG>>(p, scores);

    for (int tile = tiles - 2; tile >= 0; --tile, k.advance(), v.advance()) {
        ptx::mbarrier_wait(&s.k_full[k.slot], k.phase);
        wait_for_turn(group);
        ptx::wgmma_fence();
        begin_scores<D, 64, KEYS<D, LONG>>(scores, q, s.k[k.slot]);  // of this tile
        ptx::mbarrier_wait(&s.v_full[v.slot], v.phase);
        settle(o);
        settle(p);
        ptx::wgmma_fence();
        begin_output<D, KEYS<D, LONG>>(o, p, s.v[v.slot]);  // of the one before
        give_turn<D, LONG>(group);
        ptx::wgmma_wait_group<1>();
        settle(scores);
        if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.k_empty[k.slot]);
        if (CAUSAL) mask_tile<CAUSAL, KEYS<D, LONG>>(scores, shape, row, tile);
        softmax.step(scores, shrink, shape.factor);  // the output may be added up meanwhile
        ptx::wgmma_wait_group<0>();
        settle(o);
        if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.v_empty[v.slot]);
        rescale(o, shrink);
        round_to_bf16<KEYS<D, LONG>>(p, scores);
    }
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.q_empty[group]);
    ptx::mbarrier_wait(&s.v_full[v.slot], v.phase);
    settle(o);
    settle(p);
    ptx::wgmma_fence();
    begin_output<D, KEYS<D, LONG>>(o, p, s.v[v.slot]);
    ptx::wgmma_wait_group<0>();
    settle(o);
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.v_empty[v.slot]);
    v.advance();
    float inverse[2];
    softmax.invert(inverse);
    rescale(o, inverse);
    store_wide(o, O, row, shape.queries);
}

template <int D, bool CAUSAL, bool LONG>
__global__ void __launch_bounds__(THREADS<D, LONG>, 1)
attention(const __grid_constant__ CUtensorMap Q,  // (layers, queries, D) in boxes of 64
          const __grid_constant__ CUtensorMap K,  // (layers / sharing, keys, D) in boxes of KEYS
          const __grid_constant__ CUtensorMap V,
          bf16* O,                                // (layers, queries, D)
          Shape shape, int layers)
{
    extern __shared__ __align__(1024) char memory[];
    Shared<D, LONG>& s = *reinterpret_cast<Shared<D, LONG>*>(memory);
    if (threadIdx.x == 0) {
        for (int group = 0; group < GROUPS<D, LONG>; ++group) {
            ptx::mbarrier_init(&s.q_full[group], 1);
            ptx::mbarrier_init(&s.q_empty[group], 128 / 32);  // a lane of each warp arrives
        }
        for (int slot = 0; slot < SLOTS; ++slot) {
            ptx::mbarrier_init(&s.k_full[slot], 1);
            ptx::mbarrier_init(&s.v_full[slot], 1);
            ptx::mbarrier_init(&s.k_empty[slot], CONSUMERS<D, LONG> / 32);
            ptx::mbarrier_init(&s.v_empty[slot], CONSUMERS<D, LONG> / 32);
        }
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    Work<D, CAUSAL, LONG> work{(shape.queries + ROWS<D, LONG> - 1) / ROWS<D, LONG>, layers};
    if (threadIdx.x >= CONSUMERS<D, LONG>) {
        ptx::setmaxnreg_dec<GROUPS<D, LONG> == 2 ? 40 : 32>();  // registers for the consumers
        switch (threadIdx.x - CONSUMERS<D, LONG>) {
            case 0: produce(s.k, s.k_full, s.k_empty, K, shape, work); break;
            case 32: produce(s.v, s.v_full, s.v_empty, V, shape, work); break;
            case 64: produce_queries(s, Q, work); break;
        }
    } else {
        ptx::setmaxnreg_inc<GROUPS<D, LONG> == 2 ? 232 : 160>();
        const int group = threadIdx.x / 128;
        Place<SLOTS> k, v;
        if (group == GROUPS<D, LONG> - 1) give_turn<D, LONG>(group);  // group 0 begins
        for (bool phase = false; work.more(); work.advance(), phase = !phase)
            consume<D, CAUSAL, LONG>(s, O + size_t(work.layer()) * shape.queries * D, shape,
                               work.row() + 64 * group, work.tiles(shape), phase, k, v, group);
        if (group == 0) wait_for_turn(group);  // the last turn that it is given
    }
}

template <int D, bool CAUSAL, bool LONG> void launch_tiles(const Attention& a) {
    const auto kernel = attention<D, CAUSAL, LONG>;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               sizeof(Shared<D, LONG>)));
    const int layers = a.batches * a.heads, kv_layers = a.batches * a.kv_heads;
    const int rows = (a.queries + ROWS<D, LONG> - 1) / ROWS<D, LONG>;
    const int blocks = std::min(Work<D, CAUSAL, LONG>::units(rows) * layers, a.multiprocessors);
    kernel<<<blocks, THREADS<D, LONG>, sizeof(Shared<D, LONG>), a.stream>>>(
        map_heads<D>(a.Q, layers, a.queries, 64),
        map_heads<D>(a.K, kv_layers, a.keys, KEYS<D, LONG>),
        map_heads<D>(a.V, kv_layers, a.keys, KEYS<D, LONG>), a.O, shape_of(a), layers);
}

template <int D, bool CAUSAL> void launch(const Attention& a) {
    a.keys < LONG_FROM ? launch_tiles<D, CAUSAL, false>(a) : launch_tiles<D, CAUSAL, true>(a);
}

#include "attention/attention_harness.cuh"
