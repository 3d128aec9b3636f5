"""Runs in which one thing of *The ring at full width* is otherwise: its copies, its hand-over, its
stores.

What the ladder leaves open: why a step of the ring takes longer than its products, where the rest
of a launch is, and what of the boxes of C makes them faster than plain stores. In the runs of the
first two questions all tiles along K hold the same numbers, so that each of them computes the same
product, whatever it copies.
"""

from __future__ import annotations

import ctypes
import statistics
from itertools import pairwise
from typing import Any, NamedTuple

from phasebit import measure, toolchain
from phasebit.chapters.hopper_ring.variants import (
    BOXES,
    LADDER,
    RING,
    STAMPED,
    VENDOR,
    Edits,
    source,
)
from phasebit.edits import replace_each
from phasebit.instruments import beside_torch, clocks
from phasebit.instruments.beside_torch import Launch, Matrices

NAME = "hopper_ring_controls"
SIZE, SIZES = 8192, (8192, 4096, 2048)
"""M, N and K: of the loops, and of the stores."""
PERSISTENT = LADDER["persistent blocks"]
_ROUNDS, _REST, _WARM, _EACH = 12, 0.01, 5, 5
_BLOCKS = 1 << 12

# By the clock of a block's multiprocessor: which one it is; when the block has begun; for each
# consumer when its first slot is full, when its loop has ended and when it has stored; and the
# cycles of the producer's loop.
_COLUMNS = 9
_READ = f"""__device__ long long block_clocks[{_BLOCKS}][{_COLUMNS}];
__device__ void look(int column, long long value) {{
    block_clocks[blockIdx.y * gridDim.x + blockIdx.x][column] = value;
}}
__device__ unsigned unit() {{
    unsigned id;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
    return id;
}}
extern "C" void read_clocks(long long* clocks) {{
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpyFromSymbol(clocks, block_clocks, sizeof block_clocks));
}}

"""
_CLOCKS: Edits = (
    ("// The producer, one thread", _READ + "// The producer, one thread"),
    ("                        int tiles) {\n",
     "                        int tiles) {\n    const long long begin = clock64();\n"),
    ("B, tile * BK, col, &ring.full[s]);\n    }\n",
     "B, tile * BK, col, &ring.full[s]);\n    }\n    look(8, clock64() - begin);\n"),
    ("int group, int tiles) {\n    int s = 0;\n    bool phase = false;\n",
     "int group, int tiles) {\n    int s = 0;\n    bool phase = false;\n"
     "    ptx::mbarrier_wait(&ring.full[0], false);\n    const long long begin = clock64();\n"),
    ("ptx::mbarrier_arrive(&ring.empty[s]);  // the warp has read it\n    }\n",
     "ptx::mbarrier_arrive(&ring.empty[s]);  // the warp has read it\n    }\n"
     "    const long long end = clock64();\n"
     "    if (threadIdx.x % 128 == 0) look(2 + group, begin), look(4 + group, end);\n"),
    ("    Ring& ring = *reinterpret_cast<Ring*>(memory);\n",
     "    Ring& ring = *reinterpret_cast<Ring*>(memory);\n"
     "    if (threadIdx.x == 0) look(0, unit()), look(1, clock64());\n"),
    ("        store(sums, C, M, N, row + group * 64, col);\n",
     "        store(sums, C, M, N, row + group * 64, col);\n"
     "        if (threadIdx.x % 128 == 0) look(6 + group, clock64());\n"),
)  # fmt: skip
_EXPECT = "        ptx::mbarrier_arrive_expect_tx(&ring.full[s], sizeof(Stage));\n"
_LOAD = "        ptx::cp_async_bulk_tensor_load(ring."
_LOAD_A = f"{_LOAD}stage[s].a, A, tile * BK, row, &ring.full[s]);\n"
_LOAD_B = f"{_LOAD}stage[s].b, B, tile * BK, col, &ring.full[s]);\n"
_WAIT_EMPTY = "        ptx::mbarrier_wait(&ring.empty[s], !phase);\n"
_WAIT_FULL = "        ptx::mbarrier_wait(&ring.full[s], phase);\n"
_ARRIVE = ("        if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&ring.empty[s]);"
           "  // the warp has read it\n")  # fmt: skip
_THREE: Edits = (("SLOTS = 4;", "SLOTS = 3;"),)


def _later(begun: str, kept: str = "") -> str:
    """The first round of the ring as it is, and from then on ``begun``, then ``kept``."""
    return f"        if (tile >= SLOTS) {{\n{begun}            continue;\n        }}\n{kept}"


_NOTHING: Edits = (
    (_EXPECT, _later("            ptx::mbarrier_arrive(&ring.full[s]);\n", _EXPECT)),
)
_NO_HAND_OVER: Edits = (
    *_THREE,
    (_WAIT_FULL, "        if (tile < SLOTS) ptx::mbarrier_wait(&ring.full[s], phase);\n"),
    (_ARRIVE, ""),
)
_ENDS: Edits = (
    ("tile < tiles; ++tile, advance<SLOTS>(s, phase)) {\n" + _WAIT_EMPTY,
     "tile < tiles && tile < SLOTS; ++tile, advance<SLOTS>(s, phase)) {\n"),
)  # fmt: skip


_ONE_UNDER_WAY: Edits = (("ptx::wgmma_wait_group<0>();",
                          "ptx::wgmma_wait_group<1>();"),
                         ("    const long long end", "    ptx::wgmma_wait_group<0>();\n"
                          "    const long long end"))  # fmt: skip
_INCLUDE: Edits = (('#include "hopper_ring/product.cuh"\n',
                    '#include "stamps.cuh"\n#include "hopper_ring/product.cuh"\n'),)  # fmt: skip
_STAMPS = (*_INCLUDE, *STAMPED[RING][:4])
"""The page's clock stamps in every step, of block 0; with the rest a warp that only looks."""

LOOPS: dict[str, Edits] = {
    "as it is": (),
    "three slots": _THREE,
    "the same tiles": (("A, tile * BK,", "A, tile % SLOTS * BK,"),
                       ("B, tile * BK,", "B, tile % SLOTS * BK,")),
    "nothing copied": _NOTHING,
    "A alone copied": ((_EXPECT, _later(
        "            ptx::mbarrier_arrive_expect_tx(&ring.full[s], sizeof(Stage::a));\n    "
        + _LOAD_A, _EXPECT)),),
    "B alone copied": ((_EXPECT, _later(
        "            ptx::mbarrier_arrive_expect_tx(&ring.full[s], sizeof(Stage::b));\n    "
        + _LOAD_B, _EXPECT)),),
    "no hand-over, nothing copied": (*_NO_HAND_OVER, *_ENDS),
    "no hand-over, one under way": (*_NO_HAND_OVER, *_ENDS, *_ONE_UNDER_WAY),
    "stamps in every step": _STAMPS,
    "stamps, and a warp that looks": (*_STAMPS, *STAMPED[RING][6:]),
}  # fmt: skip
"""The ring -> what is replaced by what in it. *No hand-over*: once the first slots are full, the
consumers neither wait nor arrive."""

_PACK = """__device__ unsigned pack(float low, float high) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const unsigned&>(both);
}

"""
_SECTORS = """// The same in whole sectors: lanes of neighbouring rows exchange, and a store of
// a warp writes 32 bytes in each of four rows.
__device__ void store_sectors(const Sums& sums, bf16* C, int M, int N, int row, int col) {
    const int t = threadIdx.x % 128, odd = t / 4 % 2;
#pragma unroll
    for (int i = 0; i < BN / 2; i += 8)
        for (int half = 0; half < 2; ++half) {
            const float* d = sums + i + 2 * half;
            const unsigned left = pack(d[0], d[1]), right = pack(d[4], d[5]);
            const unsigned got = __shfl_xor_sync(~0u, odd ? left : right, 4);
            const int r = row + 16 * (t / 32) + t % 32 / 8 * 2 + 8 * half;
            const int c = col + 2 * i + 8 * odd + 2 * (t % 4);
            if (r < M && c < N)
                *reinterpret_cast<unsigned*>(C + size_t(r) * N + c) = odd ? got : left;
            if (r + 1 < M && c < N)
                *reinterpret_cast<unsigned*>(C + size_t(r + 1) * N + c) = odd ? right : got;
        }
}

"""
_WIDE = """// The same, 16 bytes a lane: the four lanes of a row exchange, and a store of a
// warp writes 64 bytes in each of eight rows.
__device__ void store_sectors(const Sums& sums, bf16* C, int M, int N, int row, int col) {
    const int t = threadIdx.x % 128;
#pragma unroll
    for (int i = 0; i < BN / 2; i += 16)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            unsigned w[4];
#pragma unroll
            for (int j = 0; j < 4; ++j)
                w[j] = pack(sums[i + 4 * j + 2 * half], sums[i + 4 * j + 2 * half + 1]);
#pragma unroll
            for (int s = 1; s < 4; s *= 2)
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    if (!(j & s)) {
                        const unsigned got = __shfl_xor_sync(~0u, t & s ? w[j] : w[j | s], s);
                        w[j] = t & s ? got : w[j], w[j | s] = t & s ? w[j | s] : got;
                    }
            const int r = row + 16 * (t / 32) + t % 32 / 4 + 8 * half;
            const int c = col + 2 * i + 8 * (t % 4);
            if (r < M && c < N)
                *reinterpret_cast<uint4*>(C + size_t(r) * N + c) = {w[0], w[1], w[2], w[3]};
        }
}

"""


def _fragments(way: str) -> Edits:
    consumer = "// A consumer, one warp group: 64 rows"
    return (
        (consumer, _PACK + way + consumer),
        ("        store(sums, C, tiles.M", "        store_sectors(sums, C, tiles.M"),
    )


_BY_THE_WARP: Edits = (
    ("Boxes& boxes, const CUtensorMap& C, int row, int col) {",
     "Boxes& boxes, bf16* C, int M, int N, int row,\n                      int col) {"),
    ("        if (lane == 0) ptx::cp_async_bulk_wait_group_read<1>();"
     "  // the engine has read this box\n        __syncwarp();\n", ""),
    ("        ptx::fence_proxy_async_shared();  // the engine sees what this lane has stored,\n"
     "        __syncwarp();                     // and the others\n"
     "        if (lane == 0) {\n"
     "            ptx::cp_async_bulk_tensor_store(C, col + part * BOX_COLS, row, box);\n"
     "            ptx::cp_async_bulk_commit_group();\n"
     "        }\n",
     "        __syncwarp();  // the lanes see what the others have stored\n"
     "#pragma unroll\n"
     "        for (int i = 0; i < BOX_ROWS; i += 4) {  // four rows of the box at a time\n"
     "            const int r = i + lane / 8, c = col + part * BOX_COLS + lane % 8 * 8;\n"
     "            if (row + r < M && c < N)\n"
     "                *reinterpret_cast<uint4*>(C + size_t(row + r) * N + c) =\n"
     "                    *reinterpret_cast<const uint4*>(box + r * BOX_COLS\n"
     "                                                    + (lane % 8 ^ r % 8) * 8);\n"
     "        }\n"),
    ("consume(Ring& ring, const CUtensorMap& C, Tiles", "consume(Ring& ring, bf16* C, Tiles"),
    ("ring.boxes[warp], C, row * BM", "ring.boxes[warp], C, tiles.M, tiles.N, row * BM"),
    ("    ptx::cp_async_bulk_wait_group_read<0>();"
     "  // shared memory must stay until it has been read\n", ""),
    ("const __grid_constant__ CUtensorMap C,  // (M, N) in boxes of BOX_ROWS × BOX_COLS",
     "bf16* C,                                // (M, N)"),
    ("    const CUtensorMap C =\n"
     "        tensor_map_2d(p.C, p.M, p.N, BOX_ROWS, BOX_COLS, CU_TENSOR_MAP_SWIZZLE_128B);\n", ""),
    ("map_b(p), C, tiles)", "map_b(p), p.C, tiles)"),
)  # fmt: skip


class Store(NamedTuple):
    """A rung and what is otherwise in it."""

    kernel: str
    edits: Edits = ()


STORES = {
    "fragments": Store(PERSISTENT),
    "fragments, whole sectors": Store(PERSISTENT, _fragments(_SECTORS)),
    "fragments, 16 bytes a lane": Store(PERSISTENT, _fragments(_WIDE)),
    "boxes, stored by the warp": Store(BOXES, _BY_THE_WARP),
    "boxes": Store(BOXES),
}
"""How results leave the registers -> a rung, and what is otherwise in it."""


def text(name: str) -> str:
    """A contender of either question; raises ``ValueError`` where an edit does not fit."""
    if name in STORES:
        kernel, edits = STORES[name]
        return replace_each(source(kernel), edits, f"{kernel}.cu")
    return replace_each(source(RING), (*_CLOCKS, *LOOPS[name]), f"{RING}.cu")


def build(name: str) -> toolchain.Build:
    """A contender as a library."""
    return toolchain.build(text(name), name=NAME, target="sm_90a", library=True)


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, or when a kernel fails or is
    wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here(NAME)
    loaded = clocks.libraries(build, (*LOOPS, *STORES))
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            **clocks.protocol(_ROUNDS, _REST, warm=_WARM, each=_EACH),
            "inputs": "stores: normal random bf16 numbers, A (M, K) and B (N, K) row-major, f32 "
            "sums, bf16 results; loops: the same, with the first 64 columns of A and of B again "
            "and again",
            "check": "before timing, 128 rows by 128 columns of the result against a product in "
            "double, within (K + K/8 + 4)·2⁻²³·Σ|a·b| + 2⁻⁸·|c|",
            "vendor": f"cuBLAS through torch {torch.__version__}, the same operands, by turns",
            "loops": "cycles of the multiprocessor's clock, in 5 launches, each after 5 that do "
            "not count; loop: from the first full slot to the end of a consumer's loop over 128 "
            "steps, the later of the two consumers; producer: of all of its loop; before: from "
            "where a block begins to its first full slot; store: from the end of the later loop "
            "to where both consumers have asked for their stores; gap: from there to where the "
            "next block on the multiprocessor begins; each the quartiles of all 2,048 blocks; "
            "first: the loop of block 0; units: from the begin of a multiprocessor's first block "
            "to the end of its last, the least, the median and the most",
        },
        "multiprocessors": torch.cuda.get_device_properties(0).multi_processor_count,
        "steps": SIZE // 64,
        "loops": _loops(torch, {name: loaded[name] for name in LOOPS}),
        "stores": {str(size): _stores(torch, loaded, size) for size in SIZES},
    }


def _matrices(torch: Any, size: int, again: bool = False) -> Matrices:
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    if again:
        a, b = (each[:, :64].repeat(1, size // 64).contiguous() for each in (a, b))
    return a, b, torch.empty_like(a)


def _launches(torch: Any, loaded: dict[str, ctypes.CDLL], matrices: Matrices) -> dict[str, Launch]:
    """Each contender, found right before anything is timed; raises CudaError where one is wrong."""
    a, b, c = matrices
    size = len(a)
    pointers = beside_torch.pointers(matrices)
    units = torch.cuda.get_device_properties(0).multi_processor_count
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

    def ours(library: ctypes.CDLL) -> Launch:
        return lambda: library.product(*pointers, size, size, size, units, stream)

    launches = {name: ours(library) for name, library in loaded.items()}
    for name, launch in launches.items():
        beside_torch.check(
            torch, name, launch, (a, b.t(), c), beside_torch.cut_sums(size), stored=2.0**-8
        )
    return launches | {VENDOR: lambda: torch.mm(a, b.t(), out=c)}


def _stores(torch: Any, loaded: dict[str, ctypes.CDLL], size: int) -> dict[str, Any]:
    launches = _launches(torch, {name: loaded[name] for name in STORES}, _matrices(torch, size))
    found = clocks.times(torch, launches, _ROUNDS, _REST, warm=_WARM, each=_EACH)
    for name, seen in found.items():
        print(f"⏱ {size}: {name}, {_cycles(seen):,.0f} cycles")
    return found


def _cycles(seen: dict[str, list[float]]) -> float:
    return statistics.median(seen["times_us"]) * statistics.median(seen["mhz"])


def _loops(torch: Any, loaded: dict[str, ctypes.CDLL]) -> dict[str, Any]:
    launches = _launches(torch, loaded, _matrices(torch, SIZE, again=True))
    found: dict[str, Any] = clocks.times(torch, launches, _ROUNDS, _REST, warm=_WARM, each=_EACH)
    for name, library in loaded.items():
        parts: list[dict[str, Any]] = []
        for _ in range(5):
            for _ in range(_WARM + 1):
                launches[name]()
            clocks_ = ((ctypes.c_longlong * _COLUMNS) * _BLOCKS)()
            library.read_clocks(clocks_)
            parts.append(account([list(row) for row in clocks_[: SIZE // 128 * (SIZE // 256)]]))
        found[name] |= {f"{part}_cycles": [each[part] for each in parts] for part in parts[0]}
        middle = statistics.median(each["loop"][1] for each in parts)
        print(f"⏱ {name}: {middle / (SIZE // 64):,.1f} cycles a step, of block 0 "
              f"{statistics.median(each['first'] for each in parts) / (SIZE // 64):,.1f}, "
              f"{_cycles(found[name]):,.0f} a launch; last: {parts[-1]}")  # fmt: skip
    return found


def account(blocks: list[list[int]]) -> dict[str, Any]:
    """Where the cycles of the multiprocessors went: ``loops`` of the protocol says what is what.

    >>> one = [7, 100, 150, 160, 1150, 1170, 1200, 1210, 900]
    >>> two = [7, 1300, 1340, 1350, 2350, 2370, 2400, 2420, 900]
    >>> two_units = account([one, two, [8, *one[1:]]])
    >>> two_units["loop"], two_units["before"], two_units["store"], two_units["gap"]
    ([1010.0, 1010.0, 1020.0], [40.0, 50.0, 50.0], [40.0, 40.0, 50.0], [90, 90, 90])
    >>> two_units["first"], two_units["units"]
    (1010, [1110, 1715.0, 2320])
    """
    units: dict[int, list[list[int]]] = {}
    for block in blocks:
        units.setdefault(block[0], []).append(block)
    gaps, spans = [], []
    for mine in units.values():
        mine.sort(key=lambda block: block[1])
        gaps += [after[1] - max(before[6:8]) for before, after in pairwise(mine)]
        spans.append(max(mine[-1][6:8]) - mine[0][1])
    loops = [max(block[4] - block[2], block[5] - block[3]) for block in blocks]
    return {
        "loop": statistics.quantiles(loops, n=4),
        "producer": statistics.quantiles([block[8] for block in blocks], n=4),
        "before": statistics.quantiles([min(block[2:4]) - block[1] for block in blocks], n=4),
        "store": statistics.quantiles([max(block[6:8]) - max(block[4:6]) for block in blocks], n=4),
        "gap": statistics.quantiles(gaps, n=4) if len(gaps) > 1 else gaps * 3,
        "first": loops[0],
        "units": [min(spans), statistics.median(spans), max(spans)],
    }
