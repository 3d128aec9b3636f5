"""Few rows of A, many weights, flushed: how long does it take to read the weights alone?

The weights are read in the order of the plan, and in others: in boxes of more bytes of a row, as
bytes that lie in a row, by turns of all blocks, by loads, by two blocks a multiprocessor. Beside
them stand the whole kernel, what an empty launch takes, and changes of the whole kernel.
"""

from __future__ import annotations

import ctypes
import statistics
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from phasebit import measure, toolchain
from phasebit.chapters.every_shape import bench, few_rows, floor_texts, plans, tries
from phasebit.chapters.every_shape.floor_texts import HALF, NOTHING, Way
from phasebit.chapters.every_shape.plans import Plan
from phasebit.chapters.every_shape.shapes import Shape
from phasebit.instruments import beside_torch
from phasebit.instruments.beside_torch import Launch

NAME = "every_shape_floor"
WHOLE, NO_PRODUCTS, VENDOR = few_rows.WHOLE, few_rows.NO_PRODUCTS, bench.VENDOR
TWO_BLOCKS = "whole, two blocks a multiprocessor"
LINES = {128: "whole, whole lines of 128 bytes asked for",
         256: "whole, whole lines of 256 bytes asked for"}  # fmt: skip
WIDE, WIDE_TWO = "whole, boxes of 256 bytes", "whole, boxes of 256 bytes, two blocks"
MORE_BLOCKS = "whole, 112 rows of weights in a block"
_NARROW = {
    Shape(16, 14336, 4096): Plan(plans.FEW, 1, 16, 10),
    Shape(64, 10240, 8192): Plan(plans.WEIGHTS, 1, 48, 7),
    Shape(128, 14336, 4096): Plan(plans.WEIGHTS, 2, 64, 4),
}
"""Shape -> a plan with tiles of fewer rows of weights, of which a multiprocessor holds two."""

STEADY = Shape(16, 8 * 14336, 4096)
"""So many weights that beginning and end of a launch matter little."""
EXPECTED = {
    floor_texts.PLANS_BOXES: "as long as without products, within 2 per cent",
    "boxes of 256 bytes, all rows": "up to 3 per cent faster: more of one page of memory at a time",
    floor_texts.ASKED.format(256): "the same: all lines come in the end",
    floor_texts.BEST: "the fastest; within 5 per cent of the plan's boxes",
    "loads, blocks stay": "the same as the best by copies",
    WIDE: "as much faster as its boxes alone",
}
"""Written before the first run."""


def products(shape: Shape) -> dict[str, str]:
    """What multiplies, or but for the products would: name -> text."""
    plan = few_rows.PLANS[shape]
    found = {
        WHOLE: plan.text,
        NO_PRODUCTS: tries.part(NO_PRODUCTS, plan),
        LINES[128]: floor_texts.promoted(plan, floor_texts.PROMOTED[1]),
        LINES[256]: floor_texts.promoted(plan, floor_texts.PROMOTED[2]),
        TWO_BLOCKS: _NARROW[shape].text,
    }
    if plan.swapped:
        found[MORE_BLOCKS] = floor_texts.fewer_rows(plan, 112)
        found[WIDE] = floor_texts.wide(4, 6)
        found[WIDE_TWO] = floor_texts.wide(2, 5)
    return found


def reader() -> toolchain.Build:
    """The kernels that only read, as a library."""
    return toolchain.build(floor_texts.READ, name=NAME, target="sm_90a", library=True)


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, or when a kernel fails or is
    wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here(NAME)
    texts = {text for shape in few_rows.PLANS for text in products(shape).values()}
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(reader)
        loaded = bench.loaded(texts)
        library = ctypes.CDLL(str(reading.result().program))
    by_turns = _Floor(torch, loaded, library)
    found = [by_turns.floor(shape, plan) for shape, plan in few_rows.PLANS.items()]
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            **bench.protocol(torch),
            "reads": "kernels that only read the weights (evict_first, launches that may begin "
            "early), into a ring of slots by one thread of a block; by turns: piece p of all goes "
            "to block p mod blocks, as many as multiprocessors; each block its own: pieces that "
            "are neighbours; loads: ld.global.nc of 16 bytes, eight under way in a thread",
            "nothing": "the same kernel, and no piece",
            "check": "of what multiplies as of every_shape, but for what has no products; of what "
            "reads, in a build that adds up all 32-bit words that came, the sum modulo 2³² against "
            "torch's, before timing; what is timed adds up nothing (loads: into a register)",
            **{f"expected of {what}": words for what, words in EXPECTED.items()},
        },
        "shapes": found,
        "steady": by_turns.steady(STEADY),
    }


class _Floor(bench.Bench):
    def __init__(self, torch: Any, libraries: dict[str, ctypes.CDLL], reading: ctypes.CDLL) -> None:
        super().__init__(torch, libraries)
        self._reading = reading
        self._sum = torch.zeros(1, dtype=torch.int32, device="cuda")

    def floor(self, shape: Shape, plan: Plan) -> dict[str, Any]:
        """All ways to read the weights, and what multiplies, by turns."""
        torch, matrices = self._torch, self._matrices(shape)
        a, b, c = matrices
        launches: dict[str, Launch] = {}
        for name, make in self._plans(shape, products(shape)).items():
            launches[name] = make(a, b, c)
            if name != NO_PRODUCTS:
                self._check(shape, name, launches[name], matrices)
        found = floor_texts.ways(shape, plan, self._units)
        launches |= self._readers(b, found)
        launches[VENDOR] = lambda: torch.mm(a, b.t(), out=c)
        return self._timed(shape, launches) | {
            "plan": str(plan), "ways": {name: way.numbers for name, way in found.items()},
        }  # fmt: skip

    def steady(self, shape: Shape) -> dict[str, Any]:
        """Many more weights, in the ways that might be the fastest."""
        plan = few_rows.PLANS[next(iter(few_rows.PLANS))]
        _, b, _ = self._matrices(shape)
        found = floor_texts.ways(shape, plan, self._units)
        kept = (floor_texts.PLANS_BOXES, "boxes of 512 bytes, by turns", floor_texts.BEST,
                "16 KB by turns, two blocks", "loads, blocks stay")  # fmt: skip
        return self._timed(shape, self._readers(b, {name: found[name] for name in kept}))

    def _timed(self, shape: Shape, launches: dict[str, Launch]) -> dict[str, Any]:
        # As many rounds, turns and launches as of every_shape.
        times = self._by_turns(shape, launches, self._graphs(shape, launches), bench._ROUNDS)
        said = sorted((statistics.median(each["flushed_us"]), name)
                      for name, each in times.items())  # fmt: skip
        for us, name in said:
            print(f"⏱ {shape}: {us:.2f} µs flushed, {name}", flush=True)
        return {"shape": list(shape), "bytes": 2 * shape.n * shape.k, "times": times}

    def _readers(self, weights: Any, ways: dict[str, Way]) -> dict[str, Launch]:
        found: dict[str, Launch] = {}
        for name, way in ways.items():
            read = partial(self._read, weights, (ctypes.c_int * 10)(*way.numbers))
            self._sum.zero_()
            read(1)
            right = self._words(weights, {HALF: 2, NOTHING: 0}.get(name, 1))
            seen = int(self._sum.item()) & 0xFFFFFFFF
            if seen != right:
                raise toolchain.CudaError(
                    f"{name} does not read what it should of {tuple(weights.shape)}: its words "
                    f"add up to {seen}, not to {right}"
                )
            found[name] = partial(read, 0)
        return found

    def _read(self, weights: Any, way: Any, summed: int) -> None:
        matrix, total = beside_torch.pointers((weights, self._sum))
        self._reading.read_all(matrix, *weights.shape, way, summed, total, self._stream())

    def _words(self, weights: Any, part: int) -> int:
        """The sum of a part's 32-bit words modulo 2³²: of 1/2 or all of them, or of none."""
        if part == 0:
            return 0
        words = weights.view(self._torch.int32).view(-1)[: weights.numel() // 2 // part]
        return int(words.sum(dtype=self._torch.int64).item()) & 0xFFFFFFFF
