// The same, and between two tiles of the output no group stores with nothing beside it: the scores
// of its next tile are begun before the output of this one is complete, and it stores meanwhile.
#include "attention/lean_softmax.cuh"

template <int D> constexpr int GROUPS = D == 64 ? 4 : 3;  // that multiply, 64 queries each
template <int D> constexpr int ROWS = 64 * GROUPS<D>;     // queries of a block
constexpr int KEYS = 64;                                  // of a tile
constexpr int SLOTS = 4;                                  // tiles of K, and tiles of V
constexpr int TASKS = 2;                                  // tiles of the output
template <int D> constexpr int CONSUMERS = 128 * GROUPS<D>;
template <int D> constexpr int THREADS = CONSUMERS<D> + 128;

// The sequences: all alike, batch after batch, or packed as struct Attention says.
struct Sequences {
    const int *first_query, *first_key;
    int batches, heads;
    Shape each;  // of all, where they are alike
    __device__ bool packed() const { return first_query; }
};

// One of them.
struct Sequence {
    int first_query = 0, first_key = 0;
    Shape shape;
    __device__ Sequence(const Sequences& all, int batch) : shape(all.each) {
        if (!all.packed()) return;
        first_query = all.first_query[batch], first_key = all.first_key[batch];
        shape.queries = all.first_query[batch + 1] - first_query;
        shape.keys = all.first_key[batch + 1] - first_key;
    }
    template <int D> __device__ int tiles() const {  // of the output, for one head
        return (shape.queries + ROWS<D> - 1) / ROWS<D>;
    }
};

// What the consumers must do: a tile of the output, from query `row` of its sequence on. Without
// tiles of keys there is nothing more to do.
struct Task {
    bf16* O;     // of the sequence's first query
    int stride;  // from one of its queries to the next
    int row, tiles;
    Shape shape;

    // Tiles of keys that 64 queries from `row` on see; one where there are no such queries.
    template <bool CAUSAL> __device__ int seen(int row) const {
        return row < shape.queries ? shape.tiles<CAUSAL>(row + 64, KEYS) : 1;
    }
};

template <int D> struct Shared {
    alignas(1024) bf16 q[TASKS][ROWS<D> * D];  // group after group
    bf16 k[SLOTS][KEYS * D], v[SLOTS][KEYS * D];
    Task tasks[TASKS];
    unsigned long long q_full[TASKS], q_empty[TASKS];
    unsigned long long k_full[SLOTS], k_empty[SLOTS], v_full[SLOTS], v_empty[SLOTS], v_raw;
};

// Of a tile of V only the first `rows` are of the sequence. The next sequence's may be infinite,
// and 0 · ∞ is NaN: once v_raw says that they are here, the warp overwrites them, and only then
// does it say that the slot is full.
template <int D>
__device__ void clear_behind(Shared<D>& s, int slot, int rows, bool& phase) {
    ptx::mbarrier_wait(&s.v_raw, phase);
    phase = !phase;
    constexpr int PIECES = PANEL / 8;  // of a row of a panel, 16 bytes each
    const int lane = threadIdx.x % 32;
    for (int i = lane; i < (KEYS - rows) * PIECES * (D / PANEL); i += 32) {
        const int panel = i / PIECES % (D / PANEL), r = rows + i / PIECES / (D / PANEL);
        reinterpret_cast<uint4*>(s.v[slot])[(panel * KEYS + r) * PIECES + i % PIECES] = {};
    }
    ptx::fence_proxy_async_shared();
    __syncwarp();
    if (lane == 0) ptx::mbarrier_arrive(&s.v_full[slot]);
}

// The producer, one warp, of which one lane waits and copies. A block's first tile of the output is
// blockIdx.x; the counter gives each of the others to one block. All blocks together ask it as
// often as there are tiles, and then it is 0 again.
template <int D, bool CAUSAL>
__device__ void produce(Shared<D>& s, const CUtensorMap& Q, const CUtensorMap& K,
                        const CUtensorMap& V, bf16* O, const Sequences& all, unsigned* counter) {
    const bool copies = threadIdx.x % 32 == 0;
    int units = 0;  // tiles of the output
    for (int b = 0; b < all.batches; ++b) units += Sequence(all, b).tiles<D>() * all.heads;
    const int given = min(gridDim.x, units);  // before the counter is asked
    int batch = 0, before = 0;                // units of the sequences before this one
    Sequence now(all, batch);
    Place<TASKS> t;
    Place<SLOTS> at;
    bool raw = false;
    for (int unit = blockIdx.x; unit < units; t.advance()) {
        while (unit >= before + now.tiles<D>() * all.heads) {
            before += now.tiles<D>() * all.heads;
            now = Sequence(all, ++batch);
        }
        // Causal: the last rows of all heads first. Else head after head, whose keys stay in L2.
        const int i = unit - before, tiles_of_head = now.tiles<D>();
        const int head = CAUSAL ? i % all.heads : i / tiles_of_head;
        const int row = ROWS<D> * (CAUSAL ? tiles_of_head - 1 - i / all.heads : i % tiles_of_head);
        const int layer = all.packed() ? head : batch * all.heads + head;
        const int tiles = now.shape.tiles<CAUSAL>(row + ROWS<D>, KEYS);
        int next;
        if (copies) {
            ptx::mbarrier_wait(&s.q_empty[t.slot], !t.phase);
            next = given + atomicInc(counter, units - 1);
            const size_t first = all.packed() ? size_t(now.first_query) * all.heads + head
                                              : size_t(layer) * now.shape.queries;
            const int stride = all.packed() ? all.heads * D : D;
            s.tasks[t.slot] = {O + first * D, stride, row, tiles, now.shape};
            ptx::mbarrier_arrive_expect_tx(&s.q_full[t.slot], ROWS<D> * D * sizeof(bf16));
            for (int part = 0; part < ROWS<D> * D; part += 64 * PANEL)
                ptx::cp_async_bulk_tensor_load(
                    &s.q[t.slot][part], Q, part / (64 * PANEL) % (D / PANEL) * PANEL,
                    now.first_query + row + part / D / 64 * 64, layer, &s.q_full[t.slot]);
        }
        for (int tile = tiles - 1; tile >= 0; --tile, at.advance()) {
            const int key = now.first_key + tile * KEYS, rows = now.shape.keys - tile * KEYS;
            const bool cut = all.packed() && rows < KEYS;
            if (copies) {
                ptx::mbarrier_wait(&s.k_empty[at.slot], !at.phase);
                load<KEYS, D>(s.k[at.slot], K, key, layer / now.shape.sharing, &s.k_full[at.slot]);
                ptx::mbarrier_wait(&s.v_empty[at.slot], !at.phase);
                load<KEYS, D>(s.v[at.slot], V, key, layer / now.shape.sharing,
                              cut ? &s.v_raw : &s.v_full[at.slot]);
            }
            if (cut) clear_behind(s, at.slot, max(rows, 0), raw);
        }
        unit = __shfl_sync(~0u, next, 0);
    }
    if (!copies) return;
    ptx::mbarrier_wait(&s.q_empty[t.slot], !t.phase);
    s.tasks[t.slot].tiles = 0;
    ptx::mbarrier_arrive(&s.q_full[t.slot]);
}

// By a warp whose lanes are together, as they are behind wgmma.wait_group.
__device__ void release(unsigned long long* empty) {
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(empty);
}

// A consumer, one warp group: 64 queries of each task.
template <int D, bool CAUSAL> __device__ void consume(Shared<D>& s, float factor, int group) {
    Place<SLOTS> k, v;
    bool begun = false;  // the first scores of the next task
    float scores[KEYS / 2] = {};
    for (Place<TASKS> t;; t.advance()) {
        float o[D / 2] = {}, shrink[2];
        unsigned p[KEYS / 16][4];
        LeanSoftmax softmax;
        ptx::mbarrier_wait(&s.q_full[t.slot], t.phase);
        const Task& task = s.tasks[t.slot];
        if (task.tiles == 0) return;
        const bf16* q = &s.q[t.slot][group * 64 * D];
        const int row = task.row + 64 * group, seen = task.seen<CAUSAL>(row);
        int hidden = begun ? 0 : task.tiles - seen;
#pragma unroll 1
        for (; hidden > 0; --hidden, k.advance(), v.advance()) {
            ptx::mbarrier_wait(&s.k_full[k.slot], k.phase);
            ptx::mbarrier_wait(&s.v_full[v.slot], v.phase);
            __syncwarp();
            release(&s.k_empty[k.slot]);
            release(&s.v_empty[v.slot]);
        }
        if (!begun) {
            ptx::mbarrier_wait(&s.k_full[k.slot], k.phase);
            ptx::wgmma_fence();
            begin_scores<D, 64, KEYS>(scores, q, s.k[k.slot]);
        }
        ptx::wgmma_wait_group<0>();
        settle(scores);
        release(&s.k_empty[k.slot]);
        k.advance();
        mask_tile<CAUSAL, KEYS>(scores, task.shape, row, seen - 1);
        softmax.move(scores, shrink, factor);
        softmax.weigh(scores, factor);
        round_to_bf16<KEYS>(p, scores);

        // Tiles before this one are seen whole by all 64 queries.
        const int whole = CAUSAL ? (row + 1 + task.shape.keys - task.shape.queries) / KEYS : 0;
#pragma unroll 1
        for (int tile = seen - 2; tile >= 0; --tile) {
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
            release(&s.k_empty[k.slot]);
            k.advance();
            if (CAUSAL && tile >= whole) mask_tile<CAUSAL, KEYS>(scores, task.shape, row, tile);
            const bool moved = softmax.move(scores, shrink, factor);
            ptx::wgmma_wait_group<0>();
            settle(o);
            release(&s.v_empty[v.slot]);
            v.advance();
            if (moved) rescale(o, shrink);
            softmax.weigh(scores, factor);
            round_to_bf16<KEYS>(p, scores);
        }
        ptx::mbarrier_wait(&s.v_full[v.slot], v.phase);
        settle(o);
        settle(p);
        ptx::wgmma_fence();
        begin_output<D, KEYS>(o, p, s.v[v.slot]);
        const auto finish = [&] {  // its output is complete
            settle(o);
            release(&s.v_empty[v.slot]);
            v.advance();
            float inverse[2];
            softmax.invert(inverse);
            rescale(o, inverse);
            store_wide(o, task.O, row, task.shape.queries, task.stride);
            __syncwarp();
            release(&s.q_empty[t.slot]);  // the task, too, has been read
        };
        Place<TASKS> next = t;
        next.advance();
        ptx::mbarrier_wait(&s.q_full[next.slot], next.phase);
        const Task& then = s.tasks[next.slot];
        // Not where hidden tiles come first: only who has given back its last tile of V can wait
        // for those.
        begun = then.tiles != 0 && then.seen<CAUSAL>(then.row + 64 * group) == then.tiles;
        if (begun) {
            ptx::mbarrier_wait(&s.k_full[k.slot], k.phase);
            settle(scores);
            ptx::wgmma_fence();
            begin_scores<D, 64, KEYS>(scores, &s.q[next.slot][group * 64 * D], s.k[k.slot]);
            ptx::wgmma_wait_group<1>();
            finish();  // in both branches, or the scores would be waited for before it
        } else {
            ptx::wgmma_wait_group<0>();
            finish();
        }
    }
}

template <int D, bool CAUSAL>
__global__ void __launch_bounds__(THREADS<D>, 1)
attention(const __grid_constant__ CUtensorMap Q,  // (layers, queries, D) in boxes of 64
          const __grid_constant__ CUtensorMap K,  // (layers / sharing, keys, D) in boxes of KEYS
          const __grid_constant__ CUtensorMap V,
          bf16* O,                                // as Q lies
          Shape each, int batches, int heads, const int* first_query, const int* first_key,
          unsigned* counter)
{
    const Sequences all{first_query, first_key, batches, heads, each};
    extern __shared__ __align__(1024) char memory[];
    Shared<D>& s = *reinterpret_cast<Shared<D>*>(memory);
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < TASKS; ++slot) {
            ptx::mbarrier_init(&s.q_full[slot], 1);
            ptx::mbarrier_init(&s.q_empty[slot], CONSUMERS<D> / 32);  // a lane of each warp arrives
        }
        for (int slot = 0; slot < SLOTS; ++slot) {
            ptx::mbarrier_init(&s.k_full[slot], 1);
            ptx::mbarrier_init(&s.v_full[slot], 1);
            ptx::mbarrier_init(&s.k_empty[slot], CONSUMERS<D> / 32);
            ptx::mbarrier_init(&s.v_empty[slot], CONSUMERS<D> / 32);
        }
        ptx::mbarrier_init(&s.v_raw, 1);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    // From one lane, so that the compiler knows: all lanes of a warp have the same.
    const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);
    if (group == GROUPS<D>) {
        ptx::setmaxnreg_dec<GROUPS<D> == 3 ? 40 : 32>();  // registers for the consumers
        if (threadIdx.x < CONSUMERS<D> + 32) produce<D, CAUSAL>(s, Q, K, V, O, all, counter);
    } else {
        ptx::setmaxnreg_inc<GROUPS<D> == 3 ? 152 : 112>();
        consume<D, CAUSAL>(s, each.factor, group);
    }
}

template <int D, bool CAUSAL> void launch(const Attention& a) {
    const auto kernel = attention<D, CAUSAL>;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               sizeof(Shared<D>)));
    const bool packed = a.first_query;
    const int batches = packed ? 1 : a.batches;
    kernel<<<a.multiprocessors, THREADS<D>, sizeof(Shared<D>), a.stream>>>(
        map_heads<D>(a.Q, batches * a.heads, a.queries, 64, packed),
        map_heads<D>(a.K, batches * a.kv_heads, a.keys, KEYS, packed),
        map_heads<D>(a.V, batches * a.kv_heads, a.keys, KEYS, packed), a.O, shape_of(a),
        a.batches, a.heads, a.first_query, a.first_key, a.counter);
}

#define ANY_LENGTHS  // more to check
#include "attention/attention_harness.cuh"
