"""Pictures of *Caches and tiles*: where an address belongs, and what a set keeps."""

from __future__ import annotations

import re
from collections.abc import Sequence

from phasebit import caches, nests, toolchain
from phasebit.draw import Cell, Panel, Picture, chart, panels


def addresses(walk: Sequence[int], level: caches.Level, bits: int = 16) -> Picture:
    """The last ``bits`` bits of each address: place in the line, set, and the rest.

    The number of sets must be a power of two; raises ``ValueError`` for another.
    """
    if level.sets & (level.sets - 1):
        raise ValueError(f"{level.sets} sets: no bits of an address are the set")
    place = level.line.bit_length() - 1
    of_set = level.sets.bit_length() - 1

    def hue(bit: int) -> str:  # the colours of the explorer of sets
        return "orange" if bit < place else "green" if bit < place + of_set else "blue"

    across = range(bits - 1, -1, -1)
    return chart(
        [[Cell(str(address >> bit & 1), hue(bit)) for bit in across] for address in walk],
        rows=walk, columns=across, row_label="address", column_label="bit of the address",
        title=f"{level.sets} sets of {level.ways} lines of {level.line} bytes",
        legend={"blue": "tag: which line of its set", "green": "set", "orange": "byte in the line"},
    )  # fmt: skip


def ways(walk: Sequence[int], level: caches.Level, of: int = 0) -> Picture:
    """What one set keeps after each address of a walk, the line used last on the left."""
    held = caches.kept(walk, level, of)
    cells = [
        [
            Cell(str(lines[way]), "orange" if missed and way == 0 else "blue")
            if way < len(lines)
            else None
            for way in range(level.ways)
        ]
        for missed, lines in held
    ]
    return chart(
        cells, rows=[f"{step + 1}." for step in range(len(held))], columns=range(level.ways),
        row_label="access", column_label="way, by the time of the last use",
        title=f"The lines that set {of} keeps", legend={"orange": "missed, and fetched"},
    )  # fmt: skip


def compiler_says(name: str, nest: nests.Nest) -> str:
    """A line of what GCC reports to have done to the loops of a nest, with its usual options."""
    if not toolchain.host_compiler().version.startswith("g++"):
        return f"⏱ {name}: this compiler is not GCC, and reports in other words"
    program = nests.build(nest, ["-fopt-info-loop-optimized", "-fopt-info-vec-optimized"])
    depths = {}  # line of the source -> loop
    for number, line in enumerate(program.source.splitlines(), 1):
        found = re.match(r"\s*for \(int64_t (\w+) =", line)
        if found:
            depths[number] = found[1]
    done = re.findall(
        r"nest\.cpp:(\d+):\d+: optimized:\s+(.*vectors|applying unroll and jam.*)",
        program.library.build.warnings,
    )
    said = [f"{depths[int(line)]}: {what}" for line, what in done if int(line) in depths]
    return f"⏱ {name}: {'; '.join(said) or 'nothing'}"


def turn(n: int, block: int, k0: int, j0: int) -> Picture:
    """How often each element of A, B and C is used while one block of B has its turn.

    The loops are those of ``caches_and_tiles/blocked``, inside its first two. An element of C is
    counted once for each ``+=``.
    """
    used = {name: [[0] * n for _ in range(n)] for name in "ABC"}
    for i in range(n):
        for k in range(k0, min(k0 + block, n)):
            used["A"][i][k] += 1
            for j in range(j0, min(j0 + block, n)):
                used["B"][k][j] += 1
                used["C"][i][j] += 1
    title = f"n = {n}, one turn of a block of {block} × {block}: how often each element is used"
    grid = "\n".join(
        f"{row:>3} | " + " . . ".join(" ".join(str(each or "·") for each in counts[row])
                                      for counts in used.values())
        for row in range(n)
    )  # fmt: skip
    parts = []
    for (name, counts), hue in zip(used.items(), ("orange", "blue", "green"), strict=True):
        here = {(i, j): str(each) for i, line in enumerate(counts)
                for j, each in enumerate(line) if each}  # fmt: skip
        parts.append(Panel(name, n, n, here, hue, height=0.75, labels=here))
    return panels(parts, alt=f"{title}. Rows downwards; the columns of A, B and C.\n{grid}")
