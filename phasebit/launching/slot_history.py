"""What the slots of a ring go through in a run that a :class:`.playback.Recorder` has heard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from phasebit.launching.playback import Recorder, State


@dataclass(frozen=True)
class Ring:
    """A ring of a kernel: what its slots are called, and the names of its barriers, a slot each.

    ``empty`` is () where no barrier says that a slot may be written. In a cluster the barriers
    may be those of another block: its number.
    """

    name: str
    full: Sequence[str]
    empty: Sequence[str] = ()
    full_in: int | None = None
    empty_in: int | None = None


@dataclass(frozen=True)
class Places:
    """A ring that ``cp.async`` fills and that no mbarrier guards: where its slots lie.

    ``first``: byte of shared memory; ``size``: bytes of a slot; so many ``slots``.
    """

    name: str
    first: int
    size: int
    slots: int


def slots(
    recorder: Recorder, ring: Ring, names: dict[str, int]
) -> list[list[tuple[int, str, int]]]:
    """Of each slot of a ring what its barriers say: from when on, what, of which job.

    ``filling`` from a producer's wait at *empty* on, ``full`` when that phase of *full* is
    complete, ``draining`` from a consumer's wait at *full* on, ``empty`` when that phase of
    *empty* is complete; ``early``: a consumer goes on whose slot is not full. A slot that is
    never filled again stays empty.
    """
    found = []
    count = len(ring.full)
    full_in = recorder.block if ring.full_in is None else ring.full_in
    empty_in = recorder.block if ring.empty_in is None else ring.empty_in
    for slot, full in enumerate(ring.full):
        full_at, empty_at = names[full], names[ring.empty[slot]] if ring.empty else -1
        events = [(at, 1, "filling") for at in recorder.passes_at(empty_at, empty_in)]
        if not ring.empty:
            states = recorder.every.get((full_in, full_at), [])
            events += [(b.at, 1, "filling") for a, b in pairwise(states) if b.tx > a.tx == 0]
        events += [(at, 3, "draining") for at in recorder.passes_at(full_at, full_in)]
        events += [(at, 2, "full") for at in recorder.phases_of(full_at, full_in)]
        events += [(at, 0, "empty") for at in recorder.phases_of(empty_at, empty_in)]
        turn, last = -1, "empty"
        history: list[tuple[int, str, int]] = []
        for at, _, what in sorted(events):
            if what == "draining" and last in ("empty", "filling"):
                what = "early"
            elif what == last or (ring.empty and (what, last) in _NOTHING_NEW):
                continue
            turn += what == "filling"
            last = what
            history.append((at, what, slot + count * max(turn, 0)))
        if (
            history
            and history[-1][1] == "filling"
            and not _begun(recorder.every.get((full_in, full_at), []), history[-1][0])
        ):
            history.pop()
        found.append(history)
    return found


def slots_in(recorder: Recorder, ring: Places) -> list[list[tuple[int, str, int]]]:
    """The same of a ring of :class:`Places`, by what is written there, and what threads load.

    ``filling`` from the first copy or store on, ``full`` when no copy is under way any more,
    ``draining`` from the first load on; ``early``: a load while a copy is under way.
    """
    found = []
    for slot in range(ring.slots):
        begin = ring.first + slot * ring.size

        def inside(places: tuple[int, int], begin: int = begin) -> bool:
            return begin <= places[0] and places[1] <= begin + ring.size

        works = [w for w in recorder.works if w.engine == "cp.async" and inside(w.places)]
        ends = [recorder.end + 1 if work.end is None else work.end for work in works]
        touches = [touch for touch in recorder.touches if inside(touch.places)]
        events = [(work.start, 1, "copies") for work in works]
        events += [(end, 2, "full") for end in ends if end <= recorder.end]
        events += [(t.at, 3, "draining") if t.load else (t.at, 0, "filling") for t in touches]
        history: list[tuple[int, str, int]] = []
        last, turn, under_way = "empty", -1, 0
        for at, _, what in sorted(events):
            under_way += (what == "copies") - (what == "full")
            if what == "full" and (under_way or last != "filling"):
                continue
            if what == "draining" and (under_way or last == "empty"):
                what = "early"
            what = what.replace("copies", "filling")
            if what == last or (last == "early" and what == "draining"):
                continue
            turn += what == "filling"
            last = what
            history.append((at, what, slot + ring.slots * max(turn, 0)))
        found.append(history)
    return found


_NOTHING_NEW = {("filling", "full"), ("filling", "draining"), ("empty", "filling")}
"""Events that leave a slot as it is: what happens, and what it was."""


def _begun(states: Sequence[State], since: int) -> bool:
    """Whether anybody has arrived at a barrier since a moment."""
    return any(state.at >= since for state in states[1:])


__all__ = ["Places", "Ring", "slots", "slots_in"]
