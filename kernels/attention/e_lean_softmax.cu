// The same with a softmax of fewer instructions, and smaller tiles: their scores need fewer
// registers, so three or four groups fit, and each hides what the others wait for.
#include "attention/lean_softmax.cuh"

template <int D> constexpr int GROUPS = D == 64 ? 4 : 3;  // that multiply, 64 queries each
template <int D> constexpr int ROWS = 64 * GROUPS<D>;     // queries of a block
constexpr int KEYS = 64;                                  // of a tile
constexpr int SLOTS = 4;                                  // tiles of K, and tiles of V
template <int D> constexpr int CONSUMERS = 128 * GROUPS<D>;
template <int D> constexpr int THREADS = CONSUMERS<D> + 128;

template <int D> struct Shared {
    alignas(1024) bf16 q[GROUPS<D>][64 * D];  // a slot for each group
    bf16 k[SLOTS][KEYS * D], v[SLOTS][KEYS * D];
    unsigned long long q_full[GROUPS<D>], q_empty[GROUPS<D>];
    unsigned long long k_full[SLOTS], k_empty[SLOTS], v_full[SLOTS], v_empty[SLOTS];
};

// The tiles of the output that a block makes, one after the other: ROWS queries of a layer each.
// Causal attention takes the longer the later the queries are in a layer, so a block makes tiles in
// pairs, the i-th from the end and the i-th: all pairs take equally long.
template <int D, bool CAUSAL> struct Work {
    int rows, layers;  // tiles of a layer; layers
    int unit = blockIdx.x;
    bool second = false;  // of the pair

    __host__ __device__ static int units(int rows) { return CAUSAL ? (rows + 1) / 2 : rows; }
    __device__ bool more() const { return unit < units(rows) * layers; }
    __device__ int layer() const { return unit / units(rows); }
    __device__ int row() const {  // the first query
        const int i = unit % units(rows);
        return (CAUSAL && !second ? rows - 1 - i : i) * ROWS<D>;
    }
    __device__ void advance() {
        const int i = unit % units(rows);
        second = CAUSAL && !second && i != rows - 1 - i;  // the middle one is alone
        if (!second) unit += gridDim.x;
    }
    __device__ int tiles(const Shape& shape) const {
        return shape.tiles<CAUSAL>(row() + ROWS<D>, KEYS);
    }
};

// Three producers, a thread each: of queries, of K and of V. None waits for another's slot.
template <int D, bool CAUSAL>
__device__ void produce_queries(Shared<D>& s, const CUtensorMap& Q, Work<D, CAUSAL> work) {
    for (bool phase = false; work.more(); work.advance(), phase = !phase)
        for (int group = 0; group < GROUPS<D>; ++group) {
            ptx::mbarrier_wait(&s.q_empty[group], !phase);
            load<64, D>(s.q[group], Q, work.row() + 64 * group, work.layer(), &s.q_full[group]);
        }
}

template <int D, bool CAUSAL>
__device__ void produce(bf16 (&slots)[SLOTS][KEYS * D], unsigned long long* full,
                        unsigned long long* empty, const CUtensorMap& map, const Shape& shape,
                        Work<D, CAUSAL> work) {
    Place<SLOTS> at;
    for (; work.more(); work.advance())
        for (int tile = work.tiles(shape) - 1; tile >= 0; --tile, at.advance()) {
            ptx::mbarrier_wait(&empty[at.slot], !at.phase);
            load<KEYS, D>(slots[at.slot], map, tile * KEYS, work.layer() / shape.sharing,
                          &full[at.slot]);
        }
}

// A consumer, one warp group: 64 queries, from `row` on.
template <int D, bool CAUSAL>
__device__ void consume(Shared<D>& s, bf16* O, const Shape& shape, int row, int tiles,
                        bool phase, Place<SLOTS>& k, Place<SLOTS>& v, int group) {
    float o[D / 2] = {}, scores[KEYS / 2] = {}, shrink[2];
    unsigned p[KEYS / 16][4];
    LeanSoftmax softmax;
    const bf16* q = s.q[group];
    ptx::mbarrier_wait(&s.q_full[group], phase);
    ptx::mbarrier_wait(&s.k_full[k.slot], k.phase);
    ptx::wgmma_fence();
    begin_scores<D, 64, KEYS>(scores, q, s.k[k.slot]);
    ptx::wgmma_wait_group<0>();
    settle(scores);
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.k_empty[k.slot]);
    k.advance();
    mask_tile<CAUSAL, KEYS>(scores, shape, row, tiles - 1);
    softmax.move(scores, shrink, shape.factor);
    softmax.weigh(scores, shape.factor);
    round_to_bf16<KEYS>(p, scores);

    // Tiles before this one are seen whole by all 64 queries.
    const int whole = CAUSAL ? (row + 1 + shape.keys - shape.queries) / KEYS : 0;
#pragma unroll 1
    for (int tile = tiles - 2; tile >= 0; --tile) {
        ptx::mbarrier_wait(&s.k_full[k.slot], k.phase);
        ptx::wgmma_fence();
        begin_scores<D, 64, KEYS>(scores, q, s.k[k.slot]);  // of this tile
        ptx::mbarrier_wait(&s.v_full[v.slot], v.phase);
        settle(o);
        settle(p);
        ptx::wgmma_fence();
        begin_output<D, KEYS>(o, p, s.v[v.slot]);  // of the one before
        ptx::wgmma_wait_group<1>();
        settle(scores);
        if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.k_empty[k.slot]);
        k.advance();
        if (CAUSAL && tile >= whole) mask_tile<CAUSAL, KEYS>(scores, shape, row, tile);
        const bool moved = softmax.move(scores, shrink, shape.factor);
        ptx::wgmma_wait_group<0>();
        settle(o);
        if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.v_empty[v.slot]);
        v.advance();
        if (moved) rescale(o, shrink);
        softmax.weigh(scores, shape.factor);
        round_to_bf16<KEYS>(p, scores);
    }
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.q_empty[group]);
    ptx::mbarrier_wait(&s.v_full[v.slot], v.phase);
    settle(o);
    settle(p);
    ptx::wgmma_fence();
    begin_output<D, KEYS>(o, p, s.v[v.slot]);
    ptx::wgmma_wait_group<0>();
    settle(o);
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.v_empty[v.slot]);
    v.advance();
    float inverse[2];
    softmax.invert(inverse);
    rescale(o, inverse);
    store_wide(o, O, row, shape.queries);
}

template <int D, bool CAUSAL>
__global__ void __launch_bounds__(THREADS<D>, 1)
attention(const __grid_constant__ CUtensorMap Q,  // (layers, queries, D) in boxes of 64
          const __grid_constant__ CUtensorMap K,  // (layers / sharing, keys, D) in boxes of KEYS
          const __grid_constant__ CUtensorMap V,
          bf16* O,                                // (layers, queries, D)
          Shape shape, int layers)
{
    extern __shared__ __align__(1024) char memory[];
    Shared<D>& s = *reinterpret_cast<Shared<D>*>(memory);
    if (threadIdx.x == 0) {
        for (int group = 0; group < GROUPS<D>; ++group) {
            ptx::mbarrier_init(&s.q_full[group], 1);
            ptx::mbarrier_init(&s.q_empty[group], 128 / 32);  // a lane of each warp arrives
        }
        for (int slot = 0; slot < SLOTS; ++slot) {
            ptx::mbarrier_init(&s.k_full[slot], 1);
            ptx::mbarrier_init(&s.v_full[slot], 1);
            ptx::mbarrier_init(&s.k_empty[slot], CONSUMERS<D> / 32);
            ptx::mbarrier_init(&s.v_empty[slot], CONSUMERS<D> / 32);
        }
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    Work<D, CAUSAL> work{(shape.queries + ROWS<D> - 1) / ROWS<D>, layers};
    // From one lane, so that the compiler knows: all lanes of a warp have the same.
    const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);
    if (group == GROUPS<D>) {
        ptx::setmaxnreg_dec<GROUPS<D> == 3 ? 40 : 32>();  // registers for the consumers
        switch (threadIdx.x - CONSUMERS<D>) {
            case 0: produce(s.k, s.k_full, s.k_empty, K, shape, work); break;
            case 32: produce(s.v, s.v_full, s.v_empty, V, shape, work); break;
            case 64: produce_queries(s, Q, work); break;
        }
    } else {
        ptx::setmaxnreg_inc<GROUPS<D> == 3 ? 152 : 112>();
        Place<SLOTS> k, v;
        for (bool phase = false; work.more(); work.advance(), phase = !phase)
            consume<D, CAUSAL>(s, O + size_t(work.layer()) * shape.queries * D, shape,
                               work.row() + 64 * group, work.tiles(shape), phase, k, v, group);
    }
}

template <int D, bool CAUSAL> void launch(const Attention& a) {
    const auto kernel = attention<D, CAUSAL>;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               sizeof(Shared<D>)));
    const int layers = a.batches * a.heads, kv_layers = a.batches * a.kv_heads;
    const int rows = (a.queries + ROWS<D> - 1) / ROWS<D>;
    const int blocks = std::min(Work<D, CAUSAL>::units(rows) * layers, a.multiprocessors);
    kernel<<<blocks, THREADS<D>, sizeof(Shared<D>), a.stream>>>(
        map_heads<D>(a.Q, layers, a.queries, 64), map_heads<D>(a.K, kv_layers, a.keys, KEYS),
        map_heads<D>(a.V, kv_layers, a.keys, KEYS), a.O, shape_of(a), layers);
}

#include "attention/attention_harness.cuh"
