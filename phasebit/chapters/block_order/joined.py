"""Does something between multiprocessors and L2 cache join requests for the same bytes?

Blocks, one on each multiprocessor, read pieces of a region again and again, at times agreed upon
beforehand: each waits by the GPU's clock, which asks nobody for anything. Each multiprocessor has a
region and a shift. Two of one TPC, of one GPC or of two GPCs, all of a GPC, or all, read the same
region at the same time, or one some hundred nanoseconds later. Nsight Compute counts what came to
the multiprocessors, and what L2 was asked for. Where L2 was asked for less, requests were joined.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from phasebit import measure, toolchain
from phasebit.chapters.block_order.block_order_times import ASKED, FABRIC, HIT, LOOKUPS
from phasebit.instruments import profiler, programs
from phasebit.instruments.programs import SECONDS

NAME = "requests_joined"
PIECE, PIECES = 8192, 16
"""Bytes that are read at a time, and how many such a region has."""
ROUNDS, PERIOD = 16, 4000
"""How often a region is read, and nanoseconds from piece to piece."""
SHIFTS = (0, 50, 100, 200, 400, 800, 1600)
"""Nanoseconds by which the second of a pair is late."""
WAYS = {"cp.async": 0, "copy engine": 1}
"""Instruction that reads -> its number."""

_KERNELS = """
#include "ptx_sm90.cuh"
#include "check.cuh"
constexpr int PIECE = 8192, THREADS = 256;

struct Plan {
    int region;  // that this multiprocessor reads; -1: none
    int shift;   // ns by which it is late
};
struct Meeting {
    unsigned arrived, failed;
    unsigned long long start;  // ns, when all read the first piece
};
__device__ inline unsigned long long now() {
    unsigned long long ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
}
__device__ inline unsigned long long look(const unsigned long long* at) {
    return *reinterpret_cast<const volatile unsigned long long*>(at);
}

// ENGINE: the copy engine brings a piece, or the threads do, 16 bytes each.
// sums: for each multiprocessor what it read, added up in words of 4 bytes, and how often it came.
template <bool ENGINE>
__global__ void __launch_bounds__(THREADS) ask(const char* memory, const Plan* plans, int pieces,
                                               int rounds, int period, int active, int ahead,
                                               Meeting* meeting, uint2* sums) {
    extern __shared__ __align__(128) char piece[];
    __shared__ unsigned long long full, start;
    unsigned unit;
    asm volatile("mov.u32 %0, %smid;" : "=r"(unit));
    const Plan plan = plans[unit];
    if (plan.region < 0) return;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&full, 1);
        ptx::fence_mbarrier_init();
        if (atomicAdd(&meeting->arrived, 1) + 1 == active) {
            atomicExch(&meeting->start, now() + ahead);
            start = look(&meeting->start);
        } else {
            start = 0;
            for (int turn = 0; turn < 20000 && !(start = look(&meeting->start)); ++turn)
                __nanosleep(500);
        }
        if (!start) atomicAdd(&meeting->failed, 1);
    }
    __syncthreads();
    if (!start) return;
    const char* region = memory + size_t(plan.region) * pieces * PIECE;
    unsigned sum = 0;
    for (int i = 0; i < rounds * pieces; ++i) {
        const char* from = region + i % pieces * PIECE;
        const unsigned long long due = start + size_t(i) * period + plan.shift;
        for (int turn = 0; turn < 1000000 && now() < due; ++turn);
        if (ENGINE) {
            if (threadIdx.x == 0) {
                ptx::mbarrier_arrive_expect_tx(&full, PIECE);
                ptx::cp_async_bulk_load(piece, from, PIECE, &full);
            }
            ptx::mbarrier_wait(&full, i % 2);
        } else {
            for (int at = threadIdx.x * 16; at < PIECE; at += THREADS * 16)
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                             :: "r"(ptx::shared_address(piece + at)), "l"(from + at) : "memory");
            ptx::cp_async_commit_group();
            ptx::cp_async_wait_group<0>();
            __syncthreads();
        }
        for (int at = threadIdx.x; at < PIECE / 4; at += THREADS)
            sum += reinterpret_cast<const unsigned*>(piece)[at];
        __syncthreads();  // all have read the piece
    }
    atomicAdd(&sums[unit].x, sum);
    if (threadIdx.x == 0) atomicAdd(&sums[unit].y, 1);
}
"""
_MAIN = """
#include <algorithm>
#include <vector>

// files of plans, one line for each multiprocessor: its region and its shift.
template <bool ENGINE> int counted(int units, int pieces, int rounds, int period, int bytes,
                                   int files, char** names) {
    std::vector<unsigned> words(size_t(units) * pieces * PIECE / 4), right(units);
    unsigned drawn = 1;
    for (size_t i = 0; i < words.size(); ++i) {
        words[i] = drawn = drawn * 1664525u + 1013904223u;
        right[i / (size_t(pieces) * PIECE / 4)] += drawn * rounds;
    }
    char* memory;
    Plan* plans;
    Meeting* meeting;
    uint2* sums;
    CHECK(cudaMalloc(&memory, words.size() * 4));
    CHECK(cudaMemcpy(memory, words.data(), words.size() * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMalloc(&plans, units * sizeof(Plan)));
    CHECK(cudaMalloc(&meeting, sizeof(Meeting)));
    CHECK(cudaMalloc(&sums, units * sizeof(uint2)));
    CHECK(cudaFuncSetAttribute(ask<ENGINE>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    for (int f = 0; f < files; ++f) {
        FILE* file = fopen(names[f], "r");
        std::vector<Plan> plan(units, Plan{-1, 0});
        int active = 0;
        for (int u = 0; u < units; ++u) {
            if (!file || fscanf(file, "%d %d", &plan[u].region, &plan[u].shift) != 2)
                return fprintf(stderr, "%s holds no plan\\n", names[f]), 1;
            active += plan[u].region >= 0;
        }
        fclose(file);
        CHECK(cudaMemcpy(plans, plan.data(), units * sizeof(Plan), cudaMemcpyHostToDevice));
        CHECK(cudaMemset(meeting, 0, sizeof(Meeting)));
        CHECK(cudaMemset(sums, 0, units * sizeof(uint2)));
        ask<ENGINE><<<units, THREADS, bytes>>>(memory, plans, pieces, rounds, period, active,
                                               20000, meeting, sums);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        std::vector<uint2> got(units);
        CHECK(cudaMemcpy(got.data(), sums, units * sizeof(uint2), cudaMemcpyDeviceToHost));
        Meeting met;
        CHECK(cudaMemcpy(&met, meeting, sizeof(Meeting), cudaMemcpyDeviceToHost));
        if (met.failed || int(met.arrived) != active)
            return fprintf(stderr, "%u of %d blocks met\\n", met.arrived, active), 1;
        for (int u = 0; u < units; ++u) {
            if (got[u].y != (plan[u].region >= 0))
                return fprintf(stderr, "unit %d had %u blocks\\n", u, got[u].y), 1;
            if (got[u].y && got[u].x != right[plan[u].region])
                return fprintf(stderr, "unit %d has read something else\\n", u), 1;
        }
    }
    printf("OK, %d plans\\n", files);
    return 0;
}

int main(int argc, char** argv) {  // way, units, pieces, rounds, period, bytes, files of plans
    if (argc < 7) return fprintf(stderr, "six numbers and files of plans, please\\n"), 1;
    int n[6];
    for (int i = 0; i < 6; ++i) n[i] = atoi(argv[1 + i]);
    return n[0] ? counted<true>(n[1], n[2], n[3], n[4], n[5], argc - 7, argv + 7)
                : counted<false>(n[1], n[2], n[3], n[4], n[5], argc - 7, argv + 7);
}
"""
_WHERE = """
#include "check.cuh"
#include <vector>
__global__ void where(unsigned* units) {
    if (threadIdx.x == 0) asm volatile("mov.u32 %0, %smid;" : "=r"(units[blockIdx.x]));
    const long long end = clock64() + 20000;  // or the next cluster takes the same place
    while (clock64() < end);
}
int main() {  // lines: the multiprocessors of a cluster
    const int BLOCKS = 960, BYTES = 200 * 1024;
    unsigned* units;
    CHECK(cudaMalloc(&units, BLOCKS * sizeof(unsigned)));
    CHECK(cudaFuncSetAttribute(where, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES));
    CHECK(cudaFuncSetAttribute(where, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    for (int size : {2, 4, 8, 16}) {
        cudaLaunchAttribute cluster{};
        cluster.id = cudaLaunchAttributeClusterDimension;
        cluster.val.clusterDim.x = size, cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
        cudaLaunchConfig_t config{};
        config.gridDim = BLOCKS, config.blockDim = 32, config.dynamicSmemBytes = BYTES;
        config.attrs = &cluster, config.numAttrs = 1;
        if (cudaLaunchKernelEx(&config, where, units) != cudaSuccess) {
            cudaGetLastError();  // no GPC has so many
            continue;
        }
        CHECK(cudaDeviceSynchronize());
        std::vector<unsigned> got(BLOCKS);
        CHECK(cudaMemcpy(got.data(), units, BLOCKS * 4, cudaMemcpyDeviceToHost));
        for (int i = 0; i < BLOCKS; ++i)
            printf("%u%c", got[i], (i + 1) % size ? ' ' : '\\n');
    }
}
"""
KNOWN = (ASKED, LOOKUPS, HIT, FABRIC)
"""Counted in any case: what came, what L2 was asked for, what it had, and what its halves asked."""
REQUESTS = "lts__t_requests_srcunit_tex.sum"
"""By how many requests L2 was asked."""
_SOUGHT = re.compile(r"xbar|gcc|l1tex__m_|lts__.*srcunit|multicast|coalesc|crossbar", re.IGNORECASE)
_FURTHER = re.compile(
    r"^(lts__(t_)?(requests|sectors|tag_requests)_srcunit_(tex|ltcfabric)(_op_read)?|lts__.*xbar.*"
    r"|l1tex__m_.*xbar.*|.*(multicast|gpc2xbar|xbar2gpc|coalesc).*)$"
)
MOST = 14
"""Counters beside :data:`KNOWN`, at most."""

Plan = list[tuple[int, int]]
"""For each multiprocessor the region that it reads, or -1, and its shift in ns."""


def source() -> str:
    """The program that is counted."""
    return _KERNELS + _MAIN


def groups(lines: Sequence[Sequence[int]], units: int) -> list[list[int]]:
    """Multiprocessors that were in one cluster, with those that were in another with any of them.

    >>> groups([[0, 2], [2, 4], [1, 3]], 6)
    [[0, 2, 4], [1, 3], [5]]
    """
    leader = list(range(units))

    def first(unit: int) -> int:
        while leader[unit] != unit:
            unit = leader[unit]
        return unit

    for line in lines:
        for unit in line[1:]:
            low, high = sorted((first(line[0]), first(unit)))
            leader[high] = low
    found: dict[int, list[int]] = {}
    for unit in range(units):
        found.setdefault(first(unit), []).append(unit)
    return list(found.values())


def plans(gpcs: Sequence[Sequence[int]], tpcs: Sequence[Sequence[int]]) -> dict[str, Plan]:
    """Who reads what, by what is asked of it; pairs are drawn within a GPC, and across two."""
    units = sum(map(len, gpcs))
    draw = random.Random(2)
    of = {unit: place for place, gpc in enumerate(gpcs) for unit in gpc}
    inside, rest = [], []
    for gpc in gpcs:
        # One of each TPC against the next TPC's: never two of one TPC.
        pairs = [tpc for tpc in tpcs if tpc[0] in gpc and len(tpc) == 2]
        draw.shuffle(pairs)
        for one, two in zip(pairs[::2], pairs[1::2], strict=False):
            inside += [(one[0], two[0]), (one[1], two[1])]
        rest += list(gpc)
    half = len(rest) // 2
    across = [(a, b) for a, b in zip(rest[:half], rest[half:], strict=False) if of[a] != of[b]]
    twos = [(tpc[0], tpc[1]) for tpc in tpcs if len(tpc) == 2]
    found = {
        "one of each TPC, each its own": _plan(units, [(tpc[0],) for tpc in tpcs]),
        "each its own": _plan(units, [(unit,) for unit in range(units)]),
        "all of a GPC": _plan(units, gpcs),
        "all": _plan(units, [range(units)]),
    }
    for name, pairs_of in (
        ("two of a TPC", twos), ("two TPCs of a GPC", inside), ("two GPCs", across)
    ):  # fmt: skip
        for shift in SHIFTS if pairs_of is not across else SHIFTS[::6]:
            found[f"{name}, {shift} ns"] = _plan(units, pairs_of, shift)
    return found


def _plan(units: int, sharers: Sequence[Sequence[int]], shift: int = 0) -> Plan:
    plan = [(-1, 0)] * units
    for region, group in enumerate(sharers):
        for place, unit in enumerate(group):
            plan[unit] = region, place * shift
    return plan


def record() -> dict[str, Any]:
    """Count on this machine's GPU.

    Raises :class:`toolchain.CudaError` where there is none, or when a launch fails,
    :class:`toolchain.ToolMissing` without Nsight Compute.
    """
    facts, version = measure.facts(), profiler.version()
    names = known_names()
    sought = sorted(name for name in names if _SOUGHT.search(name))
    print(f"⏱ counters of this GPU between multiprocessors and L2: {' '.join(sought)}", flush=True)
    further = [f"{name}.sum" for name in sought if names[name] and _FURTHER.search(name)]
    further.sort(key=lambda name: ("xbar" not in name, "request" not in name, name))
    metrics = list(dict.fromkeys((*KNOWN, REQUESTS, *further)))[: len(KNOWN) + 1 + MOST]
    units = programs.multiprocessors()
    said = programs.output(toolchain.build(_WHERE, name="where_clusters_run").program)
    lines = [list(map(int, line.split())) for line in said.splitlines() if line.strip()]
    gpcs = groups(lines, units)
    tpcs = groups([line for line in lines if len(line) == 2], units)
    print(
        f"⏱ GPCs of {[len(gpc) for gpc in gpcs]}, TPCs of {sorted({*map(len, tpcs)})}", flush=True
    )
    asked = plans(gpcs, tpcs)
    program = toolchain.build(source(), name=NAME, target="sm_90a").program
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "counters": f"{version}, one launch each, caches flushed, clocks left alone",
            "reads": f"regions of {PIECES} pieces of {PIECE} bytes, each {ROUNDS} times; a piece "
            f"each {PERIOD} ns by %globaltimer; {', '.join(WAYS)}",
            "shift": "the second of a pair reads each piece so many ns later",
            "inputs": "random numbers; the sum of what was read is checked",
            "GPC": "multiprocessors that were seen in one cluster, of 2, 4, 8 or 16 blocks, and "
            "those seen with any of them; TPC: of clusters of 2",
        },
        "multiprocessors": units,
        "gpcs": gpcs,
        "tpcs": tpcs,
        "names": sought,
        "counts": {way: _counted(program, number, units, asked, metrics)
                   for way, number in WAYS.items()},
    }  # fmt: skip


def known_names() -> dict[str, bool]:
    """What Nsight Compute can count on this GPU: name -> whether it is a counter.

    Where it does not say, a line says so, and only :data:`KNOWN` is counted.
    """
    tool = shutil.which("ncu")
    if tool is None:
        raise toolchain.ToolMissing("no ncu on PATH to count with: install Nsight Compute")
    try:
        done = subprocess.run(
            [tool, "--query-metrics"], capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        print("⏱ ncu --query-metrics did not end")
        return {}
    found = names_of(done.stdout)
    if not found:
        print(f"⏱ ncu --query-metrics names nothing: {done.stdout[-300:]}{done.stderr[-300:]}")
    return found


def names_of(listing: str) -> dict[str, bool]:
    """Names in such a listing, and whether a line says *Counter*.

    >>> names_of("lts__t_sectors  Counter  sector  # of sectors\\nlts__t_hit_rate Ratio  % of")
    {'lts__t_sectors': True, 'lts__t_hit_rate': False}
    """
    rows = re.findall(r"^\s*(\w+__\w+)\s+(.*)$", listing, re.MULTILINE)
    return {name: rest.split()[:1] == ["Counter"] for name, rest in rows}


def _counted(
    program: Path, way: int, units: int, asked: Mapping[str, Plan], metrics: Sequence[str]
) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory() as scratch:
        paths = []
        for number, plan in enumerate(asked.values()):
            path = Path(scratch, f"{number}.txt")
            path.write_text("\n".join(f"{region} {shift}" for region, shift in plan))
            paths.append(path)
        numbers = (way, units, PIECES, ROUNDS, PERIOD, 200 * 1024)
        given: list[str | Path] = [*map(str, numbers), *paths]
        command = [program, *given]
        programs.output(program, *given)  # it is right without the profiler, and does not hang
        try:
            counted = profiler.count(command, metrics)
        except (toolchain.CudaError, ValueError) as error:
            print(f"⏱ not all of {metrics} can be counted, only the known ones: {error}")
            counted = profiler.count(command, KNOWN)
    if len(counted) != len(asked):
        raise toolchain.CudaError(f"ncu saw {len(counted)} launches of {len(asked)}")
    found = {name: counts for name, (_, counts) in zip(asked, counted, strict=True)}
    for name, counts in found.items():
        came, at_l2 = (counts[key] for key in KNOWN[:2])
        print(f"⏱ way {way}, {name}: L2 asked for {at_l2 / came:.3f} of {came:.0f} sectors")
    return found
