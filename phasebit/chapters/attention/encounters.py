"""The roles of *Attention* as they meet: events of a run on the emulator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from phasebit.chapters.attention import attend

D = 64
"""Columns of a head in the runs that are drawn."""
_TASK = 40
"""``sizeof(Task)``: a pointer, three numbers and the ``Shape``, which are four more."""


class Event(NamedTuple):
    """Something that happened in block 0."""

    what: str
    """``completes``, ``passes`` or ``arrives`` at a barrier; ``begins`` a product."""
    where: str
    """The barrier, as the kernel calls it: ``k_full 0``; the product: ``scores``, ``output``."""
    at: int
    """The emulator's clock."""
    group: int
    """Of the warps; the producers come after those that multiply. -1 for a completion."""


def barriers(text: str) -> dict[str, str]:
    """What the emulator calls each barrier -> what the kernel calls it."""
    begin = attend.shared_bytes(text, D) - attend.PATTERN
    slots = attend.number(text, "SLOTS", D)
    sets = [("q_full", 1)]  # in the order of struct Shared: barriers of so many slots
    if attend.STAYS in text:
        sets = [(f"q_{side}", attend.groups(text, D)) for side in ("full", "empty")]
    if attend.DEALT in text:
        tasks = attend.number(text, "TASKS", D)
        begin += tasks * _TASK
        sets = [(f"q_{side}", tasks) for side in ("full", "empty")]
    sets += [(f"{ring}_{side}", slots) for ring in "kv" for side in ("full", "empty")]
    names = [f"{name} {slot}" for name, count in sets for slot in range(count)]
    return {f"memory+{begin + 8 * i}": name for i, name in enumerate(names)}


@contextmanager
def watching(text: str) -> Iterator[list[Event]]:
    """Collects what happens in kernels that run on the emulator meanwhile."""
    from phasebit.emulator import observing

    log: list[Event] = []
    with observing(_observer(log, barriers(text))):
        yield log


def _observer(log: list[Event], names: dict[str, str]) -> object:
    from phasebit.emulator import MbarrierObserver, WarpGroupObserver

    class Watcher(MbarrierObserver, WarpGroupObserver):
        def completes(self, site: Any) -> None:
            if site.name in names and int(site.batch.blocks[site.slot]) == 0:
                log.append(Event("completes", names[site.name], site.time, -1))

        def passes(self, g: Any, site: Any) -> None:
            self._note("passes", g, site, max(g.time, site.opened))

        def arrives(self, g: Any, lanes: Any, site: Any, sem: str, scope: str) -> None:
            self._note("arrives", g, site, g.time)

        def starts_product(self, g: Any, mma: Any, tiles: Sequence[Any]) -> None:
            groups = _groups(g)
            what = "scores" if len(tiles) == 2 * len(groups) else "output"
            log.extend(Event("begins", what, g.time, group) for group in groups)

        def _note(self, what: str, g: Any, site: Any, at: int) -> None:
            if site.name in names:
                log.extend(Event(what, names[site.name], at, group) for group in _groups(g))

    return Watcher()


def _groups(g: Any) -> list[int]:
    """The warp groups of block 0 among the threads that do something together."""
    warps = sorted({int(w) for w in g.batch.warp_of[g.lanes]})
    found = {w % g.batch.warps // 4 for w in warps if int(g.batch.blocks[w // g.batch.warps]) == 0}
    return sorted(found)
