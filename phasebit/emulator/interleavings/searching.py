"""Runs a launch in every order of its steps that makes a difference, and tells what was found.

    found = every_order(kernel, grid=1, block=64, args=[out])
    print(found)                # complete: 12 runs …, and the shortest that fails
    found.failing.steps         # who does what, in that order

What is *every*: each warp of each block, and each piece of work that tells a barrier, steps by
itself; a step is one instruction that others can notice (``ptx.noticed_steps``).
Threads of a warp that stand together step together.  Work that tells nobody is done when somebody
waits for it, and memory that is no flag is read and written as the order of steps has it; whether
those steps protect it the checker says in each run.  Where it says that nothing orders two
accesses, they are steps from then on, and the search begins anew: either may come first.  What ends
a kernel ends that order; others in which somebody comes before it are run too.  A search that stops
before it has run all these orders says so, and adds what one run under the late schedule finds.
Kernels that may overlap with others are searched one by one (``apart``).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasebit.emulator.api.arguments import EmulatedArrays, refuse_written
from phasebit.emulator.api.execution import Execution, Mode
from phasebit.emulator.api.extents import Extent, Extents
from phasebit.emulator.api.kernel import Kernel
from phasebit.emulator.errors import EmulatorError, Livelock, StepLimit
from phasebit.emulator.findings import Finding
from phasebit.emulator.interleavings.limits import LONGEST, MOST_RUNS, SECONDS, TURNS
from phasebit.emulator.interleavings.reduction import Actor, Chooser, Step, Stop, orders
from phasebit.emulator.interleavings.touches import Taken, Touches, unordered
from phasebit.emulator.machine.device_memory import Memory
from phasebit.emulator.machine.stepped import Abandoned, Move, SteppedMachine


class Stepped(Execution):
    """A launch whose steps somebody chooses; see :class:`SteppedMachine`."""

    machine_type = SteppedMachine


@dataclass(frozen=True)
class Failing:
    """A run in which something was found.

    ``steps``: those until then, in order; ``choices``: who took them, to run it again.
    """

    finding: Finding
    steps: tuple[Taken, ...]
    choices: tuple[Actor, ...]


@dataclass(frozen=True)
class Interleavings:
    """What a search saw.

    ``complete``: every order that makes a difference was run. ``runs``: how many orders that were;
    ``redundant``: how many more were begun and showed nothing new. ``limit``: what stopped a
    search that is not complete. ``findings``: each mistake once, those of the first run first.
    ``failing``: of the runs that fail the one with the fewest steps. ``results``: how many
    different contents of global memory the runs left.
    """

    complete: bool
    runs: int
    redundant: int
    seconds: float
    limit: str
    findings: tuple[Finding, ...]
    failing: Failing | None
    results: int
    first: int
    """How many of the findings the first run had."""
    ends: Mapping[str, int]
    """What ended the runs -> how many: a rule, or nothing for those that came to their end."""
    apart: bool = False
    """Whether the kernel may overlap with those before and after it, which no order shows."""

    @property
    def headline(self) -> str:
        """Whether it is complete, and how many orders were run."""
        runs = f"{self.runs:,} {'order' if self.runs == 1 else 'orders'}"
        if not self.complete:
            return f"incomplete: {runs} run in {self.seconds:.0f} s, then stopped: {self.limit}"
        within = " within this kernel (what may overlap with it is not run beside it)"
        return f"complete: {runs} run, all that make a difference{within if self.apart else ''}"

    @property
    def ways(self) -> str:
        """How the runs ended: ``2 come to their end, 1 ends with deadlock``."""

        def way(rule: str, count: int) -> str:
            if rule:
                return f"{count:,} {'ends' if count == 1 else 'end'} with {rule}"
            return f"{count:,} {'comes to its end' if count == 1 else 'come to their end'}"

        return ", ".join(way(*one) for one in sorted(self.ends.items()))

    def __str__(self) -> str:
        if self.failing is None:
            found = self.findings and f"under the late schedule alone: {self.findings[0]}"
            return f"{self.headline}; {found or 'nothing found'}"
        lines = [self.headline, f"found, after {len(self.failing.steps)} steps: "
                 f"{self.failing.finding}"]  # fmt: skip
        if set(self.ends) - {""}:
            lines.insert(1, self.ways)
        width = max((len(step.who) for step in self.failing.steps), default=0)
        lines += [f"  {step.who:<{width}}  {step.what}" for step in self.failing.steps]
        return "\n".join(lines)


class _Search:
    """Runs of one launch."""

    def __init__(self, prepare: Callable[[frozenset[int]], Execution], memory: Memory) -> None:
        self.prepare = prepare
        self.memory = memory
        self.back = memory.snapshot()
        self.findings: dict[Any, Finding] = {}
        self.failing: Failing | None = None
        self.results: set[bytes] = set()
        self.ends: Counter[str] = Counter()
        self.unordered: dict[int, dict[Hashable, str]] = {}
        """Lines that are steps because of what was found; see :func:`.touches.unordered`."""
        self.given_up = ""
        self.began = 0
        """Runs, those of searches that began anew among them."""
        self.first = 0
        self.after_first: Callable[[], None] = self.back
        self.execution: Execution | None = None
        self.error: EmulatorError | None = None

    @property
    def runs(self) -> int:
        """Runs that came to an end."""
        return self.ends.total()

    def run(self, choose: Chooser) -> tuple[Step | None, Sequence[Step]]:
        """One run from the beginning; see :data:`.reduction.Run`."""
        if self.began:
            self.back()
        self.began += 1
        execution = self.prepare(frozenset(self.unordered))
        machine = execution.machine
        assert isinstance(machine, SteppedMachine)
        touches = Touches(machine, self.unordered)
        machine.told.subscribe(touches)
        found = 0
        whole = False
        error: EmulatorError | None = None

        def settle() -> None:
            nonlocal found
            for finding in execution.findings[found:]:
                self._found(finding, touches)
            found = len(execution.findings)

        def pick(moves: list[Move]) -> Move:
            settle()
            if len(touches.steps) >= LONGEST:
                self.given_up = f"a run of more than {LONGEST:,} steps"
                raise Abandoned
            try:
                actor = choose([move.actor for move in moves], touches.step)
            except Stop:
                raise Abandoned from None
            move = next(move for move in moves if move.actor == actor)
            touches.begin(move)
            return move

        machine.choose, machine.took = pick, touches.finish
        try:
            execution.run()
            whole = True
        except Abandoned:
            pass
        except EmulatorError as failure:
            error = failure
            whole = isinstance(error, Livelock) or not isinstance(error, StepLimit)
            if machine.failing:
                touches.fail()
            if not whole:
                self.given_up = f"a run of more than {TURNS:,} turns of loops"
        settle()
        if error is not None and whole:
            self._found(error.finding, touches)
        if self.execution is None:
            self.keep(execution, error)
        if whole:
            self.ends[error.rule if error is not None else ""] += 1
            if error is None:
                self.results.add(self._content())
        return touches.step, touches.blocked(machine.blocked())

    def keep(self, execution: Execution, error: EmulatorError | None) -> None:
        """This run is the one after which the program goes on."""
        self.execution, self.error = execution, error
        self.first = len(self.findings)
        self.after_first = self.memory.snapshot()

    def finer(self) -> bool:
        """Whether something was found that asks for more steps: then the search begins anew."""
        assert self.execution is not None
        lines = unordered(self.findings.values(), self.execution.machine.program.steps())
        if lines.keys() <= self.unordered.keys():
            return False
        self.unordered = lines
        self.ends.clear()
        self.results.clear()
        self.given_up = ""
        return True

    def late(self, execution: Execution) -> None:
        """What a run under the late schedule finds; the program goes on after it, if after none."""
        self.back()
        error: EmulatorError | None = None
        try:
            execution.run()
        except EmulatorError as failure:
            error = failure
        for finding in (*execution.findings, *([error.finding] if error is not None else ())):
            self.findings.setdefault(_key(finding), finding)
        if not self.runs:
            self.keep(execution, error)

    def _found(self, finding: Finding, touches: Touches) -> None:
        self.findings.setdefault(_key(finding), finding)
        if self.failing is None or len(touches.moves) < len(self.failing.steps):
            self.failing = Failing(
                finding, touches.taken(), tuple(move.actor for move in touches.moves)
            )

    def _content(self) -> bytes:
        memory = self.memory
        every = [memory.bytes(a) for a in memory.allocations if a.kind in ("global", "const")]
        return np.concatenate([np.zeros(0, np.uint8), *every]).tobytes()


def _key(finding: Finding) -> Hashable:
    """What is the same of a mistake in every run."""
    places = {place.ptx_line for place in (*finding.places, finding.at) if place}
    return finding.rule, tuple(sorted(places))


def search(
    prepare: Callable[[frozenset[int]], Execution], late: Callable[[], Execution],
    memory: Memory, *, most_runs: int = MOST_RUNS, seconds: float = SECONDS, reduced: bool = True,
) -> tuple[Interleavings, Execution, EmulatorError | None]:  # fmt: skip
    """Run what ``prepare`` makes, with a :class:`SteppedMachine`, in every order.

    ``prepare`` gets the lines of the PTX that are steps too; ``late`` makes the launch as it is run
    under the late schedule. Memory is left as the first run has left it; that run and its error
    come with the answer.
    """
    began = time.monotonic()
    one = _Search(prepare, memory)
    limit, anew = "", True
    tree = None
    while anew:
        anew = False
        for tree in orders(one.run, reduced):
            if one.began >= most_runs:
                limit = f"the bound is {most_runs:,} {'run' if most_runs == 1 else 'runs'}"
            elif time.monotonic() - began > seconds:
                limit = f"the bound is {seconds:g} s"
            anew = one.finer()
            if anew or (limit and tree.more()):
                break
            limit = ""
        anew = anew and not limit
    limit = limit or one.given_up
    if limit:
        one.late(late())
    assert tree is not None and one.execution is not None
    if one.began > 1 or limit:
        one.after_first()
    found = Interleavings(
        not limit, one.runs, tree.redundant, time.monotonic() - began, limit,
        tuple(one.findings.values()), one.failing, len(one.results), one.first, dict(one.ends),
        one.execution.machine.dependent,
    )  # fmt: skip
    return found, one.execution, one.error


def every_order(
    kernel: Kernel, grid: Extent = 1, block: Extent = 1, args: Sequence[Any] = (), *,
    shared: int = 0, cluster: Extent | None = None, cooperative: bool = False,
    most_runs: int = MOST_RUNS, seconds: float = SECONDS, reduced: bool = True,
) -> Interleavings:  # fmt: skip
    """Run a launch in every order of its steps; the arguments are those of ``Kernel.launch``.

    Arrays are left as the first order leaves them. ``most_runs`` and ``seconds`` bound the search;
    ``reduced=False`` runs equal orders too, for comparison. Raises :class:`LaunchError` for a
    launch that cannot be.
    """
    extents = kernel.extents(grid, block, cluster, cooperative, shared)
    return searched(
        kernel, extents, args, most_runs=most_runs, seconds=seconds, reduced=reduced
    )[0]  # fmt: skip


def searched(
    kernel: Kernel, extents: Extents, args: Sequence[Any], *,
    most_runs: int = MOST_RUNS, seconds: float = SECONDS, reduced: bool = True,
) -> tuple[Interleavings, Execution]:  # fmt: skip
    """:func:`every_order`, with checked extents; and the first run. Threads take turns."""
    with kernel.memory.launching:
        return _searched(kernel, extents, args, most_runs, seconds, reduced)


def _searched(
    kernel: Kernel, extents: Extents, args: Sequence[Any], most_runs: int, seconds: float,
    reduced: bool,
) -> tuple[Interleavings, Execution]:  # fmt: skip
    mode = Mode(max_steps=TURNS, trace=False)
    arrays = EmulatedArrays(kernel.memory)
    try:
        parameters = kernel.marshal(args, arrays)
        found, execution, _ = search(
            lambda lines: kernel.prepare(
                extents, parameters, mode, kind=Stepped, stepwise=lines
            ),
            lambda: kernel.prepare(extents, parameters, mode),
            kernel.memory, most_runs=most_runs, seconds=seconds, reduced=reduced,
        )  # fmt: skip
    finally:
        written = arrays.give_back()
    refuse_written(written)
    return found, execution


__all__ = ["Failing", "Interleavings", "Stepped", "Taken", "every_order", "search",
           "searched"]  # fmt: skip
