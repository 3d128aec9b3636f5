"""The kernels of *Attention again* on the emulator: run, and compared with sums in float64.

No GPU that they are for was at hand.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phasebit import files
from phasebit.edits import function as function

if TYPE_CHECKING:
    from phasebit.emulator import Run
    from phasebit.measure import Table

Array = NDArray[Any]

IN_ORDER, ROLES, CORRECTION, POLYNOMIAL, REGISTERS = KERNELS = (
    "a_in_order", "b_roles", "c_correction", "d_polynomial", "e_registers",
)  # fmt: skip
FOLDER = "attention_again"
LOG2_E = 1.4426950408889634
THRESHOLD = 8.0
"""Weights up to 2 to it, before a row's reference moves."""

ROWS = 128
"""Of a tile: queries, or keys."""


def source(name: str) -> str:
    """One of :data:`KERNELS`, whole: with its own headers in place of their ``#include``."""
    whole = files.whole_kernel(f"{FOLDER}/{name}")
    return whole[: whole.index("// Checks attention, O =")].rstrip() + "\n"


class Shape(NamedTuple):
    """A problem: one sequence."""

    queries: int
    keys: int
    depth: int = 64
    """Of a head: 64 or 128."""
    heads: int = 1
    causal: bool = False


class Data(NamedTuple):
    """Q (queries, heads, depth), K and V (keys, heads, depth), numbers of bf16 as float64."""

    q: Array
    k: Array
    v: Array


def draw(shape: Shape, seed: int = 0, spread: float = 1.0) -> Data:
    """Normal random numbers, rounded to bf16; those of Q ``spread`` times as large."""
    from phasebit.emulator import formats

    random = np.random.default_rng(seed)
    sizes = (shape.queries, shape.keys, shape.keys)
    q, k, v = (random.standard_normal((n, shape.heads, shape.depth)) for n in sizes)
    return Data(*(np.asarray(formats.decode("bf16", formats.encode("bf16", x)), np.float64)
                  for x in (spread * q, k, v)))  # fmt: skip


class Exact(NamedTuple):
    """What float64 makes of a problem."""

    out: Array
    """(queries, heads, depth): softmax(Q·Kᵀ / √depth) · V; 0 for a query that sees no key."""
    sizes: Array
    """The same with |V| for V: what errors are compared with."""
    scores: Array
    """(heads, queries, keys): in powers of two; minus infinity for a key that is not seen."""
    products: Array
    """(heads, queries): the largest Σ|q·k| / √depth of a row, in powers of two."""


def exact(data: Data, causal: bool) -> Exact:
    """Softmax in float64, with the mask that :class:`Shape` describes."""
    queries, keys, depth = len(data.q), len(data.k), data.q.shape[2]
    scale = LOG2_E / np.sqrt(depth)
    scores = scale * np.einsum("ihd,jhd->hij", data.q, data.k)
    products = scale * np.einsum("ihd,jhd->hij", abs(data.q), abs(data.k)).max(axis=2)
    if causal:
        unseen = np.arange(keys)[None, :] > np.arange(queries)[:, None] + keys - queries
        scores[:, unseen] = -np.inf
    most = scores.max(axis=2, keepdims=True)
    weights = np.exp2(scores - np.where(np.isfinite(most), most, 0))
    sums = weights.sum(axis=2, keepdims=True)
    weights /= np.where(sums, sums, 1)
    return Exact(np.einsum("hij,jhd->ihd", weights, data.v),
                 np.einsum("hij,jhd->ihd", weights, abs(data.v)), scores, products)  # fmt: skip


EXP2, BF16 = 2.0**-22, 2.0**-8
"""Relative errors: of ``ex2.approx`` (PTX ISA 9.7.3.21), and of rounding to bf16."""

POLYNOMIAL_ERROR = 2.0**-13
"""Above the relative error of the kernel's polynomial, roundings included; a test compares."""


def bound(shape: Shape, right: Exact, power: float = POLYNOMIAL_ERROR) -> Array:
    """What the result may be off, (queries, heads, depth); the page derives it.

    ``power``: relative error of an exponential. The threshold of the correction is not in it.
    """
    of = parts(shape, right, power)
    weight = (1 + of.score) * (1 + power) - 1
    relative = (1 + weight) * (1 + BF16) * (1 + of.product) / ((1 - weight) * (1 - of.total)) - 1
    off = relative[:, :, None]
    result: Array = off * right.sizes + BF16 * (1 + off) * abs(right.out)
    return result


class Parts(NamedTuple):
    """What a bound is made of: relative errors."""

    score: Array
    """Of a weight, by what its score is off, (queries, heads)."""
    power: float
    """Of a weight, by its exponential."""
    total: float
    """Of a row's sum of weights."""
    product: float
    """Of the tensor core's sum over the keys."""


def parts(shape: Shape, right: Exact, power: float = POLYNOMIAL_ERROR) -> Parts:
    """The parts of :func:`bound`, but for roundings to bf16."""
    width, steps = shape.depth, -(-shape.keys // ROWS)
    dot = (width + width / 16 + 4) * 2.0**-23 * right.products.T  # of a score, in powers of two
    most = np.where(np.isfinite(right.scores), abs(right.scores), 0).max(axis=2).T
    moved = dot + 4 * most * 2.0**-24  # times the scale, less the reference: three roundings
    return Parts(np.exp2(moved) - 1, power, (shape.keys + steps) * 2.0**-24,
                 (shape.keys * 17 / 16 + 4 + steps) * 2.0**-23)  # fmt: skip


def parts_table(shape: Shape) -> Table:
    """For normal numbers: each part, in roundings to bf16."""
    from phasebit.measure import Table

    right = exact(draw(shape), shape.causal)
    of = parts(shape, right)
    score = float(of.score.max())
    rows = [("(1 + ε): the score", "a dot product, the scale, the reference", score),
            ("(1 + ε): the power", "ex2.approx or the polynomial", of.power),
            ("1 + 2⁻⁸", "P is rounded to bf16", BF16),
            ("1 + γ", f"the tensor core's sum over {shape.keys} keys", of.product),
            ("1 − n·2⁻²⁴", f"a thread's sum of {shape.keys} weights", of.total)]  # fmt: skip
    every = bound(shape, right) - BF16 * abs(right.out)
    rows.append(("ρ", "all of them", float((every / right.sizes).max())))
    return Table(("factor", "of what", "in roundings to bf16"),
                 tuple((name, what, f"{off / BF16:.3f}") for name, what, off in rows),
                 f"the greatest of a row; {shape.queries} normal queries, {shape.keys} keys, "
                 f"a head of {shape.depth}")  # fmt: skip


class Attention(NamedTuple):
    """A run of a kernel."""

    run: Run
    out: Array
    """(queries, heads, depth)."""


@lru_cache(maxsize=64)
def compiled(text: str, depth: int) -> Any:
    """The kernel of a text, for heads of this depth."""
    from phasebit.launching.launch import compile

    return compile(text, "sm_100a", [f"-DHEAD={depth}"])["attend"]


def attend(
    text: str, data: Data, causal: bool = False, *, threshold: float = THRESHOLD,
    schedule: str = "late", **options: Any,
) -> Attention:  # fmt: skip
    """O = softmax(Q·Kᵀ / √depth)·V by the kernel of this text; O is full of NaN before.

    ``threshold``: of the kernels with a correction group. ``options``: others of a launch.
    """
    kernel = compiled(text, data.q.shape[2])
    options["schedule"] = schedule
    return launch(kernel, text, data, causal, threshold=threshold, **options)


def launch(
    kernel: Any, text: str, data: Data, causal: bool, *, threshold: float = THRESHOLD,
    **options: Any,
) -> Attention:  # fmt: skip
    """The same by a kernel that is compiled; ``text``: what :class:`Layout` reads."""
    from phasebit.emulator import TensorMap, formats

    queries, heads, depth = data.q.shape
    keys = len(data.k)
    out = np.full((queries, heads * depth), 0x7FFF, np.uint16)
    maps = [
        TensorMap(x, (64, ROWS), data_type="bf16", swizzle="128B")
        for x in (*(np.asarray(formats.encode("bf16", y.reshape(len(y), -1))) for y in data), out)
    ]
    laid = Layout.of(text, depth)
    fields = [(name, "i4") for name in ("queries", "keys", "causal")]
    problem = np.zeros(1, [*fields, ("scale", "f4"), ("threshold", "f4")])
    problem[0] = queries, keys, causal, LOG2_E / np.sqrt(depth), threshold
    run = kernel.launch(
        (-(-queries // (ROWS * laid.tiles)), heads), 32 * laid.warps, [*maps, problem[0]],
        shared=laid.shared, **options,
    )  # fmt: skip
    got = np.asarray(formats.decode("bf16", out), np.float64).reshape(data.q.shape)
    return Attention(run, got)


class Layout(NamedTuple):
    """What a launch must know of a kernel, by its source."""

    tiles: int
    """Of queries in a block."""
    warps: int
    shared: int
    """Bytes of shared memory."""
    barriers: dict[str, str]
    """What the emulator calls each barrier -> what the kernel calls it."""

    @classmethod
    def of(cls, text: str, depth: int) -> Layout:
        tile = 2 * ROWS * depth
        if "CORRECTION = " in text:
            warps, rows = 15 + ("setmaxnreg" in text), 2 * 2 * ROWS * 4
        elif "LOADER = " in text:
            warps, rows = 10, 2 * 2 * ROWS * 4
        else:
            names = ["q_full", "k_full", "v_full", "s_full", "o_full"]
            named = {f"memory+{3 * tile + 8 * i}": name for i, name in enumerate(names)}
            return cls(1, 4, 3 * tile + 1024, named)
        found = re.search(r"constexpr int STAGES = (\d+);", text)
        stages = int(found[1]) if found else 3
        front = (2 + stages) * tile + rows
        names = [f"{name} {i}"
                 for name, count in (("q_full", 2), ("kv_full", stages), ("kv_empty", stages),
                                     ("s_full", 2), ("factor_full", 2), ("sum_full", 2),
                                     ("ready", 2), ("o_full", 2), ("out_full", 2))
                 for i in range(count)]  # fmt: skip
        return cls(2, warps, front + 1024,
                   {f"memory+{front + 8 * i}": name for i, name in enumerate(names)})  # fmt: skip


class Verdict(NamedTuple):
    """A run beside float64."""

    findings: int
    worst: float
    """The greatest error over its bound: right where it is at most 1."""

    @property
    def right(self) -> bool:
        return self.worst <= 1


def judged(shape: Shape, text: str, *, schedule: str = "late", seed: int = 0) -> Verdict:
    """A kernel on random numbers, with every check."""
    data = draw(shape, seed)
    got = attend(text, data, shape.causal, schedule=schedule)
    return Verdict(len(got.run.findings), off(shape, data, got.out))


def off(shape: Shape, data: Data, out: Array) -> float:
    """The greatest error of a result over its bound; infinite where one is no number."""
    right = exact(data, shape.causal)
    error, most = abs(out - right.out), bound(shape, right)
    ratio = np.where(error == 0, 0, error / np.where(most > 0, most, 1e-300))
    return float(np.max(np.where(np.isnan(ratio), np.inf, ratio)))
