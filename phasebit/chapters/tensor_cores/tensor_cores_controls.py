"""What keeps the small tiles back: parts of the ring alone, and what the L2 cache delivers.

Two suspects are left in *Tensor cores without Hopper*: the loads from shared memory, and the bytes
from outside. Here the ring runs without the one, without the other and without both, at both sizes
of tiles. Beside that stand reads of data that lies in the L2 cache, and the ring with a branch
around its copies.
"""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from phasebit import files, measure, toolchain
from phasebit.edits import replace_each
from phasebit.instruments import beside_torch, clocks, profiler, programs
from phasebit.instruments.beside_torch import Launch

NAME = "tensor_cores_controls"
SIZE = 4096
DEPTH = 64
"""Of a tile, along K."""
TILINGS = {"small": ("Tiling<64, 64, 64, 32, 32>", 4), "large": ("Tiling<128, 256, 64, 64, 64>", 3)}
"""Name -> the tiling, and its slots."""
VENDOR = "cuBLAS"
READS = "tensor_cores/l2_reads"


class Parts(NamedTuple):
    """What a loop of the ring does."""

    copies: bool = True
    loads: bool = True
    products: bool = True
    branch: bool = False  # around the copies: there are none where there is no tile any more
    stays: bool = False  # the branch is a loop of 0 or 1 turns, which no compiler makes predicates


VARIANTS = {
    "whole": Parts(),
    "a branch around the copies": Parts(branch=True),
    "a branch that stays one": Parts(branch=True, stays=True),
    "no copies": Parts(copies=False),
    "no loads": Parts(loads=False),
    "no products": Parts(products=False),
    "copies alone": Parts(loads=False, products=False),
    "loads alone": Parts(copies=False, products=False),
    "products alone": Parts(copies=False, loads=False),
}
"""Contender -> what its loop does; what precedes the loop is always there."""

_WHERE = "tensor_cores/gemm.cuh"
_FILL = """    auto fill = [&](int slot, int part) {
        a_copy(a_slot(slot), part, PARTS);
        b_copy(b_slot(slot), part, PARTS);
"""
_BRANCHED = """    auto fill = [&](int slot, int part, bool there = true) {
        int turns = !BRANCH || there;
        if (STAYS) {
            asm volatile("mov.u32 %0, %1;" : "=r"(turns) : "r"(turns));  // the compiler forgets it
#pragma unroll 1
            for (; turns > 0; --turns) {
                a_copy(a_slot(slot), part, PARTS);
                b_copy(b_slot(slot), part, PARTS);
            }
        } else if (turns) {
            a_copy(a_slot(slot), part, PARTS);
            b_copy(b_slot(slot), part, PARTS);
        }
"""
_PROLOGUE = """    for (int tile = 0; tile < SLOTS - 1; ++tile)
        for (int part = 0; part < PARTS; ++part) fill(tile, part);
    wait();
    load(0, 0);
"""
_ALL_FILLED = """    for (int tile = 0; tile < SLOTS - COPIES; ++tile)  // all slots, or all but one
        for (int part = 0; part < PARTS; ++part) fill(tile, part);
    if (!COPIES) ptx::cp_async_wait_group<0>();
    wait();
    load(0, 0);
    if (!LOADS) load(0, 1);
"""
_SEEN = """    unsigned seen = 0;  // of fragments that nobody multiplies: else nobody loads them
    auto see = [&](const Fragments<In, T::WM, T::WN>& now) {
        for (const auto& four : now.a) seen ^= four[0] ^ four[1] ^ four[2] ^ four[3];
        for (const auto& two : now.b) seen ^= two[0] ^ two[1];
    };
"""
_EDITS = (
    ("#pragma once\n", ""),
    (_FILL, _BRANCHED),
    (_PROLOGUE, _ALL_FILLED),
    ("                load(full, step + 1);\n                fill(empty, step);\n",
     "                if (LOADS) load(full, step + 1);\n"
     "                if (COPIES) fill(empty, step, tile + SLOTS - 1 < tiles);\n"),
    ("                load(full, 0);\n            }\n            sum.multiply(f[step % 2]);\n",
     "                if (LOADS) load(full, 0);\n            }\n"
     "            if (PRODUCTS) sum.multiply(f[step % 2]);\n"
     "            else if (LOADS) see(f[step % 2]);\n"),
    ("    // The last copies, of zeros,",
     "    if (seen == 0x5bd1e995) sum.c[0][0][0] = 1;  // hardly ever\n"
     "    // The last copies, of zeros,"),
    ("    static_assert(STEPS % 2 == 0,", _SEEN + "    static_assert(STEPS % 2 == 0,"),
)  # fmt: skip
_ENTRY = """
extern "C" void {name}(const __nv_bfloat16* A, const __nv_bfloat16* B, float* C, int n,
                       cudaStream_t stream) {{
    const Gemm<__nv_bfloat16, float> g{{A, B, C, n, n, n, n, n, n, 1.0f, 0.0f}};
    launch_aligned<{tiling}, {slots}, 16>(g, 1, stream);
}}
"""
ZEROS = """
int main() {{
    const int n = {size};
    __nv_bfloat16 *A, *B;
    float* C;
    CHECK(cudaMalloc(&A, size_t(n) * n * 2));
    CHECK(cudaMalloc(&B, size_t(n) * n * 2));
    CHECK(cudaMalloc(&C, size_t(n) * n * 4));
    CHECK(cudaMemset(A, 0, size_t(n) * n * 2));
    CHECK(cudaMemset(B, 0, size_t(n) * n * 2));
"""
"""How a program begins that multiplies matrices of zeros, ``size`` rows each: what it counts does
not depend on the numbers."""
_COUNTED = ZEROS + """\
    small(A, B, C, n, 0);
    large(A, B, C, n, 0);
    CHECK(cudaDeviceSynchronize());
}}
"""
COUNTERS = (
    "lts__t_sectors_srcunit_tex.sum", "lts__t_sectors_srcunit_tex_lookup_hit.sum",
    "lts__t_sectors_op_read.sum", "dram__bytes_read.sum",
)  # fmt: skip
_ROUNDS, _REST, _WARM, _EACH = 10, 0.01, 2, 4


def ring(parts: Parts) -> str:
    """The ring's kernel whose loop does so much of its work, in place of ``gemm.cuh``."""
    header = (files.kernels() / _WHERE).read_text(encoding="utf-8")
    flags = "".join(
        f"constexpr bool {name.upper()} = {str(value).lower()};\n"
        for name, value in parts._asdict().items()
    )
    return flags + replace_each(header, _EDITS, _WHERE)


def source(parts: Parts) -> str:
    """The same as a library, with a function for each of :data:`TILINGS`."""
    entries = (
        _ENTRY.format(name=name, tiling=tiling, slots=slots)
        for name, (tiling, slots) in TILINGS.items()
    )
    return ring(parts) + "".join(entries)


def build(name: str) -> toolchain.Build:
    """A contender as a library."""
    return toolchain.build(source(VARIANTS[name]), name=NAME, library=True)


def counted() -> toolchain.Build:
    """A program with one launch of the whole ring for each of :data:`TILINGS`."""
    text = source(VARIANTS["whole"]) + _COUNTED.format(size=SIZE)
    return toolchain.build(text, name=NAME)


def multiplied(parts: Parts, slots: int, size: int) -> list[int] | None:
    """Which column of A and row of B each step of the sums takes, in order; None: no sums.

    Without copies the slots keep the first tiles, without loads the fragments the first two steps.
    """
    if not parts.products:
        return None
    if not parts.loads:
        return [k % 32 for k in range(size)]
    if not parts.copies:
        return [k % (slots * DEPTH) for k in range(size)]
    return list(range(size))


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU, torch or ncu, or when a kernel fails
    or is wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here(NAME)
    with ThreadPoolExecutor() as pool:  # nothing is compiled any more when the times are taken
        reading, counting = pool.submit(programs.kernel, READS), pool.submit(counted)
        loaded = clocks.libraries(build, VARIANTS)
        reader, counts = reading.result(), counting.result()
    reads = programs.times(reader)
    times = _times(torch, loaded)
    rows = profiler.count([counts.program], COUNTERS)
    if len(rows) != len(TILINGS):
        raise toolchain.CudaError(f"ncu saw {len(rows)} launches of {len(TILINGS)}")
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            **clocks.protocol(_ROUNDS, _REST, warm=_WARM, each=_EACH),
            "inputs": f"normal random bf16 numbers, {SIZE}³, row-major, f32 sums and results",
            "parts": "the ring's kernel whose loop leaves something out; the slots are filled "
            "before the loop, and the fragments of two steps loaded, in any case; where loaded "
            "fragments are not multiplied, their bits are exclusive-ored, which takes a few "
            "instructions more",
            "check": "before timing, 128 rows by 128 columns of each result against a product in "
            "double of what the kernel multiplies; all zero where it multiplies nothing",
            "reads": "l2_reads.cu, TB/s: 6 GiB a launch, as many blocks of 128 threads as run at "
            "once; 5 rounds, ways and sizes in random order, a rest of 10 ms before each turn, "
            "then a launch that does not count and 4 that do; MHz: of block 0 in the last",
            "vendor": f"cuBLAS through torch {torch.__version__}, bf16 into f32, by turns; it may "
            "use wgmma",
            "counters": f"{profiler.version()}, caches flushed before each launch, clocks left "
            "alone; the whole kernel",
        },
        "size": SIZE,
        "multiprocessors": programs.multiprocessors(),
        "contenders": times,
        "counters": {name: row for name, (_, row) in zip(TILINGS, rows, strict=True)},
        "reads": reads,
    }


def _times(torch: Any, loaded: dict[str, ctypes.CDLL]) -> dict[str, dict[str, list[float]]]:
    a, b = (torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    c = torch.empty(SIZE, SIZE, device="cuda")
    pointers = beside_torch.pointers((a, b, c))
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    launches: dict[str, Launch] = {}
    for variant, parts in VARIANTS.items():
        for tiling, (_, slots) in TILINGS.items():
            name = f"{tiling}: {variant}"
            launches[name] = partial(loaded[variant][tiling], *pointers, SIZE, stream)
            taken = multiplied(parts, slots, SIZE)
            if taken is None:
                c.fill_(float("nan"))
                launches[name]()
                if not bool((c == 0).all()):
                    raise toolchain.CudaError(f"{name} multiplies, and should not")
                continue
            at = torch.tensor(taken, device="cuda")
            matrices = a[:, at], b[at], c
            beside_torch.check(
                torch, name, launches[name], matrices, beside_torch.cut_sums(SIZE)
            )
    launches[VENDOR] = lambda: torch.mm(a, b, out_dtype=torch.float32, out=c)
    found = clocks.times(torch, launches, _ROUNDS, _REST, warm=_WARM, each=_EACH)
    for name, each in found.items():
        print(f"⏱ {name}: {measure.summary(each['times_us']).median:.0f} µs", flush=True)
    return found
