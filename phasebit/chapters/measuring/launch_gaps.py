"""What a graph saves between two launches: the end of a launch, or the beginning of the next.

A launch that may begin early has been fetched, and its blocks stand there, before the launch before
it ends: between the two only the end is left. The product of ``matvec.cu`` runs so, and without, in
a stream whose queue is full and in a graph; and once with 4000 bytes of parameters, which somebody
must fetch for every launch.

A launch that asks for the next one before its own wait lets a third launch come while the first
still runs: from its first begin to its last end the third then takes as long as three launches. One
kind shows that. The others ask behind the wait, and one launch stands there at a time.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from phasebit import measure, toolchain
from phasebit.instruments import programs

NAME = "measuring_launches"
WAYS = ("stream", "graph")
KINDS = ("one after another", "early, asked at the end", "early, asked at the beginning",
         "4000 bytes of parameters", "early, asked before the wait")  # fmt: skip
GAPS = ("last end to next begin, ns", "last end to next last begin, ns",
        "last end to next work, ns", "last end to next last end, ns")  # fmt: skip
"""Of two launches: from the end of the last block of one to what the blocks of the next do first,
or last. Where blocks stand there before that end, a begin is negative."""
STAMPED = (
    "a launch adds, µs", *GAPS, "first work to last work, ns", "first work to last end, ns",
    "first begin to last end, ns", "blocks that stand at the last end, %",
    "most blocks on a multiprocessor",
)  # fmt: skip
"""What the record has of each way and kind: of a turn's launches the mean, or the medians."""
ALL = ("blocks of a launch", "blocks that a multiprocessor holds", "multiprocessors",
       "step of the clock, ns", "blocks whose clock went back")  # fmt: skip
"""What it has besides: numbers of a process."""
EXPECTED = {
    KINDS[1]: "the stream's gap falls by less than half",
    KINDS[2]: "what is left from the last end to the next work is as long in the stream as in the "
    "graph: then a graph saves in fetching and beginning a launch, and not at its end",
    KINDS[3]: "the same in the graph; some tenths of a microsecond more in the stream",
    KINDS[4]: "three launches from a first begin to its last end, as in the first run, and more "
    "blocks of one launch on a multiprocessor than of launches one after another",
}
"""Written before the first run; the last one after it. That run asked before the wait."""
_PROCESSES = 2
_TURNS = 12

TEXT = r"""
// Between two launches: in a stream and in a graph, one after another or early.
#define OWN_MAIN
#include "measuring/matvec.cu"
#include "timing.cuh"
#include <array>
#include <map>

enum Kind { AFTER, LATE, EARLY, MANY, DEEP };  // as the names below
struct Stamp {
    unsigned long long begin, work, end;  // nanoseconds of the GPU
    unsigned long long unit;              // the multiprocessor
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
__global__ void __launch_bounds__(THREADS, 8)  // room for all blocks of two launches
stamped(int M, int K,
        const float* __restrict__ A,  // (M, K), row-major
        const float* __restrict__ x,  // (K)
        float* __restrict__ y,        // (M)
        Stamp* stamps,                // one a block
        const __grid_constant__ Words<COUNT> parameters)
{
    Stamp stamp;
    stamp.begin = now();
    if (KIND == DEEP) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    if (KIND == LATE || KIND == EARLY || KIND == DEEP)
        asm volatile("griddepcontrol.wait;" ::: "memory");
    stamp.work = now();
    // Behind the wait: a third launch does not come while the one before this one still runs.
    if (KIND == EARLY) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
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
        unsigned unit;
        asm volatile("mov.u32 %0, %smid;" : "=r"(unit));
        stamp.unit = unit;
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
    const int rounds = emulated ? 1 : 12;   // of each way
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
                           "early, asked at the beginning", "4000 bytes of parameters",
                           "early, asked before the wait"};
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
        if (kind == DEEP) begin_one(stamped<DEEP, 1>, Words<1>{}, true, i);
    };
    cudaGraphExec_t ready[5];
    for (int kind : {AFTER, LATE, EARLY, MANY, DEEP}) {
        cudaGraph_t graph;
        CHECK(cudaStreamBeginCapture(own, cudaStreamCaptureModeGlobal));
        for (int i = 0; i < count; ++i) launch_once(kind, i);
        CHECK(cudaStreamEndCapture(own, &graph));
        CHECK(cudaGraphInstantiate(&ready[kind], graph, 0));
        CHECK(cudaGraphDestroy(graph));
    }

    std::map<std::string, timing::Times> kept;
    timing::Event before, after;
    unsigned long long step = ~0ull;  // the least difference that was seen
    int back = 0;                     // blocks whose clock went back
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
        // Of each launch; of the first no gap, since what runs before it has no stamps.
        timing::Times adds, first_begin, last_begin, work, spread, works, whole, stand, most;
        long long ended = 0;  // the last block of the launch before
        for (int i = 0; i < count; ++i) {
            Stamp first{~0ull, ~0ull, 0, 0}, last{0, 0, 0, 0};
            int on[1024] = {}, early = 0, fullest = 0;  // blocks of each multiprocessor
            const Stamp* stamp = &seen[size_t(i) * blocks];  // (host code is not optimized)
            for (const Stamp* s = stamp; s < stamp + blocks; ++s) {
                if (s->begin > s->work || s->work > s->end) ++back;
                if (s->begin < first.begin) first.begin = s->begin;
                if (s->work < first.work) first.work = s->work;
                if (s->begin > last.begin) last.begin = s->begin;
                if (s->work > last.work) last.work = s->work;
                if (s->end > last.end) last.end = s->end;
                if ((long long)(s->begin) <= ended) ++early;
                if (++on[s->unit % 1024] > fullest) fullest = on[s->unit % 1024];
                const unsigned long long took = s->end - s->begin;
                if (took > 0 && took < step) step = took;
                if (s->begin > stamp->begin && s->begin - stamp->begin < step)
                    step = s->begin - stamp->begin;
            }
            most.push_back(fullest);
            spread.push_back(double(last.work - first.work));
            works.push_back(double(last.end - first.work));
            whole.push_back(double(last.end - first.begin));
            if (i) {
                first_begin.push_back(double((long long)(first.begin) - ended));
                last_begin.push_back(double((long long)(last.begin) - ended));
                work.push_back(double((long long)(first.work) - ended));
                adds.push_back(double((long long)(last.end) - ended));
                stand.push_back(100.0 * early / blocks);
            }
            ended = last.end;
        }
        auto keep = [&](const char* what, double number) {
            kept[name + ": " + what].push_back(number);
        };
        auto middle = [&](const char* what, const timing::Times& numbers) {
            keep(what, timing::quantile(numbers, 0.5));
        };
        keep("a launch adds, µs", emulated ? 0 : after.since(before) / count);
        middle("last end to next begin, ns", first_begin);
        middle("last end to next last begin, ns", last_begin);
        middle("last end to next work, ns", work);
        middle("last end to next last end, ns", adds);
        middle("first work to last work, ns", spread);
        middle("first work to last end, ns", works);
        middle("first begin to last end, ns", whole);
        middle("blocks that stand at the last end, %", stand);
        middle("most blocks on a multiprocessor", most);
    };
    std::vector<std::array<int, 2>> turns;
    for (int graph : {0, 1})
        for (int kind : {AFTER, LATE, EARLY, MANY, DEEP}) {
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
    int held_at_once = 0, units = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&held_at_once, stamped<EARLY, 1>, THREADS,
                                                        0));
    CHECK(cudaDeviceGetAttribute(&units, cudaDevAttrMultiProcessorCount, 0));
    report.keep("blocks of a launch", {double(blocks)});
    report.keep("blocks that a multiprocessor holds", {double(held_at_once)});
    report.keep("multiprocessors", {double(units)});
    report.keep("step of the clock, ns", {double(step)});
    report.keep("blocks whose clock went back", {double(back)});
    printf("matvec: OK in a stream and in a graph, one after another and early\n");
}
"""
"""The program, for sm_90."""


def middles(launches: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The median of each list of numbers; some are negative, where blocks stand there early.

    Raises :class:`phasebit.toolchain.CudaError` where numbers are missing, or are none.
    """
    found: dict[str, float] = {}
    wanted = dict.fromkeys(ALL, _PROCESSES) | {
        f"{way}, {kind}: {what}": _PROCESSES * _TURNS
        for way in WAYS for kind in KINDS for what in STAMPED
    }  # fmt: skip
    for name, count in wanted.items():
        numbers = launches.get(name, ())
        if len(numbers) != count or not all(map(math.isfinite, numbers)):
            raise toolchain.CudaError(
                f"{NAME}: {name}: {count} finite numbers were wanted, but the program kept "
                f"{list(numbers)[:5]} and so on, {len(numbers)} of them"
            )
        found[name] = statistics.median(numbers)
    return found


def saved(middle: Mapping[str, float]) -> dict[str, float]:
    """What a graph saves of each gap: the stream's median less the graph's, in ns."""
    return {
        f"{kind}: {gap}": middle[f"stream, {kind}: {gap}"] - middle[f"graph, {kind}: {gap}"]
        for kind in KINDS for gap in GAPS
    }  # fmt: skip


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
    middle = middles(launches)
    for name, number in middle.items():
        print(f"⏱ {name}: {number:.2f}", flush=True)
    for name, number in saved(middle).items():
        print(f"⏱ a graph saves, {name}: {number:.0f}", flush=True)
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "clock": "CUDA events; %globaltimer at the beginning of each block, behind its wait "
            "for the launch before, and at its end",
            "order": f"{_PROCESSES} processes: 200 launches in a row of the product of matvec.cu, "
            f"{_TURNS} turns of each way and kind, by turns in random order, a rest of 10 ms "
            "before each; a kernel in front keeps the GPU busy for 3 ms, and where the host has "
            "not made all calls by then, the turn is made anew; of a turn's launches the medians",
            "early": "programmatic launches; asked at the beginning: each block waits for the "
            "launch before, then lets the next launch come: one stands there at a time, and has "
            "room, since each block of the launch that runs has its place when it asks; before the "
            "wait: the other way round, a third launch comes while the first runs; at the end: a "
            "block lets it come by ending",
            "ends and begins": "the last end of a launch is that of its last block; the next begin "
            "that of the next launch's first block, negative where it stands there early; work: "
            "what is behind a block's wait; blocks that stand: the share of the next launch's that "
            "have begun by then",
            "parameters": "a structure of 4000 bytes, of which the kernel reads one number, a zero",
            "check": "all of y, poisoned before, of each way and kind before timing, in a turn "
            "that does not count",
            "inputs": "normal random numbers, drawn anew in each process",
            **{f"expected of {kind}": words for kind, words in EXPECTED.items()},
        },
        "launches": launches,
    }
