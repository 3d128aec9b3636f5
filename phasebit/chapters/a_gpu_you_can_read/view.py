"""What the chapter prints and draws of the emulator: its sources, a warp's blocks, 32 addresses."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from phasebit import draw, measure
from phasebit.draw import Cell, Picture
from phasebit.emulator import listing
from phasebit.emulator.ptx import table

SOURCE = "differential tests on an NVIDIA H200"

Step = tuple[int, list[int], Any]
"""A block executed: its number, the lanes that executed it, what was seen there."""


def say(text: object) -> None:
    """Print, in lines that fit the page."""
    for line in str(text).splitlines():
        print(textwrap.fill(line, 80, subsequent_indent="    "))


def show(thing: Any) -> None:
    """Print a piece of source, and the file that it is from."""
    print("#", inspect.unwrap(thing).__module__.replace(".", "/") + ".py")
    print(textwrap.dedent(inspect.getsource(thing)).rstrip(), end="\n\n")


def watch(kernel: Any, log: list[Step], look: Callable[[Any], Any] = lambda group: None) -> Any:
    """Note every block that a kernel executes: its number, its lanes, a look."""
    program = kernel.program(check=True)

    def watched(number: int, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def step(group: Any) -> Any:
            log.append((number, group.lanes.tolist(), look(group)))
            return function(group)

        return step

    program.code = [watched(i, f) for i, f in enumerate(program.code)]
    return program


def ways(log: Sequence[Step]) -> Counter[tuple[int, int]]:
    """How often a lane went from one block to another."""
    last: dict[int, int] = {}
    taken: Counter[tuple[int, int]] = Counter()
    for number, here, _ in log:
        for lane in here:
            if lane in last:
                taken[last[lane], number] += 1
            last[lane] = number
    return taken


def graph(program: Any, log: Sequence[Step]) -> Picture:
    """The blocks of the kernel ``bits``, and the lanes that went from each to each."""
    labels = {b.index: b.label or ("begin" if b.index == 0 else "") for b in program.blocks}
    what = {2: "bit one?", 3: "count it"}
    place = {0: (0, 0), 1: (0, 75), 2: (0, 150), 3: (0, 225), 4: (0, 300), 5: (132, 75)}
    nodes = {
        str(i): draw.Node(
            f"{i}: {labels[i] or what[i]}", *place[i], hue={3: "orange", 5: "green"}.get(i, "blue")
        )
        for i in labels
    }
    bends = {(2, 4): 76, (4, 1): 78}
    arrows = [
        draw.Arrow(str(start), str(end), f"{count} lanes", bends.get((start, end), 0))
        for (start, end), count in sorted(ways(log).items())
    ]
    return draw.diagram(nodes, arrows, title="Blocks of the kernel bits, and lanes by way taken")


def lanes(log: Sequence[Step]) -> Picture:
    """Which lanes of the warp execute which block of the kernel ``bits``, step by step."""
    hue = {3: "orange", 5: "green"}
    return draw.chart(
        [[Cell(str(number), hue.get(number, "blue")) if lane in here else None
          for lane in range(32)] for number, here, _ in log],
        rows=range(len(log)), columns=range(32), row_label="step", column_label="lane",
        title="One warp in the kernel bits: which lanes execute which block",
        legend={"orange": "count the bit", "green": "store and leave"},
    )  # fmt: skip


def sectors(stride: int) -> Picture:
    """The sector that each lane's word ``x[stride * lane]`` lies in."""
    touched = [4 * stride * lane // 32 for lane in range(32)]
    return draw.chart(
        [[Cell("", "blue") if touched[lane] == sector else None for lane in range(32)]
         for sector in range(max(touched) + 1)],
        rows=range(max(touched) + 1), columns=range(32), row_label="sector", column_label="lane",
        title=f"Stride {stride}: the sector that each lane's word lies in",
    )  # fmt: skip


def banks(stride: int) -> Picture:
    """Wavefronts that give ``x[stride * lane]`` to 32 lanes: from each bank one word in each."""
    waves: list[dict[int, int]] = []
    for lane in range(32):
        bank = stride * lane % 32
        wave = next((wave for wave in waves if bank not in wave), None)
        if wave is None:
            waves.append(wave := {})
        wave[bank] = lane
    return draw.chart(
        [[Cell(str(wave[bank]), "orange") if bank in wave else None for bank in range(32)]
         for wave in waves],
        rows=range(len(waves)), columns=range(32), row_label="wavefront",
        column_label="bank (in the cells: the lane it serves)",
        title=f"Stride {stride}: banks and wavefronts",
    )  # fmt: skip


class _Names(measure.Table):
    """A table whose names, in the first column, may be broken at their dots and colons."""

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        shown = super()._repr_mimebundle_(include, exclude)
        names = re.compile(r"(?<=<tr><td>)[^<]+")
        shown["text/html"] = names.sub(
            lambda name: re.sub(r"(?<=[.:])(?=[^.:])", "<wbr>", name[0]), shown["text/html"]
        )
        return shown


def families() -> measure.Table:
    """How many instructions of each family were compared with a GPU; complete families as one."""
    record = listing.agreed()
    whole: list[tuple[int, int]] = []
    rows = []
    for family in table.FAMILIES:
        known = {entry.name for entry in table.entries() if entry.family == family}
        found = [record[name] for name in known if record.get(name)]
        if known and len(found) == len(known):
            whole.append((len(known), sum(found)))
        elif known:
            rows.append((family, str(len(known)), str(len(found)), f"{sum(found):,}"))
    count, programs = (sum(column) for column in zip(*whole, strict=True))
    first = (f"{len(whole)} families", str(count), str(count), f"{programs:,}")
    heading = ("family", "instructions", "compared", "programs that agreed")
    return measure.Table(heading, (first, *rows), SOURCE)


def instructions() -> measure.Table:
    """What ``python -m phasebit ptx`` prints: every instruction, its section, proof and meaning."""
    record = listing.agreed()
    families = list(table.FAMILIES)
    names = {entry.name for entry in table.entries()}
    rows = []
    for entry in sorted(table.entries(), key=lambda entry: families.index(entry.family)):
        count, said = record.get(entry.name, 0), entry.summary.replace("``", "")
        name, _, meaning = said.partition(": ")
        named = name in names or entry.name.startswith(f"{name}.")
        rows.append((entry.name, entry.section, f"{count:,}" if count else "–",
                     meaning if named else said))  # fmt: skip
    heading = ("instruction", "PTX ISA", "programs that agreed", "what it does")
    return _Names(heading, tuple(dict.fromkeys(rows)), SOURCE)
