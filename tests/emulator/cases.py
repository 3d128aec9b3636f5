"""The kernels that the emulator and an H200 both run: where they are and how they are launched.

``counters/*.cu``  one access pattern a kernel: what Nsight Compute counts
``planted/*.cu``   one mistake a kernel, and its repair: what finds it
and the book's kernels, whole and with mistakes planted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from phasebit import files
from tests.kernels import mistakes

HERE = Path(__file__).parent
BOOK = ("double_buffering/tiled", "double_buffering/barrier_double_buffer")
SHORT_K = 256
"""The depth of the book's matrices when a mistake is planted: short, so that tools are quick."""

RING_MISTAKES = {
    "nobody waits for the tile": "race",
    "the consumer does not wait": "race uninitialised",
    "the producer does not wait": "race barrier",
    "the producer never says full": "deadlock",
    "the slots never begin empty": "deadlock",
    "the consumer never says empty": "deadlock",
    "one arrival too many is expected": "deadlock",
}
"""Mistakes of the book's kernels that are about waiting, and what they must be found as."""


@dataclass(frozen=True)
class Case:
    """One kernel: its source, its launch, and for planted mistakes what must be found where."""

    group: str
    kernel: str
    source: str
    file: str
    options: tuple[str, ...] = ()
    grid: int = 2
    block: int = 64
    form: str = "int"
    bytes: tuple[int, int, int] = (512, 512, 512)
    kinds: frozenset[str] = frozenset()
    lines: frozenset[int] = frozenset()

    @property
    def name(self) -> str:
        return f"{self.group}/{self.kernel}"


def _book(name: str, source: str, k: int, **more: object) -> Case:
    sizes = (32 * k * 4, 32 * k * 4, 32 * 32 * 4)
    return Case(
        "book", name, source, f"{name}.cu", grid=1, block=512, form="float", bytes=sizes, **more
    )  # type: ignore[arg-type]


def counted() -> list[Case]:
    """Kernels whose counters are compared: the microkernels and the book's."""
    cases = []
    for path in sorted((HERE / "counters").glob("*.cu")):
        text = path.read_text(encoding="utf-8")
        for name in _kernels(text):
            cases.append(
                Case(path.stem, name, text, path.name, form="float", bytes=(65536, 65536, 4))
            )
    for name in BOOK:
        text = (files.kernels() / f"{name}.cu").read_text(encoding="utf-8")
        cases.append(_book(name, text, 4096))
    return cases


def planted(repaired: bool = False) -> list[Case]:
    """Kernels with a mistake each, or their repaired twins."""
    shared = (HERE / "planted" / "planted.cuh").read_text(encoding="utf-8")
    shared = shared.replace("#pragma once\n", "")
    cases = []
    for path in sorted((HERE / "planted").glob("*.cu")):
        text = path.read_text(encoding="utf-8")
        marks = _marks(text)
        text = text.replace('#include "planted.cuh"', f'{shared}\n#line 3 "{path.name}"')
        options = ("-DREPAIRED",) if repaired else ()
        for name, (kinds, lines) in marks.items():
            cases.append(
                Case(path.stem, name, text, path.name, options, kinds=kinds, lines=lines)
            )
    for name, kinds in RING_MISTAKES.items():
        kernel = mistakes.MISTAKES[name][0]
        text = mistakes.source(kernel) if repaired else mistakes.planted(name)
        text = text.replace("K = 4096;", f"K = {SHORT_K};")
        case = _book(kernel, text, SHORT_K, kinds=frozenset(kinds.split()))
        cases.append(
            Case(**{**vars(case), "kernel": name.replace(" ", "_"), "group": "book_planted"})
        )
    return cases


def _kernels(text: str) -> list[str]:
    """Names of the kernels in a file, those that macros make included."""
    return [
        name
        for name in re.findall(r"^(?:KERNEL |(?:LOAD|STORE|SHARED)(?:_IF)?\()(\w+)", text, re.M)
        if name != "name"
    ]


def _marks(text: str) -> dict[str, tuple[frozenset[str], frozenset[int]]]:
    """For each kernel: what its mistake must be found as, and in which lines."""
    marks: dict[str, tuple[set[str], set[int]]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if start := re.match(r"KERNEL (\w+)", line):
            kinds, lines = marks.setdefault(start[1], (set(), set()))
        elif mark := re.search(r"// <- ([\w ]+)$", line):
            kinds.update(mark[1].split())
            lines.add(number)
    return {name: (frozenset(kinds), frozenset(lines)) for name, (kinds, lines) in marks.items()}
