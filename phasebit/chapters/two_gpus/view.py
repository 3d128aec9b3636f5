"""Tables and pictures of *Two GPUs*."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from phasebit import measure
from phasebit.chapters.two_gpus import link_law, link_slips, meshes, scatter_parts
from phasebit.measure import Table

if TYPE_CHECKING:
    from phasebit.draw import Picture

BENCHMARK = "two_gpus"
APART = "communication", "product", "one after the other"
FIRST, SECOND = ("ours, warps send", "ours, each warp waits"), "ours, carried"
"""Our versions before the last: of the gather, of the scatter; the scatter's second."""
WHO = "torch", "our first", "our second", "ours"
STAY = ", parts stay"
"""Behind the name of a kernel whose parts are stored at home: a control."""
WORDS = {"gather": "all-gather, product", "scatter": "product, reduce-scatter"}
WANTED = {"gather": (0.95, 0.85, 0.7), "scatter": (0.85, 0.75, 0.5)}
"""The share of the communication that we wanted to hide, at each size of the record."""
TILE, MULTIPROCESSORS = (128, 256), 132
"""Rows and columns of a tile of C; multiprocessors of an H100."""
_NOTHING = "python -m phasebit record two_gpus, on two GPUs, fills this"


def recorded() -> dict[str, Any] | None:
    """The record, where there is one."""
    try:
        return measure.read(BENCHMARK)
    except FileNotFoundError:
        return None


def note() -> Table:
    """Stands for a record that does not exist yet."""
    return Table(("what", "µs"), (("nothing", "not measured yet"),), _NOTHING)


def medians(case: Mapping[str, Any]) -> dict[str, float]:
    """Microseconds of each contender."""
    return {name: statistics.median(us) for name, us in case["times_us"].items()}


def hidden(us: Mapping[str, float], name: str) -> float:
    """The share of the communication that a contender hides: 1, it takes as long as the product.

    >>> hidden({"product": 100, "one after the other": 200, "ours": 110}, "ours")
    0.9
    """
    product = us["product"]
    return 1 - (us[name] - product) / (us["one after the other"] - product)


def contenders(us: Mapping[str, float]) -> dict[str, str]:
    """Who overlaps, and its name in the record."""
    first = next((name for name in FIRST if name in us), "")
    names = zip(WHO, ("torch", first, SECOND, "ours"), strict=True)
    return {who: name for who, name in names if name in us}


def _whole(data: Mapping[str, Any]) -> list[tuple[str, str, dict[str, float]]]:
    """Kind, shape and microseconds of the cases that are not narrow."""
    return [(case["kind"], " × ".join(map(str, case["shape"])), medians(case))
            for case in data["cases"] if case["whole"]]  # fmt: skip


def hidden_drawn() -> Picture | Table:
    """The share that is hidden by torch and by us, and the share that was wanted."""
    data = recorded()
    if data is None:
        return note()
    from phasebit.draw import dots

    wanted = {kind: iter(shares) for kind, shares in WANTED.items()}
    rows = {}
    for kind, shape, us in _whole(data):
        shares = {who: 100 * hidden(us, name) for who, name in contenders(us).items()}
        rows[f"{kind}, {shape}"] = shares | {"wanted": 100 * next(wanted[kind])}
    return dots(
        rows, x_label="per cent of the communication hidden", show=lambda value: f"{value:.0f}",
        title=f"By M × N × K of a GPU; {measure.source(data)}",
    )  # fmt: skip


def times() -> Table:
    """Medians of the record, and the share that is hidden."""
    data = recorded()
    if data is None:
        return note()
    rows = []
    for kind, shape, us in _whole(data):
        shares = {who: f"{us[name]:.0f} ({100 * hidden(us, name):.0f} %)"
                  for who, name in contenders(us).items()}  # fmt: skip
        rows.append((WORDS[kind], shape, *(f"{us[name]:.0f}" for name in APART),
                     *(shares.get(who, "") for who in WHO)))  # fmt: skip
    return Table(
        ("what", "M × N × K of a GPU", *APART, *WHO), tuple(rows),
        f"µs, and how much of the communication is hidden. {measure.source(data)}",
    )  # fmt: skip


def at_home() -> Table:
    """Scatters that send their parts, and the same that store them at home: what is hidden."""
    data = recorded()
    if data is None:
        return note()
    names = {"each warp waits": FIRST[1], "the carrier": SECOND}
    names |= {f"{how}{STAY}": f"{name}{STAY}" for how, name in names.items()}
    names["copied by the round"] = "ours"
    found = [(shape, us) for kind, shape, us in _whole(data) if kind == "scatter"]
    rows = tuple(
        (how, *(f"{us[name]:.0f} ({100 * hidden(us, name):.0f} %)" for _, us in found))
        for how, name in sorted(names.items(), key=lambda item: item[0] == "copied by the round")
    )
    return Table(
        ("scatter", *(shape for shape, _ in found)), rows,
        f"µs, and how much of the communication is hidden. {measure.source(data)}",
    )  # fmt: skip


def divided() -> Picture:
    """Which part of two layers' matrices lies on which of two GPUs."""
    from phasebit.draw import Panel, panels

    def labels(shape: tuple[int, int], does: meshes.Along) -> dict[tuple[int, int], str]:
        parts = meshes.held(shape, (2, 1), (does, "copies"))
        return {(part.rows.start, part.columns.start): f"GPU {gpu}"
                for (gpu, _), part in parts.items()}  # fmt: skip

    rows, columns = labels((2, 1), "rows"), labels((1, 2), "columns")
    layers = {"X": rows, "W": columns, "H = XW": columns, "V": rows, "HV": rows}
    parts = [
        Panel(name, 2, 1, ((1, 0),), width=0.8, height=0.7, labels=rows) if lies is rows
        else Panel(name, 1, 2, ((0, 1),), width=1.2, height=0.7, labels=columns)
        for name, lies in layers.items()
    ]  # fmt: skip
    said = ", ".join(f"{name} by {'rows' if lies is rows else 'columns'}"
                     for name, lies in layers.items())  # fmt: skip
    return panels(parts, alt=f"Two layers on two GPUs, half of each matrix on either: {said}.")


BLOCKS = 1, 8, 32, 132
"""Numbers of blocks of which the picture of the link has stores and bulk copies."""


def link() -> Picture | Table:
    """What the link carries: stores and bulk copies of so many blocks, copies of so many bytes."""
    data = recorded()
    if data is None:
        return note()
    from phasebit.draw import bars

    flag = data["link"]["flag there and back"]
    drawn = {f"{how} of {n} block{'s' * (n > 1)}{size}": f"{how} of {n} blocks{size}"
             for how, size in (("stores", ""), ("bulk copies", ", 8 KiB"))
             for n in BLOCKS}  # fmt: skip
    drawn |= {each.replace("copy engine", "cudaMemcpyAsync"): each
              for each in data["link"] if each.startswith("copy engine")}  # fmt: skip
    rates = {what: data["link"][each] for what, each in drawn.items() if each in data["link"]}
    hues = {what: "orange" if what.startswith("cuda") else "green" for what in rates
            if not what.startswith("stores")}  # fmt: skip
    return bars(
        rates, hues=hues, show=lambda value: f"{value:g}",
        x_label="GB/s each way, both at once",
        title=f"A flag there and back takes {flag:g} µs; {measure.source(data)}",
    )  # fmt: skip


def found(names: Sequence[str]) -> Table:
    """What is said of slips."""
    source = "wrong: only the result tells; right: nothing does"
    return Table(("slip", "the emulator says"), tuple(link_slips.verdicts(names).items()), source)


def told(seen: Mapping[str, Any]) -> Table:
    """How all slips end on two GPUs, and what the tools say, by what the emulator says of them."""
    heads = ("the emulator names", "slips", "all runs right", "wrong", "hangs or fails",
             "a tool names a place")  # fmt: skip
    rows = []
    for word in SAYS:
        names = [name for name, slip in link_slips.SLIPS.items() if says(slip) == word]
        ends = [set(seen["programs"][name]["alone"]) for name in names]
        named = sum(bool(named_by(seen, name)) for name in names)
        right, wrong = (sum(end == {each} for end in ends) for each in ("right", "wrong"))
        counts = len(names), right, wrong, len(names) - right - wrong, named
        rows.append((word, *map(str, counts)))
    source = f"{measure.source(dict(seen))}, compute-sanitizer {seen['compute-sanitizer']}"
    return Table(heads, tuple(rows), source)


SAYS = "a rule", "a wrong result", "nothing"


def says(slip: link_slips.Slip) -> str:
    """One of :data:`SAYS`."""
    return {"wrong": SAYS[1], "right": SAYS[2]}.get(slip.says, SAYS[0])


def named_by(seen: Mapping[str, Any], name: str) -> list[str]:
    """The tools of compute-sanitizer that name a place in a slip's program."""
    tools = seen["programs"][name]["tools"]
    return [tool for tool, said in tools.items() if said["verdict"] == "found"]


def predicted() -> Table:
    """The model beside the record: sums of narrow products."""
    data = recorded()
    if data is None:
        return note()
    rate = link_law.link_rate(data["link"])
    rows = []
    for case in data["cases"]:
        if not case["whole"]:
            us, (m, n, k) = medians(case), case["shape"]
            gathers = case["kind"] == "gather"
            share = m * (k if gathers else n) / rate * 1e-3
            expected = link_law.time(us["our product"], share, gpus=2)
            tiles = m // 2 // TILE[0] * (n // TILE[1])
            whole = link_law.by_tiles(us["our product"], share, tiles, MULTIPROCESSORS)
            rows.append((WORDS[case["kind"]], str(n if gathers else k),
                         f"{us['our product']:.0f}", f"{expected:.0f}",
                         f"{whole:.0f}" if gathers else "", f"{us['ours']:.0f}"))  # fmt: skip
    return Table(
        ("what", "N or K", "product, µs", "law, µs", "law, whole tiles, µs", "measured, µs"),
        tuple(rows), f"8192 rows; {rate:.0f} GB/s; {measure.source(data)}",
    )  # fmt: skip


def predicted_drawn(kind: str) -> Picture | Table:
    """The model beside the record, for ``gather`` or ``scatter``: curves of what is not hidden."""
    data = recorded()
    if data is None:
        return note()
    from phasebit.draw import curves

    rows = [row for row in predicted().rows if row[0] == WORDS[kind]]
    _, _, alone, *times = zip(*rows, strict=True)
    columns = zip(("the law", "by whole tiles", "measured"), times, strict=True)
    x_label = "columns of B on each GPU" if kind == "gather" else "K of each GPU"
    return curves(
        [int(row[1]) for row in rows],
        {name: [float(us) - float(least) for us, least in zip(each, alone, strict=True)]
         for name, each in columns if all(each)},
        x_label=x_label, y_label="µs more than the product alone",
        show=lambda value: f"{value:.0f}",
        title=f"{WORDS[kind]}: 8192 rows; {measure.source(data)}",
    )  # fmt: skip


LEFT_OUT = {
    "nothing": "whole",
    "the parts' way to the peer": "parts stay",
    "the adding": "not added",
    "both": "parts stay, not added",
    "the copies, their flags and the waits": "no copies",
    "all of these": "no copies, not added",
}
"""What is left out of the reduce-scatter -> the contender of ``scatter_parts``."""


def left_out() -> Table:
    """The reduce-scatter without one part after another: what it takes beyond its product."""
    data = measure.read(scatter_parts.NAME)
    cases = {case["shape"][2]: medians(case) for case in data["cases"]}
    rows = tuple(
        (what, *(f"{us[name] - us[scatter_parts.PLAIN]:.0f}" for us in cases.values()))
        for what, name in LEFT_OUT.items()
    )
    heads = "left out", *(f"K = {depth}" for depth in cases)
    return Table(heads, rows, f"µs more than the product alone; {measure.source(data)}")


COLUMNS = 224, 448, 896, 1792, 3584, 7168, 14336, 28672
"""Of B on each GPU, in the picture of the model: factors of two."""


def slower(columns: float, gpus: int, gbytes: float, tflops: float = 700.0) -> float:
    """The model's time of an all-gather and its product, over that of the product alone.

    >>> slower(1750, 8, 400), slower(875, 2, 400), slower(875, 8, 400)
    (1.0, 1.5, 1.875)
    """
    product, share = columns / tflops, 1e3 / gbytes / gpus  # of a row, in the same unit
    return link_law.time(product, share, gpus) / product


def shares(links: Sequence[tuple[int, float]] = ((2, 400), (8, 400), (8, 50))) -> Picture:
    """The model: :func:`slower` by columns of B, for numbers of GPUs and GB/s of their links."""
    from phasebit.draw.plots import curves

    series = {
        f"{gpus} GPUs, {gbytes:g} GB/s": [slower(n, gpus, gbytes) for n in COLUMNS]
        for gpus, gbytes in links
    }
    return curves(
        [str(n) for n in COLUMNS], series, evenly=True, x_label="columns of B on each GPU",
        y_label="time / product alone", ratios=True,
        title="All-gather and product, by the model, 700 TFLOP/s",
    )  # fmt: skip
