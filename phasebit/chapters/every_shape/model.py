"""Waves and bytes: how long a plan should take at a shape, from arithmetic and four rates.

Nothing here is measured. The rates are round numbers for an H200; the page compares what the model
says with what the record says.
"""

from __future__ import annotations

from dataclasses import dataclass

from phasebit.chapters.every_shape.plans import DEPTH, STREAM, Plan
from phasebit.chapters.every_shape.shapes import Shape
from phasebit.chapters.every_shape.walk import Walk


@dataclass(frozen=True)
class Rates:
    """What the GPU can do."""

    multiprocessors: int = 132
    flop_clock: int = 4096
    """Of a multiprocessor's tensor cores, bf16: a clock."""
    ghz: float = 1.6
    """The clock while all tensor cores work: power holds it below the highest."""
    shared_clock: int = 128
    """Bytes that a multiprocessor reads from shared memory in a clock."""
    l2: float = 5.5
    """TB/s from the L2 cache to all multiprocessors."""
    memory: float = 4.2
    """TB/s from memory."""
    fixed_us: float = 3.0
    """Launch, first copies, last results: whatever the shape."""


H200 = Rates()


@dataclass(frozen=True)
class Estimate:
    """Microseconds: the greatest of three, and what no tile can change."""

    products: float
    """Of the multiprocessor that has most to do."""
    l2: float
    memory: float
    fixed: float

    @property
    def us(self) -> float:
        """All of it."""
        return max(self.products, self.l2, self.memory) + self.fixed

    @property
    def binds(self) -> str:
        """What takes longest."""
        terms = {"products": self.products, "L2": self.l2, "memory": self.memory}
        return max(terms, key=terms.__getitem__)


def workers(plan: Plan, rates: Rates = H200) -> int:
    """Blocks, or pairs, that work at the same time; two where shared memory has room for them."""
    beside = 1 if plan.stays else max(1, min(2, 227 * 1024 // (plan.slots * plan.slot + 2048)))
    return rates.multiprocessors // plan.pair * beside


def walk(plan: Plan, shape: Shape, rates: Rates = H200) -> Walk:
    """Who makes which tile."""
    tiles, steps = plan.tiles(shape), plan.steps(shape)
    if plan.kernel == STREAM:
        return Walk.stream(tiles, steps, workers(plan, rates), plan.waves)
    return Walk.whole(tiles, steps, workers(plan, rates))


def step_clocks(plan: Plan, rates: Rates = H200) -> float:
    """Clocks of the products of one slot, in one block.

    A warp group's instruction of 64 × BN × 16 either keeps the tensor cores busy or shared memory,
    from which it reads both operands.
    """
    flop = 2 * 64 * plan.bn * 16 / rates.flop_clock
    reads = 2 * 16 * (64 + plan.bn) / rates.shared_clock
    return plan.groups * DEPTH / 16 * max(flop, reads)


def copied(plan: Plan, shape: Shape) -> int:
    """Bytes that L2 gives the multiprocessors: of a pair, B once."""
    return plan.tiles(shape) * plan.steps(shape) * 2 * DEPTH * (plan.rows + plan.bn)


def estimate(plan: Plan, shape: Shape, rates: Rates = H200) -> Estimate:
    """How long a product should take whose operands come from memory."""
    beside = max(1, workers(plan, rates) * plan.pair // rates.multiprocessors)
    clocks = walk(plan, shape, rates).clocks * step_clocks(plan, rates) * beside
    return Estimate(
        clocks / rates.ghz * 1e-3,
        copied(plan, shape) / rates.l2 * 1e-6,
        shape.bytes / rates.memory * 1e-6,
        rates.fixed_us,
    )
