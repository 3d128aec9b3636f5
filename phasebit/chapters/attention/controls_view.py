"""What *Attention: what binds* shows of its controls: tables and pictures of three records."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from phasebit import measure
from phasebit.chapters.attention import attend, narrow_heads, rungs, softmax_alone
from phasebit.chapters.attention.rungs import CUDNN, FLASH, NEXT
from phasebit.chapters.attention.view import LAST, flop, row

if TYPE_CHECKING:
    from phasebit.draw import Picture
    from phasebit.timeline import Timeline

RANDOM = "normal random"
"""The inputs of the controls, but where all are zero."""
CONTROLLED = 4096
"""Tokens of a sequence in the controls."""


def controlled(
    recorded: Mapping[str, Any], d: int, causal: bool, names: Sequence[str], inputs: str
) -> measure.Table:
    """Some contenders of the controls, with their clock, and cycles of all for the same work."""
    found = contenders(recorded, d, causal, inputs)
    rows = []
    for name in names:
        us, mhz = (statistics.median(found[name][what]) for what in ("times_us", "mhz"))
        rate = _rate(recorded, d, causal, inputs, name)
        rows.append((name, f"{rate:.0f}", f"{mhz:,.0f}", f"{us * mhz / 1000:,.0f}"))
    return measure.Table(
        (f"heads of {d}, {'causal' if causal else 'full'}, numbers {inputs}", "TFLOP/s", "MHz",
         "thousand cycles"), tuple(rows), measure.source(dict(recorded)),
    )  # fmt: skip


def at_once(recorded: Mapping[str, Any], causal: bool = False) -> measure.Table:
    """The first rung with more shared memory than it uses: how many blocks fit, and how fast."""
    names = recorded["at_once"]
    rows = []
    for name, fit in names.items():
        cells = []
        for d in (64, 128):
            rate = _rate(recorded, d, causal, RANDOM, name)
            cells += [str(fit[str(d)]), f"{rate:.0f}"]
        rows.append((name, *cells))
    both = (_rate(recorded, d, causal, RANDOM, "ping-pong") for d in (64, 128))
    rows.append(("ping-pong", *(cell for rate in both for cell in ("", f"{rate:.0f}"))))
    heads = (f"{what}, heads of {d}" for d in (64, 128) for what in ("blocks at once", "TFLOP/s"))
    return measure.Table(("", *heads), tuple(rows), measure.source(dict(recorded)))


def contenders(
    recorded: Mapping[str, Any], d: int, causal: bool, inputs: str
) -> dict[str, dict[str, list[float]]]:
    """Each contender's times and clocks."""
    (found,) = [
        each["contenders"] for each in recorded["times"]
        if (each["d"], each["causal"], each["inputs"]) == (d, causal, inputs)
    ]  # fmt: skip
    return dict(found)


def _rate(
    recorded: Mapping[str, Any], d: int, causal: bool, inputs: str, name: str
) -> float:
    """TFLOP/s of a contender of the controls."""
    us = statistics.median(contenders(recorded, d, causal, inputs)[name]["times_us"])
    return measure.tflops(flop(d, causal, CONTROLLED), us * 1e-6)


def unordered(recorded: Mapping[str, Any]) -> measure.Table:
    """The second rung with its named barriers and without: TFLOP/s."""
    names = "ping-pong", "ping-pong, no named barriers"
    rows = []
    for d, causal in ((128, False), (64, False), (64, True)):
        with_, without = (_rate(recorded, d, causal, RANDOM, name) for name in names)
        what = f"heads of {d}, {'causal' if causal else 'full'}"
        rows.append((what, f"{with_:.0f}", f"{without:.0f}", f"{without / with_:.2f}"))
    return measure.Table(
        ("", "named barriers", "none", "none, as a part"), tuple(rows),
        f"TFLOP/s of kernel b; {measure.source(dict(recorded))}",
    )  # fmt: skip


def orders(recorded: Mapping[str, Any], names: Sequence[str]) -> measure.Table:
    """Where the exponentials of some kernels stand, and the rates as parts of the first one's."""
    cases = [(each["d"], each["causal"], each["sequence"]) for each in recorded["orders"]]
    rates = [row(recorded, *case, part="orders") for case in cases]
    rows = []
    for name in names:
        before, behind = recorded["exponentials"][name]["128"]
        if name == names[0]:
            cells = [f"{each[name]:.0f}" for each in rates]
        else:
            cells = [f"{each[name] / each[names[0]]:.2f}" for each in rates]
        short = name.removeprefix(f"{names[0]}, ")
        rows.append((short, f"{before} of {before + behind}", *cells))
    heads = (f"d = {d}, {'causal' if causal else 'full'}" for d, causal, _ in cases)
    return measure.Table(
        ("", "exponentials before the wait", *heads), tuple(rows),
        "4,096 tokens; the first row: TFLOP/s, the others: as a part of it; "
        + measure.source(dict(recorded)),
    )  # fmt: skip


def alone(recorded: Mapping[str, Any]) -> measure.Table:
    """Cycles of a softmax in kernels of its own, with something beside it or nothing.

    Of two groups that have one, the mean; products are no row, nor part of one.
    """
    rows = []
    for name, roles in softmax_alone.ALONE.items():
        done = [role for role in roles if role != "NOTHING"]
        cycles = [spent for role, spent in zip(done, recorded["alone"][name], strict=True)
                  if role != "PRODUCTS"]  # fmt: skip
        if cycles:
            who = f"{'one group, ' * name.startswith('beside')}{name}"
            rows.append((who, f"{statistics.mean(cycles):,.0f}"))
    table = tuple(rows)
    return measure.Table(("the softmax of", "cycles"), table, measure.source(dict(recorded)))


def ends(recorded: Mapping[str, Any]) -> measure.Table:
    """Kernel g beside kernel f and its rivals, in a record of their own."""
    rows = []
    for each in recorded["ends"]:
        d, causal, length = each["d"], each["causal"], each["sequence"]
        found = row(recorded, d, causal, length, part="ends")
        rows.append((
            f"d = {d}, {'causal' if causal else 'full'}, {length:,}",
            *(f"{found[name]:.0f}" for name in (LAST, NEXT)),
            *(f"{found[NEXT] / found[name]:.2f}" for name in (LAST, CUDNN, FLASH)),
        ))  # fmt: skip
    return measure.Table(
        ("", "kernel f", "kernel g", "of kernel f", *(f"of {name}" for name in (CUDNN, FLASH))),
        tuple(rows), "TFLOP/s, medians; " + measure.source(dict(recorded)),
    )  # fmt: skip


WAITS = 0, 50, 200, 450, 600, 900, 1200
"""Of the waits put in, those in the picture."""
SLACK = {
    "c, its groups": ("overlapped", "all groups"),
    "c, its producer": ("overlapped", "the producer"),
    "f, its groups": ("dynamic", "all groups"),
    "f, its producer": ("dynamic", "the producer"),
}
"""Curve -> the kernel, and who waits in it."""


def passes(
    recorded: Mapping[str, Any], kernel: str, d: int, causal: bool, who: str = "all groups",
) -> tuple[list[int], list[list[float]]]:
    """For each wait put in: how much longer it lasts than none, and each group's cycles a pass."""
    (found,) = [
        each for each in recorded["slack"]
        if (each["kernel"], each["d"], each["causal"]) == (kernel, d, causal)
    ]  # fmt: skip
    cycles = [
        [statistics.median(group) for group in zip(*run["pass"], strict=True)]
        for run in found["runs"] if run["who"] == who
    ]  # fmt: skip
    return [round(each - found["lasts"][0]) for each in found["lasts"]], cycles


def slack(recorded: Mapping[str, Any]) -> Picture:
    """How much longer a pass is for a wait put into it, by who waits; heads of 128, full."""
    from phasebit.draw import curves

    waits: list[int] = []
    series: dict[str, Sequence[float]] = {}
    for curve, (kernel, who) in SLACK.items():
        lasts, cycles = passes(recorded, kernel, 128, False, who)
        means = [statistics.mean(each) for each in cycles]
        shown = [recorded["slack"][0]["waits"].index(wait) for wait in WAITS]
        waits = [lasts[i] for i in shown]
        series[curve] = [means[i] - means[0] for i in shown]
    return curves(
        waits, {"as long as the wait": waits, **series}, x_label="wait put in, cycles",
        y_label="a pass is longer by", show=lambda value: f"{float(value):,.0f}",
        title="A wait in each pass, heads of 128, full attention; "
        + measure.source(dict(recorded)),
    )  # fmt: skip


OWN_LAST, DISPATCH, OTHER, RESULT, ISSUES = (
    "wait", "dispatch", "not_selected", "short_sb", "selected",
)  # fmt: skip
"""What Nsight Compute calls the states of a warp."""


def _of_a_pass(recorded: Mapping[str, Any], kernel: str, d: int) -> list[tuple[str, str]]:
    """A kernel's instructions from complete scores to the next products, and their samples."""
    (found,) = [each["instructions"] for each in recorded["samples"]
                if (each["kernel"], each["d"]) == (kernel, d)]  # fmt: skip
    begin = next(i for i, each in enumerate(found) if "DEPBAR" in each and "0x1 barrier" in each)
    end = next(i for i in range(begin, len(found)) if "HGMMA" in found[i])
    parts = (each.partition(" ") for each in found[begin + 1 : end])
    return [(name, samples) for name, _, samples in parts]


STANDS = {"c": "overlapped", "c, pinned": "overlapped, pinned"}
"""Kernel of the picture -> its name in the record."""


def stands(recorded: Mapping[str, Any], d: int = 128) -> Timeline:
    """Where exponentials and the wait for $PV$ stand in machine code, from complete scores to the
    next products; without instructions that no sample met.
    """
    from phasebit.timeline import Span, Timeline

    rows, spans = [], []
    for name, kernel in STANDS.items():
        code = [each for each, samples in _of_a_pass(recorded, kernel, d) if samples]
        wait = next(i for i, each in enumerate(code) if "DEPBAR" in each)
        product, exponentials = f"{name}, PV", f"{name}, exponentials"
        rows += [product, exponentials]
        spans.append(Span(product, 0, wait, "consume"))
        for begin, end in ((0, wait), (wait, len(code))):
            here = [i for i in range(begin, end) if code[i].startswith("MUFU.EX2")]
            if here:
                spans.append(Span(exponentials, here[0], here[-1] + 1, "produce", str(len(here))))
        spans.append(Span(product, wait, len(code), "beside"))
    return Timeline(
        rows, spans, unit="instructions", title="Machine code of a pass, from complete scores to "
        f"the next products, heads of {d}; {measure.source(dict(recorded))}",
        legend={"produce": "from the first exponential to the last", "beside": "after that wait",
                "consume": "before the wait for PV"},
    )  # fmt: skip


def softmax_states(recorded: Mapping[str, Any], kernel: str, d: int) -> dict[str, float]:
    """State -> its part of a kernel's samples from complete scores to the end of a pass.

    Without those in which a warp waits for the output.
    """
    counts: dict[str, int] = {}
    for _, samples in _of_a_pass(recorded, kernel, d):
        for part in filter(None, samples.split(", ")):
            state, number = part.rsplit(" ", 1)
            if not state.startswith("0x0") and state != "long_sb":
                counts[state] = counts.get(state, 0) + int(number)
    return {state: number / sum(counts.values()) for state, number in counts.items()}


def narrow(recorded: dict[str, Any]) -> measure.Table:
    """What was tried for heads of 64, as parts of the last rung's rate in the same rounds."""
    rows = []
    for name in (narrow_heads.LAST, *narrow_heads.TRIED):
        parts = [
            statistics.median(each["contenders"][narrow_heads.LAST]["times_us"])
            / statistics.median(each["contenders"][name]["times_us"])
            for each in recorded["times"]
        ]
        expected = narrow_heads.TRIED[name].expected if name in narrow_heads.TRIED else ""
        rows.append((name, expected, *(f"{part:.2f}" for part in parts)))
    heads = (f"{'causal' if each['causal'] else 'full'}, {each['sequence']:,}"
             for each in recorded["times"])  # fmt: skip
    source = f"heads of 64: rate as a part of the first row's; {measure.source(recorded)}"
    return measure.Table(("", "expected", *heads), tuple(rows), source)


def spilled(name: str, d: int = 128) -> int:
    """Bytes of registers a thread that ptxas spills in full attention.

    ``name``: a kernel of :mod:`rungs`, with the tiles of long sequences, or one that
    :mod:`narrow_heads` tries. Needs nvcc.
    """
    from phasebit.instruments import disassembly

    text = narrow_heads.text(name) if name in narrow_heads.TRIED else rungs.text(name)
    text = attend.alone(text, (d, False), long=True)
    _, said = disassembly.cubin(text, "sm_90a", ("-Xptxas", "-v"))
    return sum(map(int, re.findall(r"(\d+) bytes spill stores", said)))
