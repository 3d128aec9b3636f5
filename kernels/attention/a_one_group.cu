// Attention by one warp group: two products with a softmax between them. A producer warp fills
// rings of tiles of K and of V; the probabilities stay in registers, as operand A of the second.
#include "attention/attention.cuh"

constexpr int ROWS = 64;     // queries of a block
constexpr int KEYS = 128;    // of a tile
constexpr int SLOTS = 2;     // tiles of K, and tiles of V
constexpr int THREADS = 128 + 32;

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

// The consumer, one warp group.
template <int D, bool CAUSAL>
__device__ void consume(Shared<D>& s, bf16* O, const Shape& shape, int row, int tiles) {
    float o[D / 2] = {};
    Softmax softmax;
    Place<SLOTS> at;
    ptx::mbarrier_wait(&s.q_full, 0);
    for (int tile = tiles - 1; tile >= 0; --tile, at.advance()) {
        float scores[KEYS / 2], shrink[2];
        unsigned p[KEYS / 16][4];
        ptx::mbarrier_wait(&s.k_full[at.slot], at.phase);
        ptx::wgmma_fence();
        begin_scores<D, ROWS, KEYS>(scores, s.q, s.k[at.slot]);
        ptx::wgmma_wait_group<0>();
        settle(scores);
        if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.k_empty[at.slot]);

        mask_tile<CAUSAL, KEYS>(scores, shape, row, tile);
        softmax.step(scores, shrink, shape.factor);
        rescale(o, shrink);
        round_to_bf16<KEYS>(p, scores);

        ptx::mbarrier_wait(&s.v_full[at.slot], at.phase);
        settle(o);
        settle(p);
        ptx::wgmma_fence();
        begin_output<D, KEYS>(o, p, s.v[at.slot]);
        ptx::wgmma_wait_group<0>();
        settle(o);
        if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.v_empty[at.slot]);
    }
    float inverse[2];
    softmax.invert(inverse);
    rescale(o, inverse);
    store(o, O, row, shape.queries);
}

template <int D, bool CAUSAL>
__global__ void __launch_bounds__(THREADS)
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
            ptx::mbarrier_init(&s.k_empty[slot], 128 / 32);  // a lane of each warp arrives
            ptx::mbarrier_init(&s.v_empty[slot], 128 / 32);
        }
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    // Of causal attention the last rows come first: no block begins late what takes long.
    const int block = CAUSAL ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
    const int row = block * ROWS, layer = blockIdx.y;
    const int tiles = shape.tiles<CAUSAL>(row + ROWS, KEYS);
    if (threadIdx.x >= 128) {
        if (threadIdx.x == 128) produce<D>(s, Q, K, V, shape, row, layer, tiles);
    } else {
        consume<D, CAUSAL>(s, O + size_t(layer) * shape.queries * D, shape, row, tiles);
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
