"""Why the warp's larger tile gains more than fewer loads from shared memory explain.

Blocks of 128 × 128 with warps of 32 × 32 and with warps of 64 × 64 differ in three things: how
much a warp loads for a product, how many warps a block has, and how many blocks a multiprocessor
holds. Here each kernel runs with as much to load as the other's, and the larger tile with one
block a multiprocessor, as the smaller one has it.
"""

from __future__ import annotations

import ctypes
import statistics
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from phasebit import measure, toolchain
from phasebit.chapters.tensor_cores import tensor_cores_controls as controls
from phasebit.edits import replace_each
from phasebit.instruments import beside_torch, clocks, profiler, programs
from phasebit.instruments.beside_torch import Launch

NAME = "tensor_cores_warp_tiles"
SIZE, SLOTS = controls.SIZE, 3
SMALL, LARGE = "warps of 32 × 32", "warps of 64 × 64"
_TILINGS = {SMALL: "small", LARGE: "large"}
_SIDES = {"small": 32, "large": 64}
_SHARED = SLOTS * 2 * 128 * controls.DEPTH * 2
_ALONE = 120 * 1024  # bytes: a multiprocessor of 227 KiB holds one such block
ONCE, TWICE, B_STAYS = "once", "twice", "B stays"


class Loop(NamedTuple):
    """A loop of the ring: what it does, and how it loads fragments where it loads them."""

    parts: controls.Parts = controls.Parts()
    loads: str = ONCE


LOOPS = {
    "whole": Loop(),
    "each load twice": Loop(loads=TWICE),
    "no loads of B": Loop(loads=B_STAYS),
    "no loads": Loop(controls.VARIANTS["no loads"]),
    "no copies": Loop(controls.VARIANTS["no copies"]),
    "products alone": Loop(controls.VARIANTS["products alone"]),
}
"""What is left out, or done twice -> the loop."""

_RELOAD = """    auto reload = [&](int slot, int step) {  // in the loop
        if (HOW == 2) {  // the same bytes: no compiler knows that `super` is 1
            Fragments<In, T::WM, T::WN> again;
            again.template load<T::BK, T::BN, true>(a_slot(slot), b_slot(slot),
                                                    a_lane ^ (super - 1), b_lane ^ (super - 1),
                                                    step);
            for (const auto& four : again.a) seen ^= four[0];
            for (int j = 0; j < T::WN / 8; j += 2) seen ^= again.b[j][0];
        }
        if (HOW) load(slot, step);
        else
#pragma unroll
            for (int i = 0; i < T::WM / 16; ++i) {
                auto& a = f[step % 2].a[i];
                ptx::ldmatrix_x4(a[0], a[1], a[2], a[3],
                                 a_slot(slot) + (a_lane ^ step * 32) + i * 16 * T::BK * 2);
            }
    };
"""
_EDITS = (
    ("                if (LOADS) load(full, step + 1);\n",
     "                if (LOADS) reload(full, step + 1);\n"),
    ("                if (LOADS) load(full, 0);\n",
     "                if (LOADS) reload(full, 0);\n"),
    ("    if (!LOADS) load(0, 1);\n", "    if (!LOADS || HOW == 0) load(0, 1);\n"),
    ("    static_assert(STEPS % 2 == 0,", _RELOAD + "    static_assert(STEPS % 2 == 0,"),
)  # fmt: skip
_ENTRY = """
extern "C" void {name}(const __nv_bfloat16* A, const __nv_bfloat16* B, float* C, int n, int shared,
                       cudaStream_t stream) {{
    using T = Tiling<128, 128, {depth}, {side}, {side}>;
    const Gemm<__nv_bfloat16, float> g{{A, B, C, n, n, n, n, n, n, 1.0f, 0.0f}};
    auto kernel = gemm<T, {slots}, 16, __nv_bfloat16, float>;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    const int blocks = (n + 127) / 128 * ((n + 127) / 128);
    kernel<<<blocks, T::THREADS, shared, stream>>>(g, 1);
    CHECK(cudaGetLastError());
}}
extern "C" int {name}_blocks(int shared) {{
    using T = Tiling<128, 128, {depth}, {side}, {side}>;
    auto kernel = gemm<T, {slots}, 16, __nv_bfloat16, float>;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    int found = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&found, kernel, T::THREADS, shared));
    return found;
}}
"""
_COUNTED = controls.ZEROS + """\
    small(A, B, C, n, {shared}, 0);
    large(A, B, C, n, {shared}, 0);
    large(A, B, C, n, {alone}, 0);
    CHECK(cudaDeviceSynchronize());
}}
"""
_COUNTS = ("whole", "each load twice", "no loads of B")
COUNTERS = (
    "sm__cycles_active.max", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "smsp__sass_inst_executed_op_ldsm.sum", "smsp__warps_active.avg.per_cycle_active",
    "smsp__inst_executed.sum",
)  # fmt: skip
_ROUNDS, _REST, _WARM, _EACH = 10, 0.01, 2, 4


def contenders() -> dict[str, tuple[str, str, int]]:
    """Contender -> its loop, the function that launches it, and a block's shared memory, bytes."""
    found = {}
    for loop in LOOPS:
        for tiling, function in _TILINGS.items():
            found[f"{tiling}: {loop}"] = loop, function, _SHARED
        found[f"{LARGE}, one block: {loop}"] = loop, "large", _ALONE
    return found


def source(loop: str) -> str:
    """The kernels with one of :data:`LOOPS`; raises ``ValueError`` where an edit does not fit."""
    parts, loads = LOOPS[loop]
    how = {B_STAYS: 0, ONCE: 1, TWICE: 2}[loads]
    entries = (
        _ENTRY.format(name=name, side=side, slots=SLOTS, depth=controls.DEPTH)
        for name, side in _SIDES.items()
    )
    text = replace_each(controls.ring(parts), _EDITS, "gemm.cuh")
    return f"constexpr int HOW = {how};\n{text}" + "".join(entries)


def build(loop: str) -> toolchain.Build:
    """The same as a library."""
    return toolchain.build(source(loop), name=NAME, library=True)


def counted(loop: str) -> toolchain.Build:
    """A program with one launch of each tiling, and one of the larger with one block."""
    text = source(loop) + _COUNTED.format(size=SIZE, shared=_SHARED, alone=_ALONE)
    return toolchain.build(text, name=NAME)


def multiplied(loop: str, size: int) -> tuple[list[int], list[int]]:
    """Which column of A and which row of B each step of the sums takes, in order.

    >>> multiplied("no loads of B", 64) == ([*range(64)], [*range(32), *range(32)])
    True
    """
    parts, loads = LOOPS[loop]
    a = controls.multiplied(parts, SLOTS, size)
    assert a is not None  # all of them multiply
    return a, [k % 32 for k in range(size)] if loads == B_STAYS else a


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU, torch or ncu, or when a kernel fails
    or is wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here(NAME)
    with ThreadPoolExecutor() as pool:  # nothing is compiled any more when the times are taken
        counting = {loop: pool.submit(counted, loop) for loop in _COUNTS}
        loaded = clocks.libraries(build, LOOPS)
        counts = {loop: each.result() for loop, each in counting.items()}
    times = _times(torch, loaded)
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            **clocks.protocol(_ROUNDS, _REST, warm=_WARM, each=_EACH),
            "inputs": f"normal random bf16 numbers, {SIZE}³, row-major, f32 sums and results",
            "tiles": f"blocks of 128 × 128, {SLOTS} slots of depth {controls.DEPTH}; one block: "
            "so much more shared memory is asked for that a multiprocessor holds one; blocks: how "
            "many it holds",
            "loops": "as in tensor_cores_controls; each load twice: every fragment is loaded, and "
            "loaded again to the same registers; no loads of B: in the loop those of A alone, half "
            "of the bytes",
            "check": "before timing, 128 rows by 128 columns of each result against a product in "
            "double of what the kernel multiplies",
            "vendor": f"cuBLAS through torch {torch.__version__}, bf16 into f32, by turns; it may "
            "use wgmma",
            "counters": f"{profiler.version()}, caches flushed before each launch, clocks left "
            "alone; the whole kernel",
        },
        "size": SIZE,
        "multiprocessors": programs.multiprocessors(),
        "contenders": times,
        "counters": {loop: _counters(each) for loop, each in counts.items()},
    }


def _counters(program: toolchain.Build) -> dict[str, dict[str, float]] | dict[str, str]:
    """Of each launch; where the profiler refuses, the sentence in which it does: times are kept."""
    names = (SMALL, LARGE, f"{LARGE}, one block")
    try:
        rows = profiler.count([program.program], COUNTERS)
        if len(rows) != len(names):
            raise toolchain.CudaError(f"ncu saw {len(rows)} launches of {len(names)}")
    except toolchain.CudaError as error:
        print(f"⏱ the profiler says nothing: {str(error)[:300]}", flush=True)
        return {"refused": str(error)[:300]}
    return {name: row for name, (_, row) in zip(names, rows, strict=True)}


def _times(torch: Any, loaded: dict[str, ctypes.CDLL]) -> dict[str, dict[str, Any]]:
    a, b = (torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    c = torch.empty(SIZE, SIZE, device="cuda")
    pointers = beside_torch.pointers((a, b, c))
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    launches: dict[str, Launch] = {}
    held = {}
    for name, (loop, function, shared) in contenders().items():
        launches[name] = partial(loaded[loop][function], *pointers, SIZE, shared, stream)
        of_a, of_b = (torch.tensor(each, device="cuda") for each in multiplied(loop, SIZE))
        matrices = a[:, of_a], b[of_b], c
        beside_torch.check(torch, name, launches[name], matrices, beside_torch.cut_sums(SIZE))
        held[name] = loaded[loop][f"{function}_blocks"](shared)
        if shared == _ALONE and held[name] != 1:
            raise toolchain.CudaError(f"{name}: {held[name]} blocks a multiprocessor, not one")
    launches[controls.VENDOR] = lambda: torch.mm(a, b, out_dtype=torch.float32, out=c)
    found: dict[str, dict[str, Any]] = dict(
        clocks.times(torch, launches, _ROUNDS, _REST, warm=_WARM, each=_EACH)
    )
    for name, each in found.items():
        each["blocks"] = held.get(name)
        middle = statistics.median(each["times_us"])
        print(f"⏱ {name}: {middle:.1f} µs, {middle * statistics.median(each['mhz']) / 1e3:.0f} "
              f"thousand cycles, {each['blocks']} blocks", flush=True)  # fmt: skip
    return found
