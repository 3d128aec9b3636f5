"""Kernels that may begin before the one before them has ended (PTX ISA 9.7.13.13).

A launch with the attribute of *programmatic stream serialisation* may run beside the kernel that
its stream has before it.  Nothing that kernel writes is promised to be seen before
``griddepcontrol.wait``, and what it still reads may not be overwritten before.  Here kernels run
one after another; who touches such a place too early is found all the same, by what is remembered
of the kernel before.

A kernel that nobody of waits says nothing of the one before *it*: that one may be under way still
when the next but one has waited.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from phasebit.emulator.checker.footprint import Footprint
from phasebit.emulator.checker.global_shadow import GlobalShadow
from phasebit.emulator.checker.races import Races
from phasebit.emulator.checker.reports import Findings
from phasebit.emulator.findings import Sentence, say
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.machine.scheduler import Machine
from phasebit.emulator.ptx.mangling import readable
from phasebit.emulator.ptx.syntax import Instruction
from phasebit.emulator.ptx.types import Array


@dataclass
class Predecessor:
    """What one kernel has done to global memory."""

    name: str
    shadow: GlobalShadow
    shift: int
    """Its words have ``1 << shift`` bytes."""
    instructions: Sequence[Instruction]
    unfinished: list[Predecessor] = field(default_factory=list)
    """Kernels before it that it has not waited for."""

    def touched(self, words: Array, shift: int, reads_too: bool) -> tuple[Array, Array, Array]:
        """Where it wrote these words, or (``reads_too``) read them: whether, which instruction,
        and whether that is one that writes."""
        x, inside = self.shadow.places((words << shift) >> self.shift)
        wrote = inside & (self.shadow.write_time[x] > 0)
        last = self.shadow.readers[0]
        read = inside & (last.code[x] > 0) if reads_too else np.zeros_like(wrote)
        return wrote | read, np.where(wrote, self.shadow.write_access[x], last.access[x]), wrote

    def place(self, access: int) -> Sentence:
        """One of its instructions, and where it stands."""
        instruction = self.instructions[access]
        return say("`{}` at {}", instruction.text, instruction.where)


class DependentLaunches(LaunchObserver):
    """Watches what a kernel does before it has waited; remembers it for the next."""

    def __init__(self, races: Races, findings: Findings) -> None:
        self.machine: Machine = races.machine
        self.races = races
        self.findings = findings
        memory = self.machine.memory
        before = memory.predecessor
        memory.predecessor = None
        self.before = before if self.machine.dependent else None
        self.wait_times: dict[Batch, Array] = {}
        """When each thread waited for the grids before; 0: not yet."""
        self.anybody = False
        if self.before is not None:
            races.global_memory.before_access.append(self.look)

    def waits_for_grids(self, g: Group) -> None:
        """``griddepcontrol.wait``."""
        self.anybody = True
        times = self.wait_times.setdefault(g.batch, np.zeros(g.batch.lanes, np.int32))
        times[g.lanes] = np.where(times[g.lanes] > 0, times[g.lanes], self.machine.now)

    def ends(self, batch: Batch) -> None:
        """A batch has left; after the last one the kernel is the next one's predecessor."""
        self.wait_times.pop(batch, None)
        if not self.races.over:
            return
        program, facts = self.machine.program, self.races.facts
        waited = self.anybody or self.before is None
        self.machine.memory.predecessor = Predecessor(
            readable(program.kernel.name), self.races.global_memory.shadow, facts.shift,
            program.instructions,
            [] if waited or self.before is None else [self.before, *self.before.unfinished],
        )  # fmt: skip

    def look(
        self, g: Group, words: Footprint, start: int, access: int, verb: str, strong: bool
    ) -> None:
        """Does a thread that has not waited touch what the kernel before has?"""
        if self.before is None:
            return
        x = words.every + start
        late = np.broadcast_to(~self._heard(g), x.shape)
        self._against(self.before, g, x, late, access, verb)
        for earlier in self.before.unfinished:
            self._against(earlier, g, x, np.ones(x.shape, bool), access, verb)

    def _heard(self, g: Group) -> Array:
        """Which of these threads have waited, or come after one of their cluster that has."""
        times = self.wait_times.get(g.batch)
        if times is None:
            return np.zeros(g.n, bool)
        heard: Array = times[g.lanes] > 0
        s = self.races.shadows[g.batch]
        for i in np.flatnonzero(~heard).tolist():
            lane = int(g.lanes[i])
            first = lane // s.team * s.team
            theirs = times[first : first + s.team]
            known = np.maximum(s.clock[lane, : s.team], s.floor[lane // g.batch.threads])
            heard[i] = bool(((theirs > 0) & (theirs <= known)).any())
        return heard

    def _against(
        self, before: Predecessor, g: Group, x: Array, late: Array, access: int, verb: str
    ) -> None:
        touched, by, wrote = before.touched(x, self.races.facts.shift, verb == "writes")
        bad = touched & late
        if not bad.any():
            return
        lanes = np.broadcast_to(g.lanes, x.shape)[bad]
        there = int(by[bad][0])
        if before is not self.before:
            why = "the kernel between the two has no griddepcontrol.wait"
        elif self.anybody:
            why = "this thread comes after no griddepcontrol.wait"
        else:
            why = "no thread has executed griddepcontrol.wait"
        self.findings.report(
            "missing-grid-wait",
            say(
                "{} {} {}: {}; kernel {}, which may still be under way, {} it: {}; {}",
                g.batch.describe(lanes[:1]), verb,
                self.races.global_memory.name(int(x[bad][0])), self.findings.place(access),
                before.name, "writes" if wrote[bad][0] else "reads", before.place(there), why,
            ),
            access, ("grid", access, there, before.name),
        )  # fmt: skip


__all__ = ["DependentLaunches", "Predecessor"]
