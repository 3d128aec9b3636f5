"""What the page shows of who is done last: when blocks are done, a model's word, and the bytes."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from phasebit import measure
from phasebit.chapters.attention import handed_out
from phasebit.chapters.attention.last_done import FITTING, LATER, contender, counts
from phasebit.chapters.attention.rungs import CUDNN, FLASH, NEXT

if TYPE_CHECKING:
    from phasebit.draw import Picture

BOTH = contender(0, late=True)


def of_case(parts: Sequence[Mapping[str, Any]], d: int, length: int) -> Mapping[str, Any]:
    """The part of a record for a causal case; raises ``ValueError`` where it has none."""
    (found,) = [each for each in parts if (each["d"], each["sequence"]) == (d, length)
                and each.get("causal", True)]  # fmt: skip
    return found


def us(part: Mapping[str, Any]) -> dict[str, float]:
    """Contender -> its median time in µs."""
    return {
        name: statistics.median(each["times_us"]) for name, each in part["contenders"].items()
    }


def _named(n: int, late: bool) -> str:
    return (LATER if late else "kernel g") + (f", {n} batches" if n > 1 else "")


def done(
    recorded: Mapping[str, Any], d: int, length: int, which: Sequence[tuple[int, bool]]
) -> Picture:
    """When the blocks of a launch are done, in that order.

    ``which``: batches that are made together, and whether the next tile is asked for later.
    """
    from phasebit import draw

    blocks = of_case(recorded["done"], d, length)["blocks"]
    last = len(blocks[NEXT]) - 1
    places = sorted({*range(0, last + 1, 10), last})
    return draw.curves(
        [place + 1 for place in places],
        {_named(*each): [blocks[contender(*each)][place] for place in places] for each in which},
        x_label="blocks that are done",
        y_label="µs since the first block began",
        title=f"Causal, d = {d}, {length:,} tokens; {measure.source(dict(recorded))}",
        show=lambda at: f"{at:.1f}",
        from_zero=False,
    )


def predicted(recorded: Mapping[str, Any], d: int, length: int) -> Picture:
    """How long an average block has nothing to do: measured, and by :mod:`.handed_out`."""
    from phasebit import draw

    blocks = of_case(recorded["done"], d, length)["blocks"]
    rows = {}
    for late in False, True:
        for n in counts(length):
            seen = blocks[contender(n, late)]
            model = handed_out.done(handed_out.lengths(d, length, n), len(seen), 0 if late else 1)
            rows[_named(n, late)] = {
                "measured": 100 * handed_out.idle(seen),
                "by the model": 100 * handed_out.idle(model),
            }
    return draw.dots(
        rows,
        x_label="per cent of a launch in which an average block has nothing to do",
        title=f"Causal, d = {d}, {length:,} tokens; {measure.source(dict(recorded))}",
        show=lambda share: f"{share:.1f}",
    )


def costs(recorded: Mapping[str, Any], d: int, length: int) -> measure.Table:
    """Of kernel g in a causal case: a launch, its last block and an average one, and bytes."""
    times = us(of_case(recorded["times"], d, length))
    ends = of_case(recorded["done"], d, length)["blocks"]
    read = of_case(recorded["bytes"], d, length)["read"]
    rows = tuple(
        (str(n), *(f"{each:.1f}" for each in (
            times[name], ends[name][-1], statistics.mean(ends[name]))), f"{read[name] / 1e6:.0f}")
        for n in counts(length) for name in (contender(n),)
    )  # fmt: skip
    return measure.Table(
        ("batches together", "a launch, µs", "last block", "average block", "MB from memory"),
        rows,
        f"kernel g, causal, d = {d}, {length:,} tokens; blocks: µs until they are done, of a "
        f"launch with stamps; {measure.source(dict(recorded))}",
    )


def rates(recorded: Mapping[str, Any]) -> measure.Table:
    """Kernel g, with each of the two changes and with both, and both beside its rivals."""
    rows = []
    for part in recorded["times"]:
        d, length, times = part["d"], part["sequence"], us(part)
        fit = recorded["fit"].get(f"{d}, {length}", 1) if part["causal"] else 1
        rows.append((
            f"d = {d}, {'causal' if part['causal'] else 'full'}, {length:,}",
            *(f"{times[name]:.1f}" for name in (NEXT, LATER, FITTING, BOTH)), f"{fit}",
            *(f"{times[rival] / times[BOTH]:.2f}" for rival in (CUDNN, FLASH)),
        ))  # fmt: skip
    return measure.Table(
        ("", "kernel g, µs", LATER + ", µs", FITTING + ", µs", "both, µs", "batches",
         f"of {CUDNN}", f"of {FLASH}"),
        tuple(rows), "medians; the last two: the rival's time over that of both; "
        + measure.source(dict(recorded)),
    )  # fmt: skip
