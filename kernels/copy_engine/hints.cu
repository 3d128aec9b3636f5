// Who may stay in the L2 cache? Blocks read a table again and again, and beside it a stream that is
// never read twice. A hint to the copy engine says of the stream that it may leave first.
#include "check.cuh"
#include "ptx_sm90.cuh"
#include "timing.cuh"
#include <vector>

constexpr int BYTES = 8192, SLOTS = 8;  // of a copy; copies under way in a block
enum Hints { NONE, STREAM_FIRST, TABLE_LAST, HINTS };
const char* const NAMES[] = {"none", "stream first", "and table last"};

// createpolicy.fractional, 9.7.9.17: a policy for all of what is accessed with it. sm_80.
__device__ inline unsigned long long evict_first() {
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(policy));
    return policy;
}
__device__ inline unsigned long long evict_last() {
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0;" : "=l"(policy));
    return policy;
}

// cp.async.bulk, 9.7.9.25.4.1, with .L2::cache_hint. sm_90.
__device__ inline void load(void* shared, const void* global, unsigned long long* barrier,
                            unsigned long long policy) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
                 " [%0], [%1], %2, [%3], %4;"
                 :: "r"(ptx::shared_address(shared)), "l"(global), "r"(BYTES),
                    "r"(ptx::shared_address(barrier)), "l"(policy) : "memory");
}

// One thread a block. Copy 2i is piece i of the stream, copy 2i + 1 piece i of the table, around.
template <int HINT>
__global__ void both(const char* __restrict__ stream,  // (pieces · BYTES)
                     const char* __restrict__ table,   // (around · BYTES)
                     unsigned* __restrict__ out,       // (blocks): xor of the first words
                     int pieces, int around)
{
    extern __shared__ __align__(128) char memory[];
    __shared__ unsigned long long full[SLOTS];
    for (int s = 0; s < SLOTS; ++s) ptx::mbarrier_init(&full[s], 1);
    ptx::fence_mbarrier_init();
    const unsigned long long first = HINT == NONE ? 0 : evict_first();
    const unsigned long long last = HINT == TABLE_LAST ? evict_last() : 0;
    auto ask = [&](int copy, int s) {
        const int piece = copy / 2 * gridDim.x + blockIdx.x;
        const bool streamed = copy % 2 == 0;
        const char* from = streamed ? stream + size_t(piece) * BYTES
                                    : table + size_t(piece % around) * BYTES;
        ptx::mbarrier_arrive_expect_tx(&full[s], BYTES);
        if (streamed && HINT != NONE) load(memory + s * BYTES, from, &full[s], first);
        else if (!streamed && HINT == TABLE_LAST) load(memory + s * BYTES, from, &full[s], last);
        else ptx::cp_async_bulk_load(memory + s * BYTES, from, BYTES, &full[s]);
    };
    const int copies = 2 * (pieces / gridDim.x);
    unsigned seen = 0;
    for (int c = 0; c < SLOTS && c < copies; ++c) ask(c, c);
    for (int c = 0; c < copies; ++c) {
        const int s = c % SLOTS;
        ptx::mbarrier_wait(&full[s], c / SLOTS & 1);
        seen ^= *reinterpret_cast<const unsigned*>(memory + s * BYTES);
        if (c + SLOTS < copies) {
            ptx::fence_proxy_async_shared();
            ask(c + SLOTS, s);
        }
    }
    out[blockIdx.x] = seen;
}

struct Bench {
    char *stream, *table;
    unsigned* out;
    int blocks, pieces;
};

template <int HINT> void run(const Bench& b, int around, int count) {
    CHECK(cudaFuncSetAttribute(both<HINT>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               SLOTS * BYTES));
    auto launch = [&] {
        both<HINT><<<b.blocks, 1, SLOTS * BYTES>>>(b.stream, b.table, b.out, b.pieces, around);
    };
    launch();
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    if (!count) return;
    const double moved = 2.0 * (b.pieces / b.blocks) * b.blocks * BYTES;
    for (double us : timing::each(count, launch))
        printf("⏱ table=%d %s: %.1f\n", around * BYTES >> 20, NAMES[HINT], moved / us * 1e-3);
}

int main(int argc, char** argv) {
    const bool time = argc > 1 && !strcmp(argv[1], "time") && !timing::emulated();
    Bench b{};
    b.blocks = timing::emulated() ? 2 : 132;
    b.pieces = timing::emulated() ? 20 : (1 << 30) / BYTES;
    const int most = timing::emulated() ? 3 : (64 << 20) / BYTES;
    std::vector<unsigned> host(size_t(b.pieces) * BYTES / 4), right(b.blocks), got(b.blocks);
    for (size_t i = 0; i < host.size(); ++i) host[i] = unsigned(i * 2654435761u);
    CHECK(cudaMalloc(&b.stream, host.size() * 4));
    CHECK(cudaMalloc(&b.table, size_t(most) * BYTES));
    CHECK(cudaMalloc(&b.out, b.blocks * 4));
    CHECK(cudaMemcpy(b.stream, host.data(), host.size() * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(b.table, host.data(), size_t(most) * BYTES, cudaMemcpyHostToDevice));
    for (int piece = 0; piece < b.pieces / b.blocks * b.blocks; ++piece)
        right[piece % b.blocks] ^= host[size_t(piece) * (BYTES / 4)] ^
                                   host[size_t(piece % most) * (BYTES / 4)];
    for (int hint = 0; hint < HINTS; ++hint) {
        CHECK(cudaMemset(b.out, 0, b.blocks * 4));
        if (hint == NONE) run<NONE>(b, most, 0);
        if (hint == STREAM_FIRST) run<STREAM_FIRST>(b, most, 0);
        if (hint == TABLE_LAST) run<TABLE_LAST>(b, most, 0);
        CHECK(cudaMemcpy(got.data(), b.out, b.blocks * 4, cudaMemcpyDeviceToHost));
        if (got != right) return printf("hints: WRONG\n"), 2;
    }
    printf("hints: OK, every piece was the right one, with and without hints\n");
    if (!time) return 0;
    for (int round = 0; round < 3; ++round)
        for (int mib : {4, 8, 16, 24, 32, 48}) {
            const int around = (mib << 20) / BYTES;
            run<NONE>(b, around, 5);
            run<STREAM_FIRST>(b, around, 5);
            run<TABLE_LAST>(b, around, 5);
        }
}
