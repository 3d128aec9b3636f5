"""What is known of each cell of tensor memory, and of the operations that read shared memory."""

from __future__ import annotations

import numpy as np

from phasebit.emulator.ptx.types import Array
from phasebit.emulator.tensor_core.regions import HALVES, Region, around, overlap
from phasebit.emulator.tensor_core.tensor_memory import COLUMNS

I4 = np.int32


class Last:
    """Who did something last to each cell, when, and at which access."""

    def __init__(self, count: int) -> None:
        shape = (count, HALVES, COLUMNS)
        self.who = np.zeros(shape, I4)
        """A column of the clocks."""
        self.time = np.zeros(shape, I4)
        """0: never."""
        self.access = np.zeros(shape, I4)

    def note(self, region: Region, who: int, time: int, access: int) -> None:
        self.who[region.key] = who
        self.time[region.key] = time
        self.access[region.key] = access

    def some_late(self, region: Region, known: Array) -> bool:
        """Whether something was done there that is not ``known``."""
        key = region.key
        return bool(np.count_nonzero(self.time[key] > known[self.who[key]]))

    def late(self, region: Region, known: Array) -> tuple[int, int, int] | None:
        """Who did it, at which access, when, where that is not ``known``; None where all is."""
        bad = self.time[region.key] > known[self.who[region.key]]
        if not np.count_nonzero(bad):
            return None
        at = np.unravel_index(int(np.argmax(bad)), bad.shape)
        who, access, time = (x[region.key][at] for x in (self.who, self.access, self.time))
        return int(who), int(access), int(time)


class Waiting:
    """What warps have begun and not waited for, by the first lane of each."""

    def __init__(self) -> None:
        self.by: dict[int, list[tuple[int, Region, int]]] = {}
        """First lane -> its place among all, region, access."""
        self.within: dict[tuple[int, int], Region] = {}
        """First lane, slot -> a region in which all of its regions lie."""
        self.begun = 0

    def add(self, lane: int, region: Region, access: int) -> None:
        """A warp begins this."""
        self.by.setdefault(lane, []).append((self.begun, region, access))
        self.begun += 1
        key = lane, region.slot
        self.within[key] = around(region, self.within.get(key, region))

    def ended(self, lane: int) -> list[tuple[int, Region, int]]:
        """A warp has waited: what it had begun, in its order."""
        done = self.by.pop(lane, [])
        for slot in {region.slot for _, region, _ in done}:
            del self.within[lane, slot]
        return done

    def meeting(self, region: Region, but: int = -1) -> list[tuple[int, Region, int]]:
        """What has a cell in common with a region, as it was begun: lane, region, access."""
        met = []
        for (lane, slot), within in self.within.items():
            if slot == region.slot and lane != but and overlap(region, within):
                met += [
                    (place, lane, other, access) for place, other, access in self.by[lane]
                    if overlap(region, other)
                ]  # fmt: skip
        return [each[1:] for each in sorted(met, key=lambda each: each[0])]


class Reading:
    """An operation under way that reads shared memory."""

    def __init__(self, words: Array, lane: int, column: int, time: int, access: int) -> None:
        self.words = words
        self.low, self.high = int(words[0]), int(words[-1])
        self.lane = lane
        self.column = column
        self.time = time
        self.access = access


class TensorShadow:
    """What the checker knows about the tensor memory of a batch."""

    def __init__(self, count: int) -> None:
        self.written = Last(count)
        self.read = Last(count)
        """By threads."""
        self.consumed = Last(count)
        """By the tensor core, which reads A there."""
        self.storing = Waiting()
        self.loading = Waiting()
        self.reading: list[Reading] = []
        """Operations that may still read shared memory."""
        self.after: Array | None = None
        """``after[t, u]``: thread u's doings in tensor memory up to this time are fenced, on both
        sides, before what thread t does there."""
        self.knew: dict[tuple[bytes, bool, bool], Array] = {}
        """Threads, whether their tensor core, whether fences matter -> up to when each agent's
        doings were ordered before theirs, and fenced, when that was last asked in full."""
        self.form = np.zeros((count, HALVES, COLUMNS), I4)
        """What the tensor core's last write of each cell was: COPIED, SHIFTED, or the shape of a
        product."""
        self.forms: set[int] = set()
        """All that there were."""
        self.arrivals: dict[tuple[int, int], tuple[int, int]] = {}
        """Column of the clocks, block -> when a tcgen05.commit last asked for an arrival at a
        barrier of that block, and its access."""

    def formed(self, region: Region, form: int) -> None:
        """The tensor core writes these cells."""
        if form not in self.forms or len(self.forms) > 1:
            self.form[region.key] = form
        if not self.forms:
            self.form[:] = form
        self.forms.add(form)


__all__ = ["I4", "Last", "Reading", "TensorShadow", "Waiting"]
