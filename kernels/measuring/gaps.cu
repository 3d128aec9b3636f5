// Between two launches: the product of matvec.cu writes down when each of its blocks begins and
// ends, launched one by one and from a graph.
#define OWN_MAIN
#include "measuring/matvec.cu"
#include "timing.cuh"
#include <array>
#include <map>

struct Stamp {
    unsigned long long begin_ns, end_ns;  // of the GPU
    long long begin, end;                 // cycles of the multiprocessor
    unsigned unit;                        // the multiprocessor
};

__device__ inline unsigned long long now() {
    unsigned long long ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
}

template <class Number>
__global__ void __launch_bounds__(THREADS)
stamped(int M, int K,
        const Number* __restrict__ A,  // (M, K), row-major
        const Number* __restrict__ x,  // (K)
        float* __restrict__ y,         // (M), f32 in any case
        Stamp* stamps)                 // one a block
{
    Stamp stamp;
    if (threadIdx.x == 0) stamp.begin_ns = now(), stamp.begin = clock64();
    const int row = blockIdx.x * ROWS + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    float sum = 0;
    if (row < M) {
        #pragma unroll 8  // eight loads on their way before the first is needed
        for (int k = lane; k < K; k += 32)
            sum += float(A[size_t(row) * K + k]) * float(x[k]);
        for (int step = 16; step > 0; step /= 2)  // 32 sums to 1
            sum += __shfl_down_sync(0xffffffff, sum, step);
        if (lane == 0) y[row] = sum;
    }
    __syncthreads();  // all warps of the block have ended
    if (threadIdx.x == 0) {
        asm volatile("mov.u32 %0, %%smid;" : "=r"(stamp.unit));
        stamp.end = clock64(), stamp.end_ns = now();
        stamps[blockIdx.x] = stamp;
    }
}

// Keeps the GPU busy, so that the host fills the queue meanwhile.
__global__ void busy(unsigned long long ns) {
    const unsigned long long until = now() + ns;
    while (now() < until) {}
}

int main(int argc, char** argv) {
    timing::Report report(argc, argv);
    const bool emulated = timing::emulated();
    const int count = emulated ? 2 : 200;   // launches in a row
    const int rounds = emulated ? 1 : 20;   // of each way, after one that does not count
    const int M = emulated ? 9 : 4096, K = emulated ? 64 : 2048;  // A: 32 MiB
    const int blocks = (M + ROWS - 1) / ROWS;
    std::mt19937 random(std::random_device{}());
    std::normal_distribution<float> normal;
    Problem<float> problem(M, K);
    problem.fill([&] { return normal(random); });
    Stamp* stamps;
    const size_t size = size_t(count) * blocks;
    CHECK(cudaMalloc(&stamps, size * sizeof(Stamp)));
    std::vector<Stamp> seen(size);
    cudaStream_t own;
    CHECK(cudaStreamCreate(&own));

    auto launch_once = [&](bool stamp, int i, cudaStream_t stream) {
        if (stamp)
            stamped<<<blocks, THREADS, 0, stream>>>(M, K, problem.A, problem.x, problem.y,
                                                    stamps + size_t(i) * blocks);
        else matvec<<<blocks, THREADS, 0, stream>>>(M, K, problem.A, problem.x, problem.y);
    };
    cudaGraphExec_t ready[2];
    for (bool stamp : {false, true}) {
        cudaGraph_t graph;
        CHECK(cudaStreamBeginCapture(own, cudaStreamCaptureModeGlobal));
        for (int i = 0; i < count; ++i) launch_once(stamp, i, own);
        CHECK(cudaStreamEndCapture(own, &graph));
        CHECK(cudaGraphInstantiate(&ready[stamp], graph, 0));
        CHECK(cudaGraphDestroy(graph));
    }

    enum Way { DEFAULT, OWN, FULL, GRAPH };
    const char* names[] = {"default stream", "own stream", "own stream, queue full", "graph"};
    std::map<std::string, timing::Times> kept;
    timing::Event before, after;
    auto turn = [&](int way, bool stamp, bool counts) {
        const cudaStream_t stream = way == DEFAULT ? 0 : own;
        if (way == FULL && !emulated) busy<<<1, 1, 0, stream>>>(3000000);
        before.record(stream);
        if (way == GRAPH) CHECK(cudaGraphLaunch(ready[stamp], stream));
        else
            for (int i = 0; i < count; ++i) launch_once(stamp, i, stream);
        after.record(stream);
        CHECK(cudaGetLastError());
        after.wait();
        if (!counts) return;
        const std::string name = names[way];
        kept[name + (stamp ? ", stamped: a launch adds, µs" : ": a launch adds, µs")].push_back(
            emulated ? 0 : after.since(before) / count);
        if (!stamp) return;
        CHECK(cudaMemcpy(seen.data(), stamps, size * sizeof(Stamp), cudaMemcpyDeviceToHost));
        timing::Times own_ns, gap_ns, unit_gap, unit_own, block_cycles;
        unsigned long long last_end = 0;
        std::map<unsigned, std::array<long long, 2>> last;  // unit -> first begin, last end
        for (int i = 0; i < count; ++i) {
            unsigned long long first = ~0ull, end = 0;
            std::map<unsigned, std::array<long long, 2>> here;
            for (int b = 0; b < blocks; ++b) {
                const Stamp& s = seen[size_t(i) * blocks + b];
                first = std::min(first, s.begin_ns), end = std::max(end, s.end_ns);
                block_cycles.push_back(double(s.end - s.begin));
                auto [at, fresh] = here.try_emplace(s.unit, std::array<long long, 2>{s.begin, s.end});
                if (!fresh) {
                    at->second[0] = std::min(at->second[0], s.begin);
                    at->second[1] = std::max(at->second[1], s.end);
                }
            }
            own_ns.push_back(double(end - first));
            if (i) gap_ns.push_back(double((long long)(first - last_end)));
            for (const auto& [unit, both] : here) {
                unit_own.push_back(double(both[1] - both[0]));
                if (auto at = last.find(unit); i && at != last.end())
                    unit_gap.push_back(double(both[0] - at->second[1]));
            }
            last = here, last_end = end;
        }
        auto keep = [&](const char* of, const timing::Times& numbers) {
            if (numbers.size()) kept[name + of].push_back(timing::quantile(numbers, 0.5));
        };
        keep(": first begin to last end, ns", own_ns);
        keep(": last end to next begin, ns", gap_ns);
        keep(": a multiprocessor at work, cycles", unit_own);
        keep(": a multiprocessor between launches, cycles", unit_gap);
        keep(": a block, cycles", block_cycles);
    };
    for (int way : {DEFAULT, OWN, FULL, GRAPH})
        for (bool stamp : {false, true}) {
            problem.poison();
            turn(way, stamp, false);
            problem.verify("normal random numbers", false);
        }
    std::vector<std::array<int, 2>> turns;
    for (int way : {DEFAULT, OWN, FULL, GRAPH})
        for (int stamp : {0, 1}) turns.push_back({way, stamp});
    for (int round = 0; round < rounds; ++round) {
        std::shuffle(turns.begin(), turns.end(), random);
        for (auto& [way, stamp] : turns) {
            const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(10);
            while (!emulated && std::chrono::steady_clock::now() < until) {}  // a rest
            turn(way, stamp, true);
        }
    }
    for (const auto& [name, numbers] : kept) {
        report.say("%s: %.2f", name.c_str(), timing::quantile(numbers, 0.5));
        report.keep(name.c_str(), numbers);
    }
    printf("matvec: OK, with stamps and without, in a stream and in a graph\n");
}
