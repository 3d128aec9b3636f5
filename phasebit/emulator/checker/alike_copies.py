"""Copies that the threads of a warp ask for at once, each of a few bytes.

Where they differ in their places only, and what must come before a copy has come before all of
them, to look at all at once says the same as to look at each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phasebit.emulator.checker.global_shadow import GlobalShadow
from phasebit.emulator.checker.shared_shadow import SharedShadow
from phasebit.emulator.copy_engine.bulk_copies import BulkCopy, Stretch
from phasebit.emulator.machine.barrier_sites import BarrierSite
from phasebit.emulator.machine.group import Group
from phasebit.emulator.ptx.types import Array


@dataclass(frozen=True)
class Alike:
    """One copy for each thread of a group, from global to shared memory, of so many bytes."""

    reads: Array
    """The words of global memory, one column a thread."""
    writes: Array
    """The words of shared memory, one column a thread; no two copies write one."""
    site: BarrierSite
    """The mbarrier that counts them all."""

    @staticmethod
    def of(g: Group, copies: list[BulkCopy], shift: int) -> Alike | None:
        """These copies, if they are such; a word has ``1 << shift`` bytes."""
        site, size = copies[0].site, copies[0].size
        if site is None or len(copies) != g.n:
            return None
        sources, targets = [], []
        for copy in copies:
            a, b = copy.source, copy.target
            if not (isinstance(a, Stretch) and isinstance(b, Stretch) and a.space == "global"):
                return None
            if copy.size != size or copy.site is not site:
                return None
            sources.append(a.start)
            targets.append(b.start)
        into = np.sort(targets)
        if (into[1:] - into[:-1] < size).any():
            return None
        words = np.arange(size >> shift)[:, None]
        return Alike(
            (np.array(sources) >> shift) + words, (np.array(targets) >> shift) + words, site
        )


def untouched(world: GlobalShadow, words: Array) -> bool:
    """Whether these words of global memory were all written, and before the launch."""
    return not np.count_nonzero(world.write_time[words])


def free(s: SharedShadow, g: Group, x: Array) -> bool:
    """Whether each thread's copy may write its column of ``x``, words of shared memory.

    What threads have done there has also passed the proxy fence, or, where they have read, an
    arrival at a barrier.
    """
    lanes = np.broadcast_to(g.lanes, x.shape)
    times, writers = s.write_time[x], s.writer[x]
    if times.max() > s.lowest and not s.ordered(g, writers, times):
        return False
    mine = (writers < s.team) & (times > 0)
    if mine.any() and (times > s.clock[lanes, s.proxy + writers])[mine].any():
        return False
    times, readers = s.read_time[x], s.reader[x]
    latest = times.max()
    if latest > s.lowest and not s.ordered(g, slice(s.team), np.minimum(s.last_read, latest)):
        return False
    late = (times > s.clock[lanes, s.overwrites + readers]) & (times > s.floor_of(g))
    return not late.any()


__all__ = ["Alike", "free", "untouched"]
