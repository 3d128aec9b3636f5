"""What the page of Part V says of its records: a new measurement must keep it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import median

from phasebit import measure
from phasebit.chapters.attention import view as attention
from phasebit.chapters.eight_bits import lead
from phasebit.chapters.eight_bits import view as eight_bits
from phasebit.chapters.every_shape import processes
from phasebit.chapters.two_gpus import view as two_gpus

from .notebooks import ROOT


def reached() -> Iterator[str]:
    """The last column of the table, from the records."""
    runs = measure.read(processes.NAME)["processes"]
    for way in "warm_us", "flushed_us":
        mean = median(processes.mean(run, way) for run in runs)
        least = median(min(processes.ratio(row, way) for row in run) for run in runs)
        yield f"{mean:.3f}; {least:.3f}"
    heads = measure.read("attention")
    rates = {(causal, length): attention.row(heads, 128, causal, length)
             for causal in (False, True) for length in attention.SEQUENCES}  # fmt: skip
    shares = {case: each[attention.LAST] / each[attention.CUDNN] for case, each in rates.items()}
    long = [(False, length) for length in attention.SEQUENCES if length > 1024]
    others = [share for case, share in shares.items() if case not in long]
    yield f"{min(shares[case] for case in long):.2f}; {min(others):.2f}"
    bits = measure.read("eight_bits")
    blocks, rows = ([eight_bits.rate(bits, (size, size, size), name) for size in (8192, 4096)]
                    for name in ("unrolled", eight_bits.RIVAL))  # fmt: skip
    yield f"{min(a / b for a, b in zip(blocks, rows, strict=True)):.2f}"
    beside = measure.read(lead.NAME)
    shares_of_theirs = (eight_bits.rate(beside, shape, lead.IN_SLOT) /
                        eight_bits.rate(beside, shape, lead.DEEP)
                        for shape in eight_bits.shapes(beside))  # fmt: skip
    yield f"{min(shares_of_theirs):.2f}"
    cases = measure.read(two_gpus.BENCHMARK)["cases"]
    for kind in two_gpus.WORDS:
        hidden = (two_gpus.hidden(two_gpus.medians(case), "ours")
                  for case in cases if case["whole"] and case["kind"] == kind)  # fmt: skip
        yield ", ".join(f"{100 * share:.0f}" for share in hidden) + " %"


def table() -> list[list[str]]:
    page = (ROOT / "book" / "part5_hopper" / "part.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")][2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_the_rows_that_fall_short_are_those_that_the_page_names() -> None:
    def numbers(cell: str) -> list[float]:
        return [float(each) for each in re.findall(r"[\d.]+", cell)]

    short = []
    for what, wanted, reached in table():
        pairs = zip(numbers(wanted), numbers(reached), strict=True)
        if (most := max(goal - got for goal, got in pairs)) > 0:
            short.append((" ".join(what.split()[:3]), round(most, 3)))
    assert short == [("the same with", 0.012)]


def test_what_was_reached_is_what_the_records_hold() -> None:
    assert [row[-1] for row in table()] == list(reached())
