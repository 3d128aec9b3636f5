"""Waves and bytes: how long a plan should take at a shape, by arithmetic and a few rates.

Each step of a tile takes a multiprocessor as long as the slower of two: its tensor cores multiply a
slot, its copy engine fetches one. Waves say how many steps follow each other. Rates of the hardware
are NVIDIA's or follow from them; what launches and joins cost was read off a sweep, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from phasebit.chapters.every_shape.plans import DEPTH, STREAM, Plan
from phasebit.chapters.every_shape.shapes import Shape
from phasebit.chapters.every_shape.shares import Walk


@dataclass(frozen=True)
class Rates:
    """What an H100 can do."""

    multiprocessors: int = 132
    in_fours: int = 120
    """Those that lie in a part of the GPU with three others, all free for a cluster of four."""
    flop_clock: int = 4096
    """Of a multiprocessor's tensor cores, bf16: in a clock."""
    ghz: float = 1.75
    shared_clock: int = 128
    """Bytes that a multiprocessor reads from shared memory in a clock."""
    fetch_clock: int = 64
    """Bytes that a multiprocessor gets from L2 in a clock. Assumed: we know no document of it."""
    sustained: float = 0.9
    """Share of them that it can ask for, all the time. Read off the sweep."""
    memory: float = 2.93
    """TB/s from memory, to all: seven eighths of 3.35."""
    one: float = 0.043
    """TB/s from memory, to one multiprocessor. Read off the sweep."""
    fixed_us: float = 1.5
    """Launch, first copies, last results, of launches that overlap. Read off the sweep."""
    tile_us: float = 1.2
    """What a further tile costs where blocks do not stay. Read off the sweep."""
    join_us: float = 12.0
    """Handing over the sums of 128 × 256, and taking them. Read off the sweep."""
    further_us: float = 2.2
    """Taking those of each further worker that has a part of the tile. Read off a sweep."""
    cut: float = 0.3
    """Share by which a step of a tile that is cut takes longer. Read off a sweep."""
    split_us: float = 2.0
    """Sending sums to another block of a cluster, and taking them. Read off a sweep."""
    cluster_us: float = 1.0
    """For each further block of a cluster. Read off the sweep."""
    beside: float = 0.1
    """Share of what does not bind that is not hidden behind what does. Read off the sweep."""
    gap_us: float = 0.5
    """From the end of a launch to the next, where that may not begin early. Read off the sweep."""


H100 = Rates()
H200 = replace(H100, memory=4.2)  # seven eighths of 4.8; what was read off sweeps is the H100's
LINE = 128
"""Bytes of a line of L2: a row of a slot, where rows begin at lines."""


@dataclass(frozen=True)
class Estimate:
    """Microseconds."""

    products: float
    """All steps, if tensor cores (or shared memory under them) were all there is."""
    copies: float
    """All steps, if copies were."""
    memory: float
    """Operands and result, once, from memory and back."""
    rest: float
    """Launch, clusters, tiles that begin anew, joins."""
    beside: float
    """Share of the two lesser ones that is not hidden."""

    @property
    def us(self) -> float:
        """All of it."""
        *hidden, binds = sorted((self.products, self.copies, self.memory))
        return binds + self.beside * sum(hidden) + self.rest

    @property
    def binds(self) -> str:
        """What takes longest of the three."""
        terms = {"products": self.products, "copies": self.copies, "memory": self.memory}
        return max(terms, key=terms.__getitem__)


def beside(plan: Plan) -> int:
    """Blocks on a multiprocessor: two where shared memory has room for them."""
    return 1 if plan.stays else max(1, min(2, 227 * 1024 // (plan.slots * plan.slot + 2048)))


def walk(plan: Plan, shape: Shape, rates: Rates = H200) -> Walk:
    """Who makes which tile."""
    units = rates.in_fours if plan.pair == 4 else rates.multiprocessors
    workers = units // plan.pair * beside(plan)
    tiles, steps = plan.tiles(shape) * plan.split, -(-plan.steps(shape) // plan.split)
    if plan.kernel == STREAM:
        return Walk.stream(tiles, steps, workers, plan.waves)
    return Walk.whole(tiles, steps, workers)


def products_clocks(plan: Plan, rates: Rates = H200) -> float:
    """Clocks in which a multiprocessor multiplies a slot.

    An instruction of 64 × BN × 16 keeps either the tensor cores busy or shared memory, from which
    it reads both operands.
    """
    flop = 2 * 64 * plan.bn * 16 / rates.flop_clock
    reads = 2 * 16 * (64 + plan.bn) / rates.shared_clock
    return plan.groups * DEPTH / 16 * max(flop, reads)


def copies_clocks(plan: Plan, shape: Shape, rates: Rates = H200) -> float:
    """Clocks in which a multiprocessor gets a slot.

    Of a pair each block asks for half of B, and gets all of it. A row of the slot is one line of
    L2, or lies in two where K is no multiple of 64: then two are asked for.
    """
    a, b = 64 * plan.groups, plan.bn
    asked = (a + b / plan.pair) * (2 if shape.k % DEPTH else 1)
    return max(asked / rates.sustained, a + b) * LINE / rates.fetch_clock


def estimate(plan: Plan, shape: Shape, rates: Rates = H200) -> Estimate:
    """How long a product should take whose operands come from memory."""
    who = walk(plan, shape, rates)
    both = 1e-3 / rates.ghz * who.clocks * min(beside(plan), 1 + (who.workers > 132))
    tiles = -(-who.tiles // who.workers)
    rest = rates.fixed_us + (0 if plan.stays else rates.tile_us * (tiles - 1))
    rest += 0 if plan.begins_early else rates.gap_us
    rest += rates.cluster_us * (plan.pair - 1) + rates.split_us * (plan.split - 1)
    units = min(rates.multiprocessors, who.workers * plan.pair)
    if who.streamed:
        further = max(who.workers // who.streamed, 1) - 1
        rest += (rates.join_us + rates.further_us * further) * plan.groups * plan.bn / 512
        steps = who.streamed * who.steps / who.workers
        rest += rates.cut * steps * products_clocks(plan, rates) * 1e-3 / rates.ghz
    return Estimate(
        both * products_clocks(plan, rates),
        both * copies_clocks(plan, shape, rates),
        shape.bytes / min(rates.memory, units * rates.one) * 1e-6,
        rest,
        rates.beside,
    )
