"""Pictures of *Four producers, four consumers*, drawn from runs on the emulator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from phasebit.chapters.chain import kernels, pair_signals
from phasebit.chapters.chain.kernels import Rings, Seen

if TYPE_CHECKING:
    from phasebit.draw import Picture
    from phasebit.emulator import Schedule
    from phasebit.timeline import Timeline

LOADER, MULTIPLIER, EPILOGUE, ASKER = 4, 5, 0, 6
"""Warps; of the epilogue's four the first, and of two multipliers."""

TITLE = "The roles of a block on the emulator, whose clock counts instructions: no time"


def multiplier(rings: Rings, sum: int) -> int:
    """The warp whose thread adds to a sum: of two products each has its own."""
    return MULTIPLIER + (sum if rings.products > 1 else 0)


def roles(source: str, log: Sequence[Seen], slices: bool = True) -> Timeline:
    """The rings of block 0 on the emulator's clock; of a pair it is the one that issues.

    ``slices``: whether the slots of A and B, who fills and who drains them have rows.

    A slot is *filled* from its producer's wait at ``empty`` to the end of that phase of ``full``,
    and *drained* from its consumer's wait to the end of that phase of ``empty``.
    """
    from phasebit.pipeline.ring_drawing import RingDrawing
    from phasebit.timeline import Timeline

    rings = Rings.of(source)
    names = rings.barriers()
    events: dict[tuple[str, str, int], list[int]] = {}
    for seen in log:
        if seen.barrier in names and seen.block == 0:
            events.setdefault((seen.what, names[seen.barrier], seen.warp), []).append(seen.at)
    drawing = RingDrawing()

    def ring(prefix: str, row: str, slots: int, producer: int, consumer: int, *rows: str) -> None:
        for slot in range(slots):
            filler = multiplier(rings, slot) if producer == MULTIPLIER else producer
            steps = [
                events.get((what, f"{prefix}{side} {slot}", warp), [])
                for what, side, warp in (("passes", "empty", filler), ("completes", "full", -1),
                                         ("passes", "full", consumer), ("completes", "empty", -1))
            ]  # fmt: skip
            for turn, (begin, full, taken, empty) in enumerate(zip(*steps, strict=False)):
                label = str(slot + turn * slots)
                drawing.turn(f"{row} {slot}", begin, full, taken, empty, label)
                if rows[0]:
                    drawing.span(rows[0], begin, full, "produce", label)
                if rows[1]:
                    drawing.span(rows[1], taken, empty, "consume", label)

    ring("answer ", "answer", rings.answers, ASKER, LOADER, "launch control", "")
    ring("", "slot", rings.stages, LOADER, MULTIPLIER, "copy engine", "tensor core")
    ring("sum ", "sum", rings.sums, MULTIPLIER, EPILOGUE, "", "epilogue")
    rows = [
        *["launch control"] * (rings.answers > 0), *(f"answer {i}" for i in range(rings.answers)),
        *["copy engine", *(f"slot {i}" for i in range(rings.stages)), "tensor core"] * slices,
        *(f"sum {i}" for i in range(rings.sums)), "epilogue",
    ]  # fmt: skip
    return Timeline(
        rows, [s for s in drawing.spans if s.row in rows], unit="clock", title=TITLE,
        legend={"produce": "being filled", "full": "full", "consume": "being drained"},
    )  # fmt: skip


def picture(source: str, log: Sequence[Seen], slices: bool = True) -> Picture:
    """:func:`roles`; its sentences say of each tile what was drained while it was filled.

    And of each answer of launch control which one must have been read before it was asked for.

    The clock depends on the compiler; those sentences hardly do.
    """
    from phasebit.draw import Picture

    drawn = roles(source, log, slices)
    sums: dict[str, dict[int, tuple[float, float]]] = {"produce": {}, "consume": {}}
    for span in drawn.spans:
        if span.row.startswith("sum ") and span.kind in sums:
            sums[span.kind][int(span.label)] = span.start, span.end
    lines = []
    slots, products = Rings.of(source).sums, Rings.of(source).products
    word = "product" if products > 1 else "tile"
    for tile, (begin, end) in sorted(sums["produce"].items()):
        beside = [str(other) for other, (start, stop) in sorted(sums["consume"].items())
                  if start < end and begin < stop]  # fmt: skip
        what = f"while {word} {', '.join(beside)} is carried out" if beside else "alone"
        lines.append(f"{word} {tile} is added up in sum {tile % slots}, {what}")
    lines += _answers(drawn, Rings.of(source).answers)
    return Picture.of(drawn, f"{drawn.title}.\n" + "\n".join(lines))


def _answers(drawn: Timeline, slots: int) -> list[str]:
    """Of each answer, its slot, and which others had been read when it was asked for."""
    spans = {kind: {int(span.label): span for span in drawn.spans
                    if span.row.startswith("answer ") and span.kind == kind}
             for kind in ("produce", "consume")}  # fmt: skip
    lines = []
    for number, asked in sorted(spans["produce"].items()):
        read = [str(i) for i, span in sorted(spans["consume"].items()) if span.end <= asked.start]
        after = f"after all have read {', '.join(read)}" if read else "at the beginning"
        lines.append(f"answer {number} is asked for in slot {number % slots}, {after}")
    return lines


TELLS = {"copy": "bytes", "commit": "a commit", "arrival": "arrivals of warps"}
"""What counts at a barrier, in the words of the page."""


def four_roles(source: str) -> Picture:
    """The roles of a block from left to right; above what tells *full*, below what tells *empty*.

    From a run of one tile: who tells which mbarrier. The ring of pieces has none, and shows what
    the kernel's text has in its place.
    """
    from phasebit.draw import Arrow, Node, diagram

    rings, told = Rings.of(source), pair_signals.told(source).signals
    who = {signal.barrier: signal.warps for signal in told}
    what = {signal.barrier: TELLS[signal.what] for signal in told}  # copies come after arrivals
    names = (f"copy engine,\nfor warp {who['full'].start}",
             f"tensor core,\nfor warp {who['empty'].start}",
             f"epilogue,\nwarps {who['sum empty'].start}–{who['sum empty'].stop - 1}",
             "copy engine,\nfor thread 0")  # fmt: skip
    nodes = {str(i): Node(name, 205.0 * i, 0.0, ("blue", "orange", "green", "blue")[i])
             for i, name in enumerate(names)}  # fmt: skip
    handed = ((f"{rings.stages} slices: {what['full']}", what["empty"]),
              (f"{rings.sums} sums: {what['sum full']}", what["sum empty"]),
              ("2 pieces: the meeting", "wait_group.read, the meeting"))  # fmt: skip
    arrows = [Arrow(str(i + back), str(i + 1 - back), words[back], 28.0)
              for i, words in enumerate(handed) for back in (0, 1)]  # fmt: skip
    return diagram(nodes, arrows, title="Who fills whose slots: above full, below empty")


def tiles_of_blocks(source: str, log: Sequence[Seen]) -> dict[int, int]:
    """How many tiles each block made, in the order of the blocks."""
    names = Rings.of(source).barriers()
    made = Counter(
        s.block for s in log
        if s.what == "completes" and names.get(s.barrier, "").startswith("sum full")
    )  # fmt: skip
    return dict(sorted(made.items()))


HANDING = {"blocks": (kernels.LAUNCH_CONTROL, 128), "pairs": (kernels.PAIR_CONTROL, 256)}
"""By whom tiles are made under launch control -> the kernel, and the rows of a tile."""


def handed_out(
    makers: Iterable[str] = HANDING, schedules: Iterable[Schedule] = ("eager", "random")
) -> str:
    """Eight tiles under launch control, by blocks and by pairs: who runs, how many are made."""
    lines = []
    for what in makers:
        name, high = HANDING[what]
        source = kernels.source(name)
        each = Rings.of(source).blocks
        for schedule in schedules:
            with kernels.watching() as log:
                run, exact = kernels.multiply(source, 8 * high - 24, 256, 64, schedule=schedule)
            made = tiles_of_blocks(source, log)
            # under random the hardware may refuse without need, so more may run
            who = f", by {len(made) // each} {what} of 8" if schedule == "eager" else ""
            lines.append(f"{what}, {schedule}: exact: {exact}, findings: {len(run.findings)}, "
                         f"tiles made: {sum(made.values()) // each}{who}")  # fmt: skip
    return "\n".join(lines)
