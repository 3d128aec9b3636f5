"""What a graph saves between two launches: the end of a launch, or the beginning of the next.

A launch that may begin early has been fetched, and its blocks stand there, before the launch before
it ends: between the two only the end is left. The product of ``matvec.cu`` runs so, and without, in
a stream whose queue is full and in a graph; and once with 4000 bytes of parameters, which somebody
must fetch for every launch.
"""

from __future__ import annotations

from typing import Any

from phasebit import measure, toolchain
from phasebit.instruments import programs

NAME = "measuring_launches"
WAYS = ("stream", "graph")
KINDS = ("one after another", "early, asked at the end", "early, asked at the beginning",
         "4000 bytes of parameters")  # fmt: skip
STAMPED = (
    "a launch adds, µs", "first begin to last end, ns", "last end to next begin, ns",
    "last end to next work, ns",
)  # fmt: skip
"""What the record has of each way and kind: of a turn's launches the mean, or the medians."""
EXPECTED = {
    KINDS[1]: "the stream's gap falls by less than half",
    KINDS[2]: "what is left from the last end to the next work is as long in the stream as in the "
    "graph: then a graph saves in fetching and beginning a launch, and not at its end",
    KINDS[3]: "the same in the graph; some tenths of a microsecond more in the stream",
}
"""Written before the first run."""
_PROCESSES = 2

TEXT = r"""
// Between two launches: in a stream and in a graph, one after another or early.
#define OWN_MAIN
#include "measuring/matvec.cu"
#include "timing.cuh"
#include <array>
#include <map>

enum Kind { AFTER, LATE, EARLY, MANY };  // as the names below
struct Stamp {
    unsigned long long begin, work, end;  // nanoseconds of the GPU
};
template <int COUNT> struct Words {
    int words[COUNT];
};

__device__ inline unsigned long long now() {
    unsigned long long ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns) :: "memory");
    return ns;
}

template <int KIND, int COUNT>
__global__ void __launch_bounds__(THREADS)
stamped(int M, int K,
        const float* __restrict__ A,  // (M, K), row-major
        const float* __restrict__ x,  // (K)
        float* __restrict__ y,        // (M)
        Stamp* stamps,                // one a block
        const __grid_constant__ Words<COUNT> parameters)
{
    Stamp stamp;
    stamp.begin = now();
    if (KIND == EARLY) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    if (KIND == LATE || KIND == EARLY) asm volatile("griddepcontrol.wait;" ::: "memory");
    stamp.work = now();
    const int row = blockIdx.x * ROWS + threadIdx.x / 32 + parameters.words[COUNT - 1];
    const int lane = threadIdx.x % 32;
    float sum = 0;
    if (row < M) {
        #pragma unroll 8  // eight loads on their way before the first is needed
        for (int k = lane; k < K; k += 32)
            sum += A[size_t(row) * K + k] * x[k];
        for (int step = 16; step > 0; step /= 2)  // 32 sums to 1
            sum += __shfl_down_sync(0xffffffff, sum, step);
        if (lane == 0) y[row] = sum;
    }
    __syncthreads();  // all warps of the block have ended
    if (threadIdx.x == 0) {
        stamp.end = now();
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
    const int rounds = emulated ? 1 : 20;   // of each way
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

    const char* names[] = {"one after another", "early, asked at the end",
                           "early, asked at the beginning", "4000 bytes of parameters"};
    auto begin_one = [&](auto kernel, auto words, bool early, int i) {
        cudaLaunchAttribute asked[1];
        asked[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        asked[0].val.programmaticStreamSerializationAllowed = early;
        cudaLaunchConfig_t config{};
        config.gridDim = blocks, config.blockDim = THREADS, config.stream = own;
        config.attrs = asked, config.numAttrs = early ? 1 : 0;
        CHECK(cudaLaunchKernelEx(&config, kernel, M, K, (const float*)problem.A,
                                 (const float*)problem.x, (float*)problem.y,
                                 stamps + size_t(i) * blocks, words));
    };
    auto launch_once = [&](int kind, int i) {
        if (kind == AFTER) begin_one(stamped<AFTER, 1>, Words<1>{}, false, i);
        if (kind == LATE) begin_one(stamped<LATE, 1>, Words<1>{}, true, i);
        if (kind == EARLY) begin_one(stamped<EARLY, 1>, Words<1>{}, true, i);
        if (kind == MANY) begin_one(stamped<AFTER, 1000>, Words<1000>{}, false, i);
    };
    cudaGraphExec_t ready[4];
    for (int kind : {AFTER, LATE, EARLY, MANY}) {
        cudaGraph_t graph;
        CHECK(cudaStreamBeginCapture(own, cudaStreamCaptureModeGlobal));
        for (int i = 0; i < count; ++i) launch_once(kind, i);
        CHECK(cudaStreamEndCapture(own, &graph));
        CHECK(cudaGraphInstantiate(&ready[kind], graph, 0));
        CHECK(cudaGraphDestroy(graph));
    }

    std::map<std::string, timing::Times> kept;
    timing::Event before, after;
    cudaEvent_t held;  // the kernel in front has ended
    CHECK(cudaEventCreate(&held));
    auto turn = [&](bool graph, int kind, bool counts) {
        bool ahead = true;
        for (int again = 0; again < 20; ++again) {
            if (!emulated) busy<<<1, 1, 0, own>>>(3000000);
            CHECK(cudaEventRecord(held, own));
            before.record(own);
            if (graph) CHECK(cudaGraphLaunch(ready[kind], own));
            else
                for (int i = 0; i < count; ++i) launch_once(kind, i);
            after.record(own);
            const cudaError_t state = cudaEventQuery(held);
            ahead = emulated || state == cudaErrorNotReady;
            if (state != cudaErrorNotReady) CHECK(state);
            else cudaGetLastError();  // not ready is no error
            after.wait();
            if (ahead) break;
        }
        if (!ahead) {
            fprintf(stderr, "the host does not fill the queue in 3 ms, 20 times in a row\n");
            exit(1);
        }
        if (!counts) return;
        const std::string name = std::string(graph ? "graph, " : "stream, ") + names[kind];
        CHECK(cudaMemcpy(seen.data(), stamps, size * sizeof(Stamp), cudaMemcpyDeviceToHost));
        timing::Times own_ns, begin_ns, work_ns;
        long long last_end = 0;
        for (int i = 0; i < count; ++i) {
            Stamp all{~0ull, ~0ull, 0};
            for (int b = 0; b < blocks; ++b) {
                const Stamp& s = seen[size_t(i) * blocks + b];
                all.begin = std::min(all.begin, s.begin), all.work = std::min(all.work, s.work);
                all.end = std::max(all.end, s.end);
            }
            own_ns.push_back(double(all.end - all.begin));
            if (i) begin_ns.push_back(double((long long)(all.begin) - last_end));
            if (i) work_ns.push_back(double((long long)(all.work) - last_end));
            last_end = all.end;
        }
        kept[name + ": a launch adds, µs"].push_back(emulated ? 0 : after.since(before) / count);
        kept[name + ": first begin to last end, ns"].push_back(timing::quantile(own_ns, 0.5));
        kept[name + ": last end to next begin, ns"].push_back(timing::quantile(begin_ns, 0.5));
        kept[name + ": last end to next work, ns"].push_back(timing::quantile(work_ns, 0.5));
    };
    std::vector<std::array<int, 2>> turns;
    for (int graph : {0, 1})
        for (int kind : {AFTER, LATE, EARLY, MANY}) {
            problem.poison();
            turn(graph, kind, false);
            problem.verify("normal random numbers", false);
            turns.push_back({graph, kind});
        }
    for (int round = 0; round < rounds; ++round) {
        std::shuffle(turns.begin(), turns.end(), random);
        for (auto& [graph, kind] : turns) {
            const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(10);
            while (!emulated && std::chrono::steady_clock::now() < until) {}  // a rest
            turn(graph, kind, true);
        }
    }
    for (const auto& [name, numbers] : kept) {
        report.say("%s: %.2f", name.c_str(), timing::quantile(numbers, 0.5));
        report.keep(name.c_str(), numbers);
    }
    printf("matvec: OK in a stream and in a graph, one after another and early\n");
}
"""
"""The program, for sm_90."""


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`phasebit.toolchain.CudaError` when there is no GPU, or when a kernel fails or is
    wrong.
    """
    facts = measure.facts()
    program = toolchain.build(TEXT, name=NAME).program
    launches: dict[str, list[float]] = {}
    for _ in range(_PROCESSES):
        for name, numbers in programs.times(program).items():
            launches.setdefault(name, []).extend(numbers)
    for name, numbers in launches.items():
        print(f"⏱ {name}: {measure.summary(numbers).median:.2f}", flush=True)
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "clock": "CUDA events; %globaltimer at the beginning of each block, behind its wait "
            "for the launch before, and at its end",
            "order": f"{_PROCESSES} processes: 200 launches in a row of the product of matvec.cu, "
            "20 turns of each way and kind, by turns in random order, a rest of 10 ms before each; "
            "a kernel in front keeps the GPU busy for 3 ms, and where the host has not made all "
            "calls by then, the turn is made anew; of a turn's launches the medians",
            "early": "programmatic launches; asked at the beginning: each block lets the next "
            "launch come first, then waits for the launch before; at the end: a block lets it come "
            "by ending",
            "parameters": "a structure of 4000 bytes, of which the kernel reads one number, a zero",
            "check": "all of y, poisoned before, of each way and kind before timing",
            "inputs": "normal random numbers, drawn anew in each process",
            **{f"expected of {kind}": words for kind, words in EXPECTED.items()},
        },
        "launches": launches,
    }
