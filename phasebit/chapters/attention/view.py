"""What the page shows of *Attention*: rates of the record, and roles drawn from a run."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from phasebit import measure
from phasebit.chapters.attention import attend, rungs
from phasebit.chapters.attention.encounters import D, Event
from phasebit.chapters.attention.rungs import (
    CUDNN,
    FLASH,
    HEADS,
    LADDER,
    NEXT,
    PLACES,
    RIVALS,
    SEQUENCES,
    TOKENS,
)
from phasebit.pipeline.ring_drawing import RingDrawing

if TYPE_CHECKING:
    from phasebit.draw import Picture
    from phasebit.timeline import Timeline

PERSISTENT, LAST = "persistent", "dynamic"
PACKED, ALONE = "one launch for all", "one launch for each"
def flop(d: int, causal: bool, length: int) -> float:
    """Operations of both products for all heads; causal ones are counted as half of the full."""
    return 4.0 * TOKENS * length * d * HEADS / (2 if causal else 1)


def packed_flop(d: int, lengths: Sequence[int]) -> float:
    """The same of sequences of many lengths, causal."""
    return sum(2.0 * length**2 * d * HEADS for length in lengths)


def row(
    recorded: Mapping[str, Any], d: int, causal: bool, length: int, part: str = "ladder"
) -> dict[str, float]:
    """Contender -> TFLOP/s by its median time."""
    (found,) = [
        each for each in recorded[part]
        if (each["d"], each["causal"], each["sequence"]) == (d, causal, length)
    ]  # fmt: skip
    return {
        name: measure.tflops(flop(d, causal, length), statistics.median(each["times_us"]) * 1e-6)
        for name, each in found["contenders"].items()
    }


def rates(recorded: dict[str, Any]) -> dict[str, str]:
    """Kernel -> its rate in the ladder of the record, full attention over 4096 tokens."""
    found = row(recorded, 128, False, 4096)
    ends = measure.read("attention_waits")
    narrow = row(ends, 64, False, 4096, part="ends")[NEXT]
    return {
        kernel: f"{found[rung]:.0f} TFLOP/s, heads of 128, 4096 tokens"
        for rung, kernel in LADDER.items()
    } | {attend.NEXT: f"{narrow:.0f} TFLOP/s, heads of 64, 4096 tokens ({ends['date']})"}


def ladder(
    recorded: dict[str, Any], d: int, causal: bool, length: int, last: str = LAST
) -> Picture:
    """A bar for each rung up to the ``last`` and for each rival."""
    from phasebit.draw import bars

    rungs = list(LADDER)
    above = rungs[rungs.index(last) + 1 :]
    found = {name: rate for name, rate in row(recorded, d, causal, length).items()
             if name not in above}  # fmt: skip
    kind = "causal" if causal else "full"
    return bars(
        found, x_label="TFLOP/s", hues=dict.fromkeys(RIVALS, "grey"),
        title=f"{kind.capitalize()} attention, heads of {d}, {length:,} tokens; "
        + measure.source(recorded),
    )  # fmt: skip


def against(recorded: dict[str, Any], d: int) -> measure.Table:
    """The last rung beside its rivals, for each length, full and causal."""
    rows = []
    for causal in (False, True):
        for length in SEQUENCES:
            found = row(recorded, d, causal, length)
            rivals = [rival for rival in RIVALS if rival in found]
            rates = [f"{found[name]:.0f}" for name in (LAST, *rivals)]
            parts = [f"{found[LAST] / found[rival]:.2f}" for rival in rivals]
            rows.append((f"{'causal' if causal else 'full'}, {length:,}", *rates, *parts))
    return measure.Table(
        (f"heads of {d}, tokens", LAST, *rivals, *(f"of {rival}" for rival in rivals)),
        tuple(rows),
        f"TFLOP/s, medians; {measure.source(recorded)}",
    )


def packed(recorded: dict[str, Any]) -> measure.Table:
    """Sequences of many lengths: TFLOP/s."""
    rows = []
    for case in recorded["packed"]:
        work = packed_flop(case["d"], case["lengths"])
        rates = {
            name: measure.tflops(work, statistics.median(each["times_us"]) * 1e-6)
            for name, each in case["contenders"].items()
        }
        rows.append((f"heads of {case['d']}", *(f"{rate:.0f}" for rate in rates.values())))
    some = recorded["packed"][0]["lengths"]
    return measure.Table(
        (f"{len(some)} sequences of {min(some)} to {max(some)} tokens", *rates), tuple(rows),
        f"TFLOP/s, causal; {measure.source(recorded)}",
    )  # fmt: skip


def wanted(causal: bool, length: int) -> dict[str, float]:
    """The part of each rival's rate that we wanted to reach."""
    return {CUDNN: 1 if not causal and length > 1024 else 0.97, FLASH: 1.8}


def reached(recorded: dict[str, Any]) -> Picture:
    """The last rung's rate over what was wanted, for each rival."""
    from phasebit.draw import dots

    rows = {}
    for d in (128, 64):
        for causal in (False, True):
            for length in SEQUENCES:
                found = row(recorded, d, causal, length)
                rows[f"{d}, {'causal' if causal else 'full'}, {length:,}"] = {
                    rival: found[LAST] / (part * found[rival])
                    for rival, part in wanted(causal, length).items()
                }
    return dots(
        rows, x_label="our rate / the rate that we wanted", line=1,
        title=f"By head, mask and tokens; {measure.source(recorded)}",
    )  # fmt: skip


def tried(
    recorded: dict[str, Any], base: str, names: Sequence[str],
    cases: Sequence[tuple[int, bool, int]], expected: bool = False,
) -> measure.Table:  # fmt: skip
    """Some variants as parts of a rung's rate in the same rounds, for some cases.

    ``expected``: with what was expected of each, in a column of its own.
    """
    rows = []
    for name in (base, *names):
        rates = [row(recorded, *case, part="variants") for case in cases]
        first = [f"{each[base]:.0f} TFLOP/s" for each in rates]
        parts = [f"{each[name] / each[base]:.2f}" for each in rates]
        said = ["" if name == base else rungs.EXPECTED[name]] if expected else []
        rows.append((name, *said, *(first if name == base else parts)))
    heads = (f"d = {d}, {'causal' if causal else 'full'}, {length:,}"
             for d, causal, length in cases)  # fmt: skip
    source = f"rate as a part of the first row's; {measure.source(recorded)}"
    return measure.Table(("", *(["expected"] if expected else []), *heads), tuple(rows), source)


# -- who does what, and when -------------------------------------------------------

LEGEND = {
    "consume": "a product under way", "produce": "softmax", "wait": "waits for its turn",
}  # fmt: skip


def plan(d: int = 128, tiles: int = 3) -> Timeline:
    """Products and exponentials of 128 queries and some tiles of 128 keys, by one group that does
    one after the other, and by two groups of 64 queries: if nothing else took time.
    """
    from phasebit.timeline import Span, Timeline

    products, exponentials = 2 * (2 * 64 * 128 * d) // 4096, 64 * 128 // 16  # cycles, 64 queries
    rows = [f"{who}, {what}" for who in ("one group", "group 0", "group 1")
            for what in ("products", "exponentials")]  # fmt: skip
    spans, at = [], 0
    for tile in range(tiles):
        between, end = at + 2 * products, at + 2 * (products + exponentials)
        spans.append(Span(rows[0], at, between, "consume", str(tile)))
        spans.append(Span(rows[1], between, end, "produce", str(tile)))
        at = end
    tensor_cores = special_units = 0  # when each is free again
    ready = [0, 0]  # when each group has its exponentials
    for tile in range(tiles):
        for group in (0, 1):
            begin = max(tensor_cores, ready[group])
            tensor_cores = begin + products
            spans.append(Span(rows[2 + 2 * group], begin, tensor_cores, "consume", str(tile)))
            begin = max(special_units, tensor_cores)
            special_units = ready[group] = begin + exponentials
            spans.append(Span(rows[3 + 2 * group], begin, special_units, "produce", str(tile)))
    return Timeline(
        rows, spans, unit="cycles", legend={"produce": "exponentials", "consume": "products"},
        title=f"{tiles} tiles of 128 queries and 128 keys, d = {d}, if nothing else took time",
    )  # fmt: skip


def stamped(recorded: Mapping[str, Any], rung: str, first: int, last: int) -> Timeline:
    """Two groups on the H200, passes ``first`` to ``last`` of their loops, in cycles.

    A product is drawn from the group's turn until the group has seen its end.
    """
    from phasebit.timeline import Timeline

    data = recorded["stamps"][rung]["places"]
    half = len(PLACES)
    begin = min(data[place][first] for place in (0, half))
    drawing = RingDrawing(lambda cycle: cycle - begin, begin)
    rows = []
    for group in (0, 1):
        turn, scores, ready, output = data[group * half : (group + 1) * half]
        products, softmax = f"group {group}, products", f"group {group}, softmax"
        rows += [products, softmax]
        other = f"group {1 - group}, products: their instructions are given first"
        for n in range(first, last + 1):
            if rung == "ping-pong":  # both products end at one place, the softmax comes before them
                drawing.span(softmax, scores[n - 1], ready[n], "produce", str(n))
                drawing.span(softmax, ready[n], turn[n], "wait", waits_for=other)
                drawing.span(products, turn[n], scores[n], "consume", str(n))
            else:
                drawing.span(softmax, output[n - 1], turn[n], "wait", waits_for=other)
                drawing.span(products, turn[n], output[n], "consume", str(n))
                drawing.span(softmax, scores[n], ready[n], "produce", str(n))
    return Timeline(
        rows, drawing.spans, unit="cycles", legend=LEGEND,
        title=f"{rung}: passes {first} to {last} of a block, {measure.source(dict(recorded))}",
    )  # fmt: skip


def roles(text: str, log: Sequence[Event], title: str) -> Picture:
    """The two rings and the two groups of block 0 on the emulator's clock.

    On it products and copies take no time but what the program leaves them: a product is drawn from
    its begin to the place where its group says that the slot is empty.
    """
    from phasebit.draw import Picture
    from phasebit.timeline import Timeline

    slots = attend.number(text, "SLOTS", D)
    groups = attend.groups(text, D)
    drawing, at = RingDrawing(), _moments(log)
    turns = []
    for ring in "kv":
        row = f"{ring.upper()} slot"
        turns += [(ring, tile) for tile in _turns(drawing, at, ring, row, slots, groups)]
    for group in range(groups):
        for ring, what in (("k", "QKᵀ"), ("v", "PV")):
            empties = [("arrives", f"{ring}_empty {slot}", group) for slot in range(slots)]
            ends = sorted(t for empty in empties for t in at.get(empty, []))
            begins = sorted(at.get(("begins", "scores" if ring == "k" else "output", group), []))
            for tile, end in enumerate(ends):
                last = ends[tile - 1] if tile else -1
                start = min(t for t in begins if t > last)
                drawing.span(f"group {group}, {what}", start, end, "consume", str(tile))
    rows = [f"{ring} slot {slot}" for ring in "KV" for slot in range(slots)]
    rows += [f"group {group}, {what}" for group in range(groups) for what in ("QKᵀ", "PV")]
    drawn = Timeline(
        rows, drawing.spans, unit="clock", title=title,
        legend={"produce": "being filled", "full": "full", "consume": "in use by products"},
    )  # fmt: skip
    used = [f"tile {tile} of {ring.upper()} lies in slot {tile % slots}" for ring, tile in turns]
    return Picture.of(drawn, f"{title}: {'; '.join(used)}.")


def tasks(text: str, log: Sequence[Event], title: str) -> Picture:
    """The slots of tasks and the rings of K and V in block 0 of the last kernel, as above.

    A slot is drawn as in use from where group 0 finds it full until all groups have given it back.
    """
    from phasebit.draw import Picture
    from phasebit.timeline import Timeline

    groups = attend.groups(text, D)
    drawing, at = RingDrawing(), _moments(log)
    rings = {"q": ("task slot", "TASKS"), "k": ("K slot", "SLOTS"), "v": ("V slot", "SLOTS")}
    rows, counts = [], {}
    for ring, (row, name) in rings.items():
        slots = attend.number(text, name, D)
        rows += [f"{row} {slot}" for slot in range(slots)]
        counts[ring] = len(_turns(drawing, at, ring, row, slots, groups))
    drawn = Timeline(
        rows, drawing.spans, unit="clock", title=title,
        legend={"produce": "being filled", "full": "full", "consume": "in use"},
    )  # fmt: skip
    said = ", ".join(f"{row} {counts[ring]} times" for ring, (row, _) in rings.items())
    return Picture.of(drawn, f"{title}. Filled and emptied: {said}.")


Moments = Mapping[tuple[str, str, int], Sequence[int]]


def _moments(log: Sequence[Event]) -> Moments:
    """When each thing happened, again and again."""
    at: dict[tuple[str, str, int], list[int]] = {}
    for event in log:
        at.setdefault((event.what, event.where, event.group), []).append(event.at)
    return at


def _turns(
    drawing: RingDrawing, at: Moments, ring: str, row: str, slots: int, groups: int
) -> list[int]:
    """Draw how the slots of a ring were filled and emptied; the items, slot after slot."""
    items = []
    for slot in range(slots):
        steps = [
            at.get(key, [])
            for key in (("passes", f"{ring}_empty {slot}", groups),
                        ("completes", f"{ring}_full {slot}", -1),
                        ("completes", f"{ring}_empty {slot}", -1))
        ]  # fmt: skip
        # Warps of a group that are apart pass one after the other: the first of each turn counts.
        found = at.get(("passes", f"{ring}_full {slot}", 0), [])
        for turn, (begin, full, empty) in enumerate(zip(*steps, strict=False)):
            taken = next(moment for moment in found if moment >= full)
            item = slot + turn * slots
            drawing.turn(f"{row} {slot}", begin, full, taken, empty, str(item))
            items.append(item)
    return items
