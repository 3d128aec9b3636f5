"""The ladder's kernels, what is tried beside them, and copies of them with clock stamps: texts."""

from __future__ import annotations

from phasebit import files
from phasebit.edits import replace_each

LADDER = {
    "one stage": "a_one_stage",
    "a ring of 4 slots": "b_ring",
    "persistent blocks": "c_persistent",
    "boxes of C": "d_boxes_of_c",
    "pairs of blocks": "e_pairs",
}
"""Rung -> its file."""

VENDOR = "cuBLAS"
SIZES = (8192, 4096, 2048)

RING, BOXES, PAIRS = LADDER["a ring of 4 slots"], LADDER["boxes of C"], LADDER["pairs of blocks"]

Edits = tuple[tuple[str, str], ...]

_ONE_SET: Edits = (
    ("        ptx::setmaxnreg_dec<40>();  // registers for the consumers' sums\n", ""),
    ("        ptx::setmaxnreg_inc<232>();\n", ""),
)

_ONE_UNDER_WAY: Edits = (
    ("ptx::wgmma_wait_group<0>();", "ptx::wgmma_wait_group<1>();"),
    (
        "if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&ring.empty[s]);"
        "  // the warp has read it\n    }\n",
        "if (tile > 0 && threadIdx.x % 32 == 0)\n"
        "            ptx::mbarrier_arrive(&ring.empty[(s + SLOTS - 1) % SLOTS]);\n"
        "    }\n    ptx::wgmma_wait_group<0>();\n",
    ),
)

VARIANTS: dict[str, tuple[str, Edits]] = {
    **{f"slots {n}": (RING, (("SLOTS = 4;", f"SLOTS = {n};"),)) for n in (1, 2, 3, 4)},
    "no setmaxnreg": (RING, _ONE_SET),
    "one producer warp": (RING, (*_ONE_SET, ("CONSUMERS + 128", "CONSUMERS + 32"))),
    "every thread arrives": (
        RING,
        (("CONSUMERS / 32", "CONSUMERS"), ("if (threadIdx.x % 32 == 0) ptx", "ptx")),
    ),
    "one under way": (RING, _ONE_UNDER_WAY),
    "boxes in rows": (
        BOXES,
        (
            ("((2 * j + lane / 16) ^ lane % 8)", "(2 * j + lane / 16)"),
            ("BOX_COLS, CU_TENSOR_MAP_SWIZZLE_128B", "BOX_COLS, CU_TENSOR_MAP_SWIZZLE_NONE"),
        ),
    ),
    "released to the cluster": (
        PAIRS, (("mbarrier_arrive_at_after_reads(", "mbarrier_arrive_at("),),
    ),
}  # fmt: skip
"""What is tried beside the ladder -> the file, and what is replaced by what in it."""

# Clock stamps: the producer's thread, a thread of each consumer, and one that only looks.
PLACES = ("asks", "may write", "has asked", "may read", "has read", "may read", "has read", "full")
_HERE = "if (blockIdx.x + blockIdx.y == 0) stamp"
_WATCH = """// A warp that only looks: when is a slot full?
__device__ void watch(Ring& ring, int tiles) {
    int s = 0;
    bool phase = false;
    for (int tile = 0; tile < tiles; ++tile, advance<SLOTS>(s, phase)) {
        ptx::mbarrier_wait(&ring.full[s], phase);
        if (blockIdx.x + blockIdx.y == 0) stamp(CONSUMERS + 32, 7, tile);
    }
}

__global__ void"""
STAMPED: dict[str, Edits] = {
    "a_one_stage": (
        (
            "        if (threadIdx.x == 0) {\n            ptx::mbarrier_arrive_expect_tx",
            f"        {_HERE}(0, 1, tile);\n"
            "        if (threadIdx.x == 0) {\n            ptx::mbarrier_arrive_expect_tx",
        ),
        (
            "        ptx::wgmma_fence();\n",
            f"        {_HERE}(0, 3, tile); {_HERE}(128, 5, tile);\n        ptx::wgmma_fence();\n",
        ),
        (
            "        __syncthreads();  // all warps have read the stage\n",
            f"        {_HERE}(0, 4, tile); {_HERE}(128, 6, tile);\n"
            "        __syncthreads();  // all warps have read the stage\n",
        ),
        ("    Sums sums;\n", "    Sums sums;\n    BEGIN\n"),
        ("    store(sums, C, M, N, row +", "    END\n    store(sums, C, M, N, row +"),
    ),
    "b_ring": (
        (
            "        ptx::mbarrier_wait(&ring.empty[s], !phase);\n",
            f"        {_HERE}(CONSUMERS, 0, tile);\n"
            "        ptx::mbarrier_wait(&ring.empty[s], !phase);\n"
            f"        {_HERE}(CONSUMERS, 1, tile);\n",
        ),
        (
            "B, tile * BK, col, &ring.full[s]);\n",
            f"B, tile * BK, col, &ring.full[s]);\n        {_HERE}(CONSUMERS, 2, tile);\n",
        ),
        (
            "        ptx::wgmma_fence();\n",
            f"        {_HERE}(0, 3, tile); {_HERE}(128, 5, tile);\n        ptx::wgmma_fence();\n",
        ),
        (
            "        if (threadIdx.x % 32 == 0) ptx",
            f"        {_HERE}(0, 4, tile); {_HERE}(128, 6, tile);\n"
            "        if (threadIdx.x % 32 == 0) ptx",
        ),
        ("        Sums sums;\n", "        Sums sums;\n        BEGIN\n"),
        ("        store(sums, C, M,", "        END\n        store(sums, C, M,"),
        ("__global__ void", _WATCH),
        (
            "produce(ring, A, B, row, col, tiles);\n",
            "produce(ring, A, B, row, col, tiles);\n"
            "        if (threadIdx.x / 32 == CONSUMERS / 32 + 1) watch(ring, tiles);\n",
        ),
    ),
}
"""Kernel -> what stands in its file, and what stands there in the copy with stamps."""

_ENDS = ("BEGIN", "END")
_READ = """
extern "C" void read_stamps(long long* places, long long* span) {
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpyFromSymbol(places, stamps, sizeof stamps));
    CHECK(cudaMemcpyFromSymbol(span, stamp_span, sizeof stamp_span));
}
"""


BOUNDS = {
    "no bound": "",
    "__launch_bounds__(THREADS)": "__launch_bounds__(THREADS)",
    "__launch_bounds__(THREADS, 1)": "__launch_bounds__(THREADS, 1)",
}
"""What the ring says of its launch -> in the words of the kernel."""


def bounded(bound: str) -> str:
    """The ring's text with another launch bound."""
    return _edited(RING, (("__launch_bounds__(THREADS, 1)", BOUNDS[bound]),))


def variant(name: str) -> str:
    """The text of a variant; raises ``ValueError`` when its file does not say what is changed."""
    kernel, edits = VARIANTS[name]
    return _edited(kernel, edits)


def stamped(kernel: str) -> str:
    """A kernel's text with stamps in it; raises ``ValueError`` as :func:`variant` does."""
    text = _edited(kernel, STAMPED[kernel])
    for end, word in enumerate(_ENDS):
        here = f"if (threadIdx.x + blockIdx.x + blockIdx.y == 0) stamp_both({end});"
        text = text.replace(f" {word}\n", f" {here}\n")
    return '#include "stamps.cuh"\n' + text + _READ


def source(kernel: str) -> str:
    """The text of a kernel of the chapter."""
    return files.kernel(f"hopper_ring/{kernel}")


def _edited(kernel: str, edits: Edits) -> str:
    return replace_each(source(kernel), edits, f"{kernel}.cu")
