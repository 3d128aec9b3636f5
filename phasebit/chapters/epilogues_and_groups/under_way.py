"""Who multiplies and who is at an epilogue, from a run of the fused kernel on the emulator.

Its clock counts instructions, and products take no time on it but what the program leaves them: it
shows order and overlap, not a time that any GPU would take.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from phasebit.chapters.epilogues_and_groups import epilogues
from phasebit.chapters.epilogues_and_groups.epilogues import Numbers, Programs

if TYPE_CHECKING:
    from phasebit.draw import Picture

LEGEND = {"consume": "products", "produce": "epilogue"}


@dataclass(frozen=True)
class Tile:
    """What a warp group did with a tile, on the emulator's clock."""

    number: int
    group: int
    begins: int
    """It has its first slot."""
    ends: int
    """It has given back its last slot."""
    stored: int
    """It waits for something else, or is at its end."""


def tiles(programs: Programs, name: str, given: Numbers, steps: Sequence[str]) -> list[Tile]:
    """The tiles of a launch of one block."""
    text = programs.texts[name]
    slots, team = (epilogues.number(text, each) for each in ("SLOTS", "TEAM"))
    deep = -(-given.shape[2] // epilogues.DEPTH)
    first = epilogues.ring(text)
    full = {f"memory+{first + 8 * s}": s for s in range(slots)}
    empty = {f"memory+{first + 8 * (slots + s)}": s for s in range(slots)}
    with _listening() as log:
        made = epilogues.fused(programs, name, given, steps, workers=1)
    if made.wrong or made.run.findings:
        raise ValueError(f"the run is not right: {made.wrong or made.run.findings[0]}")
    over = {s: [at for what, where, at, _ in log if what == "completes" and empty.get(where) == s]
            for s in range(slots)}  # fmt: skip
    found = []
    events = [e for e in made.run.trace.events if e.block == 0]
    for group in (0, 1):
        passed = [at for what, where, at, warp in log
                  if what == "passes" and where in full and warp == 4 * group]  # fmt: skip
        turns = 2 // team
        for i in range(len(passed) // deep):
            number = i * turns + (group if turns == 2 else 0)
            last = (number + 1) * deep - 1
            ends = over[last % slots][last // slots]
            waits = [e.start for e in events
                     if e.kind == "wait" and 4 * group in e.warps and e.start > ends]  # fmt: skip
            runs = [e.end for e in events if 4 * group in e.warps]
            found.append(Tile(number, group, passed[i * deep], ends, min(waits or [max(runs)])))
    return found


def idle(found: Sequence[Tile]) -> float:
    """The share of the clocks, from the first product to the last, in which nobody multiplies."""
    first, last = min(t.begins for t in found), max(t.ends for t in found)
    busy, at = 0, first
    for tile in sorted(found, key=lambda t: t.begins):
        busy += max(0, tile.ends - max(at, tile.begins))
        at = max(at, tile.ends)
    return 1 - busy / (last - first)


def picture(found: Sequence[Tile], title: str) -> Picture:
    """The two warp groups: products and epilogues, tile by tile.

    Its sentences say of each epilogue but the last whether products run beside it.
    """
    from phasebit.draw import Picture
    from phasebit.timeline import Span, Timeline

    spans, rows = [], []
    for group in (0, 1):
        products, epilogue = f"group {group}, products", f"group {group}, epilogue"
        rows += [products, epilogue]
        for tile in found:
            if tile.group == group:
                spans.append(Span(products, tile.begins, tile.ends, "consume", str(tile.number)))
                spans.append(Span(epilogue, tile.ends, tile.stored, "produce", str(tile.number)))
    said = []
    for tile in sorted(found, key=lambda t: (t.number, t.group)):
        beside = sum(max(0, min(t.ends, tile.stored) - max(t.begins, tile.ends)) for t in found)
        run = "run for most of it" if 2 * beside > tile.stored - tile.ends else "hardly run"
        if tile.ends < max(t.begins for t in found):
            said.append(f"tile {tile.number}: beside group {tile.group}'s epilogue products {run}")
    drawn = Timeline(rows, spans, unit="clock", title=title, legend=LEGEND)
    head = f"{title}. The emulator's clock runs to the right."
    return Picture.of(drawn, "\n".join([head, *said]))


@contextmanager
def _listening() -> Iterator[list[tuple[str, str, int, int]]]:
    """Phases that complete and waits that pass, of block 0: what, barrier, when, warp or -1."""
    from phasebit.emulator import MbarrierObserver, observing

    log: list[tuple[str, str, int, int]] = []

    class Watcher(MbarrierObserver):
        def completes(self, site: Any) -> None:
            log.append(("completes", site.name, site.time, -1))

        def passes(self, g: Any, site: Any) -> None:
            for warp in sorted({int(w) for w in g.batch.warp_of[g.lanes]}):
                log.append(("passes", site.name, max(g.time, site.opened), warp))

    with observing(Watcher()):
        yield log
