"""The unrolled kernel beside DeepGEMM's, with what else that one has, one thing at a time.

DeepGEMM's kernel is compiled here from its headers, with N and K in its type as its own code has
them. What differs between it and ours was read in its source; each difference is tried alone.
Then what helped: the kernel that is ahead, and each thing that it does otherwise taken back alone.
"""

from __future__ import annotations

import ctypes
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from phasebit import measure, toolchain
from phasebit.chapters.eight_bits import contenders
from phasebit.chapters.eight_bits.contenders import D, Edits, F, source
from phasebit.edits import replace_each
from phasebit.instruments import beside_torch, clocks, rivals

NAME = "eight_bits_lead"
SHAPES = (8192, 8192, 8192), (4096, 4096, 4096), (4096, 7168, 2048), (4096, 2048, 7168)
ROUNDS, WARM, EACH, REST = 10, 3, 5, 0.01
DEEP, ALONE = "DeepGEMM", "DeepGEMM, no pairs"
PAIR = {DEEP: 2, ALONE: 1}
"""How many of its blocks share a tile of A."""
VENDOR = "cuBLASLt, scales by row", "cuBLASLt, block scales"
UNROLLED, E5M2 = "unrolled", "unrolled, e5m2 × e4m3"
IN_SLOT = "scales of B in the slot"

_SUMMED: Edits = (
    ("    const auto a = ptx::descriptor_128B(stage.a + group * 64 * BK);\n"
     "    const auto b = ptx::descriptor_128B(stage.b + half * HALF * BK);\n", ""),
    ("begin_multiply(Part& part, const Stage<BN>& stage, int group, int half) {",
     "begin_multiply(Part& part, unsigned long long a, unsigned long long b) {"),
    ("    int s = 0;\n    bool phase = false;\n"
     "    for (int n = blockIdx.x; n < tiles.count(); n += gridDim.x) {\n"
     "        const auto [row, col] = tiles.place(n);\n        const float* of_half[2];",
     "    const auto a0 = ptx::descriptor_128B(ring.stage[0].a + group * 64 * BK);\n"
     "    const auto b0 = ptx::descriptor_128B(ring.stage[0].b);\n"
     "    int s = 0;\n    bool phase = false;\n"
     "    for (int n = blockIdx.x; n < tiles.count(); n += gridDim.x) {\n"
     "        const auto [row, col] = tiles.place(n);\n        const float* of_half[2];"),
    ("begin_multiply(part, ring.stage[s], group, half);",
     "begin_multiply(part, a0 + s * (sizeof(Stage<BN>) / 16),\n"
     "                               b0 + (s * sizeof(Stage<BN>) + half * HALF * BK) / 16);"),
)  # fmt: skip
_BOXES: Edits = (
    ("Boxes<2> boxes", "Boxes<4> boxes"),
    ("        Part sums[2] = {};\n", "        float sums[BN / 2] = {};\n"),
    ("promote(Part& sums, const Part&", "promote(float* sums, const Part&"),
    ("promote(sums[half], part", "promote(sums + HALF / 2 * half, part"),
    ("        for (int half = 0; half < 2; ++half)\n"
     "            store<HALF>(sums[half], 1, ring.boxes[warp], C, row * BM + warp * BOX_ROWS,\n"
     "                        col * BN + half * HALF);\n",
     "        store<BN>(sums, 1, ring.boxes[warp], C, row * BM + warp * BOX_ROWS, col * BN);\n"),
)  # fmt: skip
_LANES: Edits = (
    ("        Part sums[2] = {};\n",
     "        const int lane = threadIdx.x % 32;\n        float held[2], coming[2];\n"
     "        for (int half = 0; half < 2; ++half) {\n"
     "            held[half] = of_half[half][min(lane, blocks - 1)];\n"
     "            coming[half] = of_half[half][min(32 + lane, blocks - 1)];\n        }\n"
     "        Part sums[2] = {};\n"),
    ("            const float b[2] = {of_half[0][k], of_half[1][k]};  "
     "// before the wait: it takes time\n",
     "            for (int half = 0; half < 2 && k > 0 && k % 32 == 0; ++half) {\n"
     "                held[half] = coming[half];\n"
     "                coming[half] = of_half[half][min(k + 32 + lane, blocks - 1)];\n"
     "            }\n"
     "            const float b[2] = {__shfl_sync(~0u, held[0], k % 32),\n"
     "                                __shfl_sync(~0u, held[1], k % 32)};\n"),
)  # fmt: skip
TRIED: dict[str, tuple[str, Edits]] = {
    "unrolled by 8": (D, (("#pragma unroll 6", "#pragma unroll 8"),)),
    "descriptors by adding": (D, _SUMMED),
    "all boxes of a tile": (D, _BOXES),
    "one block, said to ptxas": (
        D, (("__launch_bounds__(THREADS)", "__launch_bounds__(THREADS, 1)"),)),
    "scales of B in shared memory": contenders.VARIANTS["unrolled, scales of B in shared memory"],
    "scales of B in lanes": (D, _LANES),
    "pairs of blocks": (contenders.E, ()),
}  # fmt: skip
"""What is tried -> the kernel, and what is otherwise in it."""

_FROM_MEMORY: Edits = (
    ("consume(Ring& ring, const CUtensorMap& C, Tiles tiles, int group) {",
     "consume(Ring& ring, const CUtensorMap& C, const float* b_scales, Tiles tiles,\n"
     "                        int group) {\n"
     "    const int last = Product::blocks(tiles.N) - 1;"),
    ("        Part sums[2] = {};\n",
     "        const float* b_of[2];\n"
     "        for (int half = 0; half < 2; ++half)\n"
     "            b_of[half] = b_scales + size_t(min(2 * col + half, last)) * blocks;\n"
     "        Part sums[2] = {};\n"),
    ("            const float of_half[2] = {ring.b_scales[s][0], ring.b_scales[s][1]};\n", ""),
    ("            ptx::mbarrier_wait(&ring.full[s], phase);\n",
     "            const float of_half[2] = {b_of[0][k], b_of[1][k]};\n"
     "            ptx::mbarrier_wait(&ring.full[s], phase);\n"),
    ("consume(ring, C, tiles, __shfl", "consume(ring, C, b_scales, tiles, __shfl"),
)
_EACH_WARP: Edits = (
    ("    alignas(1024) Box boxes[GROUPS][BN / BOX_COLS];\n",
     "    Boxes<4> boxes[CONSUMERS / 32];\n"),
    ("        store(sums, ring.boxes[group], C, row * BM + group * 64, col * BN, group);\n",
     "        const int warp = threadIdx.x / 32;\n"
     "        store<BN>(reinterpret_cast<const float (&)[BN / 2]>(sums), 1, ring.boxes[warp], C,\n"
     "                  row * BM + warp * BOX_ROWS, col * BN);\n"),
    ("p.M, p.N, 64, BOX_COLS,", "p.M, p.N, BOX_ROWS, BOX_COLS,"),
)
EVERY_LANE: Edits = (
    ("                    __syncwarp();  // all lanes have read their scales\n"
     "                    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&ring.empty[s]);\n",
     "                    ptx::mbarrier_arrive(&ring.empty[s]);\n"),
    ("mbarrier_init(&ring.empty[s], CONSUMERS / 32);", "mbarrier_init(&ring.empty[s], CONSUMERS);"),
)
"""racecheck does not see that a lane's reads come before what another lane does after a meeting."""
BACK: dict[str, Edits] = {
    f"{IN_SLOT}, but from memory": _FROM_MEMORY,
    f"{IN_SLOT}, but each warp stores": _EACH_WARP,
    f"{IN_SLOT}, unrolled by 6": (("#pragma unroll 9", "#pragma unroll 6"),),
    f"{IN_SLOT}, 8 rows of tiles": (("SUPER = 12;", "SUPER = 8;"),),
    f"{IN_SLOT}, 16 rows of tiles": (("SUPER = 12;", "SUPER = 16;"),),
    f"{IN_SLOT}, every lane arrives": EVERY_LANE,
}
"""What is taken back of :data:`contenders.F` -> what is otherwise in it."""


def text(name: str) -> str:
    """A contender of ours; raises ``ValueError`` where an edit does not fit."""
    if name == E5M2:
        return "#define A_FORMAT e5m2\n" + source(D)
    if name == IN_SLOT or name in BACK:
        return replace_each(source(F), BACK.get(name, ()), f"{F}.cu")
    kernel, edits = TRIED.get(name, (D, ()))
    return replace_each(source(kernel), edits, f"{kernel}.cu")


def build(name: str) -> toolchain.Build:
    """That, as a library."""
    return toolchain.build(text(name), name=NAME, target="sm_90a", library=True)


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU, no torch or no checkout of DeepGEMM
    and CUTLASS, or when a kernel is wrong.
    """
    from phasebit.chapters.eight_bits import record as first

    facts = measure.facts()
    torch = beside_torch.torch_here(NAME)
    units = torch.cuda.get_device_properties(0).multi_processor_count
    names = (UNROLLED, *TRIED, E5M2, IN_SLOT, *BACK)
    with ThreadPoolExecutor(16) as pool:
        pool.submit(clocks.reader)
        theirs: dict[tuple[int, int, str], Future[tuple[ctypes.CDLL, str]]] = {
            (n, k, name): pool.submit(rivals.deep_gemm_fp8, n, k, pair=pair, units=units)
            for _, n, k in SHAPES
            for name, pair in PAIR.items()
        }
        built = dict(zip(names, pool.map(build, names), strict=True))
        deep = {which: future.result() for which, future in theirs.items()}
    loaded = {name: ctypes.CDLL(str(each.program)) for name, each in built.items()}
    makers: dict[str, Any] = {
        name: partial(first.of_ours, torch, name, library) for name, library in loaded.items()
    }
    for name, make in makers.items():
        first.check(torch, name, make, (first.RAGGED, first.LARGE), element=_element(torch, name))
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            **clocks.protocol(ROUNDS, REST, warm=WARM, each=EACH),
            "inputs": "normal random numbers, as e4m3, A as e5m2 for the kernel that has it so; "
            "scales for blocks from 0.5 to 1.5; A (M, K) and B (N, K) row-major; results bf16",
            "check": "before timing, on whole numbers, with scales all different: exact, for a "
            "ragged shape and a large one; DeepGEMM's result has the bits of ours at each shape",
            "vendor": f"cuBLASLt through torch {torch.__version__}, torch._scaled_mm and "
            "torch.nn.functional.scaled_mm, the same operands; DeepGEMM's kernel, compiled from "
            "its headers",
        },
        "multiprocessors": units,
        "versions": {DEEP: next(iter(deep.values()))[1]},
        "registers": {name: first.registers(each) for name, each in built.items()},
        "products": [_products(torch, makers, shape, deep) for shape in SHAPES],
    }


def _element(torch: Any, name: str) -> Any:
    """The format of A."""
    return torch.float8_e5m2 if name == E5M2 else torch.float8_e4m3fn


def _products(
    torch: Any, makers: dict[str, Any], shape: tuple[int, int, int],
    deep: dict[tuple[int, int, str], tuple[ctypes.CDLL, str]],
) -> dict[str, Any]:  # fmt: skip
    from phasebit.chapters.eight_bits import record as first

    m, n, k = shape
    a, b = first.random_numbers(torch, m, k), first.random_numbers(torch, n, k)
    c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    scales = first.scales_of(torch, m, n, k, lambda *size: torch.rand(*size, device="cuda") + 0.5)
    other = a.float().to(_element(torch, E5M2))
    launches: dict[str, beside_torch.Launch] = {
        name: make(other if name == E5M2 else a, b, c, scales) for name, make in makers.items()
    }
    launches |= {
        name: first.of_ours(torch, name, deep[n, k, name][0], a, b, c, scales) for name in PAIR
    }
    results = {}
    for name in (UNROLLED, IN_SLOT, *PAIR):
        c.fill_(float("nan"))
        launches[name]()
        results[name] = c.clone()
    for name in (IN_SLOT, *PAIR):
        if not bool((results[name] == results[UNROLLED]).all()):
            raise toolchain.CudaError(f"{name} and {UNROLLED} differ at {shape}")
    vendor = first.vendor(torch, a, b, scales)
    launches |= {name: vendor[name] for name in VENDOR}
    found = clocks.times(torch, launches, ROUNDS, REST, warm=WARM, each=EACH)
    return {"shape": shape, "contenders": found}
