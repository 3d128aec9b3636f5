"""Few rows of A, many weights: what binds, and what might have made it faster.

The plans that were fastest, without their products: what remains is how long the copies take. And
two changes: the bytes beyond the ring asked for in L2 at once, and A fetched once for several
blocks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from phasebit import measure
from phasebit.chapters.every_shape import bench, plans, tries
from phasebit.chapters.every_shape.plans import Plan
from phasebit.chapters.every_shape.shapes import Shape
from phasebit.edits import replace_each
from phasebit.instruments import beside_torch

NAME = "every_shape_few_rows"
VENDOR = bench.VENDOR
WHOLE, NO_PRODUCTS, AHEAD = "whole", "no products", "all panels asked for at once"
SHARED = {f"A for {blocks} blocks": blocks for blocks in (2, 4)}

PLANS = {
    Shape(16, 14336, 4096): Plan(plans.FEW, 2, 16, 6),
    Shape(64, 10240, 8192): Plan(plans.WEIGHTS, 1, 80, 12),
    Shape(128, 14336, 4096): Plan(plans.WEIGHTS, 2, 112, 7),
}
"""Shape -> a plan that was the fastest there, or level with it."""

_FIRST_SLOTS = "        produce(ring, A, B, row, col, 0, filled);\n"
_PREFETCH = """\
// cp.async.bulk.prefetch.tensor, 9.7.9.27.1.3: the box of a tensor at column x and row y to the L2
// cache. sm_90.
__device__ inline void prefetch_box(const CUtensorMap& map, int x, int y) {
    asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];"
                 :: "l"(&map), "r"(x), "r"(y) : "memory");
}

struct Ring {"""
_ASK_AHEAD = f"""{_FIRST_SLOTS}\
        const int columns = gridDim.x / rows;  // each box by one of the blocks that want it
        for (int k = SLOTS + blockIdx.x / rows; k < steps; k += columns)
            prefetch_box(A, k * BK, row);
        for (int k = SLOTS + blockIdx.x % rows; k < steps; k += rows) prefetch_box(B, k * BK, col);
"""

_MULTICAST = """\
constexpr int SHARERS = {blocks};  // blocks of a cluster, with neighbouring columns

// cp.async.bulk.tensor.2d with .multicast::cluster and .L2::cache_hint, 9.7.9.27.1.2. sm_90.
__device__ inline void load_for_all(void* shared, const CUtensorMap& map, int x, int y,
                                    unsigned long long* barrier, unsigned long long policy) {{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster.L2::cache_hint [%0], [%1, {{%2, %3}}], [%4], %5, %6;"
                 :: "r"(ptx::shared_address(shared)), "l"(&map), "r"(x), "r"(y),
                    "r"(ptx::shared_address(barrier)), "h"((unsigned short)((1 << SHARERS) - 1)),
                    "l"(policy) : "memory");
}}

struct Ring {{"""
_MEET = "ptx::cluster_arrive();\n{0}ptx::cluster_wait();\n"


def ahead(plan: Plan) -> str:
    """The plan's text; once the ring is full, L2 is asked for all that is still to come."""
    edits = (("struct Ring {", _PREFETCH), (_FIRST_SLOTS, _ASK_AHEAD))
    return replace_each(plan.text, edits, plan.kernel)


def shared(plan: Plan, blocks: int) -> str:
    """The plan's text; each of so many blocks fetches a part of A for all of them.

    Their columns are neighbours, so the columns of tiles must be a multiple of ``blocks``.
    """
    here = "blockIdx.x % SHARERS * (BM / SHARERS)"
    edits = (
        ("struct Ring {", _MULTICAST.format(blocks=blocks)),
        ("ptx::load_box(ring.stage[s].a, A, step * BK, row, &ring.full[s], last);",
         f"load_for_all(ring.stage[s].a + {here} * BK, A, step * BK, row + {here},\n"
         "                     &ring.full[s], last);"),
        ("if (step > 0 && threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&ring.empty[before]);",
         "if (step > 0 && threadIdx.x % 32 < SHARERS)  // to each block that writes into this one\n"
         "            ptx::mbarrier_arrive_at_after_reads(&ring.empty[before], threadIdx.x % 32);"),
        ("const int row = blockIdx.x % rows * BM, col = blockIdx.x / rows * BN;",
         "const int columns = gridDim.x / rows;\n"
         "    const int row = blockIdx.x / columns * BM, col = blockIdx.x % columns * BN;"),
        ("ptx::mbarrier_init(&ring.empty[s], CONSUMERS / 32);",
         "ptx::mbarrier_init(&ring.empty[s], CONSUMERS / 32 * SHARERS);"),
        ("        ptx::griddepcontrol_wait();  // the launch before has ended\n"
         f"{_FIRST_SLOTS}    }}\n    __syncthreads();  // the others see the barriers\n",
         f"    }}\n    {_MEET.format('    ')}    if (threadIdx.x == CONSUMERS) {{\n"
         "        ptx::griddepcontrol_wait();  // the launch before has ended\n"
         f"{_FIRST_SLOTS}    }}\n"),
        ("        store(ring, sums, C, M, N, row, col);\n    }\n",
         f"        {_MEET.format('        ')}"
         "        store(ring, sums, C, M, N, row, col);\n    }\n"
         f"    if (threadIdx.x >= CONSUMERS) {{  // a block stays while others write into it\n"
         f"        __syncwarp();\n        {_MEET.format('        ')}    }}\n"),
        ("p.stream, EARLY, 1,", "p.stream, EARLY, SHARERS,"),
        ("operand(p.A, p.M, p.K, BM)", "operand(p.A, p.M, p.K, BM / SHARERS)"),
    )  # fmt: skip
    return replace_each(plan.text, edits, plan.kernel)


class Tried(NamedTuple):
    """A text, and what counts made us expect of its flushed time: written after a first run."""

    text: str
    expected: str
    right: bool = True


def tried(plan: Plan) -> dict[str, Tried]:
    """What is timed of a plan, by name."""
    found = {
        WHOLE: Tried(plan.text, ""),
        NO_PRODUCTS: Tried(tries.part(NO_PRODUCTS, plan), "a little faster", right=False),
        AHEAD: Tried(ahead(plan), "faster: memory is never idle"),
    }
    if plan.kernel == plans.WEIGHTS:
        for name, blocks in SHARED.items():
            found[name] = Tried(shared(plan, blocks), "faster: fewer bytes from L2")
    return found


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, or when a kernel fails or is
    wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here(NAME)
    contenders = {shape: tried(plan) for shape, plan in PLANS.items()}
    texts = (tried.text for each in contenders.values() for tried in each.values())
    by_turns = bench.Bench(torch, bench.loaded(texts))
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            **bench.protocol(torch),
            "check": "as of every_shape, but for what has no products",
        },
        "shapes": [
            {
                **by_turns.changed(
                    shape, {name: each.text for name, each in found.items()},
                    [name for name, each in found.items() if each.right],
                ),
                "plan": str(PLANS[shape]),
            }
            for shape, found in contenders.items()
        ],
    }  # fmt: skip
