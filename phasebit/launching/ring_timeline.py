"""A ring of slots in a kernel, drawn as Part I draws one.

Read off a trace: a producer warp writes a slot from the end of its wait at the slot's empty
barrier to its arrival at the slot's full barrier, and a consumer warp reads it from the end of
its wait at full to its arrival at empty.

The drawing shows order and overlap only. The emulator's clock counts instructions, so the moments
at which something begins or ends are numbered, and each step from one to the next is as long as
any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from phasebit.emulator import Trace
from phasebit.pipeline.ring_drawing import RingDrawing
from phasebit.timeline import Timeline


@dataclass(frozen=True)
class Job:
    """One slot filled or emptied; times on the emulator's clock."""

    slot: int
    begin: int
    end: int


def jobs(trace: Trace, warp: int, waits: Sequence[str], signals: Sequence[str]) -> Iterator[Job]:
    """What a warp of block 0 did in a ring: it waits at ``waits[slot]``, then signals.

    With tokens whoever waits arrives first, and an arrival that nobody asked for is none of a
    job's: it says before the loop that a slot is empty. With parity only the signal arrives.
    """
    mine = [s for s in trace.signals if s.block == 0 and warp in s.warps]
    ends = {e.start: e.end for e in trace.events
            if e.block == 0 and e.kind == "wait" and warp in e.warps}  # fmt: skip
    tokens = any(signal.barrier in waits for signal in mine)
    asked: dict[int, int] = {}
    last = 0
    for signal in mine:
        if signal.barrier in waits:
            asked[waits.index(signal.barrier)] = signal.at
        elif signal.barrier in signals:
            slot = signals.index(signal.barrier)
            if tokens and slot not in asked:
                continue
            start = asked.pop(slot, last)
            waited = [end for at, end in ends.items() if start <= at < signal.at]
            yield Job(slot, max(waited, default=last), signal.at)
            last = signal.at


def timeline(
    trace: Trace, producer: int, consumer: int, full: Sequence[str], empty: Sequence[str]
) -> Timeline:
    """A picture of a ring, with one warp standing for each role.

    ``full`` and ``empty`` are the names that the emulator gives the barriers of each slot.
    """
    filled = list(jobs(trace, producer, empty, full))
    drained = list(jobs(trace, consumer, full, empty))
    if not filled or not drained:
        raise ValueError(
            f"warp {producer} and warp {consumer} hand no slot over at these barriers: "
            f"the trace has arrivals at {', '.join(sorted({s.barrier for s in trace.signals}))}"
        )
    moments = sorted({t for job in filled + drained for t in (job.begin, job.end)})
    step = {time: 3 * number for number, time in enumerate(moments)}  # room for labels
    drawing = RingDrawing(lambda moment: step[int(moment)])
    for role, kind, done in (("producer", "produce", filled), ("consumer", "consume", drained)):
        last = moments[0]
        for number, job in enumerate(done):
            where = f"slot {job.slot}"
            drawing.work(role, last, job.begin, job.end, kind, str(number), where)
            drawing.span(where, job.begin, job.end, kind, str(number))
            last = job.end
    for slot in range(len(full)):
        writes = [job for job in filled if job.slot == slot]
        reads = [job for job in drained if job.slot == slot]
        for write, read in zip(writes, reads, strict=False):
            drawing.span(f"slot {slot}", write.end, read.begin, "full")
        for read, write in zip(reads, writes[1:], strict=False):
            drawing.span(f"slot {slot}", read.end, write.begin, "signal")
    rows = ["producer", *(f"slot {slot}" for slot in range(len(full))), "consumer"]
    return Timeline(
        rows,
        drawing.spans,
        unit="order",
        title=f"{len(drained)} tiles on the emulator: what comes after what (no times)",
        legend={"produce": "producing, filling", "consume": "consuming, draining",
                "wait": "waiting", "full": "full", "signal": "empty"},
    )  # fmt: skip
