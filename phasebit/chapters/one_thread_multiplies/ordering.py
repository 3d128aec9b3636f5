"""What orders a tensor core's operations: a picture of a kernel's run on the emulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from phasebit.letters import width

if TYPE_CHECKING:
    from phasebit.draw import Picture

LISTED = {("cp", "mma"), ("mma", "mma"), ("mma", "shift"), ("shift", "mma")}
"""Pairs of one thread's operations that run in order without a wait (PTX ISA 9.7.16.6.2)."""

CORE = ("cp", "mma", "shift")
"""What the tensor core does; the rest is done by threads."""

_STEP, _CLOSE, _ARROW = 62.0, 40.0, 48.0
"""Pixels from one operation to the next; the same of more than :data:`_MANY`, which have to fit a
page; between two of one row, for the arrow."""
_MANY = 8

Cells = frozenset[tuple[int, int]]
"""Sixteen lanes, by their number, and a column of tensor memory."""


@dataclass
class Operation:
    """Of the tensor core, or of threads: one that the picture shows."""

    kind: str
    """``cp``, ``mma``, ``shift``, ``commit``, ``wait`` or ``ld``."""
    barrier: str = ""
    reads: Cells = frozenset()
    writes: Cells = frozenset()
    times: int = 1
    alone: bool = True
    """Whether it is the issuing thread's, and not of all warps."""


def _cells(region: Any) -> Cells:
    halves = range(*region.halves.indices(8))
    columns = range(region.columns.start, region.columns.stop)
    return frozenset((half, column) for half in halves for column in columns)


@contextmanager
def watching() -> Iterator[list[Operation]]:
    """Collects the operations of kernels of one block that run meanwhile; repeated ones merge."""
    from phasebit.emulator import MbarrierObserver, TensorObserver, observing

    log: list[Operation] = []

    def add(new: Operation) -> None:
        last = log[-1] if log else None
        if last and (last.kind, last.barrier, last.alone) == (new.kind, new.barrier, new.alone):
            last.times += 1
            last.reads, last.writes = last.reads | new.reads, last.writes | new.writes
        else:
            log.append(new)

    class Watcher(TensorObserver, MbarrierObserver):
        def multiplies(self, g: Any, target: Any, source: Any, *others: Any) -> None:
            reads = _cells(source) if source is not None else frozenset()
            add(Operation("mma", reads=reads, writes=_cells(target)))

        def copies_columns(self, g: Any, target: Any, reads: Any) -> None:
            add(Operation("cp", writes=_cells(target)))

        def shifts(self, g: Any, region: Any) -> None:
            add(Operation("shift", reads=_cells(region), writes=_cells(region)))

        def commits(self, commit: Any) -> None:
            add(Operation("commit", commit.site.name))

        def passes(self, g: Any, site: Any) -> None:
            add(Operation("wait", site.name, alone=len(g.lanes) == 1))

        def loads_columns(self, g: Any, regions: Any, registers: int) -> None:
            add(Operation("ld", alone=False))

    with observing(Watcher()):
        yield log


def drawn(run: Callable[[], object], barriers: Sequence[str], title: str) -> Picture:
    """What one thread issues, from left to right, and what orders it.

    ``barriers``: what the kernel calls its mbarriers, in the order in which they first occur. An
    arrow between two operations of the tensor core is for cells that both touch and one writes.
    """
    from phasebit.draw import Arrow, Node, diagram

    with watching() as log:
        run()
    seen = list(dict.fromkeys(each.barrier for each in log if each.barrier))
    names = dict(zip(seen, barriers, strict=True))
    nodes: dict[str, Node] = {}
    arrows: list[Arrow] = []
    ends = dict.fromkeys(range(3), 0.0)  # of the rows so far
    at, step = 0.0, _STEP if len(log) <= _MANY else _CLOSE
    for n, each in enumerate(log):
        many = f" × {each.times}" if each.times > 1 and each.kind in ("mma", "shift") else ""
        row = 0 if each.kind in CORE else 1 if each.alone else 2
        text = f"{each.kind}{many}" + (f"\n{names[each.barrier]}" if each.barrier else "")
        of = ("tensor core", "the thread", "all warps")[row]
        half = max(map(width, text.split("\n"))) / 2 + 11
        at = max(at + step, ends[row] + (_ARROW if ends[row] else 0) + half)
        ends[row] = at + half
        nodes[str(n)] = Node(text, at, 90 * row, ("orange", "blue", "green")[row], of)
    for n in range(len(log)):
        for m in reversed(range(n)):
            if label := _between(log, m, n):
                one_row = nodes[str(m)].y == nodes[str(n)].y and n > m + 1
                arrows.append(Arrow(str(m), str(n), label, 45.0 if one_row else 0.0))
    return diagram(nodes, arrows, title=title)


def _between(log: Sequence[Operation], m: int, n: int) -> str:
    """What orders operation ``n`` behind operation ``m``: "" where it says nothing new."""
    first, then = log[m], log[n]
    between = log[m + 1 : n]
    if then.kind == "commit" and first.kind in CORE:
        return "" if any(o.kind in ("commit", *CORE) for o in between) else "tells of"
    if then.kind == "wait" and first.kind == "commit" and first.barrier == then.barrier:
        return "" if any(o.kind == "commit" and o.barrier == first.barrier for o in between) else (
            "arrives")  # fmt: skip
    if first.kind == "wait":
        mine = not first.alone or then.alone  # all warps: the issuing thread among them
        next_one = not any(o.alone == then.alone for o in between)
        return "then" if mine and next_one and then.kind not in ("wait", "commit") else ""
    shared = (first.writes & (then.writes | then.reads)) | (first.reads & then.writes)
    if not shared or any(o.writes & shared for o in between):
        return ""
    if (first.kind, then.kind) in LISTED:
        return "listed"
    return "" if any(o.kind == "wait" and o.alone for o in between) else "nothing"


__all__ = ["LISTED", "Operation", "drawn", "watching"]
