"""Checks of *Attention again*."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from phasebit.chapters.attention_again import polynomial, view
from phasebit.chapters.attention_again import tensor_attention as kernels
from phasebit.edits import replace_each, replace_once
from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import Wrong, judged
from phasebit.exercises.written import clean, compiling, fenced, running, written

Shape = kernels.Shape
SCHEDULES = (("eager", 0), ("late", 0), ("random", 1), ("random", 2))
SHAPE = Shape(150, 250, causal=True)
"""Two tiles, two steps: ragged, with a diagonal."""


class Signals(NamedTuple):
    """What the first block of the kernel does, counted in a run."""

    products: int
    """``tcgen05.mma`` instructions."""
    ready: int
    """Arrivals of warps at ``ready`` of tile 1."""
    slot: int
    """How often ``kv_full`` of slot 0 completes a phase."""


def counted(shape: Shape) -> Signals:
    """The same of a run on the emulator."""
    text = kernels.source(kernels.POLYNOMIAL)
    with view.watching() as log:
        kernels.attend(text, kernels.draw(shape), shape.causal, check=False)
    names = kernels.Layout.of(text, shape.depth).barriers

    def how_often(what: str, name: str) -> int:
        return sum(seen.what == what and names.get(seen.where) == name for seen in log)

    products = sum(seen.what == "multiplies" for seen in log)
    return Signals(products, how_often("arrives", "ready 1"), how_often("completes", "kv_full 0"))


@judged
def signals(answer: Callable[[int, int, int], tuple[int, int, int]]) -> str:
    """``answer(queries, keys, depth)``: products, arrivals and phases of the first block."""

    def cases() -> Iterator[Case]:
        for shape in Shape(256, 256), Shape(100, 500), Shape(300, 130, 128):
            yield (shape.queries, shape.keys, shape.depth), tuple(counted(shape))

    def words(queries: int, keys: int, depth: int) -> str:
        return f"{queries} queries, {keys} keys and a head of {depth}"

    return agree(answer, cases(), words, "runs on the emulator")


ARRIVE = """// All lanes of a warp have done their part: one arrival for the 32.
__device__ inline void arrive(unsigned long long* barrier) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(barrier);
}

"""
FIRST = "// K₀, V₀, K₁, V₁, …: one ring.\n"
WHOLE = "        row.sum = row.sum * factor + weights<SHARE>(scores, p.scale, row.reference);\n"
TO_HALVES = (
    (ARRIVE, ""),
    ("    unsigned tensor_memory; ",
     "    unsigned long long half[TILES];         // warps: keys 0 to 63 of P\n"
     "    unsigned tensor_memory; "),
    ("            ptx::mbarrier_init(&s.ready[tile], makers * WARPS);\n",
     "            ptx::mbarrier_init(&s.ready[tile], READY_WARPS);\n"
     "            ptx::mbarrier_init(&s.half[tile], HALF_WARPS);\n"),
    ("float weights(unsigned s, float scale, float reference) {",
     "float weights(unsigned s, float scale, float reference, int begin, int end) {"),
    ("    const float below = -reference * scale;\n#pragma unroll 1\n"
     "    for (int first = 0; first < ROWS; first += PIECE) {",
     "    const float below = -reference * scale;\n#pragma unroll 1\n"
     "    for (int first = begin; first < end; first += PIECE) {"),
    (WHOLE,
     "        row.sum *= factor;\n"
     "        row.sum += weights<SHARE>(scores, p.scale, row.reference, 0, 64);\n"
     "        ptx::tcgen05_fence_before_thread_sync();\n"
     "        arrive(&s.half[tile]);\n"
     "        row.sum += weights<SHARE>(scores, p.scale, row.reference, 64, 128);\n"),
    ("            }\n            arrive(&s.ready[tile]);\n",
     "            }\n            corrected(s, tile);\n"),
    ("            const unsigned o = s.tensor_memory + o_columns(tile);\n"
     "            ptx::mbarrier_wait(&s.ready[tile], step % 2);\n"
     "            ptx::tcgen05_fence_after_thread_sync();\n"
     "            multiply_weights(o, s.tensor_memory + s_columns(tile), s.kv[v], step > 0);\n",
     "            weigh(s, tile, v, step);\n"),
)  # fmt: skip
"""The kernel with the polynomial -> one whose softmax announces P by halves."""


def in_halves(answer: str) -> str:
    """That kernel with the reader's ``corrected`` and ``weigh``."""
    text = replace_each(kernels.source(kernels.POLYNOMIAL), TO_HALVES)
    return replace_once(text, FIRST, f"{ARRIVE}{answer.strip()}\n\n{FIRST}")


@judged
def halves(answer: str) -> str:
    """P in two halves: results, findings, and whether a product begins before P is whole."""
    text = in_halves(written(answer, _HALVES, "functions"))
    _tried(text)
    shape = Shape(256, 256)
    with view.watching() as log, running("eager"):
        kernels.attend(text, kernels.draw(shape), schedule="eager", check=False)
    names = kernels.Layout.of(text, shape.depth).barriers
    multiplier = view.Roles.of(text).names["multiplier"].start
    for tile in range(2):
        output = str(2 * kernels.ROWS + tile * shape.depth)
        did = [names.get(seen.where, "product") for seen in log if seen.warp == multiplier
               and ((seen.what, seen.where) == ("multiplies", output) or
                    (seen.what, names.get(seen.where)) == ("passes", f"ready {tile}"))]  # fmt: skip
        for step, place in enumerate(i for i, each in enumerate(did) if each != "product"):
            if did[:place].count("product") <= 8 * step:
                raise Wrong(f"in step {step} the first product of weights of tile {tile} begins "
                            "when all of P is there")  # fmt: skip
    return f"{len(SCHEDULES)} orders, no finding; products begin with half of P"


_HALVES = (
    "constexpr int HALF_WARPS",
    "__device__ inline void corrected(Shared& s, int tile)",
    "__device__ inline void weigh(Shared& s, int tile, int slot, int step)",
)

SOFTEN = "__device__ void soften(Shared& s, const Problem& p, int tile, int first, int steps)"


def with_soften(answer: str) -> str:
    """The kernel with the polynomial, with the reader's ``soften`` in place of its own."""
    text = kernels.source(kernels.POLYNOMIAL)
    return replace_once(text, kernels.function(text, "soften"), answer.strip())


@judged
def softmax(answer: str) -> str:
    """The softmax groups' role, from a skeleton, in the kernel with the polynomial."""
    text = with_soften(written(answer, [SOFTEN, "template <int SHARE>"], "function"))
    _tried(text)
    shape = Shape(256, 256)  # nothing is masked: what a softmax group stores is P
    with view.watching() as log, running("eager"):
        kernels.attend(text, kernels.draw(shape), schedule="eager", check=False)
    names = kernels.Layout.of(text, shape.depth).barriers
    for tile in range(2):
        at = [(seen.what, seen.at) for seen in log if seen.warp == 4 * tile
              and (seen.what == "stores" or names.get(seen.where) == f"factor_full {tile}")]
        told = [what for what, _ in sorted(at, key=lambda each: each[1])]
        if told[:1] != ["arrives"]:
            raise Wrong("the factor is announced after the first weights are stored: the "
                        "correction could work meanwhile")  # fmt: skip
    return f"{len(SCHEDULES)} orders, no finding; factors come before weights"


FORMATS = {"bf16": (8, 3.3895e38), "f16": (11, 65504.0), "e4m3": (4, 448.0), "e5m2": (3, 57344.0)}
"""Bits of a significand, the hidden one with them, and the largest number."""
PART = 0.1
"""Of a rounding, what the polynomial may be off."""


def for_format(bits: int, largest: float) -> tuple[int, int]:
    """The least degree whose error is a tenth of a rounding, and the highest whole threshold."""
    degree = next(n for n in range(1, 5) if polynomial.remez(n)[1] <= PART * 2.0**-bits)
    return degree, math.floor(math.log2(largest))


@judged
def weights_in(answer: Callable[[int, float], tuple[int, int]]) -> str:
    """``answer(bits, largest)``: degree and threshold for weights in a format."""

    def cases() -> Iterator[Case]:
        for bits, largest in FORMATS.values():
            yield (bits, largest), for_format(bits, largest)
        for _ in range(6):
            bits, top = random.randrange(2, 12), random.randrange(3, 100)
            largest = 2.0**top * random.choice((1.0, 1.25, 1.75))
            yield (bits, largest), for_format(bits, largest)

    def words(bits: int, largest: float) -> str:
        return f"{bits} bits and a largest number of {largest:g}"

    return agree(answer, cases(), words, "formats")


def rescaling(maxima: Sequence[Sequence[float]], threshold: float) -> list[int]:
    """The steps in which a warp rescales, from the largest score of each row in each step."""
    references, steps = list(maxima[0]), []
    for step, row in enumerate(maxima[1:], 1):
        over = [most - old > threshold for most, old in zip(row, references, strict=True)]
        if any(over):
            steps.append(step)
        references = [most if moves else old
                      for most, old, moves in zip(row, references, over, strict=True)]  # fmt: skip
    return steps


@judged
def skips(answer: Callable[[list[list[float]], float], list[int]]) -> str:
    """``answer(maxima, threshold)``: the steps in which the warp must rescale its rows of O."""

    def cases() -> Iterator[Case]:
        for number in range(12):
            threshold = (0.0, 8.0)[number % 2]
            slope = random.choice((0.0, 0.5, 3.0))
            maxima = [[slope * step + random.gauss(0, 2) for _ in range(32)] for step in range(8)]
            if number == 0:  # equal to the threshold is not above it
                maxima = [[8.0 * step] * 32 for step in range(4)]
                threshold = 8.0
            if number == 1:  # a row alone, and slowly: the reference lags behind
                maxima = [[0.0] * 31 + [3.0 * step] for step in range(8)]
            if number == 2:  # a reference never falls
                maxima = [[x] * 32 for x in (20.0, 0.0, 10.0, 27.0, 29.0)]
                threshold = 8.0
            yield (maxima, threshold), rescaling(maxima, threshold)

    def words(maxima: list[list[float]], threshold: float) -> str:
        return f"{len(maxima)} steps of 32 rows and a threshold of {threshold:g}"

    return agree(answer, cases(), words, "warps")


def _tried(text: str) -> None:
    """Every order, large scores and normal ones by turns: right, and no finding."""
    with compiling():
        kernel = kernels.compiled(text, SHAPE.depth)
    fenced(kernel)
    for number, (schedule, seed) in enumerate(SCHEDULES):
        spread = (12.0, 1.0)[number % 2]
        data = kernels.draw(SHAPE, random.randrange(1 << 30), spread)
        if spread > 1:  # the second step moves references up, in every draw
            data.k[kernels.ROWS :] *= 2
        where = f"{schedule}, scores {spread:g} times as large"
        with running(where):
            made = kernels.attend(text, data, SHAPE.causal, schedule=schedule, seed=seed)
        clean(made.run, where)
        if kernels.off(SHAPE, data, made.out) > 1:
            raise Wrong(f"{where}: O is wrong")
