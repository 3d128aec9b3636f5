"""How a piece of C leaves: four warps meet once for it, or twice, as CUTLASS's kernels do.

Drawn from runs on the emulator, with copies that read as late as they may.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from phasebit.chapters.chain import kernels
from phasebit.edits import replace_each

if TYPE_CHECKING:
    from phasebit.draw import Picture

BOXES, PIECES = 2, 8
"""In shared memory, filled in turn; and of a tile of 256 columns."""

_READ = "        if (t == 0) ptx::cp_async_bulk_wait_group_read"
_WAIT = f"{_READ}<0>();  // the piece before has left\n"
_MEET = "        ptx::bar_sync(1, 32 * EPILOGUE);  // all rows are there; the other slot is empty\n"
_FILL = "        uint4* piece = s.c[to.slot];\n"
_EMPTY = f"{_READ}<1>();  // this box has been read\n"


def twice(source: str) -> str:
    """The kernel ``one_box.cu`` with a meeting for *empty* and one for *full*."""
    bare = _MEET.partition("  //")[0]
    return replace_each(source, [
        (_WAIT + _MEET, f"{bare}  // all rows are there\n"),
        (_FILL, f"{_EMPTY}{bare}  // all know that it is empty\n{_FILL}"),
    ])  # fmt: skip


def with_boxes(source: str, boxes: int, unread: int) -> str:
    """``one_box.cu``, or :func:`twice` of it, with so many boxes, and copies that may be unread.

    A slot of slices fewer makes room for them; the size of shared memory stays.
    """
    line = "constexpr int STAGES = 4;"
    head, tail = replace_each(source, [
        ("c[2][TILE_M", f"c[{boxes}][TILE_M"), ("Place<2> to", f"Place<{boxes}> to"),
    ]).split(line)  # fmt: skip
    before, wait, after = re.split(r"(?<=wait_group_read<)(\d)(?=>\(\);  // th[ei]s? [pb])", tail)
    assert wait in "01"  # the loop's; the one at the end of the kernel says something else
    return head + line + f"{before}{unread}{after}".replace("STAGES", "(STAGES - 1)")


class Piece(NamedTuple):
    """Moments of a piece on the emulator's clock."""

    fills: int
    """The warps have met before, or fetch the first columns: the piece's box is empty."""
    met: int
    """All four have written it, and have met."""
    asked: int
    """The storing thread has asked for its copy."""
    read: int
    """That thread has waited until the copy had read it."""


class Seen(NamedTuple):
    """A run of one tile."""

    pieces: list[Piece]
    meetings: list[int]


def seen(source: str) -> Seen:
    """What a kernel does with the pieces of one tile, 128 × 256 with k = 64."""
    from phasebit.emulator import (
        AccessObserver,
        BlockBarrierObserver,
        BulkCopyObserver,
        TensorObserver,
        observing,
    )

    fetched: list[int] = []
    fills: list[int] = []
    met: list[int] = []
    asked: list[tuple[int, int]] = []
    freed: list[int] = []
    read: dict[int, int] = {}
    order: list[Any] = []

    class Watcher(AccessObserver, BlockBarrierObserver, BulkCopyObserver, TensorObserver):
        def loads_columns(self, g: Any, regions: Any, registers: int) -> None:
            fetched.append(g.time)

        def stores(self, g: Any, index: Any, accesses: Any) -> bool:
            if accesses.space == "shared" and g.n > 1 and len(fills) == len(asked):
                fills.append(met[-1] if met else fetched[0])
            return False

        def joins_barrier(self, g: Any, barrier: Any) -> None:
            if 0 in g.batch.warp_of[g.lanes]:
                while freed:
                    read[freed.pop()] = g.time

        def opens_barrier(self, barrier: Any, lanes: Any, groups: Any, *others: Any) -> None:
            if barrier.number == 1:
                met.append(max(g.time for g in groups))

        def starts_copies(self, g: Any, copies: Any) -> None:
            for _, copy in copies:
                if copy.target.space == "global":
                    asked.append((g.time, met[-1]))
                    order.append(copy)

        def source_is_free(self, copy: Any) -> None:
            freed.append(next(i for i, each in enumerate(order) if each is copy))

    with observing(Watcher()):
        run, exact = kernels.multiply(source, 128, 256, 64, schedule="late")
    if not exact or run.findings:
        raise RuntimeError("the kernel is not right: run its tests")
    moments = zip(fills, asked, (read[i] for i in range(PIECES)), strict=True)
    return Seen([Piece(fill, full, at, end) for fill, (at, full), end in moments], met)


def picture(most: int = 4) -> Picture:
    """The two boxes of ``one_box.cu`` over its first pieces, and with two meetings a piece.

    Its sentences say of each way whether a copy is asked for while another still reads.
    """
    from phasebit.draw import Picture
    from phasebit.timeline import Span, Timeline

    once = kernels.source(kernels.ONE_BOX)
    rows, spans, said = [], [], []
    for way, source in ("once", once), ("twice", twice(once)):
        found = seen(source)
        start = min(found.meetings[0] - 1, found.pieces[0].fills)
        meetings = f"{way}: they meet"
        rows += [*(f"{way}: box {box}" for box in range(BOXES)), meetings]
        for i, piece in enumerate(found.pieces[:most]):
            row = f"{way}: box {i % BOXES}"
            fills, met, asked, read = (at - start for at in piece)
            spans += [Span(row, fills, met, "produce", str(i)), Span(row, met, asked, "full"),
                      Span(row, asked, read, "consume", str(i))]  # fmt: skip
        last = found.pieces[most - 1].met
        spans += [Span(meetings, at - 1 - start, at + 1 - start, "hand-off")
                  for at in found.meetings if at <= last]  # fmt: skip
        beside = any(b.asked < a.read for a, b in zip(found.pieces, found.pieces[1:], strict=False))
        said.append(f"{way}: {len(found.meetings)} meetings for {PIECES} pieces; a copy is asked "
                    f"for while another reads: {'yes' if beside else 'no'}")  # fmt: skip
    title = "Two boxes and four pieces, with one meeting a piece and with two"
    legend = {
        "produce": "four warps fill the box", "full": "full",
        "consume": "the copy engine reads it", "hand-off": "a meeting",
    }  # fmt: skip
    drawn = Timeline(rows, spans, unit="clock", title=title, legend=legend)
    return Picture.of(drawn, "\n".join([f"{title}.", *said]))


__all__ = ["picture", "seen", "twice", "with_boxes"]
