"""How tiles of C leave, and how two blocks join theirs: pictures of runs on the emulator.

Its clock counts instructions, and a product lasts until somebody waits for it: what is drawn is
order and overlap, not a time that any GPU would take.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from phasebit.chapters.every_shape import on_emulator, plans
from phasebit.chapters.every_shape.plans import DEPTH, Plan

if TYPE_CHECKING:
    from phasebit.draw import Picture

AT_ONCE, LATER, TURNS = (
    Plan(plans.PAIRS, 2, 128, 4, boxes=1, later=False),
    Plan(plans.PAIRS, 2, 128, 4, boxes=1),
    Plan(plans.PING_PONG, 1, 128, 4, boxes=1),
)
"""Three small plans of one block: C at once, C later, and groups that take turns."""
SPLIT = Plan(plans.SPLIT_K, 2, 32, 3, split=2)
_STEPS = 6  # of a tile
_LEGEND = {"consume": "products", "produce": "C leaves"}


class Event(NamedTuple):
    """Something that the first warp of a warp group did."""

    what: str
    """``passes`` a barrier that says a slot is full; ``stores`` a box; ``joins``: others' sums."""
    at: int
    """The emulator's clock."""
    block: int
    group: int


class Tile(NamedTuple):
    """A warp group's part of a tile of C, on the emulator's clock."""

    group: int
    begins: int
    """It has its first slot."""
    ends: int
    """It has its last slot; the products from it run a little longer."""
    leaves: int
    """It asks for the first store."""
    left: int
    """It asks for the last."""


def tiles(plan: Plan, count: int) -> list[Tile]:
    """What each warp group of one block does with ``count`` tiles, in its own order.

    Raises ``ValueError`` where the run is not right.
    """
    found = []
    log = _events(plan, (64 * plan.groups * count, plan.bn, DEPTH * _STEPS))
    for group in (0, 1):
        passes, stores = ([each.at for each in log if (each.what, each.group) == (what, group)]
                          for what in ("passes", "stores"))  # fmt: skip
        mine = len(passes) // _STEPS
        each = len(stores) // mine
        for i in range(mine):
            slots = passes[i * _STEPS : (i + 1) * _STEPS]
            out = stores[i * each : (i + 1) * each]
            found.append(Tile(group, slots[0], slots[-1], out[0], out[-1]))
    return found


def beside(found: Sequence[Tile]) -> list[bool]:
    """Of each part of C but the last of each group: whether products run while it leaves."""
    last = {each.group: each for each in found}
    return [
        any(other.begins < each.left and each.leaves < other.ends for other in found)
        for each in found if each is not last[each.group]
    ]  # fmt: skip


def picture(plan: Plan, title: str) -> Picture:
    """Both warp groups: products of a tile, and its way out."""
    from phasebit.draw import Picture
    from phasebit.timeline import Span, Timeline

    found = tiles(plan, 4 if plan.kernel == plans.PING_PONG else 3)
    rows, spans = [], []
    for group in (0, 1):
        products, out = f"group {group}, products", f"group {group}, C leaves"
        rows += [products, out]
        for i, each in enumerate(each for each in found if each.group == group):
            number = str(2 * i + group if plan.kernel == plans.PING_PONG else i)
            spans.append(Span(products, each.begins, each.ends, "consume", number))
            spans.append(Span(out, each.leaves, each.left, "produce", number))
    under = beside(found)
    drawn = Timeline(rows, spans, unit="clock", title=title, legend=_LEGEND)
    return Picture.of(
        drawn, f"{title}. The emulator's clock runs to the right. Of {len(under)} parts of C that "
        f"leave before a group's last, {sum(under)} leave while products run.")  # fmt: skip


def joined(title: str) -> Picture:
    """Two blocks that make one tile: the steps of each, and the meeting at its end."""
    from phasebit.draw import Picture
    from phasebit.timeline import Span, Timeline

    log = _events(SPLIT, (64 * SPLIT.groups, SPLIT.bn, DEPTH * _STEPS))
    rows, spans, said = [], [], []
    for block in range(SPLIT.split):
        row = f"block {block}"
        rows.append(row)
        mine = [each for each in log if each.block == block and each.group == 0]
        at = [each.at for each in mine if each.what == "passes"]
        (join,) = (each.at for each in mine if each.what == "joins")
        first = block * len(at)
        for i, (begin, end) in enumerate(zip(at, [*at[1:], join], strict=True)):
            last = i + 1 == len(at)
            spans.append(Span(row, begin, end, "hand-off" if last else "consume", str(first + i)))
        said.append(f"block {block}: steps {first} to {first + len(at) - 1}, then the join")
    legend = {"consume": "a step along K", "hand-off": "the last, until the other's sums are there"}
    drawn = Timeline(rows, spans, unit="clock", title=title, legend=legend)
    head = f"{title}. The emulator's clock runs to the right."
    return Picture.of(drawn, "\n".join([head, *said]))


def _events(plan: Plan, shape: tuple[int, int, int]) -> list[Event]:
    """A product by one worker, watched; raises ``ValueError`` where it is not right."""
    with _watching() as log:
        done = on_emulator.multiply(plan.text, *shape, workers=1)
    if not done.exact or done.run.findings:
        raise ValueError(f"the run of {plan} is not right: look at it with on_emulator")
    barriers = sorted({place for _, place, *_ in log if place is not None})
    found = []
    for at, place, block, group in log:
        what = "stores"
        if place is not None:  # full barriers come first; whose turn it is, is not drawn
            what = "passes" if place in barriers[: plan.slots] else "joins"
        if what != "joins" or plan.split > 1:
            found.append(Event(what, at, block, group))
    return found


@contextmanager
def _watching() -> Iterator[list[tuple[int, int | None, int, int]]]:
    """When, the byte of the barrier that was passed or None for a store, block, warp group."""
    from phasebit.emulator import BulkCopyObserver, MbarrierObserver, observing

    log: list[tuple[int, int | None, int, int]] = []

    class Watcher(MbarrierObserver, BulkCopyObserver):
        def passes(self, g: Any, site: Any) -> None:
            self._note(g, max(g.time, site.opened), int(site.name.partition("+")[2].split()[0]))

        def starts_copies(self, g: Any, copies: Sequence[Any]) -> None:
            if any(copy.site is None for _, copy in copies):
                self._note(g, g.time, None)

        def _note(self, g: Any, at: int, place: int | None) -> None:
            for warp in sorted({int(warp) for warp in g.batch.warp_of[g.lanes]}):
                block, mine = divmod(warp, g.batch.warps)
                if mine in (0, 4):
                    log.append((at, place, int(g.batch.blocks[block]), mine // 4))

    with observing(Watcher()):
        yield log
