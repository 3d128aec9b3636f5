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
    made, log = _launched(programs, name, given, steps)
    return _tiles(programs.texts[name], given, made, log)


def _launched(
    programs: Programs, name: str, given: Numbers, steps: Sequence[str]
) -> tuple[epilogues.Made, Log]:
    """A launch of one block, and what its barriers did."""
    with _listening() as log:
        made = epilogues.fused(programs, name, given, steps, workers=1)
    if made.wrong or made.run.findings:
        raise ValueError(f"the run is not right: {made.wrong or made.run.findings[0]}")
    return made, log


def _tiles(text: str, given: Numbers, made: epilogues.Made, log: Log) -> list[Tile]:
    slots, team = (epilogues.number(text, each) for each in ("SLOTS", "TEAM"))
    deep = -(-given.shape[2] // epilogues.DEPTH)
    first = epilogues.ring(text)
    full = {f"memory+{first + 8 * s}": s for s in range(slots)}
    empty = {f"memory+{first + 8 * (slots + s)}": s for s in range(slots)}
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


def share(found: Sequence[Tile]) -> str:
    """:func:`idle` in words that hold for every compiler."""
    least, most = 0.28, 0.38
    if (now := idle(found)) < 0.1:
        return "less than a tenth"
    if least < now < most:
        return "about a third"
    raise ValueError(f"nobody multiplies in {now:.0%} of the clocks: find words for it")


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


def boxes(programs: Programs, name: str, given: Numbers, steps: Sequence[str]) -> Picture:
    """What lies in the boxes of each warp group of the fetching kernel while it multiplies.

    Its sentences say of each tile whether the residual is there when the products end.
    """
    from phasebit.draw import Picture
    from phasebit.timeline import Span, Timeline

    text = programs.texts[name]
    made, log = _launched(programs, name, given, steps)
    found = _tiles(text, given, made, log)
    ring = epilogues.ring(text) + 8 * (2 * epilogues.number(text, "SLOTS") + 2)
    fetched = -(-ring // 1024) * 1024 + 8 * 4 * epilogues.number(text, "BN")
    spans, rows, said = [], [], []
    for group in (0, 1):
        barrier = f"memory+{fetched + 8 * 4 * group}"  # of the group's first warp
        asked, there, read = (
            [at for what, where, at, _ in log if (what, where) == (kind, barrier)]
            for kind in ("arrives", "completes", "passes")
        )
        products, own = f"group {group}, products", f"group {group}, boxes"
        rows += [products, own]
        mine = [tile for tile in found if tile.group == group]
        for i, tile in enumerate(mine):
            left = asked[i + 1] if i + 1 < len(asked) else tile.stored
            number = str(tile.number)
            spans += [
                Span(products, tile.begins, tile.ends, "consume", number),
                Span(own, asked[i], read[i], "copy", number),
                Span(own, read[i], left, "produce", number),
            ]
            early = "yes" if there[i] < tile.ends else "no"
            said.append(f"tile {number}: the residual is there when the products end: {early}")
    title = "A box is filled twice in each tile: with the residual, then with the result"
    legend = LEGEND | {"copy": "the residual comes and lies there",
                       "produce": "the result is written and leaves"}  # fmt: skip
    drawn = Timeline(rows, spans, unit="clock", title=title, legend=legend)
    head = f"{title}. The emulator's clock runs to the right."
    return Picture.of(drawn, "\n".join([head, *sorted(said)]))


Log = list[tuple[str, str, int, int]]
"""What a barrier did, which, when, and the warp or -1."""


@contextmanager
def _listening() -> Iterator[Log]:
    """Arrivals, phases that complete and waits that pass, of block 0."""
    from phasebit.emulator import MbarrierObserver, observing

    log: Log = []

    class Watcher(MbarrierObserver):
        def arrives(self, g: Any, lanes: Any, site: Any, sem: str, scope: str) -> None:
            log.append(("arrives", site.name, g.time, int(g.batch.warp_of[lanes[0]])))

        def completes(self, site: Any) -> None:
            log.append(("completes", site.name, site.time, -1))

        def passes(self, g: Any, site: Any) -> None:
            for warp in sorted({int(w) for w in g.batch.warp_of[g.lanes]}):
                log.append(("passes", site.name, max(g.time, site.opened), warp))

    with observing(Watcher()):
        yield log
