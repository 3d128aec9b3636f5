"""Runs in which one thing of the product of *Layouts* is otherwise: how a tile of A is brought.

From packed tiles the product of a dense A is faster than in place, though as many sectors move.
Packing changes five things at once, and here each is changed alone: a thread loads one float or
four; the lanes of a warp store into the tile with bank conflicts or without; each load asks where
the matrix ends, or none does; each load computes its address, or a pointer moves along; and rows
are read where they lie, or a tile without gaps. On an H200 none of the five made the difference:
the wording of the loop in place did (:data:`SAME`). All kernels add up in the same order, so their
results are equal to the last bit.
"""

from __future__ import annotations

import ctypes
import statistics
import sys
from typing import Any, NamedTuple

from phasebit import edits as edits_of
from phasebit import files, measure, toolchain
from phasebit.edits import replace_each
from phasebit.instruments import beside_torch, clocks, profiler, rested
from phasebit.instruments.beside_torch import Launch

NAME = "layouts_controls"
SHAPE = (16384, 1024, 1024)
"""M, N, K of one product with a dense A: the first row of the chapter's table."""
ROUNDS, REST = 15, 0.01

INSTRUCTIONS = "smsp__inst_executed.sum"
LOADS = "smsp__sass_inst_executed_op_global_ld.sum"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"
_WHY = ("long_scoreboard", "short_scoreboard", "barrier", "mio_throttle", "lg_throttle",
        "math_pipe_throttle", "dispatch_stall", "wait", "no_instruction", "not_selected",
        "selected")  # fmt: skip
METRICS = (
    INSTRUCTIONS, LOADS, "smsp__sass_inst_executed_op_shared_st.sum", CONFLICTS,
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "l1tex__m_xbar2l1tex_read_sectors.sum",
    *(f"smsp__average_warps_issue_stalled_{why}_per_issue_active.ratio" for why in _WHY),
)  # fmt: skip
"""Instructions of warps, loads of global memory, stores to shared memory and their conflicts;
sectors that were asked for, and that came; and what the warps waited for."""


class Way(NamedTuple):
    """How a tile of A comes to shared memory."""

    packed: bool = False  # from packed tiles, else where A lies
    wide: bool = False  # 16 bytes at a time
    conflicts: bool = True  # the lanes' order on the tile: stores with bank conflicts (in place)
    asks: bool = True  # each load asks where the matrix ends
    computes: bool = True  # each load computes its address, else a pointer moves along


IN_PLACE, SAME, PACKED = "in place", "in place, written as the steps are", "packed"
WAYS: dict[str, Way] = {
    IN_PLACE: Way(),
    SAME: Way(),
    "no conflicts": Way(conflicts=False),
    "no limits": Way(asks=False),
    "no limits, a pointer": Way(asks=False, computes=False),
    "no conflicts, no limits, a pointer": Way(conflicts=False, asks=False, computes=False),
    "16 bytes": Way(wide=True),
    "16 bytes, no conflicts": Way(wide=True, conflicts=False),
    "16 bytes, no limits, a pointer": Way(wide=True, asks=False, computes=False),
    "16 bytes, no conflicts, no limits, a pointer": Way(False, True, False, False, False),
    PACKED: Way(True, True, False, False, False),
    "packed, 4 bytes": Way(True, False, False, False, False),
    "packed, 4 bytes, limits, addresses": Way(True, False, False, True, True),
}
"""Contender -> how it brings a tile of A. The first and :data:`PACKED` are the chapter's kernels,
untouched; :data:`SAME` does what the first does, in the words of the steps that follow."""

_HEADER = "layouts/packing.cuh"
_LOOP = """#pragma unroll
            for (int i = t; i < BK * BM; i += THREADS)
                a[i % BK][i / BK] = left(p, row0 + i / BK, k0 + i % BK, batch);
"""
_PACKED_LOOP = """#pragma unroll
            for (int i = t; i < BK * BM / 4; i += THREADS)
                *reinterpret_cast<float4*>(&a[i / (BM / 4)][i % (BM / 4) * 4]) = from[i];
            from += BK * BM / 4;
"""
_BEFORE = "    float sum[T][T] = {};\n    for (int k0"
_LAUNCH = """    if (packed) product<true><<<grid, THREADS, 0, stream>>>(p, packed);
    else product<false><<<grid, THREADS, 0, stream>>>(p, nullptr);
"""
_PLACES = {  # (wide, conflicts) -> k and m in the tile of what thread t loads first
    (False, True): ("t % BK", "t / BK"),
    (False, False): ("t % 8 + t / 32 % 2 * 8", "t / 8 % 4 + t / 64 * 4"),
    (True, True): ("t % 4 * 4", "t / 4"),
    (True, False): ("(t % 2 + t / 32 % 2 * 2) * 4", "t / 2 % 16 + t / 64 * 16"),
}
_LIBRARY = """
extern "C" void run(int what, const float* A, const float* B, float* C, int M, int N, int K,
                    float* packed, cudaStream_t stream) {
    const Batch p{A, B, C, M, N, K, 1, size_t(K), 1, 0};
    if (what) launch_pack(p, packed, stream);
    else launch_product(p, packed, stream);
    CHECK(cudaGetLastError());
}
"""


def edits(name: str) -> tuple[tuple[str, str], ...]:
    """What a contender changes in the kernel's text; nothing for the chapter's own two."""
    way = WAYS[name]
    if name in (IN_PLACE, PACKED):
        return ()
    if way.packed:
        return ((_PACKED_LOOP, _from_tiles(way)),)
    fours = 4 if way.wide else 1
    vector = "float4" if way.wide else "float"
    step = 256 * fours // 16  # rows from one of a thread's loads to its next
    if way.computes:
        address = "p.A[(row0 + m) * p.sm + (k0 + k) * p.sk + batch * p.sb]"
    else:
        address = f"mine[j * {step} * p.sm]"
    value = f"*reinterpret_cast<const float4*>(&{address})" if way.wide else address
    if way.asks:
        zero = "make_float4(0, 0, 0, 0)" if way.wide else "0"
        value = f"row0 + m < p.M && k0 + k < p.K\n                    ? {value} : {zero}"
    store = (
        "a[k][m] = x.x, a[k + 1][m] = x.y, a[k + 2][m] = x.z, a[k + 3][m] = x.w;"
        if way.wide else "a[k][m] = x;"
    )  # fmt: skip
    k, m = _PLACES[way.wide, way.conflicts]
    loop = (
        f"            const int k = {k};\n#pragma unroll\n"
        f"            for (int j = 0; j < {8 // fours}; ++j) {{\n"
        f"                const int m = {m} + j * {step};\n"
        f"                const {vector} x = {value};\n                {store}\n            }}\n"
    )
    if way.computes:
        return ((_LOOP, loop),)
    pointer = (
        f"    const float* mine =\n        p.A + (row0 + {m}) * p.sm + ({k}) * p.sk "
        "+ batch * p.sb;\n"
    )
    return ((_LOOP, f"{loop}            mine += BK * p.sk;\n"), (_BEFORE, pointer + _BEFORE))


def _from_tiles(way: Way) -> str:
    """A tile's floats from packed tiles, one at a time."""
    value = "reinterpret_cast<const float*>(from)[i]"
    if way.asks:
        value = (
            "row0 + m < p.M && k0 + k < p.K\n                    ? packed[(size_t(batch) * "
            "gridDim.y + blockIdx.y) * tiles(p.K, BK) * (BK * BM)\n"
            "                             + size_t(k0 + k) * BM + m] : 0"
        )
    moved = "" if way.asks else "            from += BK * BM / 4;\n"
    return (
        "#pragma unroll\n            for (int i = t; i < BK * BM; i += THREADS) {\n"
        "                const int k = i / BM, m = i % BM;\n"
        f"                a[k][m] = {value};\n            }}\n{moved}"
    )


def text(name: str) -> str:
    """The header as a contender has it; raises ``ValueError`` where an edit no longer fits."""
    header = (files.kernels() / _HEADER).read_text(encoding="utf-8")
    only = "product<true>" if WAYS[name].packed else "product<false>"
    launch = f"    {only}<<<grid, THREADS, 0, stream>>>(p, packed);\n"
    changes = (*edits(name), (_LAUNCH, launch), ("#pragma once\n", ""))
    return replace_each(header, changes, _HEADER)


def difference(old: str, new: str) -> str:
    """The lines that one contender has otherwise than another."""
    return edits_of.difference(text(old), text(new))


def build(name: str) -> toolchain.Build:
    """A contender as a library."""
    return toolchain.build(text(name) + _LIBRARY, name=NAME, library=True)


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, or when a kernel fails or is
    wrong, :class:`toolchain.ToolMissing` without Nsight Compute.
    """
    facts, version = measure.facts(), profiler.version()
    torch = beside_torch.torch_here(NAME)
    torch.backends.cuda.matmul.allow_tf32 = False
    built = clocks.built(build, WAYS)
    seed = torch.seed()
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "clock": "CUDA events before and after each launch",
            "order": f"{ROUNDS} rounds; each turn: a rest of {REST} s, a launch that is not "
            "counted and one that is; the order of the contenders drawn anew for each round",
            "mhz": "clock of a multiprocessor, counted for 50 µs right after the timed launch",
            "inputs": f"normal random numbers, seed {seed}; no flush of the caches before a timed "
            "launch",
            "check": "before timing, all of C equal to the last bit to that of the kernel in "
            "place, and that on 128 rows by 128 columns against a product in double; C poisoned",
            "vendor": f"cuBLAS through torch {torch.__version__}, f32 without TF32",
            "counters": f"{version}, the second of two launches, caches flushed before each, "
            "clocks left alone",
        },
        "shape": list(SHAPE),
        "ways": {name: way._asdict() for name, way in WAYS.items()},
        "registers": {name: _product(name, each).registers for name, each in built.items()},
        "spills": {name: _product(name, each).spills for name, each in built.items()},
        "times": _times(torch),
        "counters": _counted(),
    }


def _product(name: str, built: toolchain.Build) -> toolchain.Resources:
    """What the compiler says of the product that a contender launches."""
    found = [use for use in built.resources if "product" in use.kernel]
    if len(found) != 1:
        seen = ", ".join(use.kernel for use in built.resources)
        raise toolchain.CudaError(f"no single product is the one of {name}: {seen}")
    return found[0]


class _Operands:
    """A, B, C and the packed tiles on the GPU, and the contenders' launches."""

    def __init__(self, torch: Any) -> None:
        m, n, k = SHAPE
        self.a, self.b = torch.randn(m, k, device="cuda"), torch.randn(k, n, device="cuda")
        self.c = torch.empty(m, n, device="cuda")
        self._packed = torch.empty(m * k, device="cuda")
        self._stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self._given = beside_torch.pointers((self.a, self.b, self.c, self._packed))
        self.launch(PACKED, 1)()

    def launch(self, name: str, what: int = 0) -> Launch:
        """The product of a contender; what 1: packing."""
        run, (*arrays, packed) = ctypes.CDLL(str(build(name).program)).run, self._given
        return lambda: run(what, *arrays, *SHAPE, packed, self._stream)


def _times(torch: Any) -> dict[str, dict[str, list[float]]]:
    given = _Operands(torch)
    launches = {name: given.launch(name) for name in WAYS}
    matrices, bound = (given.a, given.b, given.c), beside_torch.cut_sums(SHAPE[2])
    beside_torch.check(torch, IN_PLACE, launches[IN_PLACE], matrices, bound)
    right = given.c.clone()
    for name, launch in launches.items():
        given.c.fill_(float("nan"))
        launch()
        if not torch.equal(given.c, right):
            raise toolchain.CudaError(f"{name}: C is not that of the kernel in place")
    launches[measure.VENDOR] = lambda: torch.matmul(given.a, given.b, out=given.c)
    found = rested.times(torch, launches, ROUNDS, REST)
    for name, each in found.items():
        print(f"⏱ {name}: {statistics.median(each['times_us']):.0f} µs", flush=True)
    return found


def _counted() -> dict[str, dict[str, float]]:
    """What the profiler counts of each contender's second launch."""
    command = (sys.executable, "-m", __name__)
    counted = profiler.second_launches(command, METRICS, "product")
    return dict(zip(WAYS, counted, strict=True))


def _main() -> None:
    """Two launches of each contender, for the profiler."""
    torch = beside_torch.torch_here(NAME)
    given = _Operands(torch)
    for name in WAYS:
        launch = given.launch(name)
        launch()
        launch()
    torch.cuda.synchronize()


if __name__ == "__main__":
    _main()
