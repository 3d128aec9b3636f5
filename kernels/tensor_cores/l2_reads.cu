// How many bytes a second does the L2 cache deliver? Blocks of the small rung's size read data of
// a given size again and again, by cp.async into a ring of four slots or by loads of 16 bytes.
#include "ptx.cuh"
#include "timing.cuh"
#include <random>

constexpr int THREADS = 128, SLOTS = 4;
constexpr int EACH = 8;                        // chunks of 16 bytes of a thread, for one slot
constexpr int PIECE = THREADS * EACH;          // chunks of a slot: 16 KiB
constexpr int RING = SLOTS * PIECE * 16;       // bytes

__device__ inline unsigned added(uint4 chunk) { return chunk.x + chunk.y + chunk.z + chunk.w; }

struct Look {  // what block 0 saw of the clocks
    long long cycles;
    unsigned long long ns;
};
__device__ inline Look look() {
    Look seen;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(seen.ns));
    seen.cycles = clock64();
    return seen;
}

// The piece that a block reads next, going round.
struct Round {
    int at, pieces;
    __device__ void next() { at = at + 1 == pieces ? 0 : at + 1; }
};

// `apart`: the blocks begin at different pieces, spread over the data; else all at the first.
__device__ inline Round begin(int pieces, bool apart) {
    return {apart ? int((long long)blockIdx.x * pieces / gridDim.x) : 0, pieces};
}

// SUMS: all that was copied is added up, which takes time; else the copies are all that is done.
template <bool SUMS>
__global__ void __launch_bounds__(THREADS)
copies(const uint4* __restrict__ from, int pieces, int turns, bool apart, unsigned* sum,
       Look* clocks) {
    extern __shared__ uint4 ring[];
    const Look start = look();
    Round here = begin(pieces, apart);
    auto fill = [&](int slot, bool ignore) {
#pragma unroll
        for (int i = 0; i < EACH; ++i)
            ptx::cp_async<16>(ring + slot * PIECE + i * THREADS + threadIdx.x,
                              from + size_t(here.at) * PIECE + i * THREADS + threadIdx.x, ignore);
        here.next();
        ptx::cp_async_commit_group();
    };
    for (int slot = 0; slot < SLOTS - 1; ++slot) fill(slot, slot >= turns);
    unsigned own = 0;
    int full = 0, empty = SLOTS - 1;
    for (int turn = 0; turn < turns; ++turn) {
        ptx::cp_async_wait_group<SLOTS - 2>();  // this thread's part of the slot is there
        if (SUMS)
            for (int i = 0; i < EACH; ++i)
                own += added(ring[full * PIECE + i * THREADS + threadIdx.x]);
        fill(empty, turn + SLOTS - 1 >= turns);
        empty = full;
        full = full + 1 == SLOTS ? 0 : full + 1;
    }
    ptx::cp_async_wait_group<0>();
    if (SUMS) atomicAdd(sum, own);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        const Look end = look();
        *clocks = {end.cycles - start.cycles, end.ns - start.ns};
    }
}

// Through registers: eight loads under way, which leave out the L1 cache, as the copies do.
__global__ void __launch_bounds__(THREADS)
loads(const uint4* __restrict__ from, int pieces, int turns, bool apart, unsigned* sum,
      Look* clocks) {
    const Look start = look();
    Round here = begin(pieces, apart);
    unsigned own = 0;
    for (int turn = 0; turn < turns; ++turn) {
        uint4 held[EACH];
#pragma unroll
        for (int i = 0; i < EACH; ++i)
            held[i] = __ldcg(from + size_t(here.at) * PIECE + i * THREADS + threadIdx.x);
#pragma unroll
        for (int i = 0; i < EACH; ++i) own += added(held[i]);
        here.next();
    }
    if (own) atomicAdd(sum, own);  // never, when all are zeros
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        const Look end = look();
        *clocks = {end.cycles - start.cycles, end.ns - start.ns};
    }
}

int main(int argc, char** argv) {
    timing::Report report(argc, argv);
    const bool emulated = timing::emulated();
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    using Kernel = void (*)(const uint4*, int, int, bool, unsigned*, Look*);
    struct Way {
        const char* name;
        Kernel kernel, checked;
        bool apart;
        int shared, at_once;  // bytes; blocks of a multiprocessor
    };
    std::vector<Way> ways = {
        {"cp.async, blocks apart", copies<false>, copies<true>, true, RING, 0},
        {"cp.async, blocks together", copies<false>, copies<true>, false, RING, 0},
        {"loads, blocks apart", loads, loads, true, 0, 0},
        {"loads, blocks together", loads, loads, false, 0, 0},
    };
    for (Way& way : ways) {
        for (Kernel each : {way.kernel, way.checked})
            CHECK(cudaFuncSetAttribute(each, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       way.shared));
        CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&way.at_once, way.kernel, THREADS,
                                                            way.shared));
        report.keep((std::string(way.name) + ": blocks at once").c_str(), {double(way.at_once)});
    }
    const size_t most = emulated ? 3 * PIECE : (size_t(256) << 20) / 16;  // chunks
    std::vector<unsigned> host(most * 4);
    std::mt19937 random(std::random_device{}());
    for (unsigned& word : host) word = random();
    uint4* data;
    unsigned *sum, found;
    Look *clocks, seen;
    CHECK(cudaMalloc(&data, most * 16));
    CHECK(cudaMalloc(&sum, sizeof *sum));
    CHECK(cudaMalloc(&clocks, sizeof *clocks));
    CHECK(cudaMemcpy(data, host.data(), most * 16, cudaMemcpyHostToDevice));

    // Everything is read as often as it should be: the sum of all words that the blocks read.
    for (const Way& way : ways) {
        const int blocks = 3, pieces = 3;
        for (int turns : {1, 7}) {
            unsigned right = 0;
            for (int b = 0; b < blocks; ++b)
                for (int turn = 0; turn < turns; ++turn) {
                    const int piece = ((way.apart ? b * pieces / blocks : 0) + turn) % pieces;
                    for (int i = 0; i < PIECE * 4; ++i)
                        right += host[size_t(piece) * PIECE * 4 + i];
                }
            CHECK(cudaMemset(sum, 0, sizeof *sum));
            way.checked<<<blocks, THREADS, way.shared>>>(data, pieces, turns, way.apart, sum,
                                                         clocks);
            CHECK(cudaGetLastError());
            CHECK(cudaMemcpy(&found, sum, sizeof found, cudaMemcpyDeviceToHost));
            if (found != right) {
                printf("%s: WRONG, %d turns\n", way.name, turns);
                fflush(stdout);
                fprintf(stderr, "wrong result: %s read %u and should read %u\n", way.name, found,
                        right);
                return 2;
            }
        }
        printf("%s: OK\n", way.name);
    }
    if (emulated) return 0;

    CHECK(cudaMemset(data, 0, most * 16));  // nobody adds while the clock runs
    struct Turn {
        const Way* way;
        int mib;
    };
    std::vector<Turn> all;
    for (const Way& way : ways)
        for (int mib : {1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 256})
            all.push_back({&way, mib});
    constexpr int ROUNDS = 5, COUNT = 4;
    std::vector<timing::Times> rates(all.size()), mhz(all.size());
    std::vector<int> order(all.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (int round = 0; round < ROUNDS; ++round) {
        std::shuffle(order.begin(), order.end(), random);
        for (int number : order) {
            const Way* way = all[number].way;
            const int mib = all[number].mib;
            const int blocks = device.multiProcessorCount * way->at_once;
            const int pieces = mib * 1024 / 16;
            const int turns = int((size_t(6) << 30) / (size_t(blocks) * PIECE * 16));
            auto run = [&] {
                way->kernel<<<blocks, THREADS, way->shared>>>(data, pieces, turns, way->apart, sum,
                                                              clocks);
            };
            const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(10);
            while (std::chrono::steady_clock::now() < until) {}  // a rest
            run();
            for (double microseconds : timing::each(COUNT, run))
                rates[number].push_back(double(turns) * blocks * PIECE * 16 /
                                        (microseconds * 1e-6) / 1e12);
            CHECK(cudaGetLastError());
            CHECK(cudaMemcpy(&seen, clocks, sizeof seen, cudaMemcpyDeviceToHost));
            mhz[number].push_back(double(seen.cycles) / double(seen.ns) * 1e3);
        }
    }
    for (size_t i = 0; i < all.size(); ++i) {
        const std::string name =
            std::string(all[i].way->name) + ", " + std::to_string(all[i].mib) + " MiB";
        report.say("%s: %.2f TB/s", name.c_str(), timing::quantile(rates[i], 0.5));
        report.keep(name.c_str(), rates[i]);
        report.keep((name + ", MHz").c_str(), mhz[i]);
    }
}
