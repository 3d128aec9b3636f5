"""What the page shows of batches made together: when blocks are done, and what that costs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from phasebit import measure
from phasebit.chapters.attention.rungs import CUDNN, FLASH, NEXT
from phasebit.chapters.attention.together import FITTING, contender

if TYPE_CHECKING:
    from phasebit.draw import Picture


def of_case(parts: Sequence[Mapping[str, Any]], d: int, length: int) -> Mapping[str, Any]:
    """The part of a record for a case; raises ``ValueError`` where it has none or several."""
    (found,) = [each for each in parts if (each["d"], each["sequence"]) == (d, length)
                and each.get("causal", True)]  # fmt: skip
    return found


def us(part: Mapping[str, Any]) -> dict[str, float]:
    """Contender -> its median time in µs."""
    return {
        name: statistics.median(each["times_us"]) for name, each in part["contenders"].items()
    }


def _named(name: str) -> str:
    return {NEXT: "1 batch (g)"}.get(name, name.replace(" together", ""))


def done(recorded: Mapping[str, Any], d: int, length: int, counts: Sequence[int]) -> Picture:
    """When the blocks of a launch are done, in that order, by the batches made together."""
    from phasebit import draw

    blocks = of_case(recorded["done"], d, length)["blocks"]
    last = len(blocks[NEXT]) - 1
    places = sorted({*range(0, last + 1, 10), last})
    return draw.curves(
        [place + 1 for place in places],
        {_named(contender(n)): [blocks[contender(n)][place] for place in places] for n in counts},
        x_label="blocks that are done",
        y_label="µs since the first block began",
        title=f"Causal, d = {d}, {length:,} tokens; {measure.source(dict(recorded))}",
        show=lambda at: f"{at:.1f}",
        from_zero=False,
    )


def costs(recorded: Mapping[str, Any], *cases: tuple[int, int]) -> measure.Table:
    """Of causal cases (d, length): times, the time of an average block, and bytes from memory."""
    rows = []
    for d, length in cases:
        times = us(of_case(recorded["times"], d, length))
        ends = of_case(recorded["done"], d, length)["blocks"]
        read = of_case(recorded["bytes"], d, length)["read"]
        for name, each in ends.items():
            rows.append((
                f"d = {d}, {length:,}: {_named(name)}", f"{times[name]:.1f}", f"{each[-1]:.1f}",
                f"{statistics.mean(each):.1f}", f"{read[name] / 1e6:.0f}",
            ))  # fmt: skip
    return measure.Table(
        ("", "a launch, µs", "last block", "average block", "MB from memory"), tuple(rows),
        "causal; blocks: µs until they are done, of a launch with stamps; "
        + measure.source(dict(recorded)),
    )  # fmt: skip


def rates(recorded: Mapping[str, Any]) -> measure.Table:
    """Kernel g and as many batches as fit in L2, beside cuDNN and FlashAttention-2."""
    rows = []
    for part in recorded["times"]:
        d, length, times = part["d"], part["sequence"], us(part)
        fit = recorded["fit"].get(f"{d}, {length}", 1) if part["causal"] else 1
        rows.append((
            f"d = {d}, {'causal' if part['causal'] else 'full'}, {length:,}", f"{fit}",
            f"{times[NEXT]:.1f}", f"{times[FITTING]:.1f}",
            *(f"{times[rival] / times[FITTING]:.2f}" for rival in (CUDNN, FLASH)),
        ))  # fmt: skip
    return measure.Table(
        ("", "fit", "kernel g, µs", FITTING + ", µs", f"of {CUDNN}", f"of {FLASH}"), tuple(rows),
        "medians; fit: batches together; " + measure.source(dict(recorded)),
    )  # fmt: skip
