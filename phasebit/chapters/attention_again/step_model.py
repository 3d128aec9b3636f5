"""The kernels of *Attention again* in clocks: products that take time, weights that take time.

Arithmetic from documented rates and counted instructions (:mod:`step_rates`), no measurement. The
tensor core makes its products in the order in which the kernel issues them; a softmax group works
as long as the busiest unit needs for its tile, and two groups share that unit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from phasebit.chapters.attention_again import step_rates as rates
from phasebit.pipeline.tasks import Span, Task, spans

if TYPE_CHECKING:
    from phasebit.measure import Table
    from phasebit.timeline import Timeline

TENSOR_CORE = 2
"""The third worker, after the softmax groups 0 and 1."""


class Plan(NamedTuple):
    """What the model must know of a kernel."""

    tiles: int
    share: int
    """Of eight exponentials, those of the polynomial."""
    registers: bool
    rescales: bool
    """Whether the softmax group rescales O in every step."""


PLANS = {
    "a_in_order": Plan(1, 0, False, True),
    "b_roles": Plan(2, 0, False, True),
    "c_correction": Plan(2, 0, False, False),
    "d_polynomial": Plan(2, 2, False, False),
    "e_registers": Plan(2, 2, True, False),
}
"""Kernel -> its plan, with a threshold that is never reached where a group corrects O."""


def softmax(plan: Plan, depth: int) -> tuple[int, str]:
    """Clocks that a group works on a tile, and the unit that needs so many."""
    units = rates.step(plan.share, depth, plan.registers)
    unit = max(("special units", "issue"), key=lambda name: units[name])
    return round(units[unit] + plan.rescales * rates.rescaled(depth)), unit


def run(
    kernel: str, steps: int, depth: int = 128, *, parts: int = 1
) -> dict[tuple[str, int, int], Span]:
    """``("scores" | "weights" | "outputs", tile, step)`` -> when; of one block.

    ``parts``: 2 where the weights are handed over in two halves. Then ``outputs`` is the product
    of the second half, and ``early`` that of the first.
    """
    plan = PLANS[kernel]
    product = 2 * rates.ROWS * rates.ROWS * depth // rates.TENSOR
    work, _ = softmax(plan, depth)
    issued: dict[tuple[str, int, int], Task] = {}
    groups: list[dict[tuple[str, int, int], Task]] = [{} for _ in range(plan.tiles)]

    def scores(tile: int, step: int) -> None:
        issued["scores", tile, step] = Task(TENSOR_CORE, product, 0, [])

    for tile in range(plan.tiles):
        scores(tile, 0)
    for step in range(steps):
        for tile in range(plan.tiles):
            groups[tile]["weights", tile, step] = Task(
                tile, work, work, [(("scores", tile, step), 0)]
            )
            if parts == 2:
                issued["early", tile, step] = Task(
                    TENSOR_CORE, product // 2, 0, [(("weights", tile, step), -(work // 2))]
                )
            issued["outputs", tile, step] = Task(
                TENSOR_CORE, product // parts, 0, [(("weights", tile, step), 0)]
            )
            if step + 1 < steps:
                scores(tile, step + 1)
    return spans([*groups, issued], 1)


def per_step(kernel: str, depth: int = 128, steps: int = 40) -> float:
    """Clocks of a step of one tile of queries, in the long run."""
    done = run(kernel, steps, depth)
    tiles = PLANS[kernel].tiles
    first, last = (done["outputs", tiles - 1, step].end for step in (steps // 2, steps - 2))
    return (last - first) / (steps - 2 - steps // 2) / tiles


def whole(kernel: str, steps: int, depth: int = 128, *, parts: int = 1) -> int:
    """Clocks from a block's first product to the end of its last."""
    return max(span.end for span in run(kernel, steps, depth, parts=parts).values())


def draw(kernel: str, steps: int, title: str, depth: int = 128) -> Timeline:
    """The tensor core and the softmax groups over some steps."""
    from phasebit import timeline

    rows = ["tensor core", *(f"softmax {tile}" for tile in range(PLANS[kernel].tiles))]
    kinds = {"scores": "produce", "outputs": "copy", "weights": "consume"}
    drawn = [
        timeline.Span(
            f"softmax {tile}" if what == "weights" else "tensor core", span.begin, span.end,
            kinds[what], f"{tile}.{step}",
        )
        for (what, tile, step), span in run(kernel, steps, depth).items()
    ]  # fmt: skip
    return timeline.Timeline(
        rows, drawn, unit="clock", title=title,
        legend={kinds[what]: what for what in kinds},
    )  # fmt: skip


def table() -> Table:
    """Clocks of a step of one tile in the long run, and of its softmax, of each kernel."""
    from phasebit.measure import Table

    rows = []
    for name, plan in PLANS.items():
        cells = []
        for depth in (128, 64):
            clocks, unit = softmax(plan, depth)
            busy = f"{unit} and a rescale" if plan.rescales else unit
            cells += [f"{per_step(name, depth):.0f}", f"{clocks}, {busy}"]
        rows.append((name, *cells))
    return Table(
        ("kernel", "a step of 128", "its softmax", "a step of 64", "its softmax"), tuple(rows),
        "clocks of the model; b rescales in every step, c to e never",
    )
