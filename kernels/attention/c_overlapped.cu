// The same, and within a group too the softmax may run beside a product: the scores of the next
// tile are begun before the output of this one, and waited for alone. ptxas decides what runs then.
#include "attention/attention.cuh"

constexpr int GROUPS = 2;           // warp groups that multiply, 64 queries each
constexpr int ROWS = 64 * GROUPS;   // queries of a block
constexpr int KEYS = 128;           // of a tile
constexpr int SLOTS = 2;            // tiles of K, and tiles of V
constexpr int CONSUMERS = 128 * GROUPS, THREADS = CONSUMERS + 128;

template <int D> struct Shared {
    alignas(1024) bf16 q[ROWS * D];
    bf16 k[SLOTS][KEYS * D], v[SLOTS][KEYS * D];
    unsigned long long q_full, k_full[SLOTS], k_empty[SLOTS], v_full[SLOTS], v_empty[SLOTS];
};

// The producer, one thread. The last tile comes first: it is the one that is masked.
template <int D>
__device__ void produce(Shared<D>& s, const CUtensorMap& Q, const CUtensorMap& K,
                        const CUtensorMap& V, const Shape& shape, int row, int layer, int tiles) {
    load<ROWS, D>(s.q, Q, row, layer, &s.q_full);
    Place<SLOTS> at;
    for (int tile = tiles - 1; tile >= 0; --tile, at.advance()) {
        ptx::mbarrier_wait(&s.k_empty[at.slot], !at.phase);
        load<KEYS, D>(s.k[at.slot], K, tile * KEYS, layer / shape.sharing, &s.k_full[at.slot]);
        ptx::mbarrier_wait(&s.v_empty[at.slot], !at.phase);
        load<KEYS, D>(s.v[at.slot], V, tile * KEYS, layer / shape.sharing, &s.v_full[at.slot]);
    }
}

// Who multiplies next: named barrier 1 + g lets group g begin; 0 is __syncthreads'. Each phase
// takes the group that waits and the group that lets it.
__device__ void wait_for_turn(int group) { ptx::bar_sync(1 + group, 2 * 128); }
__device__ void give_turn(int group) { ptx::bar_arrive(1 + (group + 1) % GROUPS, 2 * 128); }

// A consumer, one warp group: 64 queries.
template <int D, bool CAUSAL>
__device__ void consume(Shared<D>& s, bf16* O, const Shape& shape, int row, int tiles, int group) {
    float o[D / 2] = {}, scores[KEYS / 2];
    Softmax softmax;
    Place<SLOTS> k, v;
    const bf16* q = s.q + group * 64 * PANEL;
    row += group * 64;
    float shrink[2];
    unsigned p[KEYS / 16][4];
    if (group == GROUPS - 1) give_turn(group);  // group 0 begins
    ptx::mbarrier_wait(&s.q_full, 0);
    ptx::mbarrier_wait(&s.k_full[k.slot], k.phase);
    ptx::wgmma_fence();
    begin_scores<D, ROWS, KEYS>(scores, q, s.k[k.slot]);
    ptx::wgmma_wait_group<0>();
    settle(scores);
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.k_empty[k.slot]);
    k.advance();
    mask_tile<CAUSAL, KEYS>(scores, shape, row, tiles - 1);
    softmax.step(scores, shrink, shape.factor);
    round_to_bf16<KEYS>(p, scores);

    for (int tile = tiles - 2; tile >= 0; --tile, k.advance(), v.advance()) {
        ptx::mbarrier_wait(&s.k_full[k.slot], k.phase);
        wait_for_turn(group);
        ptx::wgmma_fence();
        begin_scores<D, ROWS, KEYS>(scores, q, s.k[k.slot]);  // of this tile
        ptx::mbarrier_wait(&s.v_full[v.slot], v.phase);
        settle(o);
        settle(p);
        ptx::wgmma_fence();
        begin_output<D, KEYS>(o, p, s.v[v.slot]);  // of the one before
        give_turn(group);
        ptx::wgmma_wait_group<1>();
        settle(scores);
        if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.k_empty[k.slot]);
        mask_tile<CAUSAL, KEYS>(scores, shape, row, tile);
        softmax.step(scores, shrink, shape.factor);  // the output may be added up meanwhile
        ptx::wgmma_wait_group<0>();
        settle(o);
        if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.v_empty[v.slot]);
        rescale(o, shrink);
        round_to_bf16<KEYS>(p, scores);
    }
    ptx::mbarrier_wait(&s.v_full[v.slot], v.phase);
    settle(o);
    settle(p);
    ptx::wgmma_fence();
    begin_output<D, KEYS>(o, p, s.v[v.slot]);
    ptx::wgmma_wait_group<0>();
    settle(o);
    if (group == 0) wait_for_turn(group);  // the last turn that it is given
    float inverse[2];
    softmax.invert(inverse);
    rescale(o, inverse);
    store(o, O, row, shape.queries);
}

template <int D, bool CAUSAL>
__global__ void __launch_bounds__(THREADS, 1)
attention(const __grid_constant__ CUtensorMap Q,  // (layers, queries, D) in boxes of ROWS
          const __grid_constant__ CUtensorMap K,  // (layers / sharing, keys, D) in boxes of KEYS
          const __grid_constant__ CUtensorMap V,
          bf16* O,                                // (layers, queries, D)
          Shape shape)
{
    extern __shared__ __align__(1024) char memory[];
    Shared<D>& s = *reinterpret_cast<Shared<D>*>(memory);
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&s.q_full, 1);
        for (int slot = 0; slot < SLOTS; ++slot) {
            ptx::mbarrier_init(&s.k_full[slot], 1);
            ptx::mbarrier_init(&s.v_full[slot], 1);
            ptx::mbarrier_init(&s.k_empty[slot], CONSUMERS / 32);  // a lane of each warp arrives
            ptx::mbarrier_init(&s.v_empty[slot], CONSUMERS / 32);
        }
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    // Of causal attention the last rows come first: no block begins late what takes long.
    const int block = CAUSAL ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
    const int row = block * ROWS, layer = blockIdx.y;
    const int tiles = shape.tiles<CAUSAL>(row + ROWS, KEYS);
    if (threadIdx.x >= CONSUMERS) {
        ptx::setmaxnreg_dec<GROUPS == 2 ? 24 : 32>();  // registers for the consumers
        if (threadIdx.x == CONSUMERS) produce<D>(s, Q, K, V, shape, row, layer, tiles);
    } else {
        ptx::setmaxnreg_inc<GROUPS == 2 ? 240 : 160>();
        consume<D, CAUSAL>(s, O + size_t(layer) * shape.queries * D, shape, row, tiles,
                           threadIdx.x / 128);
    }
}

template <int D, bool CAUSAL> void launch(const Attention& a) {
    const auto kernel = attention<D, CAUSAL>;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               sizeof(Shared<D>)));
    const int layers = a.batches * a.heads, kv_layers = a.batches * a.kv_heads;
    const dim3 blocks((a.queries + ROWS - 1) / ROWS, layers);
    kernel<<<blocks, THREADS, sizeof(Shared<D>), a.stream>>>(
        map_heads<D>(a.Q, layers, a.queries, ROWS), map_heads<D>(a.K, kv_layers, a.keys, KEYS),
        map_heads<D>(a.V, kv_layers, a.keys, KEYS), a.O, shape_of(a));
}

#include "attention/attention_harness.cuh"
