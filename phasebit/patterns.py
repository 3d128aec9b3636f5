"""Pictures of accesses: which lane touches which sector, which lane is served by which bank.

They are drawn from what a run on the emulator did (``run.accesses``), never from a formula.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from phasebit.draw import Cell, Picture, chart
from phasebit.emulator import Access, traffic
from phasebit.measure import Table
from phasebit.palette import HUES

WORD = 4  # bytes
FEW = 4
"""Banks that are shown alone, and with all their lanes, where the others are not asked."""


def lanes(accesses: Mapping[str, Access], title: str) -> Picture:
    """A row for each access: lanes across, in each cell the sector that the lane begins in.

    Sectors are numbered from the first one that the access touches.
    """
    rows = []
    for access in accesses.values():
        first = min(_sectors(access, lane)[0] for lane in access.lanes)
        row: list[Cell | None] = [None] * 32
        for lane in access.lanes:
            number = _sectors(access, lane)[0] - first
            row[lane] = Cell(str(number), HUES[number % len(HUES)])
        rows.append(row)
    return chart(
        rows, rows=list(accesses), columns=range(32), row_label="kernel",
        column_label="lane (in the cells: the sector it begins in)", title=title,
    )  # fmt: skip


def sectors(access: Access, title: str) -> Picture:
    """A row for each sector that the access touches: its eight words, and who asks for them."""
    wanted: dict[int, list[int]] = {}
    for lane in access.lanes:
        for word in _words(access, lane):
            wanted.setdefault(word, []).append(lane)
    numbers = sorted({word * WORD // traffic.SECTOR for word in wanted})
    each = traffic.SECTOR // WORD
    cells = [
        [
            Cell(_span(wanted[word]), "blue") if word in wanted else Cell("·", "grey")
            for word in range(number * each, (number + 1) * each)
        ]
        for number in numbers
    ]
    return chart(
        cells, rows=[number * traffic.SECTOR for number in numbers], columns=range(each),
        row_label="first byte", column_label="word of the sector (in the cells: lanes)",
        title=title, legend={"blue": "asked for", "grey": "fetched, and not asked for"},
    )  # fmt: skip


def banks(access: Access, title: str) -> Picture:
    """A row for each wavefront: the 32 banks, and which lanes each one serves.

    How many wavefronts there are is counted as the counters do. Which of a bank's words comes
    first is not known; here it is the one of the lowest lane.
    """
    served = wavefronts(access)
    asked = sorted({bank for wave in served for bank in wave})
    few = len(asked) <= FEW and any(len(lanes) > 2 for wave in served for _, lanes in wave.values())
    shown = asked if few else range(traffic.BANKS)
    cells = [
        [
            Cell((_all if few else _span)(wave[bank][1]), HUES[number % len(HUES)])
            if bank in wave else None for bank in shown
        ]
        for number, wave in enumerate(served)
    ]  # fmt: skip
    names: Sequence[object] = shown
    label = "bank (in the cells: the lanes it serves)"
    if few:
        names = [f"bank {bank}" for bank in asked]
        label = f"in the cells: the lanes it serves; the other {traffic.BANKS - len(asked)} rest"
    return chart(
        cells, rows=range(len(served)), columns=names, row_label="wavefront", column_label=label,
        title=title,
    )  # fmt: skip


def beside(
    runs: Mapping[str, Mapping[str, int]],
    counted: Mapping[str, Mapping[str, int]],
    metrics: Mapping[str, str],
    source: str,
) -> Table:
    """The emulator's counters beside those that a profiler recorded, kernel by kernel.

    ``runs`` and ``counted``: kernel -> metric -> value; ``metrics``: heading -> metric;
    ``source`` says where the profiler counted. Where the two agree on every kernel, a metric has
    one column.
    """
    columns: dict[str, list[int]] = {}
    alike = True
    for name, metric in metrics.items():
        columns[name] = [mine.get(metric, 0) for mine in runs.values()]
        theirs = [counted[kernel][metric] for kernel in runs]
        if theirs != columns[name]:
            columns[f"{name}, profiler"], alike = theirs, False
    rows = zip(runs, *([f"{n:,}" for n in column] for column in columns.values()), strict=True)
    said = f"alike by both: {source}" if alike else source
    return Table(("kernel", *columns), tuple(rows), said)


def wavefronts(access: Access) -> list[dict[int, tuple[int, list[int]]]]:
    """What each bank delivers in each wavefront of a shared access: bank -> (word, lanes)."""
    served: list[dict[int, tuple[int, list[int]]]] = []
    for first, last in traffic.parts_of(access.addresses, access.size, access.op == "load"):
        queues: dict[int, dict[int, list[int]]] = {}  # bank -> word -> lanes, in order
        for lane in (lane for lane in access.lanes if first <= lane < last):
            for word in _words(access, lane):
                queues.setdefault(word % traffic.BANKS, {}).setdefault(word, []).append(lane)
        for turn in range(max(map(len, queues.values()), default=0)):
            served.append(
                {
                    bank: list(queue.items())[turn]
                    for bank, queue in sorted(queues.items())
                    if turn < len(queue)
                }
            )
    return served


def _words(access: Access, lane: int) -> list[int]:
    """The 4-byte words that a lane touches."""
    start = int(access.addresses[lane])
    return sorted({byte // WORD for byte in range(start, start + access.size)})


def _sectors(access: Access, lane: int) -> list[int]:
    return sorted({word * WORD // traffic.SECTOR for word in _words(access, lane)})


def _span(found: Sequence[int]) -> str:
    """Lanes in few characters: ``5``, ``0–31``, ``0,2–``…

    >>> _span([5]), _span([0, 1, 2]), _span([0, 2, 4])
    ('5', '0–2', '0,2…')
    """
    if len(found) == 1:
        return str(found[0])
    if list(found) == list(range(found[0], found[-1] + 1)):
        return f"{found[0]}–{found[-1]}"
    return f"{found[0]},{found[1]}" + ("…" if len(found) > 2 else "")


def _all(found: Sequence[int]) -> str:
    """All lanes, in words.

    >>> _all([0, 2, 4, 6, 8, 10]), _all([3, 5])
    ('6 lanes: 0, 2, 4, … 10', '2 lanes: 3, 5')
    """
    steps = {b - a for a, b in pairwise(found)}
    if len(found) < 6 or len(steps) > 1:
        listed = ", ".join(map(str, found))
    else:
        listed = f"{found[0]}, {found[1]}, {found[2]}, … {found[-1]}"
    return f"{len(found)} lane{'s' * (len(found) > 1)}: {listed}"


__all__ = ["banks", "beside", "lanes", "sectors", "wavefronts"]
