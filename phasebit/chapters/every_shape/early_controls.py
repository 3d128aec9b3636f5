"""An early launch at five products: which block is where, when it begins, and how long it takes.

A copy of ``b_next_launch.cu`` stamps, for each block, when it comes, when ``griddepcontrol.wait``
lets it go, when its first slot is full and when it ends, and on which multiprocessor it is. It
launches early, or not, or early but with ``launch_dependents`` at the end of a block. In a further
copy a table says which multiprocessor makes which tile: the places of an early launch and those of
a launch that is not early, each launched both ways. Only the places are otherwise then.
"""

from __future__ import annotations

import ctypes
import random
import statistics
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from phasebit import measure, toolchain
from phasebit.chapters.every_shape import bench, plans
from phasebit.chapters.every_shape.plans import Plan
from phasebit.chapters.every_shape.shapes import Shape
from phasebit.edits import replace_each
from phasebit.instruments import beside_torch

NAME = "every_shape_early"
SHAPES = (
    Shape(1024, 1024, 1024), Shape(256, 4096, 14336), Shape(64, 10240, 8192),
    Shape(16, 14336, 4096), Shape(128, 14336, 4096),
)  # fmt: skip
PLAN = Plan(plans.EARLY, 1, 128, 8)
EARLY, NOT_EARLY, LATE = "early", "not early", "early, the word given at the end"
PLACED = {
    f"in the places of {of}, launched {way}": (of, way)
    for of in (EARLY, NOT_EARLY) for way in (EARLY, NOT_EARLY)
}  # fmt: skip
"""Contender -> whose places it has, and how it is launched; where all blocks run at once."""
UNITS = 132
"""Multiprocessors, of which a table says what they make."""
CLUSTERS = (16, 8, 4)
"""Blocks of the clusters that say which multiprocessors lie in one part of the GPU."""
LAUNCHES, FIRST = 16, 4
"""Launches of a graph, and the first of them that counts."""
_ROUNDS, _REST = 6, 0.01
EXPECTED = {
    EARLY: "blocks come to the multiprocessors that are idle, and to those that end first: at 64 × "
    "10240 × 8192 more of them beside each other, or more in one part of the GPU",
    LATE: "as not early: the next blocks come when all have ended",
    "in the places of early, launched not early": "as early: the places cost the time",
    "in the places of not early, launched early": "as not early, or less",
}
"""Written before the first run."""
_MOST = 256  # blocks of a launch that have stamps
_WORDS = 8  # of a block
_ROOM = 132 * 128 * 256  # floats, PARTIAL of product.cuh
_PLACES = 8 << 20  # bytes of the room for sums before the table of places

_STAMPS = """
// A block's stamps: when it comes and when it ends by the clock of the GPU, its multiprocessor's
// clock at four moments, the multiprocessor, and when it may go on.
enum Word { COMES, ENDS, CAME, WENT_ON, FULL, ENDED, UNIT, GOES_ON, WORDS };
constexpr int NUMBERS = 64, BLOCKS = 256;  // launches and blocks that have room
__device__ inline unsigned long long now() {
    unsigned long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}
__device__ inline unsigned unit() {
    unsigned number;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
    return number;
}

__global__ void __launch_bounds__(THREADS)
"""
_EDITS = (
    ("__global__ void __launch_bounds__(THREADS)\n", _STAMPS.lstrip("\n")),
    ("       int M, int N, int K)\n{\n",
     "       int M, int N, int K, unsigned long long* stamps)\n{\n"
     "    unsigned long long* mine = stamps + WORDS * blockIdx.x;\n"
     "    if (threadIdx.x == CONSUMERS) mine[COMES] = now(), mine[CAME] = clock64(),\n"
     "                                  mine[UNIT] = unit();\n"),
    ("        ptx::griddepcontrol_wait();  // the launch before has ended\n",
     "        ptx::griddepcontrol_wait();  // the launch before has ended\n"
     "        mine[GOES_ON] = now(), mine[WENT_ON] = clock64();\n"),
    ("        multiply(ring, sums, threadIdx.x / 128, steps);\n",
     "        if (threadIdx.x == 0) {\n"
     "            ptx::mbarrier_wait(&ring.full[0], false);\n"
     "            mine[FULL] = clock64();\n"
     "        }\n"
     "        __syncwarp();\n"
     "        multiply(ring, sums, threadIdx.x / 128, steps);\n"),
    ("        store(ring, sums, C, M, N, row, col);\n    }\n",
     "        store(ring, sums, C, M, N, row, col);\n"
     "        ptx::bar_sync(1, CONSUMERS);\n"
     "        if (threadIdx.x == 0) mine[ENDS] = now(), mine[ENDED] = clock64();\n    }\n"),
    ("void launch(const Product& p) {\n",
     "void launch(const Product& p) {\n"
     "    static int number = 0;  // launches one behind the other have rooms of their own\n"
     "    auto* stamps = reinterpret_cast<unsigned long long*>(p.partial) +\n"
     "                   number++ % NUMBERS * BLOCKS * WORDS;\n"),
    ("p.C, p.M, p.N, p.K);\n", "p.C, p.M, p.N, p.K, stamps);\n"),
)  # fmt: skip
_SAID = "    ptx::griddepcontrol_launch_dependents();  // the next may come\n"
_SAID_LATE = (
    (_SAID, ""),
    ("mine[ENDED] = clock64();\n    }\n",
     "mine[ENDED] = clock64();\n"
     "        if (threadIdx.x == 0) ptx::griddepcontrol_launch_dependents();\n    }\n"),
)  # fmt: skip
_BY_PLACE = (
    ("__global__ void __launch_bounds__(THREADS)\n",
     """\
// A block leaves when all blocks of the launch have come, so that no multiprocessor has two of
// them. The last to leave sets both counts to 0 again.
__device__ void leave(unsigned* count) {
    const long long begin = clock64();
    while (ptx::load_acquire(count) < gridDim.x)
        if (clock64() - begin > 2000000000ll) __trap();  // a second: they do not come
    if (atomicAdd(count + 1, 1) + 1 == gridDim.x) atomicExch(count, 0), atomicExch(count + 1, 0);
}

__global__ void __launch_bounds__(THREADS)
"""),
    ("int K, unsigned long long* stamps)\n{\n",
     "int K, unsigned long long* stamps,\n"
     "       const int* places,  // multiprocessor -> the tile that it makes, or -1\n"
     "       unsigned* count)\n{\n"
     "    const int tile = places[unit()];\n"
     "    if (threadIdx.x == 0) atomicAdd(count, 1);\n"
     "    if (tile < 0) {\n"
     "        if (threadIdx.x == 0) leave(count);\n"
     "        return;\n"
     "    }\n"),
    ("stamps + WORDS * blockIdx.x;", "stamps + WORDS * tile;"),
    ("const int row = blockIdx.x % rows * BM, col = blockIdx.x / rows * BN;",
     "const int row = tile % rows * BM, col = tile / rows * BN;"),
    ("mine[ENDED] = clock64();\n    }\n",
     "mine[ENDED] = clock64(), leave(count);\n    }\n"),
    ("    auto* stamps =",
     "    unsigned* count = p.ready + number % NUMBERS * 2;\n"
     f"    const int* places = reinterpret_cast<const int*>(p.partial + {_PLACES // 4});\n"
     "    auto* stamps ="),
    ("start(matmul, over(p.M, BM) * over(p.N, BN), THREADS",
     "start(matmul, p.multiprocessors, THREADS"),
    ("p.N, p.K, stamps);\n", "p.N, p.K, stamps, places, count);\n"),
)  # fmt: skip


def stamped(way: str, plan: Plan = PLAN) -> str:
    """The kernel with stamps, launched in one of three ways."""
    early = Plan(plan.kernel, plan.groups, plan.bn, plan.slots, early=way != NOT_EARLY)
    text = replace_each(early.text, _EDITS, plan.kernel)
    return replace_each(text, _SAID_LATE, plan.kernel) if way == LATE else text


def placed(way: str, plan: Plan = PLAN) -> str:
    """The same, where a table says which multiprocessor makes which tile."""
    return replace_each(stamped(way, plan), _BY_PLACE, plan.kernel)


def late(plan: Plan = PLAN) -> str:
    """Without stamps: the word for the next launch is given when a block ends."""
    edits = (
        (_SAID, ""),
        ("        store(ring, sums, C, M, N, row, col);\n    }\n",
         "        store(ring, sums, C, M, N, row, col);\n"
         "        ptx::bar_sync(1, CONSUMERS);\n"
         "        if (threadIdx.x == 0) ptx::griddepcontrol_launch_dependents();\n    }\n"),
    )  # fmt: skip
    return replace_each(plan.text, edits, plan.kernel)


_NEIGHBOURS = """
#include "check.cuh"
// Blocks of a cluster lie in one part of the GPU: the multiprocessor of each of them.
__global__ void look(int* units) {
    unsigned unit;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(unit));
    units[blockIdx.x] = unit;
    const long long begin = clock64();
    while (clock64() - begin < 100000) {}  // all blocks that fit are there
}
// Whether so many blocks of a cluster can run at all; if so, they are launched.
extern "C" int neighbours(int* units, int blocks, int size, cudaStream_t stream) {
    CHECK(cudaFuncSetAttribute(look, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
    CHECK(cudaFuncSetAttribute(look, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    cudaLaunchAttribute asked;
    asked.id = cudaLaunchAttributeClusterDimension;
    asked.val.clusterDim = {unsigned(size), 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = blocks, config.blockDim = 32, config.dynamicSmemBytes = 200 << 10;
    config.stream = stream, config.attrs = &asked, config.numAttrs = 1;
    int count = 0;
    if (cudaOccupancyMaxActiveClusters(&count, look, &config) != cudaSuccess || count == 0) {
        cudaGetLastError();
        return 0;
    }
    CHECK(cudaLaunchKernelEx(&config, look, units));
    return 1;
}
"""


class Stamp(NamedTuple):
    """Of a block; ns by the clock of the GPU, ``clocks`` by that of the multiprocessor."""

    comes: int
    goes_on: int
    ends: int
    to_full: int
    """Clocks from when it may go on until its first slot is full."""
    clocks: int
    """Clocks from when it may go on to its end."""
    unit: int


def read(words: Sequence[Sequence[int]]) -> list[Stamp]:
    """The stamps of a launch's blocks, as they lie in memory."""
    return [
        Stamp(comes, goes_on, ends, full - went_on, ended - went_on, unit)
        for comes, ends, _, went_on, full, ended, unit, goes_on in words
    ]


def told(launches: Sequence[Sequence[Stamp]], parts: dict[int, int]) -> dict[str, float]:
    """What the stamps of launches one behind the other say, the medians over the launches.

    ``us``: from the end of a launch to the end of the next. ``gap_us``: from the end of a launch
    until the first block of the next goes on; ``spread_us``: until the last one does, from the
    first. ``block_us``, ``slowest_us``: how long a block takes, from when the first of its launch
    goes on, the median block and the last to end. ``clocks``, ``to_full``: of the median block.
    ``again``: multiprocessors that the launch before had, too. ``both``: blocks whose neighbour on
    the same two multiprocessors is busy with the same launch. ``most``: blocks in the part of the
    GPU (``parts``: multiprocessor -> part) that has the most. ``units``: multiprocessors.
    """
    found: dict[str, list[float]] = {}
    for before, stamps in pairwise(launches):
        ended, first = max(s.ends for s in before), min(s.goes_on for s in stamps)
        units, old = {s.unit for s in stamps}, {s.unit for s in before}
        of_parts: dict[int, int] = {}
        for s in stamps:
            part = parts.get(s.unit, -1)
            of_parts[part] = of_parts.get(part, 0) + 1
        for name, value in {
            "us": (max(s.ends for s in stamps) - ended) / 1e3,
            "gap_us": (first - ended) / 1e3,
            "spread_us": (max(s.goes_on for s in stamps) - first) / 1e3,
            "came_before_us": (ended - statistics.median(s.comes for s in stamps)) / 1e3,
            "block_us": (statistics.median(s.ends for s in stamps) - first) / 1e3,
            "slowest_us": (max(s.ends for s in stamps) - first) / 1e3,
            "fastest_us": (min(s.ends for s in stamps) - first) / 1e3,
            "clocks": statistics.median(s.clocks for s in stamps),
            "to_full": statistics.median(s.to_full for s in stamps),
            "units": len(units), "again": len(units & old),
            "both": sum(s.unit ^ 1 in units for s in stamps), "most": max(of_parts.values()),
        }.items():  # fmt: skip
            found.setdefault(name, []).append(value)
    return {name: statistics.median(values) for name, values in found.items()}


def parts_of(clusters: Sequence[Sequence[int]]) -> dict[int, int]:
    """Multiprocessor -> the part of the GPU that it lies in, from clusters that were seen.

    >>> parts_of([[0, 1], [2, 3], [1, 4]])
    {0: 0, 1: 0, 2: 2, 3: 2, 4: 0}
    """
    head: dict[int, int] = {}

    def find(unit: int) -> int:
        while head.setdefault(unit, unit) != unit:
            unit = head[unit]
        return unit

    for cluster in clusters:
        for unit in cluster:
            one, other = sorted((find(cluster[0]), find(unit)))
            head[other] = one
    return {unit: find(unit) for unit in sorted(head)}


def table(stamps: Sequence[Stamp]) -> list[int]:
    """Multiprocessor -> the tile that a launch made there, or -1; raises ``ValueError`` where a
    multiprocessor made two."""
    found = [-1] * UNITS
    for tile, stamp in enumerate(stamps):
        if found[stamp.unit] >= 0:
            raise ValueError(f"multiprocessor {stamp.unit} made two tiles")
        found[stamp.unit] = tile
    return found


def _first_table(launches: Sequence[Sequence[Stamp]]) -> list[int]:
    """The table of the last launch that has one."""
    for stamps in reversed(launches):
        if len({stamp.unit for stamp in stamps}) == len(stamps):
            return table(stamps)
    raise toolchain.CudaError("in each launch a multiprocessor made two tiles")


def texts() -> dict[str, str]:
    """All that is built, by name."""
    found = {f"stamped {way}": stamped(way) for way in (EARLY, NOT_EARLY, LATE)}
    found |= {f"placed {way}": placed(way) for way in (EARLY, NOT_EARLY)}
    plain = {EARLY: PLAN.text, NOT_EARLY: Plan(PLAN.kernel, 1, 128, 8, early=False).text}
    return {**found, **plain, LATE: late(), "neighbours": _NEIGHBOURS}


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, or when a kernel fails or is
    wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here(NAME)
    units = torch.cuda.get_device_properties(0).multi_processor_count
    if units != UNITS:
        raise toolchain.CudaError(
            f"{NAME} has tables for {UNITS} multiprocessors; this GPU has {units}"
        )
    wanted = texts()
    libraries = bench.loaded(wanted.values())
    loaded = {name: libraries[text] for name, text in wanted.items()}
    parts = _parts(torch, loaded["neighbours"])
    by_turns = bench.Bench(torch, libraries)
    plain = {name: wanted[name] for name in (EARLY, NOT_EARLY, LATE)}
    stamps = _Stamps(torch, loaded, parts)
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            **bench.protocol(torch),
            **{f"expected of {what}": words for what, words in EXPECTED.items()},
            "stamps": f"%globaltimer, clock64 and %smid of each block, {LAUNCHES} launches in a "
            f"graph, of which those from number {FIRST} on count; {_ROUNDS} rounds, in each the "
            "contenders in a new random order, two replays after a rest of "
            f"{_REST * 1e3:g} ms, of which the second is read",
            "places": "a table says which multiprocessor makes which tile: as it was in one launch "
            "of the kernel with stamps, early or not; 132 blocks, of which those that make no tile "
            "wait until all have come",
            "parts": "multiprocessors that were seen in one cluster, of 16, 8 or 4 blocks, in 20 "
            "launches of each",
        },
        "parts": sorted(
            sum(1 for each in parts.values() if each == part) for part in set(parts.values())
        ),
        "times": [by_turns.side_by_side(shape, plain) for shape in SHAPES],
        "stamps": [stamps.of(shape) for shape in SHAPES],
    }


def _parts(torch: Any, library: ctypes.CDLL) -> dict[int, int]:
    """Multiprocessor -> part of the GPU, by the clusters of some launches."""
    units = torch.zeros(UNITS, dtype=torch.int32, device="cuda")
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    seen: list[list[int]] = []
    for size in CLUSTERS:
        blocks = UNITS // size * size
        for _ in range(20):
            if library.neighbours(*beside_torch.pointers([units]), blocks, size, stream):
                torch.cuda.synchronize()
                flat = units.tolist()
                seen += [flat[at : at + size] for at in range(0, blocks, size)]
    return parts_of(seen)


class _Stamps:
    """Kernels with stamps, what they need in memory, and the parts of the GPU."""

    def __init__(self, torch: Any, loaded: dict[str, ctypes.CDLL], parts: dict[int, int]) -> None:
        self._torch, self._loaded, self._parts = torch, loaded, parts
        self._room = torch.zeros(_ROOM, dtype=torch.float32, device="cuda")
        self._ready = torch.zeros(264, dtype=torch.int32, device="cuda")
        self._other = torch.zeros(64 << 20, device="cuda")

    def of(self, shape: Shape) -> dict[str, Any]:
        """A shape: what the stamps say of each contender, and one launch of each, whole."""
        torch, blocks = self._torch, PLAN.tiles(shape)
        a, b = (
            torch.randn(rows, shape.k, device="cuda", dtype=torch.bfloat16)
            for rows in (shape.m, shape.n)
        )
        c = torch.empty(shape.m, shape.n, device="cuda", dtype=torch.bfloat16)
        right = a.float() @ b.float().t()
        programs = {way: f"stamped {way}" for way in (EARLY, NOT_EARLY, LATE)}
        if blocks <= UNITS:
            programs |= {name: f"placed {way}" for name, (_, way) in PLACED.items()}
        tables: dict[str, list[int]] = {}
        graphs: dict[str, Any] = {}
        found: dict[str, list[dict[str, float]]] = {name: [] for name in programs}
        whole: dict[str, list[Stamp]] = {}
        wrong: set[str] = set()
        draw = random.Random(str(shape))
        for number in range(_ROUNDS + 1):  # the first finds the places, in the order above
            names = list(programs)
            if number:
                draw.shuffle(names)
            for name in names:
                if name in PLACED:
                    self._lay(tables[PLACED[name][0]])
                if name not in graphs:
                    graphs[name] = self._graph(programs[name], shape, (a, b, c))
                    off = ((c.float() - right).abs() - 2.0**-8 * right.abs()).max().item()
                    if not off <= 2e-3 * shape.k**0.5:
                        wrong.add(name)
                time.sleep(_REST)
                for _ in range(2):
                    graphs[name].replay()
                torch.cuda.synchronize()
                launches = self._read(blocks)[FIRST:]
                if name in (EARLY, NOT_EARLY) and name not in tables and blocks <= UNITS:
                    tables[name] = _first_table(launches)
                if number:
                    found[name].append(told(launches, self._parts))
                    whole[name] = list(launches[-1])
        if wrong or int(self._ready.abs().sum()):
            raise toolchain.CudaError(f"wrong at {shape}: {', '.join(sorted(wrong)) or 'a count'}")
        middle = {
            name: {key: round(statistics.median(one[key] for one in each), 3) for key in each[0]}
            for name, each in found.items()
        }
        for name, each in middle.items():
            print(f"⏱ {shape}, {name}: {each}", flush=True)
        return {
            "shape": list(shape), "blocks": blocks, "told": middle,
            "us": {name: [round(one["us"], 3) for one in each] for name, each in found.items()},
            "flushed": self._flushed(shape, (a, b, c)),
            "launch": {
                name: [
                    [s.unit, self._parts.get(s.unit, -1), s.comes - begin, s.goes_on - begin,
                     s.ends - begin, s.to_full]
                    for s in each
                ]
                for name, each in whole.items()
                if name in (EARLY, NOT_EARLY)
                for begin in [min(s.goes_on for s in each)]
            },
        }  # fmt: skip

    def _flushed(self, shape: Shape, matrices: Any) -> dict[str, float]:
        """The same of single launches that are not early, after other data have been read."""
        torch, launches = self._torch, []
        for _ in range(2 * _ROUNDS):
            time.sleep(_REST)
            self._room[: _PLACES // 4].zero_()
            self._other.sum()
            self._launch(f"stamped {NOT_EARLY}", shape, matrices)
            torch.cuda.synchronize()
            words = self._words(PLAN.tiles(shape))
            launches += [read(each) for each in words if each[0][1]]
        each = [told([one, one], self._parts) for one in launches]
        kept = ("spread_us", "block_us", "slowest_us", "fastest_us", "clocks", "to_full")
        return {key: round(statistics.median(one[key] for one in each), 3) for key in kept}

    def _lay(self, places: list[int]) -> None:
        laid = self._torch.tensor(places, dtype=self._torch.int32)
        self._room.view(self._torch.int32)[_PLACES // 4 : _PLACES // 4 + UNITS].copy_(laid)

    def _launch(self, program: str, shape: Shape, matrices: Any) -> None:
        stream = ctypes.c_void_p(self._torch.cuda.current_stream().cuda_stream)
        room = beside_torch.pointers((self._room, self._ready))
        self._loaded[program].product(
            *beside_torch.pointers(matrices), *shape, UNITS, *room, stream
        )

    def _graph(self, program: str, shape: Shape, matrices: Any) -> Any:
        torch = self._torch
        matrices[2].fill_(float("nan"))
        self._launch(program, shape, matrices)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(LAUNCHES):
                self._launch(program, shape, matrices)
        return graph

    def _words(self, blocks: int) -> list[list[list[int]]]:
        flat = self._room[: 64 * _MOST * _WORDS * 2].view(self._torch.int64)
        words: list[list[list[int]]] = flat.view(64, _MOST, _WORDS)[:, :blocks].cpu().tolist()
        return words

    def _read(self, blocks: int) -> list[list[Stamp]]:
        """The launches of the last replay, in their order."""
        launches = sorted(
            (read(each) for each in self._words(blocks) if each[0][1]),
            key=lambda stamps: max(s.ends for s in stamps),
        )
        return launches[-LAUNCHES:]
