"""What each step of a launch touches: barriers, phases, flags in memory, tensor memory.

Where nothing orders two accesses, they touch the finding that says so (:func:`unordered`).

Arrivals in one phase of an mbarrier, and in one generation of a block's barrier, may come in any
order; what adds to the pending count may not.  Which of them completes the phase matters to none
but those who then pass; what matters is whether one of them belongs to the next phase, and whether
a waiter looks before or after a phase ends.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasebit.emulator import rulebook
from phasebit.emulator.findings import Finding, Sentence
from phasebit.emulator.interleavings.reduction import Step
from phasebit.emulator.machine.accesses import Accesses
from phasebit.emulator.machine.barrier_sites import BarrierSite, MbarrierObserver
from phasebit.emulator.machine.cluster import ClusterBarrier, ClusterObserver
from phasebit.emulator.machine.group import AccessObserver, Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.machine.named_barriers import BlockBarrierObserver, NamedBarrier
from phasebit.emulator.machine.stepped import Blocked, Move, SteppedMachine
from phasebit.emulator.ptx.mangling import readable
from phasebit.emulator.ptx.syntax import Instruction, Register
from phasebit.emulator.ptx.types import Array, Value
from phasebit.emulator.tensor_core.regions import Region
from phasebit.emulator.tensor_core.tensor_observer import TensorObserver

WORD = 2
"""Memory is looked at in words of four bytes."""


@dataclass(frozen=True)
class Taken:
    """One step of a run, in words."""

    who: str
    what: Sentence
    row: str
    """``warp 0``, ``copy engine``."""
    did: str
    """``arrive full``, ``ready = 1``."""
    waiting: tuple[tuple[str, str], ...]
    """The rows that wait after it, and at what."""


OWN = frozenset({
    "missing-wgmma-fence", "uninitialised-accumulator", "setmaxnreg-mismatch", "wrong-descriptor",
    "wrong-tensor-quarter", "misaligned-tile", "generic-shared-address", "wrong-member-mask",
    "reserved-descriptor-bit",
})  # fmt: skip
"""Rules that somebody breaks alone: what others do before or after makes no difference."""


def unordered(
    findings: Iterable[Finding], steps: frozenset[int]
) -> dict[int, dict[Hashable, str]]:
    """Line of the PTX -> what its instruction touches because of these findings, and how.

    Of the two instructions that a finding names either may come first; what several threads do
    with one of them may come in any order among them, unless it is in conflict with itself.
    ``steps``: lines that are steps in any case; between two of these all is said.
    """
    found: dict[int, dict[Hashable, str]] = {}
    for finding in findings:
        if finding.kind in rulebook.ENDS and finding.rule != "use-after-free":
            continue
        if finding.rule in OWN:
            continue
        lines = sorted({place.ptx_line for place in finding.places})
        for line in lines if not steps.issuperset(lines) else ():
            how = f"line {line}" if len(lines) > 1 else "w"
            found.setdefault(line, {})["found", *lines] = how
    return found


class _Count:
    """What is known of an mbarrier, or of a barrier's generation."""

    def __init__(self) -> None:
        self.phase = 0
        self.pending = 0
        self.arrivals = 0
        """The steps that have arrived in this phase, a bit each."""
        self.opened = 0
        """Those that had in the phase before."""


class Touches(
    LaunchObserver, AccessObserver, MbarrierObserver, BlockBarrierObserver, ClusterObserver,
    TensorObserver,
):  # fmt: skip
    """Listens to a launch; ``step`` is the one under way."""

    def __init__(
        self, machine: SteppedMachine, unordered: Mapping[int, Mapping[Hashable, str]]
    ) -> None:
        self.machine = machine
        self.unordered = unordered
        self.acquiring = any(map(_is_fence, machine.program.instructions))
        """Whether a fence of the kernel may make an atomic before it acquire."""
        self.steps: list[Step] = []
        self.moves: list[Move] = []
        self.words: list[str] = []
        """What each step did, in short: ``arrive full``."""
        self.waiting: list[tuple[tuple[str, str], ...]] = []
        """Who waits after each step, and at what."""
        self.did: list[str] = []
        self.looks: list[tuple[Hashable, int, str]] = []
        """Words in memory that the step touches: their names, places, and what they are called."""
        self.counts: dict[object, _Count] = {}
        self.woken: dict[tuple[int, int], int] = {}
        """Thread -> the steps that let it go on since its last one."""
        self.queues: dict[int, int] = {}
        self.before: list[tuple[Hashable, Array, Array]] = []
        """Words that an atomic is about to change: their names, places and content."""
        self.step: Step | None = None
        self.touches: dict[Hashable, str] = {}
        self.may: dict[Hashable, str] = {}
        self.sites: list[BarrierSite] = []
        """Where the step arrives or waits."""

    # -- steps ----------------------------------------------------------------

    def begin(self, move: Move) -> None:
        """A step is about to be taken."""
        if self.steps:
            self.waiting.append(self._waits())
        after = 0
        for thread in move.threads:
            after |= self.woken.pop(thread, 0)
        if move.begun >= 0:
            after |= 1 << move.begun
        if move.work is not None and hasattr(move.work, "queue"):
            queue = id(move.work.queue)
            if queue in self.queues:
                after |= 1 << self.queues[queue]
            self.queues[queue] = len(self.steps)
        self.touches, self.may, self.sites = {}, {}, []
        self.step = Step(move.actor, self.touches, self.may, move.threads, after)
        self.steps.append(self.step)
        self.moves.append(move)
        self.did, self.looks = [], []
        for thing, how in self.unordered.get(move.line, {}).items():
            self._touch(thing, how)

    def finish(self) -> None:
        """The step has been taken."""
        memory = self.machine.memory.u4
        for name, places, content in self.before:
            changed = not np.array_equal(memory[places], content)
            self._touch(name, "w" if changed else "r")
            self.may[name] = "w"
        self.before.clear()
        for name, place, called in self.looks:
            sign = "is" if self.touches.get(name) == "r" else "="
            self.did.append(f"{called} {sign} {int(memory[place])}")
        self.words.append("; ".join(dict.fromkeys(self.did)))
        looked = [thing for thing, how in self.touches.items() if how == "r"]
        self.machine.noticed(looked, [thing for thing in self.touches if thing not in looked])

    def fail(self) -> None:
        """The step has ended the kernel; what it did to a barrier nobody was told."""
        for site in self.sites:
            self._all(site)
            self.did.append(site.name)
        self.finish()
        assert self.step is not None
        self.step.fatal = True

    def _touch(self, thing: Hashable, how: str) -> None:
        if self.step is not None and self.touches.get(thing, "r") == "r":
            self.touches[thing] = how
        elif self.step is not None and how != "r" and self.touches[thing] != how:
            self.touches[thing] = "w"

    def taken(self) -> tuple[Taken, ...]:
        """The steps so far, in words."""
        words = [*self.words, "; ".join(dict.fromkeys(self.did))]
        waiting = [*self.waiting, self._waits()]
        return tuple(
            Taken(move.who, move.what, move.row, did, then)
            for move, did, then in zip(self.moves, words, waiting, strict=False)
        )

    def _waits(self) -> tuple[tuple[str, str], ...]:
        return tuple(
            (each.move.row, f"wait {', '.join(site.name for site in each.sites)}")
            for each in self.machine.blocked()
        )

    def blocked(self, waits: Sequence[Blocked]) -> list[Step]:
        """The steps of those who wait for a phase in vain."""
        return [
            Step(each.move.actor, {("phase", _name(site)): "r" for site in each.sites},
                 threads=each.move.threads)
            for each in waits
        ]  # fmt: skip

    def _bit(self) -> int:
        return 1 << (len(self.steps) - 1) if self.steps else 0

    def _wakes(self, batch: Any, lanes: Array, steps: int) -> None:
        first = int(batch.blocks[0])
        for lane in lanes.tolist():
            self.woken[first, lane] = self.woken.get((first, lane), 0) | steps

    # -- mbarriers ------------------------------------------------------------

    def _count(self, thing: object) -> _Count:
        return self.counts.setdefault(id(thing), _Count())

    def initialises(self, g: Group, lanes: Array, site: BarrierSite) -> None:
        """See :class:`MbarrierObserver`."""
        self._all(site)
        self.did[-1] = f"init {site.name}"
        known = self._count(site)
        known.phase, known.pending = site.barrier.phase, site.barrier.pending

    def initialises_again(self, g: Group, lanes: Array, site: BarrierSite) -> None:
        """See :class:`MbarrierObserver`."""
        self._all(site)
        self.did.append(f"init {site.name} again")

    def invalidates(self, g: Group, lanes: Array, site: BarrierSite) -> None:
        """See :class:`MbarrierObserver`."""
        self.did.append(f"inval {site.name}")
        self._all(site)

    def arrives(self, g: Group, lanes: Array, site: BarrierSite, sem: str, scope: str) -> None:
        """See :class:`MbarrierObserver`."""
        self.sites.append(site)

    def tests(self, g: Group, lanes: Array, site: BarrierSite, sem: str, scope: str) -> None:
        """See :class:`MbarrierObserver`."""
        self.sites.append(site)
        self._touch(("phase", _name(site)), "r")

    def refuses(self, site: BarrierSite) -> None:
        """See :class:`MbarrierObserver`."""
        self.sites.append(site)

    def _all(self, site: BarrierSite) -> None:
        for part in ("count", "bytes", "phase"):
            self.touches[part, _name(site)] = "w"

    def operated(self, g: Group, site: BarrierSite) -> None:
        """See :class:`MbarrierObserver`."""
        known, barrier = self._count(site), site.barrier
        phase, pending = known.phase, known.pending
        ended = barrier.phase != phase
        grows = barrier.pending > pending and not ended
        self._touch(("count", _name(site)), "w" if grows else f"phase {phase}")
        if barrier.pending < pending or (ended and pending):
            # Whether bytes are outstanding decides what the last arrival does.
            self.did.append(f"arrive {site.name}")
            if ended or barrier.pending == 0:
                self._touch(("bytes", _name(site)), "w")
            self.may["bytes", _name(site)] = "w"
        else:
            self._touch(("bytes", _name(site)), f"phase {phase}")
            self.did.append(f"bytes of {site.name}")
        self.may["phase", _name(site)] = "w"
        known.arrivals |= self._bit()
        known.phase, known.pending = barrier.phase, barrier.pending
        if ended:
            self._touch(("phase", _name(site)), "w")
            known.opened, known.arrivals = known.arrivals, 0

    def waits(self, g: Group, site: BarrierSite, blocked: bool) -> None:
        """See :class:`MbarrierObserver`."""
        self._touch(("phase", _name(site)), "r")

    def passes(self, g: Group, site: BarrierSite) -> None:
        """See :class:`MbarrierObserver`."""
        self.did.append(f"wait {site.name}")
        if self.step is not None:
            self.step.sees |= self._count(site).opened & ~self._bit()

    # -- barriers of blocks and clusters --------------------------------------

    def joins_barrier(self, g: Group, barrier: NamedBarrier) -> None:
        """See :class:`BlockBarrierObserver`."""
        known = self._count(barrier)
        self._touch(("barrier", _name(barrier)), f"generation {known.phase}")
        self.did.append(f"arrive {barrier.name}")
        known.arrivals |= self._bit()

    def opens_barrier(
        self, barrier: NamedBarrier, lanes: Array, groups: Sequence[Group],
        instructions: Sequence[Instruction | None], everyone: bool,
    ) -> None:  # fmt: skip
        """See :class:`BlockBarrierObserver`."""
        known = self._count(barrier)
        for g in groups:
            self._wakes(g.batch, g.lanes, known.arrivals | self._bit())
        known.phase, known.arrivals = known.phase + 1, 0

    def joins_cluster(
        self, g: Group, barrier: ClusterBarrier, one: int, lanes: Array, sem: str
    ) -> None:
        """See :class:`ClusterObserver`."""
        known = self.counts.setdefault((id(barrier), one), _Count())
        self._touch(("cluster", int(barrier.batch.blocks[0]), one), f"generation {known.phase}")
        self.did.append("arrive cluster")
        known.arrivals |= self._bit()

    def opens_cluster(self, barrier: ClusterBarrier, one: int) -> None:
        """See :class:`ClusterObserver`."""
        known = self.counts.setdefault((id(barrier), one), _Count())
        known.opened, known.arrivals = known.arrivals | self._bit(), 0
        known.phase += 1

    def passes_cluster(self, g: Group, barrier: ClusterBarrier, one: int) -> None:
        """See :class:`ClusterObserver`."""
        self._wakes(g.batch, g.lanes, self.counts[id(barrier), one].opened)

    # -- memory ---------------------------------------------------------------

    def _words(self, index: Value, width: int, offsets: Sequence[int]) -> Array:
        first = np.unique(np.asarray(index)).astype(np.int64)
        every = (first[:, None] + np.array(offsets)[None, :]).ravel() * width
        return np.unique(np.concatenate([every >> WORD, every + width - 1 >> WORD]))

    def _word(self, g: Group, word: int) -> Hashable:
        """Its name, which is the same in every run."""
        batch = g.batch
        offset = word - (batch.shared_base >> WORD)
        name: Hashable = ("memory", word)
        called = "memory"
        if 0 <= offset < batch.count * batch.shared_stride >> WORD:
            name = ("shared", int(batch.blocks[0]), offset)
            inside = (offset << WORD) % batch.shared_stride
            called = self._called(*self.machine.program.layout.shared_place(inside))
        elif made := self.machine.memory.find(word << WORD):
            called = self._called(made.name, (word << WORD) - made.start)
        self.looks.append((name, word, called))
        return name

    def _called(self, name: str, offset: int) -> str:
        return f"{readable(name)}[{offset >> WORD}]" if offset else readable(name)

    def loads(self, g: Group, index: Value, accesses: Accesses) -> None:
        """See :class:`AccessObserver`."""
        if accesses.sem != "weak":
            for word in self._words(index, accesses.width, accesses.words).tolist():
                self._touch(self._word(g, word), "r")

    def stores(self, g: Group, index: Value, accesses: Accesses) -> bool:
        """See :class:`AccessObserver`."""
        if accesses.sem != "weak":
            for word in self._words(index, accesses.width, accesses.words).tolist():
                self._touch(self._word(g, word), "w")
        return False

    def updates(
        self, g: Group, index: Value, width: int, sem: str, scope: str, count: int
    ) -> None:
        """See :class:`LaunchObserver`."""
        words = self._words(index, width, range(count))
        memory, sums = self.machine.memory.u4, self._only_adds(g)
        for word in words.tolist():
            if sums:
                self._touch(self._word(g, word), "adds")
            else:
                place = np.array([word])
                self.before.append((self._word(g, word), place, memory[place]))

    def _only_adds(self, g: Group) -> bool:
        """Whether an atomic adds whole numbers, and nobody looks at what was there.

        Where it acquires, by itself or by a fence, who adds later knows what the others did before.
        """
        by = self.machine.executing()
        if by is None or "add" not in by.modifiers or by.modifiers[-1][0] not in "us":
            return False
        if self.acquiring or _acquires(by):
            return False
        if by.mnemonic == "red":
            return True
        result = by.operands[0]
        return isinstance(result, Register) and (
            result.index not in self.machine.program.live[g.pc + 1]
        )

    # -- tensor memory --------------------------------------------------------

    def asks_for_columns(self, g: Group, warps: int) -> None:
        """See :class:`TensorObserver`."""
        self._touch(("tensor memory",), "w")

    def deallocates(self, g: Group, lanes: Array, region: Region) -> None:
        """See :class:`TensorObserver`."""
        self._touch(("tensor memory",), "w")


def _is_fence(instruction: Instruction) -> bool:
    fence = instruction.mnemonic == "fence" and "proxy" not in instruction.modifiers
    return instruction.mnemonic == "membar" or (
        fence and "mbarrier_init" not in instruction.modifiers
    )


def _acquires(instruction: Instruction) -> bool:
    return "acquire" in instruction.modifiers or "acq_rel" in instruction.modifiers


def _name(barrier: BarrierSite | NamedBarrier) -> tuple[int, int, int]:
    """A barrier's name, which is the same in every run."""
    at = barrier.number if isinstance(barrier, NamedBarrier) else barrier.offset
    return int(barrier.batch.blocks[0]), barrier.slot, at


__all__ = ["Taken", "Touches", "unordered"]
