"""What *To pack or not to pack* shows: what loops touch and miss, and what the record timed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from phasebit import caches, draw, measure, nests, toolchain
from phasebit.draw import Picture
from phasebit.nests import Nest, misses, packing
from phasebit.nests.examples import EXAMPLES

Record = dict[str, Any]
Times = Mapping[str, Mapping[str, Sequence[float]]]
Nests = Mapping[str, Nest]

LEVELS = ("L1", "L2", "TLB", "L2 TLB")

STEPS = {
    "gcc: packed": ("gcc, packed", "gcc"),
    "clang, not gcc": ("clang", "gcc"),
    "clang: packed": ("clang, packed", "clang"),
    "Polly, not clang": ("Polly", "clang"),
    "MLIR: jammed": ("MLIR, jammed", "MLIR"),
    "tiled 16": ("MLIR, tiled 16", "MLIR"),
    "copied": ("MLIR, tiled 16, copied", "MLIR, tiled 16"),
    "tiled 32": ("MLIR, tiled 32", "MLIR"),
    "copied too": ("MLIR, tiled 32, copied", "MLIR, tiled 32"),
}
"""Column -> the program and the one before it, which differ in one thing."""


# What loops touch


def touched(nest: Nest) -> measure.Table:
    """Pages and elements of A and of B that the loops from each depth on touch."""
    rows = []
    for depth in range(len(nest.order)):
        running = " ".join(level.variable for level in nest.order[depth:])
        boxes = ("×".join(map(str, nest.box(array, depth))) for array in "AB")
        rows.append((str(depth), running, *map(str, pages(nest, depth)), *boxes))
    heading = ("depth", "loops that run", "pages of A", "of B", "elements of A", "of B")
    return measure.Table(heading, tuple(rows), "what the inner loops touch by themselves")


def pages(nest: Nest, depth: int) -> list[int]:
    """Of A and of B, the pages that the loops from that depth on touch."""
    return [misses.entries(nest, array, depth) for array in "AB"]


def pages_over_time() -> Picture:
    """The page of each access to A and B in the first rounds of the contraction as written."""
    times = [divmod(time, 100) for time in range(0, 300, 5)]  # rounds of k, and of l within
    floats = {"A": [(100 * outer + inner) * 50 for outer, inner in times],
              "B": [(80 * inner + outer) * 60 for outer, inner in times]}  # fmt: skip
    return draw.curves(
        range(0, 300, 5),
        {array: [4 * place // 4096 for place in places] for array, places in floats.items()},
        x_label="rounds of the innermost loop", y_label="page of the array",
        title="Three rounds of k, a hundred of l in each", show=lambda value: f"{value:.0f}",
    )  # fmt: skip


def pages_beside_entries(steps: Nests) -> Picture:
    """Pages of A, of B and of both in the innermost loop, beside the entries of the first TLB."""
    rows = {}
    for name, nest in steps.items():
        of_a, of_b = pages(nest, len(nest.order) - 1)
        rows[name] = {"A": of_a, "B": of_b, "A + B": of_a + of_b}
    entries = caches.TLB[0].ways * caches.TLB[0].sets
    return draw.dots(
        rows, line=entries, x_label=f"pages; the line: the {entries} entries of the TLB",
        title="Pages that the loop over l touches", show=lambda count: f"{float(count):.0f}",
    )  # fmt: skip


def cache_lines(walks: Mapping[str, tuple[Nest, str]]) -> Picture:
    """The cache line of each access, by the stride in the innermost loop: nest and array."""
    cells: list[list[draw.Cell | None]] = []
    for nest, array in walks.values():
        step = misses.stride(nest, array)
        found = [i * step * 4 // 64 for i in range(18)]
        new = [True, *(here != before for before, here in itertools.pairwise(found))]
        cells.append([
            draw.Cell(str(line), "orange" if first else "blue")
            for line, first in zip(found, new, strict=True)
        ])  # fmt: skip
    return draw.chart(
        cells, rows=list(walks), columns=range(18), row_label="", column_label="l",
        title="The cache line of each access",
        legend={"orange": "another line than before", "blue": "the same line"},
    )  # fmt: skip


def block_by_set() -> Picture:
    """Lines of a block of 64 × 64 floats in each set of L1, with rows of two lengths."""
    level = caches.TYPICAL[0]
    lines = {f"rows of {ld}": caches.crowding(level, 64, 64, ld).tolist() for ld in (512, 272)}
    return draw.curves(
        range(level.sets), lines | {"its ways": [level.ways] * level.sets}, x_label="set of L1",
        y_label="lines of the block", title="A block of 64 × 64, set by set",
        show=lambda count: f"{float(count):.0f}",
    )  # fmt: skip


def source(nest: Nest) -> None:
    """Print the C++ of a nest, its loops only."""
    text = nests.build(nest, ["-O1"]).source
    print(text[text.index("static void") : text.index('extern "C"')].rstrip())


# What is missed


@cache
def watched(nest: Nest) -> misses.Cost:
    """What caches and TLBs see of one run of a nest."""
    return misses.counted(nests.build(nest, ["-O1"]).watch())


def miss_rates(nest: Nest) -> None:
    """Print the misses of each level for 100 accesses."""
    cost = watched(nest)
    for name in LEVELS:
        rate = 100 * cost.misses[name] / cost.accesses
        print(f"{name:>6}: {rate:5.2f} misses for 100 accesses")


def pages_and_misses(steps: Nests) -> measure.Table:
    """Of each version: pages that three loops and the innermost touch, and misses of each level."""
    rows = []
    for name, nest in steps.items():
        boxes = ["{} + {}".format(*pages(nest, depth)) for depth in (1, 3)]
        counted = (f"{watched(nest).misses[level] / 1e6:.2f}" for level in LEVELS)
        rows.append((name, *boxes, *counted))
    heading = ("", "pages of A + B, three loops", "innermost loop", *LEVELS)
    return measure.Table(heading, tuple(rows), "misses in millions")


def shares(steps: Nests) -> None:
    """Print which share of the first version's cycles of misses each version has."""
    first, *_ = steps.values()
    for name, nest in steps.items():
        share = watched(nest).cycles / watched(first).cycles
        print(f"{name:>25}: {share:4.2f} of the plain nest's cycles")


def every_order(nest: Nest) -> measure.Table:
    """Each order of the loops: cycles of misses, estimated, and with what the analysis packs."""
    rows = []
    for order in itertools.permutations(level.variable for level in nest.order):
        plain = nest.interchange(*order)
        plan = packing.analyse(plain, whole=True).chosen
        cycles = (f"{misses.estimate(each).cycles / 1e6:.1f}" for each in (plain, plan))
        rows.append((" ".join(order), *cycles, packed_arrays(plan)))
    heading = ("loops", "as they lie", "packed", "what is packed")
    return measure.Table(heading, tuple(rows), "millions of cycles of misses, estimated")


def packed_arrays(nest: Nest) -> str:
    """The arrays that a nest packs, or ``nothing``."""
    return " ".join(pack.array for pack in nest.packs) or "nothing"


def one_set(name: str, pack: tuple[str, int]) -> None:
    """Print a pack's gain, estimated and simulated, with the sets of the caches and with one."""
    one = [caches.Level(level.name, level.line, 1, level.sets * level.ways, level.chain)
           for level in caches.TYPICAL]  # fmt: skip
    both = EXAMPLES[name], EXAMPLES[name].pack(*pack)
    for what, levels in (("as they are", caches.TYPICAL), ("one set", one)):
        told = [misses.estimate(nest, levels).cycles for nest in both]
        seen = [misses.counted(nests.build(nest, ["-O1"]).watch(levels)).cycles for nest in both]
        print(f"{what:>11}: estimated {told[0] / told[1]:.2f}, simulated {seen[0] / seen[1]:.2f}")


def pages_together(steps: Nests) -> measure.Table:
    """Pages of all arrays that the inner loops touch, for each version of a nest."""
    rows = []
    for depth in (1, 2, 3):
        together = (sum(misses.entries(nest, array, depth) for array in "ABC")
                    for nest in steps.values())  # fmt: skip
        rows.append((str(depth), *map(str, together)))
    heading = ("loops from depth", *steps)
    return measure.Table(heading, tuple(rows), "pages of A, B and C together")


# What the record timed


def faster(times: Mapping[str, Sequence[float]], name: str, plain: str = "plain") -> float:
    """How many times as fast a version is as the plain one, by the fastest run of each."""
    return min(times[plain]) / min(times[name])


def times(recorded: Record, steps: Nests) -> measure.Table:
    """Times of each version in each mode; prints the flags, and how long a round takes."""
    modes = recorded["modes"]
    print("any order:", modes["any order"])
    for name, nest in steps.items():
        seconds = min(recorded["example"]["as written"][name])
        print(f"as written, {name}: {1e9 * seconds / nest.iterations:.2f} ns for each round")
    rows, runs = [], 0
    for name in steps:
        cells = [name]
        for mode in modes:
            took = recorded["example"][mode]
            runs = len(took[name])
            cells += [f"{1000 * min(took[name]):.1f}", f"{faster(took, name):.1f}"]
        rows.append(tuple(cells))
    heading = ["", *itertools.chain(*((f"{mode}, ms", "times as fast") for mode in modes))]
    about = f"fastest of {runs} runs; {measure.source(recorded)}, {recorded['compiler']}"
    return measure.Table(tuple(heading), tuple(rows), about)


def whole_example(recorded: Record, steps: Nests) -> measure.Table:
    """Each version: pages in the innermost loop, misses, and how many times as fast it is."""
    rows = []
    for name, nest in steps.items():
        counted = (f"{watched(nest).misses[level] / 1e6:.2f}" for level in ("L1", "TLB"))
        gained = (f"{faster(recorded['example'][mode], name):.1f}" for mode in recorded["modes"])
        rows.append((name, "{} + {}".format(*pages(nest, 3)), *counted, *gained))
    heading = ("", "pages of A + B, innermost loop", "L1 misses, millions", "TLB misses, millions",
               *(f"{mode}, times as fast" for mode in recorded["modes"]))  # fmt: skip
    about = f"times: {measure.source(recorded)}, {recorded['compiler']}"
    return measure.Table(heading, tuple(rows), about)


def gained(recorded: Record, name: str, choice: str) -> None:
    """Print how many times as fast a nest is in each mode with a choice of packs."""
    for mode in recorded["modes"]:
        gain = faster(recorded["nests"][name][mode], choice, "none")
        print(f"{name}, {mode}: {choice.split()[0]} packed is {gain:.1f} times as fast")


def found(data: Record, kind: str) -> dict[str, float]:
    """Choice -> cycles by the simulator, or seconds in one of the modes."""
    if kind == "simulated":
        return dict(data[kind])
    return {choice: min(took) for choice, took in data[kind].items()}


def gains(recorded: Record, kind: str, *named: str) -> Picture:
    """The gain of every choice of packs over none: by the analysis, and found otherwise.

    ``kind``: "simulated", or one of the modes of the record. ``named`` points get their names.
    """
    points = {}
    for name, data in recorded["nests"].items():
        seen, told = found(data, kind), data["estimated"]
        for choice in set(told) - {"none"}:
            gain = told["none"] / told[choice], seen["none"] / seen[choice]
            points[f"{name}: {choice}"] = gain
    many = len(recorded["nests"])
    title, label = f"Every choice of packs of {many} nests: cycles of misses", "simulated gain"
    if kind != "simulated":
        title = f"The same choices: time, {measure.source(recorded)}"
        label = f"measured gain, {kind}"
    return draw.scatter(
        dict(sorted(points.items())), x_label="estimated gain, times as fast", y_label=label,
        title=title, name=set(named),
    )  # fmt: skip


def decisions(recorded: Record) -> Picture:
    """The nests for which the decision is not within a tenth of the best choice in every mode."""
    rows = {}
    for name, data in recorded["nests"].items():
        behind = {kind: _over_the_best(data, kind)[0] for kind in ("simulated", *recorded["modes"])}
        if max(behind.values()) > 1.1:
            rows[f"{name}: {data['whole']}"] = behind
    return draw.dots(
        rows, line=1, x_label="cycles of misses, or time, over the least of all choices",
        title=f"Decisions, {measure.source(recorded)}",
    )  # fmt: skip


def decided(recorded: Record) -> None:
    """Print for how many nests the decision is within a tenth of the best, and the others."""
    of_all = recorded["nests"]
    several = sum(len(data["simulated"]) > 1 for data in of_all.values())
    print(f"{len(of_all)} nests, {several} of them with something to choose")
    for kind in ("simulated", *recorded["modes"]):
        wrong = []
        for name, data in of_all.items():
            ratio, best = _over_the_best(data, kind)
            if ratio > 1.1:
                wrong.append(f"{name}: {data['whole']} takes {ratio:.2f} times as long as {best}")
        print(f"{kind}: within a tenth of the best choice for {len(of_all) - len(wrong)}")
        for each in wrong:
            print("    but", each)


def _over_the_best(data: Record, kind: str) -> tuple[float, str]:
    """What the decision takes over the least that any choice takes, and that choice."""
    took = found(data, kind)
    best = min(took, key=lambda choice: took[choice])
    return took[data["whole"]] / took[best], best


# Compilers


def gain(times: Mapping[str, Sequence[float]], name: str, over: str) -> float | None:
    """How many times as fast one program is as another; ``None`` where one was not timed."""
    if not {name, over} <= times.keys():
        return None
    return min(times[over]) / min(times[name])


def compilers(times: Times) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heading and rows: for each nest what each step of :data:`STEPS` gained, those timed."""
    there = [
        column for column, step in STEPS.items()
        if any(gain(each, *step) is not None for each in times.values())
    ]  # fmt: skip
    rows = []
    for nest, each in times.items():
        gains = [gain(each, *STEPS[column]) for column in there]
        rows.append((nest, *("–" if x is None else f"{x:.2f}" for x in gains)))
    return ("times as fast as the step before", *there), rows


def through_compilers(recorded: Record) -> measure.Table:
    """The table of :func:`compilers`, from the record."""
    heading, rows = compilers(recorded["compilers"])
    used = "; ".join(recorded["tools"].values()) or "no other compiler"
    about = f"{measure.source(recorded)}, {recorded['compiler']}; {used}"
    return measure.Table(heading, tuple(rows), about)


def steps_beside(recorded: Record) -> Picture:
    """What each step between compilers gains, for every nest that was timed."""
    heading, rows = compilers(recorded["compilers"])
    gains = {
        step: {row[0]: float(row[column]) for row in rows if row[column] != "–"}
        for column, step in enumerate(heading[1:], 1)
    }
    return draw.spread(
        {step: list(each.values()) for step, each in gains.items()},
        {step: [each["contraction"]] for step, each in gains.items()},
        ratios=True, x_label="times as fast as the program beside it", times_are="a nest each",
        apart_are="the contraction", title=f"Steps between compilers, {measure.source(recorded)}",
    )  # fmt: skip


def steps_that_gain(recorded: Record) -> None:
    """Print for how many nests each step between compilers gains or costs more than a tenth."""
    heading, rows = compilers(recorded["compilers"])
    for column, what in enumerate(heading[1:], 1):
        gained = [float(row[column]) for row in rows if row[column] != "–"]
        print(f"{what:>16}: faster by more than a tenth for {sum(x > 1.1 for x in gained):2} of "
              f"{len(gained)}, slower for {sum(x < 1 / 1.1 for x in gained)}")  # fmt: skip
    nothing = [nest for nest, data in recorded["nests"].items() if data["whole"] == "none"]
    print(f"the analysis packs nothing in {len(nothing)} of {len(rows)} nests")


def vectors(name: str, nest: nests.Nest, options: Sequence[str]) -> str:
    """A line of which loops of a nest GCC makes vectors of, those of the copies left out."""
    if not toolchain.host_compiler().version.startswith("g++"):
        return f"⏱ {name}: this compiler is not GCC, and reports in other words"
    program = nests.build(nest, [*options, "-fopt-info-vec-optimized"])
    lines = program.source.splitlines()
    found = []
    for number in re.findall(
        r"nest\.cpp:(\d+):\d+: optimized: loop vectorized", program.library.build.warnings
    ):
        loop = re.match(r"\s*for \(int64_t ([a-z]) =", lines[int(number) - 1])
        if loop and loop[1] not in found:
            found.append(loop[1])
    return f"⏱ {name}: {'vectors along ' + ', '.join(found) if found else 'no vectors'}"


def vectors_of(recorded: Record, packs: Mapping[str, tuple[str, int]]) -> None:
    """Print which loops GCC makes vectors of where sums may be reordered, unpacked and packed."""
    options = recorded["modes"]["any order"].split()
    for name, pack in packs.items():
        print(vectors(name, EXAMPLES[name], options))
        print(vectors(f"{name}, {pack[0]} packed", EXAMPLES[name].pack(*pack), options))
