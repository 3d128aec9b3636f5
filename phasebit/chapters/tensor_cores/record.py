"""*Tensor cores without Hopper*: bf16 products through ``mma.sync``, each rung of the ladder.

Beside them, in the same process and by turns: Triton kept to ``mma.sync``, tuned, as the best
kernel with that instruction; and cuBLAS, which may use Hopper's own. Needs torch and triton.

The turns are those of :func:`clocks.times`: a new random order in each round, and a rest before
each turn, so that none inherits the clock of the one before it; ``mhz`` is the clock over a turn.
"""

from __future__ import annotations

import ctypes
import importlib
import statistics
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from phasebit import measure, toolchain
from phasebit.chapters.tensor_cores import loads_of_b, tensor_cores_controls, warp_tiles
from phasebit.instruments import beside_torch, clocks, profiler, programs
from phasebit.instruments.beside_torch import Launch, Matrices

NAME = "tensor_cores"
FURTHER = (tensor_cores_controls.NAME, warp_tiles.NAME, loads_of_b.NAME)
"""Records that are saved beside this one."""

LADDER = {
    "fragments from global memory": "launch_naive(g)",
    "shared tiles": "launch_one_slot<Small, false, 16>(g)",
    "swizzle": "launch_one_slot<Small, true, 16>(g)",
    "a ring of 4 slots": "launch_aligned<Small, 4, 16>(g, 1, stream)",
    "larger warp tiles": "launch_aligned<Large, LARGE_SLOTS, 16>(g, 1, stream)",
    "super-rows": "launch_aligned<Large, LARGE_SLOTS, 16>(g, super, stream)",
}
"""Rung -> how it is launched."""

CONTROLS = {
    "swizzle": LADDER["swizzle"],
    "a ring, no fragments ahead": "launch_ring_alone<Small, 4>(g, 1, stream)",
    "a ring, fragments ahead": LADDER["a ring of 4 slots"],
    "blocks of 128 × 128, warps of 32 × 32": "launch_aligned<Middle, 3, 16>(g, 1, stream)",
    "blocks of 128 × 128, warps of 64 × 64": "launch_aligned<Wide, 3, 16>(g, 1, stream)",
    "blocks of 128 × 256, warps of 64 × 64": LADDER["larger warp tiles"],
}
"""What the rungs four and five change together, one by one -> how it is launched."""

BEST = "super-rows"
TRITON, VENDOR = "Triton, mma.sync", "cuBLAS"

SIZES = (4096, 8192)
CONFLICTS = ("shared tiles", "swizzle")
"""Rungs whose bank conflicts are counted."""
HEIGHTS = (1, 2, 4, 8, 16, 32)
"""Heights of super-rows, in blocks, that are compared."""

RAGGED = ((4096, 4096, 4096), (4095, 4094, 4096), (4095, 4094, 4098), (4095, 4093, 4097))
"""Shapes whose rows begin at multiples of 16, 4, 4 and 2 bytes."""

_HEADER = """
#include "tensor_cores/gemm.cuh"
#include "tensor_cores/naive.cuh"
#include "tensor_cores/peak.cuh"
#include "tensor_cores/ring_alone.cuh"
using Small = Tiling<64, 64, 64, 32, 32>;
using Middle = Tiling<128, 128, 64, 32, 32>;
using Wide = Tiling<128, 128, 64, 64, 64>;
using Large = Tiling<128, 256, 64, 64, 64>;
constexpr int LARGE_SLOTS = 3;
using In = __nv_bfloat16;
using G = Gemm<In, float>;
"""
_ENTRY = """
extern "C" void {name}(const In* A, const In* B, float* C, int M, int N, int K, int super,
                       cudaStream_t stream) {{
    const G g{{A, B, C, M, N, K, K, N, N, 1.0f, 0.0f}};
    {launch};
}}
"""
_PEAK = """
extern "C" void peak_rate(int blocks, int rounds, float* sink) {
    peak<In><<<blocks, PEAK_THREADS>>>(rounds, 12345, sink);
}
extern "C" double peak_flop(int blocks, int rounds) {
    return PEAK_FLOP * blocks * (PEAK_THREADS / 32) * rounds;
}
"""
_COUNTED = """
int main() {{
    const int n = {size};
    In *A, *B;
    float* C;
    CHECK(cudaMalloc(&A, size_t(n) * n * 2));
    CHECK(cudaMalloc(&B, size_t(n) * n * 2));
    CHECK(cudaMalloc(&C, size_t(n) * n * 4));
    CHECK(cudaMemset(A, 0, size_t(n) * n * 2));
    CHECK(cudaMemset(B, 0, size_t(n) * n * 2));
    const G g{{A, B, C, n, n, n, n, n, n, 1.0f, 0.0f}};
    const cudaStream_t stream = 0;
    for (int super : {{{heights}}}) {{
        (void)super, (void)stream;
        {launch};
    }}
    CHECK(cudaDeviceSynchronize());
}}
"""
_HIT, _LOOKUPS = "lts__t_sectors_srcunit_tex_lookup_hit.sum", "lts__t_sectors_srcunit_tex.sum"
_DRAM = "dram__bytes_read.sum"
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
_COUNT_SIZE = 512  # of the product whose bank conflicts are counted
_ROUNDS = {"ladder": 10, "best": 20, "choice": 3, "heights": 10, "ragged": 5, "peak": 5}
_EACH = {"ladder": 5, "best": 5, "choice": 2, "heights": 3, "ragged": 4, "peak": 4}
"""Of each part: rounds, and launches of a turn that count."""
_REST, _WARM = 0.03, 1  # seconds before each turn, and launches of it that do not count


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU, torch, triton or ncu, when a kernel
    fails or is wrong, or when Triton used another instruction than ``mma.sync``.
    """
    facts = measure.facts()
    measure.save(tensor_cores_controls.record())
    measure.save(warp_tiles.record())
    measure.save(loads_of_b.record())
    torch = beside_torch.torch_here("tensor_cores")
    try:
        rival = importlib.import_module("phasebit.chapters.tensor_cores.triton_rival")
    except ImportError as error:
        raise toolchain.CudaError(f"tensor_cores is measured beside triton: {error}") from error
    with ThreadPoolExecutor() as pool:  # nothing is compiled any more when the times are taken
        pool.map(_counted, (BEST, *CONFLICTS), (SIZES[-1], _COUNT_SIZE, _COUNT_SIZE),
                 (HEIGHTS, (1,), (1,)))  # fmt: skip
        library = _library()
    return {
        "benchmark": NAME,
        **facts,
        "protocol": _protocol(torch, rival),
        "peak": _peak(torch, library),
        "copy_bytes_per_second": beside_torch.copy_rate(torch),
        "ladder": _products(torch, SIZES[0], _rungs(torch, library, SIZES[0])),
        "controls": _products(torch, SIZES[0], _controls(torch, library, SIZES[0])),
        "best": [_beside(torch, rival, library, size) for size in SIZES],
        "heights": _heights(torch, library, SIZES[-1]),
        "ragged": [_ragged(torch, library, shape) for shape in RAGGED],
        "conflicts": {rung: _conflicts(rung) for rung in CONFLICTS},
    }


def _protocol(torch: Any, rival: Any) -> dict[str, str]:
    return {
        **clocks.protocol(_ROUNDS["ladder"], _REST, warm=_WARM, each=_EACH["ladder"]),
        "rounds": ", ".join(
            f"{part}: {rounds} rounds of {_EACH[part]} launches"
            for part, rounds in _ROUNDS.items()
        ),
        "inputs": "normal random bf16 numbers, row-major, f32 sums and results, alpha 1, beta 0; "
        "inputs and result together are larger than the L2 cache",
        "check": "before timing, 128 rows by 128 columns of the result against a product in "
        "double, within (K + K/8 + 4)·2⁻²³·Σ|a·b|",
        "rival": f"Triton {rival.triton.__version__} with DISABLE_MMA_V3, its PTX searched for "
        f"wgmma; the fastest of {len(rival.configurations())} configurations at each size",
        "vendor": f"cuBLAS through torch {torch.__version__}, bf16 into f32; it may use wgmma",
        "counters": "Nsight Compute, caches flushed before each launch, clocks left alone",
    }


def _library() -> ctypes.CDLL:
    entries = [
        _ENTRY.format(name=f"rung{i}", launch=launch) for i, launch in enumerate(LADDER.values())
    ]
    entries += [
        _ENTRY.format(name=f"control{i}", launch=launch)
        for i, launch in enumerate(CONTROLS.values())
    ]
    entries.append(
        _ENTRY.format(name="any", launch="launch_gemm<Large, LARGE_SLOTS>(g, super, stream)")
    )
    text = _HEADER + "".join(entries) + _PEAK
    built = toolchain.build(text, name=NAME, library=True)
    return ctypes.CDLL(str(built.program))


def _matrices(torch: Any, m: int, n: int, k: int) -> Matrices:
    a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(k, n, device="cuda", dtype=torch.bfloat16)
    return a, b, torch.empty(m, n, device="cuda")


def _ours(torch: Any, function: Any, matrices: Matrices, height: int = 8) -> Launch:
    """A launch of one of the library's kernels on torch's matrices."""
    a, b, _ = matrices
    pointers = beside_torch.pointers(matrices)
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    return lambda: function(*pointers, a.shape[0], b.shape[1], a.shape[1], height, stream)


def _turns(torch: Any, launches: dict[str, Launch], part: str) -> dict[str, Any]:
    """``times_us`` of each launch, and ``mhz`` of each turn: contender -> numbers."""
    found = clocks.times(torch, launches, _ROUNDS[part], _REST, warm=_WARM, each=_EACH[part])
    return {key: {name: each[key] for name, each in found.items()} for key in ("times_us", "mhz")}


def _products(
    torch: Any, size: int, contenders: tuple[dict[str, Launch], Any], part: str = "ladder"
) -> dict[str, Any]:
    launches, matrices = contenders
    for name, launch in launches.items():
        beside_torch.check(torch, name, launch, matrices, beside_torch.cut_sums(size))
    turns = _turns(torch, launches, part)
    for name, each in turns["times_us"].items():
        print(f"⏱ {size}: {name}, {measure.square_rate(size, each):.1f} TFLOP/s")
    return {"size": size, **turns}


def _rungs(torch: Any, library: ctypes.CDLL, size: int) -> tuple[dict[str, Launch], Any]:
    matrices = _matrices(torch, size, size, size)
    launches = {rung: _ours(torch, library[f"rung{i}"], matrices) for i, rung in enumerate(LADDER)}
    return launches, matrices


def _controls(torch: Any, library: ctypes.CDLL, size: int) -> tuple[dict[str, Launch], Any]:
    matrices = _matrices(torch, size, size, size)
    launches = {
        name: _ours(torch, library[f"control{i}"], matrices) for i, name in enumerate(CONTROLS)
    }
    return launches, matrices


def _beside(torch: Any, rival: Any, library: ctypes.CDLL, size: int) -> dict[str, Any]:
    """The best rung beside Triton, tuned at this size, and cuBLAS."""
    a, b, c = matrices = _matrices(torch, size, size, size)

    def launcher(configuration: dict[str, int]) -> Launch:
        return lambda: rival.launch(a, b, c, configuration)

    candidates = {}
    for configuration in rival.configurations():
        if rival.compiled_for(launcher(configuration)()) != "mma.sync":
            raise toolchain.CudaError("Triton used another instruction than mma.sync")
        candidates[str(configuration)] = configuration
    tried = _turns(
        torch, {name: launcher(each) for name, each in candidates.items()}, "choice"
    )["times_us"]
    chosen = candidates[min(tried, key=lambda name: statistics.median(tried[name]))]
    launches = {
        BEST: _ours(torch, library[f"rung{list(LADDER).index(BEST)}"], matrices),
        TRITON: launcher(chosen),
        VENDOR: lambda: torch.mm(a, b, out_dtype=torch.float32, out=c),
    }
    return {**_products(torch, size, (launches, matrices), "best"), "triton": chosen}


def _heights(torch: Any, library: ctypes.CDLL, size: int) -> dict[str, Any]:
    """Super-rows of several heights: their times, and what Nsight Compute says of the L2 cache."""
    matrices = _matrices(torch, size, size, size)
    function = library[f"rung{list(LADDER).index(BEST)}"]
    launches = {str(height): _ours(torch, function, matrices, height) for height in HEIGHTS}
    turns = _turns(torch, launches, "heights")
    counted = _count(BEST, size, HEIGHTS, (_HIT, _LOOKUPS, _DRAM))
    rows: list[dict[str, Any]] = [
        {"height": height, **{key: turns[key][str(height)] for key in turns}, **row}
        for height, row in zip(HEIGHTS, counted, strict=True)
    ]
    for row in rows:
        hits, median = row[_HIT] / row[_LOOKUPS], statistics.median(row["times_us"])
        megabytes = row[_DRAM] * 1e-6
        height = row["height"]
        print(f"⏱ super-rows of {height}: L2 {hits:.1%}, {megabytes:.0f} MB, {median:.0f} µs")
    return {"size": size, "rows": rows}


def _ragged(torch: Any, library: ctypes.CDLL, shape: tuple[int, int, int]) -> dict[str, Any]:
    m, n, k = shape
    matrices = _matrices(torch, m, n, k)
    a, b, c = matrices
    launches: dict[str, Launch] = {
        BEST: _ours(torch, library["any"], matrices),
        VENDOR: lambda: torch.mm(a, b, out_dtype=torch.float32, out=c),
    }
    beside_torch.check(torch, BEST, launches[BEST], matrices, beside_torch.cut_sums(k))
    return {"shape": list(shape), **_turns(torch, launches, "ragged")}


def _conflicts(rung: str) -> dict[str, Any]:
    (row,) = _count(rung, _COUNT_SIZE, (1,), (_CONFLICTS, _WAVEFRONTS))
    return {"size": _COUNT_SIZE, **row}


def _count(
    rung: str, size: int, heights: Sequence[int], metrics: Sequence[str]
) -> list[dict[str, float]]:
    """Nsight Compute's counters of one launch for each height."""
    counted = profiler.count([_counted(rung, size, heights)], metrics)
    if len(counted) != len(heights):
        raise toolchain.CudaError(f"ncu saw {len(counted)} launches of {len(heights)}")
    return [counts for _, counts in counted]


def _counted(rung: str, size: int, heights: Sequence[int]) -> Path:
    """A program with one launch for each height."""
    text = _HEADER + _COUNTED.format(
        size=size, heights=", ".join(map(str, heights)), launch=LADDER[rung]
    )
    return toolchain.build(text, name=NAME).program


def _peak(torch: Any, library: ctypes.CDLL) -> dict[str, Any]:
    """What mma.sync does when nothing is fetched, in FLOP/s."""
    blocks, rounds = programs.multiprocessors() * 2 * 4, 4096
    sink = torch.zeros(1, device="cuda")
    library.peak_flop.restype = ctypes.c_double
    flop = float(library.peak_flop(blocks, rounds))
    pointer = ctypes.c_void_p(sink.data_ptr())
    launches: dict[str, Launch] = {
        "peak": lambda: library.peak_rate(blocks, rounds, pointer),
    }
    turns = _turns(torch, launches, "peak")
    times, mhz = turns["times_us"]["peak"], turns["mhz"]["peak"]
    print(f"⏱ mma.sync alone: {measure.tflops(flop, statistics.median(times) * 1e-6):.0f} TFLOP/s")
    return {"flop": flop, "times_us": times, "mhz": mhz}
