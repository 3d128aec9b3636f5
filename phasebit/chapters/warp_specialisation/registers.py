"""Who uses which registers: what ptxas allocates for a kernel, and what its machine code names.

The first is one number for a kernel; the second differs from one part of it to another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from phasebit import toolchain
from phasebit.instruments import disassembly

_OPTIONS = ("-std=c++17", "-O3", "-lineinfo", "-Xptxas", "-v")


@dataclass(frozen=True)
class Allocation:
    """What ``ptxas -v`` says about a kernel and the functions it calls."""

    registers: int  # a thread, at launch
    stack: int  # bytes a thread
    spill_stores: int  # bytes a thread
    spill_loads: int  # bytes a thread
    notes: tuple[str, ...]  # what ptxas would like to be known


@dataclass(frozen=True)
class Part:
    """What the machine code of one function of a kernel names."""

    instructions: int
    highest: int  # register, -1 when it names none
    local: int  # instructions that move data between registers and local memory


def cubin(source: str, target: str = toolchain.DEFAULT_TARGET) -> tuple[bytes, Allocation]:
    """The machine code of a kernel's source, and what was allocated for it.

    Raises :class:`toolchain.CompileError` with the line, :class:`toolchain.ToolMissing`.
    """
    text = source.replace('#include "harness.cuh"', "")
    code, log = disassembly.cubin(text, target, _OPTIONS)
    return code, _allocation(log)


def _allocation(log: str) -> Allocation:
    """From the output of ``ptxas -v`` for a file with one kernel."""

    def most(pattern: str) -> int:
        return max(map(int, re.findall(pattern, log)), default=0)

    return Allocation(
        most(r"Used (\d+) registers"),
        most(r"(\d+) bytes stack frame"),
        most(r"(\d+) bytes spill stores"),
        most(r"(\d+) bytes spill loads"),
        tuple(re.findall(r"^ptxas (?:info|warning)\s*: (?:\(\w+\) )?(.*setmaxnreg.*)$", log, re.M)),
    )


def lines_of(source: str, functions: tuple[str, ...]) -> dict[str, range]:
    """The lines of these functions of a source: from their head to the brace in column 1."""
    lines = source.splitlines()
    found = {}
    for name in functions:
        begins = re.compile(rf"__device__.*\b{name}\(")
        head = next(i for i, line in enumerate(lines, 1) if begins.match(line))
        end = next(i for i, line in enumerate(lines[head:], head + 1) if line == "}")
        found[name] = range(head, end + 1)
    return found


def by_function(code: bytes, lines: Mapping[str, range]) -> dict[str, Part]:
    """What the machine code that came from these lines of ``kernel.cu`` names.

    Raises :class:`toolchain.ToolMissing` without nvdisasm, which is part of the CUDA toolkit.
    """
    return parts(disassembly.listing(code, "-gi"), lines)


def parts(sass: str, lines: Mapping[str, range]) -> dict[str, Part]:
    """Read what ``nvdisasm -c -gi`` prints; an instruction belongs to the function it came from.

    Places stand above the instructions, the inlined one first, then where it was inlined.
    """
    texts: dict[str, list[str]] = {name: [] for name in lines}
    places: list[int] = []
    fresh = True
    for line in sass.splitlines():
        if line.lstrip().startswith("//## File"):
            if fresh:
                places, fresh = [], False
            places += [int(n) for n in re.findall(r'kernel\.cu", line (\d+)', line)]
        elif instruction := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(.+?) ;", line):
            fresh = True
            for name, wanted in lines.items():
                if any(place in wanted for place in places):
                    texts[name].append(instruction[1])
    return {
        name: Part(
            len(found),
            max((int(n) for text in found for n in re.findall(r"\bR(\d+)\b", text)), default=-1),
            sum(bool(re.search(r"\b(LDL|STL)\b", text)) for text in found),
        )
        for name, found in texts.items()
    }
