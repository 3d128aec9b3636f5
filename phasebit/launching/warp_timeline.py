"""The warps of a block, drawn from a trace: what each did, and what it waited for."""

from __future__ import annotations

from phasebit.emulator import Trace
from phasebit.timeline import Span, Timeline


def timeline(trace: Trace, block: int = 0) -> Timeline:
    """A row a warp, against the emulator's clock."""
    mine = [e for e in trace.events if e.block == block]
    warps = sorted({w for e in mine for w in e.warps})
    spans = []
    for event in sorted(mine, key=lambda e: (e.start, e.end)):
        for warp in event.warps:
            row, waits = f"warp {warp}", event.kind == "wait"
            kind = "wait" if waits else "run"
            why = event.label if waits else ""
            spans.append(Span(row, event.start, event.end, kind, event.label, why))
    return Timeline(
        [f"warp {w}" for w in warps], spans, unit="cycle", title=f"block {block}",
        legend={"run": "executes", "wait": "waits at a barrier"},
    )  # fmt: skip
