"""Who tells whom in a pair of blocks: both blocks and their signals, drawn from one tile's run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from phasebit.chapters.chain import kernels
from phasebit.palette import FAINT, FONT, MUTED, TEXT, colour
from phasebit.two_widths import NARROW

if TYPE_CHECKING:
    from phasebit.draw import Picture

SHAPE = (256, 256, 64)
"""One tile of one slice: each signal once."""


class Signal(NamedTuple):
    """Something that counts at a barrier."""

    what: str
    """``copy``, ``commit`` or ``arrival``."""
    block: int
    """Of who tells."""
    warps: range
    barrier: str
    there: int
    """The block of the barrier."""


class Half(NamedTuple):
    """A box of A or B in the shared memory of a block."""

    block: int
    matrix: str
    rows: range


class Told(NamedTuple):
    """What a run of a kernel told at barriers, and where its boxes lie."""

    signals: list[Signal]
    halves: list[Half]
    sums: list[int]
    """The blocks in whose tensor memory the products add."""


def told(source: str) -> Told:
    """One tile of the pair's kernel on the emulator."""
    from phasebit.emulator import BulkCopyObserver, MbarrierObserver, TensorObserver, observing

    names = kernels.Rings.of(source).barriers()
    signals: set[Signal] = set()
    boxes: set[tuple[int, int, int, int, int]] = set()
    sums: set[int] = set()

    def note(what: str, g: Any, lanes: Any, site: Any) -> None:
        batch = g.batch
        name = names[site.name.partition(" of block ")[0]].rpartition(" ")[0]
        there = int(batch.blocks[site.slot])
        warps = sorted({divmod(int(w), batch.warps) for w in batch.warp_of[lanes]})
        for slot, of_block in groupby(warps, key=lambda warp: warp[0]):
            mine = [warp for _, warp in of_block]
            block = int(batch.blocks[slot])
            signals.add(Signal(what, block, range(mine[0], mine[-1] + 1), name, there))

    class Watcher(BulkCopyObserver, MbarrierObserver, TensorObserver):
        def starts_copies(self, g: Any, copies: Any) -> None:
            for one, copy in copies:
                if copy.site is not None:
                    note("copy", g, one.lanes, copy.site)
                    tensor, rows = copy.source.d, copy.source.rows
                    at = (copy.target.start - g.batch.shared_base) // g.batch.shared_stride
                    first, pitch = int(copy.source.begins[0]), tensor.strides[0]
                    boxes.add((int(g.batch.blocks[at]), tensor.address, first, pitch, rows))

        def arrives(self, g: Any, lanes: Any, site: Any, sem: str, scope: str) -> None:
            note("arrival", g, lanes, site)

        def commits(self, commit: Any) -> None:
            note("commit", commit.thread, commit.thread.lanes, commit.site)

        def multiplies(self, g: Any, target: Any, *others: Any) -> None:
            sums.add(int(g.batch.blocks[target.slot]))

    with observing(Watcher()):
        kernels.multiply(source, *SHAPE, schedule="eager")
    tops: dict[int, int] = {}  # of A, then of B: where the first row of the tile is
    for _, address, first, _, _ in sorted(boxes, key=lambda box: box[1:3]):
        tops.setdefault(address, first)
    halves = []
    for block, address, first, pitch, rows in sorted(boxes):
        begin = (first - tops[address]) // pitch
        halves.append(Half(block, "AB"[list(tops).index(address)], range(begin, begin + rows)))
    order = sorted(signals, key=lambda s: (s.what, s.block, s.barrier, s.there))
    return Told(order, halves, sorted(sums))


WIDE, HIGH, GAP, PITCH = 296, 322, 26, 72
"""Of a block's frame, and from one barrier to the next."""
BARRIERS = {"full": 0, "empty": 1, "sum full": 2, "sum empty": 3}
HUES = {"copy": "blue", "commit": "orange", "arrival": "green"}
WORDS = {"copy": "bytes of copies", "commit": "a commit", "arrival": "an arrival of each warp"}
LOAD, PLACES, BAR, MULTIPLY, SUM, FETCH = 10, 50, 118, 172, 222, 278
"""Where the rows of boxes in a block's frame begin."""
LANE = 9
"""Between two lines that go from block to block beside the frames."""

Corners = Mapping[int, tuple[float, float]]
"""A block -> the left upper corner of its frame."""


def picture(source: str) -> Picture:
    """Both blocks, on a phone one below the other: halves, barriers, sums, who tells whom."""
    from phasebit.draw import Picture

    found = told(source)
    blocks = sorted({half.block for half in found.halves})
    title = "A pair makes one tile of 256 × 256: what lies where, and who tells which barrier"
    alt = "\n".join([f"{title}.", *_sentences(found)])
    beside = {block: (i * (WIDE + GAP), 0.0) for i, block in enumerate(blocks)}
    below = {block: (0.0, i * (HIGH + GAP)) for i, block in enumerate(blocks)}
    return Picture(_svg(found, alt, beside), alt, narrow=_svg(found, alt, below))


def _svg(found: Told, alt: str, corners: Corners) -> str:
    """The frames at these corners, the lines between them, and the key."""
    narrow = len({x for x, _ in corners.values()}) == 1
    width = NARROW if narrow else max(x for x, _ in corners.values()) + WIDE + 4
    foot = max(y for _, y in corners.values()) + HIGH
    drawn = [_frame(corner, found, block) for block, corner in corners.items()]
    lanes = iter(range(len(found.signals)))
    for signal in found.signals:
        beside = narrow and signal.block != signal.there
        lane = WIDE + LANE * (1 + next(lanes)) if beside else None
        drawn += [
            _line(corners, signal, lane, half) for half in range(len(_tellers(found, signal)))
        ]
    for i, (what, x) in enumerate(zip(HUES, (0, 170, 290), strict=True)):
        at, y = (0, foot + 18 * (i + 1)) if narrow else (x, foot + 18)
        drawn.append(
            f'<line x1="{at}" y1="{y}" x2="{at + 24}" y2="{y}" '
            f'style="stroke:{colour(HUES[what])};stroke-width:2.5"/>'
            f'<text x="{at + 30}" y="{y + 4}" style="fill:{TEXT}">{WORDS[what]}</text>'
        )
    height = foot + (64 if narrow else 32)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" class="phasebit-diagram" '
        f'width="{width:g}" height="{height:g}" viewBox="-2 -2 {width:g} {height:g}" '
        f'style="min-width:{int(0.92 * width)}px;font:12px {FONT};background:transparent">\n'
        f"<title>{escape(alt)}</title>\n" + "\n".join(drawn) + "\n</svg>"
    )


def _sentences(found: Told) -> Iterable[str]:
    for half in found.halves:
        yield (f"block {half.block} holds rows {half.rows.start} to {half.rows.stop - 1} of "
               f"{half.matrix}")  # fmt: skip
    yield f"products add in tensor memory of blocks {', '.join(map(str, found.sums))}"
    for s in found.signals:
        for who in _tellers(found, s):
            yield f"block {s.block}: {who} → block {s.there}: {s.barrier}: {WORDS[s.what]}"


ROLES = {4: "warp 4: loads", 5: "warp 5: multiplies", 0: "warps 0–3: fetch, store"}
"""The first warp of a role -> what its box says."""


def _tellers(found: Told, signal: Signal) -> list[str]:
    """The boxes that a signal's lines come from: copies come from those that bring the halves."""
    if signal.what == "copy":
        return [_words(half) for half in found.halves if half.block == signal.block]
    return [ROLES[signal.warps[0]]]


def _words(half: Half) -> str:
    return f"{half.matrix}, rows {half.rows.start}–{half.rows.stop - 1}"


def _box(x: float, y: float, wide: float, text: str, hue: str, used: bool = True) -> str:
    """A box with its text; of what nobody uses only the outline is drawn."""
    rim = "" if used else ";stroke-dasharray:3 3"
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="26" rx="5" '
        f'style="fill:{colour(hue)};fill-opacity:{".16" if used else "0"};'
        f'stroke:{colour(hue)}{rim}"/><text x="{x + wide / 2:g}" y="{y + 17:g}" '
        f'text-anchor="middle" style="fill:{TEXT if used else MUTED}">{escape(text)}</text>'
    )


def _frame(corner: tuple[float, float], found: Told, block: int) -> str:
    x, y = corner
    there = {s.barrier for s in found.signals if s.there == block}
    issues = any(s.what == "commit" and s.block == block for s in found.signals)
    out = [
        f'<rect x="{x:g}" y="{y:g}" width="{WIDE}" height="{HIGH}" rx="8" '
        f'style="fill:none;stroke:{FAINT};stroke-width:1.5"/>'
        f'<text x="{x + 22:g}" y="{y + 20:g}" style="fill:{TEXT};font-weight:bold">'
        f"block {block}</text>",
        _box(x + 98, y + LOAD, 100, ROLES[4], "grey"),
        _box(x + 73, y + MULTIPLY, 150, ROLES[5] if issues else "warp 5: no role", "grey", issues),
        _box(x + 10, y + SUM, 220, "sum: its 128 rows, 256 columns", "cyan", block in found.sums),
        _box(x + 73, y + FETCH, 150, ROLES[0], "grey"),
    ]  # fmt: skip
    for i, half in enumerate(h for h in found.halves if h.block == block):
        out.append(_box(x + 24 + i * 136, y + PLACES, 128, _words(half), "blue"))
    for barrier, i in BARRIERS.items():
        out.append(_box(x + 5 + i * PITCH, y + BAR, 70, barrier, "pink", barrier in there))
    return "\n".join(out)


def _line(corners: Corners, signal: Signal, lane: float | None, half: int) -> str:
    """From who tells to the barrier, by a way of its own; ``lane``: beside the frames.

    Of copies the line of one ``half``, 0 or 1, which meets that of the other.
    """
    (x, y), (there_x, there_y) = corners[signal.block], corners[signal.there]
    far = signal.block != signal.there
    at = there_x + 5 + BARRIERS[signal.barrier] * PITCH + 35

    def across(row: float) -> str:
        """From this row of the one block to the barrier's place in the same row of the other."""
        return f"V{y + row:g}" + (f"H{lane:g}V{there_y + row:g}" if lane else "") + f"H{at:g}"

    if signal.what == "copy":
        bus, end = PLACES + (42 if far else 34), there_y + BAR
        way = f"M{x + 88 + 136 * half:g} {y + PLACES + 26:g}" + across(bus)
    elif signal.what == "commit":
        bus, end = MULTIPLY - (12 if far else 18), there_y + BAR + 26
        way = f"M{x + 176:g} {y + MULTIPLY:g}" + across(bus)
    elif signal.barrier == "full":  # the loader announces bytes
        at, end = at - 28, there_y + BAR
        way = f"M{x + 98:g} {y + LOAD + 16:g}H{at:g}"
    else:
        at, end = at + (14 if far else -14), there_y + BAR + 26
        begin = x + (73 if far and lane is None else 223)
        way = f"M{begin:g} {y + FETCH + 13:g}" + across(FETCH + 13)
    hue = colour(HUES[signal.what])
    tail = end - 8 if end == there_y + BAR else end + 8  # it comes from above, or from below
    return (
        f'<path d="{way}V{end:g}" style="fill:none;stroke:{hue};stroke-width:2"/>'
        f'<polygon points="{at:g},{end:g} {at - 4:g},{tail:g} {at + 4:g},{tail:g}" '
        f'style="fill:{hue}"/>'
    )
