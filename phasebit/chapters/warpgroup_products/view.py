"""What the page shows: pieces of the first product, and of the record wgmma's rate by its width."""

from __future__ import annotations

import statistics
from typing import Any

from phasebit import files, measure
from phasebit.draw import Picture, curves
from phasebit.measure import Table

WIDTHS = (8, 16, 32, 64, 128, 256)
BATCH = 16
"""Instructions of a group that is committed, in ``rate.cu``."""
NOMINAL = 4096
"""FLOP a cycle on each multiprocessor of Hopper, bf16, dense: 4 tensor cores of 512 each."""


def listing(first: str, last: str) -> None:
    """Print lines of ``wgmma.cu`` with their numbers: from the one that begins with ``first`` to
    the next that begins with ``last``.
    """
    lines = files.kernel("warpgroup_products/wgmma").splitlines()
    begin = next(k for k, line in enumerate(lines) if line.startswith(first))
    end = next(k for k in range(begin, len(lines)) if lines[k].startswith(last))
    print("\n".join(f"{k + 1:3}  {lines[k]}".rstrip() for k in range(begin, end + 1)))


def rate(recorded: dict[str, Any], n: int, a: str, groups: int = 2, pending: int = 1) -> float:
    """FLOP a cycle on each multiprocessor, the median of the rounds.

    ``a``: where A is, ``"shared"`` or ``"registers"``; ``pending``: batches that may be under way
    while the next is begun.
    """
    (row,) = (
        row for row in recorded["rates"]
        if (row["n"], row["a"], row["groups"], row["pending"]) == (n, a, groups, pending)
    )  # fmt: skip
    return float(statistics.median(row["flop_a_cycle"]))


def rates(recorded: dict[str, Any]) -> dict[str, str]:
    """Kernel -> how fast it is at its best."""
    return {"rate": f"{rate(recorded, 256, 'shared'):,.0f} FLOP a cycle, 64 × 256 × 16"}


def bytes_a_cycle(n: int, a: str) -> float:
    """What products of width ``n`` read of shared memory at the nominal rate: bytes a cycle."""
    cycles = 2 * 64 * n * 16 / NOMINAL
    of_a = 64 * 16 * 2 if a == "shared" else 0
    return (of_a + n * 16 * 2) / cycles


def picture(recorded: dict[str, Any]) -> Picture:
    """The rate over the width, and what 128 bytes a cycle of shared memory would allow."""
    allowed = [min(NOMINAL, NOMINAL * 128 / bytes_a_cycle(n, "shared")) for n in WIDTHS]
    return curves(
        list(WIDTHS),
        {"A in registers": [rate(recorded, n, "registers") for n in WIDTHS],
         "A in shared memory": [rate(recorded, n, "shared") for n in WIDTHS],
         "128 bytes a cycle allow": allowed},
        x_label="N of the instruction", y_label="FLOP a cycle on each multiprocessor", evenly=True,
        title=f"wgmma by its width, {measure.source(recorded)}",
    )  # fmt: skip


def budget(widths: tuple[int, ...] = (64, 128, 256)) -> Picture:
    """Bytes of shared memory a cycle: what products read, and what the copy engine writes.

    The products run at the nominal rate, with A in shared memory; the engine brings the tiles of
    a step of *The ring at full width* while they multiply the step before.
    """
    from phasebit.draw.picture import INK, both, figure_of, frame
    from phasebit.draw.row_plots import named_rows
    from phasebit.palette import COLOURS

    step = (128 + 256) * 64 * 2 / (2 * 128 * 256 * 64 / NOMINAL)
    rows = {f"N = {n}": {"B": 64.0, "engine": step, "A": 2048 / (n / 2)} for n in widths}
    parts = dict(zip(rows[f"N = {widths[0]}"], ("green", "orange", "blue"), strict=True))
    title = "Products at 4,096 FLOP a cycle, and the tiles of the next step"
    x_label = "bytes of shared memory a cycle; the line is at 128, if all share it"

    def drawn(narrow: bool) -> Any:
        figure, axes = figure_of(6.2, 0.9 + (0.55 if narrow else 0.42) * len(rows), narrow)
        for row, values in enumerate(rows.values()):
            at = 0.0
            for name, value in values.items():
                axes.barh(
                    row + 0.2 * narrow, value, left=at, height=0.4 if narrow else 0.62,
                    color=COLOURS[parts[name]], alpha=0.35, edgecolor=INK, linewidth=0.5,
                )  # fmt: skip
                axes.text(at + 1.2, row + 0.2 * narrow, f"{name} {value:.0f}", ha="left",
                          va="center", color=INK, fontsize=9)  # fmt: skip
                at += value
        axes.axvline(128, color=INK, linewidth=1.5)
        axes.set_xlim(0, 180)
        axes.set_xticks(range(0, 161, 32))
        axes.set_ylim(len(rows) - 0.5, -0.5)
        named_rows(axes, list(rows), narrow)
        frame(axes, title, x_label, narrow=narrow)
        return figure

    lines = (
        f"{name}: {', '.join(f'{part} {value:.0f}' for part, value in values.items())}, "
        f"together {sum(values.values()):.0f} of 128"
        for name, values in rows.items()
    )
    return both(drawn, f"{title}. {x_label}.\n" + "\n".join(lines))


def waits(recorded: dict[str, Any]) -> Table:
    """One warp group and two, with all batches waited for and with one under way; N = 256, 64.

    Beside the rates, in cycles of a multiprocessor for a batch: its products at the nominal rate,
    and what it takes where all batches are waited for.
    """
    rows = []
    for n in (64, 256):
        flop = 2 * 64 * n * 16 * BATCH
        for groups in (1, 2):
            all_waited, one_under_way = (rate(recorded, n, "shared", groups, p) for p in (0, 1))
            rows.append((f"64 × {n} × 16", str(groups), f"{all_waited:,.0f}",
                         f"{one_under_way:,.0f}", f"{flop / NOMINAL:,.0f}",
                         f"{flop / all_waited:,.0f}"))  # fmt: skip
    heading = ("instruction", "warp groups", "wait_group<0>, FLOP a cycle", "wait_group<1>",
               "products of a batch, cycles", "a batch, wait_group<0>")  # fmt: skip
    return Table(heading, tuple(rows), measure.source(recorded))


def narrow(recorded: dict[str, Any]) -> Table:
    """Cycles of a multiprocessor for an instruction, by width and by where A is.

    Of all ways in which sums take turns and groups multiply: the least, and the most.
    """
    found: dict[tuple[int, str], list[float]] = {}
    for row in recorded["cycles"]:
        cycles = float(statistics.median(row["cycles"]))
        found.setdefault((row["n"], row["a"]), []).append(cycles)
    rows = []
    for n in sorted({n for n, _ in found}):
        seen = (
            f"{min(found[n, a]):.1f} to {max(found[n, a]):.1f}" for a in ("shared", "registers")
        )
        rows.append((f"64 × {n} × 16", f"{n / 2:.0f}", f"{(2048 + 32 * n) / 128:.0f}", *seen))
    return Table(
        ("instruction", "products alone", "reads of A and B", "A in shared memory",
         "A in registers"), tuple(rows),
        "cycles for an instruction; least and most of 1, 2 and 4 groups with 1, 2 and 4 sums each; "
        f"{measure.source(recorded)}",
    )  # fmt: skip


def beside_row(recorded: dict[str, Any], **given: Any) -> tuple[float, float]:
    """Cycles for an instruction, and bytes that arrive a cycle: medians of the rounds.

    Of boxes of 16 KiB, one thread asking, each block with a source of its own, unless ``given``
    says otherwise.
    """
    wanted = {"boxes": True, "bytes": 16384, "warps": 1, "same": False, "blocks": 16, **given}
    (row,) = (
        row for row in recorded["rows"] if all(row[what] == is_ for what, is_ in wanted.items())
    )
    cycles, arrived = (statistics.median(row[what]) for what in ("cycles", "arrived"))
    return cycles, arrived


def supposed(n: int, a: str, arrived: float) -> float:
    """Cycles for an instruction, if reads and writes shared 128 bytes a cycle."""
    read = 32 * n + (2048 if a == "shared" else 0)
    return max(n / 2, read / (128 - arrived))


def beside(recorded: dict[str, Any]) -> Table:
    """Products while boxes of 32 KiB arrive as fast as they come, and what sharing would make."""
    rows = []
    for n in (32, 64, 128, 256):
        alone, _ = beside_row(recorded, n=n, a="shared", asked=0)
        cycles, arrived = beside_row(recorded, n=n, a="shared", bytes=32768, asked=-1)
        rows.append((f"64 × {n} × 16", f"{alone:.1f}", f"{arrived:.0f}",
                     f"{supposed(n, 'shared', arrived):.1f}", f"{cycles:.1f}"))  # fmt: skip
    heads = ("instruction", "nothing copied, cycles", "bytes a cycle that arrive",
             "cycles, if all share 128", "cycles, measured")  # fmt: skip
    return Table(heads, tuple(rows), "cycles for an instruction, A in shared memory; 16 "
                 f"multiprocessors; {measure.source(recorded)}")  # fmt: skip


def asking(recorded: dict[str, Any]) -> Table:
    """Products beside a thread that asks for copies, or looks, with a multiplication or without.

    ``recorded``: the record of :mod:`.asking`.
    """
    ways = (
        ("boxes", "boxes", "boxes, multiplied"),
        ("bulk copies", "bulk, added", "bulk"),
        ("looks at the clock", "looks", "looks, multiplied"),
        ("only adds, or only multiplies", "additions", "multiplications"),
    )
    kinds = ((64, "shared"), (256, "registers"))
    rows = []
    for name, *beside in ways:
        seen = (asking_row(recorded, *kind, how) for kind in kinds for how in beside)
        rows.append((name, *(f"{cycles:.1f}" for cycles in seen)))
    heads = ("what one thread does", *(
        f"N = {n}{said}" for n, _ in kinds for said in ("", ", and multiplies")
    ))  # fmt: skip
    return Table(heads, tuple(rows), "cycles for an instruction; N = 64: A in shared memory, N = "
                 f"256: in registers; 132 multiprocessors; {measure.source(recorded)}")  # fmt: skip


def asking_row(recorded: dict[str, Any], n: int, a: str, beside: str) -> float:
    """Cycles for an instruction, the median of the rounds; ``beside``: what the thread does."""
    (row,) = (
        row for row in recorded["rows"] if (row["n"], row["a"], row["beside"]) == (n, a, beside)
    )
    return float(statistics.median(row["cycles"]))
