"""A timeline as text: for a terminal, and for tests to compare."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from phasebit.timeline.downwards import cells, steps
from phasebit.timeline.spans import number

if TYPE_CHECKING:
    from phasebit.timeline import Timeline


def _whole(t: Timeline) -> bool:
    times = [time for s in t.spans for time in (s.start, s.end)] + [m.at for m in t.marks]
    return all(float(time).is_integer() for time in times)


def across(t: Timeline, width: int = 90, most: int = 720) -> str:
    """One character a unit, in blocks of at most ``width``; beyond ``most`` units, scaled."""
    start, end = math.floor(t.start), math.ceil(t.end)
    length = end - start
    exact = _whole(t) and length <= most
    unit = 1.0 if exact else max(t.end - t.start, 1e-9) / width
    columns = length if exact else width
    blocks = max(1, math.ceil(columns / width))
    width = 5 * max(1, math.ceil(columns / blocks / 5))  # blocks of the same width
    styles = t.styles
    lines = {row: [" "] * columns for row in t.rows}
    for span in sorted(t.spans, key=lambda s: styles[s.kind].texture != "line"):
        a = round((span.start - (start if exact else t.start)) / unit)
        b = round((span.end - (start if exact else t.start)) / unit)
        if b == a and not exact:
            b = min(a + 1, columns)
        drawn = list(styles[span.kind].sign * (b - a))
        if len(span.label) <= len(drawn) and len(span.label) < max(len(drawn), 2):
            drawn[: len(span.label)] = span.label
        lines[span.row][a:b] = drawn
    margin = max([len(t.unit), *(len(row) for row in t.rows)]) + 2
    out = [t.title] if t.title else []
    for block in range(0, max(columns, 1), width):
        block_end = min(block + width, columns)
        if block:
            out.append("")
        out.append((t.unit.ljust(margin) + _ruler(t, start, block, block_end, unit)).rstrip())
        out += [
            (row.ljust(margin) + "".join(line[block:block_end])).rstrip()
            for row, line in lines.items()
        ]
    out += [f"{t.unit} {number(m.at)}, {m.row}: {m.label}" for m in t.marks]
    if styles:
        out.append("  ".join(f"{s.sign} {t.legend.get(kind, kind)}" for kind, s in styles.items()))
    if not exact:
        counts = ", ".join(
            f"{t.legend.get(kind, kind)} {sum(s.kind == kind for s in t.spans)}" for kind in styles
        )
        out.append(f"(one column = {number(unit)} {t.unit}; spans: {counts})")
    return "\n".join(out)


def _ruler(t: Timeline, start: int, block: int, block_end: int, unit: float) -> str:
    line = [" "] * (block_end - block + 8)
    if unit == 1.0:
        for column in range(block, block_end + 1):
            if (start + column) % 5 == 0:
                text = str(start + column)
                line[column - block : column - block + len(text)] = text
    else:
        for column in range(0, block_end + 1, 20):
            text = number(t.start + column * unit)
            line[column : column + len(text)] = text
    return "".join(line)


def down(t: Timeline) -> str:
    """Time downwards, a column for each row."""
    drawn, styles = cells(t), t.styles
    table = [[t.unit, *t.rows]]
    for step in steps(t):
        line = [str(step)]
        for row in t.rows:
            kind, text = drawn.get((step, row), ("", ""))
            line.append(f"{styles[kind].sign} {text}".rstrip() if kind else "")
        table.append(line)
    widths = [max(len(line[k]) for line in table) for k in range(len(table[0]))]
    out = [t.title] if t.title else []
    out += [
        "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in table
    ]
    out += [f"{t.unit} {number(m.at)}, {m.row}: {m.label}" for m in t.marks]
    if styles:
        out.append("  ".join(f"{s.sign} {t.legend.get(kind, kind)}" for kind, s in styles.items()))
    return "\n".join(out)
