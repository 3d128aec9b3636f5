"""A launch: what was asked for, and what of it changes while its threads run."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Protocol

from phasebit.emulator.capabilities import MOST_MULTIPROCESSORS, capability, limits
from phasebit.emulator.machine.call_stacks import CallStacks
from phasebit.emulator.machine.device_memory import Memory, Parameters
from phasebit.emulator.machine.events import Told
from phasebit.emulator.machine.program import Program
from phasebit.emulator.machine.starting_order import StartingOrder
from phasebit.emulator.ptx.placement import align_up

STACKED = 4096
"""Threads that one NumPy call should work on: so many blocks are stacked in a batch."""

STACKED_OBSERVED = 1024
"""The same where somebody listens to every access: what is kept for each of them is large."""

MAX_STACK = 64 << 10
"""Bytes of stack that recursion may use, for each thread, unless the launch says otherwise."""


class WorkUnderWay(Protocol):
    """What a launch knows of asynchronous work; see ``machine.agents``."""

    batch: Any
    """The batch whose threads have started it."""
    signals: bool
    """Others may wait for its end."""

    def finish(self) -> None:
        """Do the work, once."""


@dataclass(eq=False)
class LaunchState:
    """See the module's text."""

    program: Program
    memory: Memory
    parameters: Parameters
    parameter_start: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    explicit_cluster: bool
    cooperative: bool
    dynamic_shared: int
    shared_size: int
    schedule: str
    seed: int
    steps: int
    exact: bool
    stacked: int
    """Threads that one NumPy call should work on."""
    keep_apart: bool
    """Whether whole warps that stand at one place at different times stay apart until a barrier
    makes their times equal: then one can see who waited."""
    resident: int
    """Blocks that share a multiprocessor."""
    dependent: bool
    """Whether it may begin before the kernel before it in its stream has ended."""
    seat: Any
    """Its :class:`Seat` among launches that run beside it, ``machine.company``; None: alone."""
    printed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reserved = align_up(self.shared_size, 128)
        """Where the system's own part of a block's shared memory begins."""
        self.threads = self.block[0] * self.block[1] * self.block[2]
        self.cluster_size = self.cluster[0] * self.cluster[1] * self.cluster[2]
        self.blocks = self.grid[0] * self.grid[1] * self.grid[2]
        self.order = StartingOrder(self.grid, self.cluster)
        """The blocks by number, as they start."""
        own = limits(capability(self.program.module.target))
        self.most_resident = MOST_MULTIPROCESSORS * max(
            1, own.blocks_of(self.threads, self.shared_size), self.resident
        )
        """Blocks that are on the machine at once: as many as a GPU of the target could hold."""
        self.next_block = 0
        """The place in that order of the first that has not started."""
        self.random = random.Random(self.seed)
        self.last_leads = self.schedule == "random" and bool(self.seed % 2)
        """Whether ``elect.sync`` names the highest lane, not the lowest."""
        self.says_no_first = self.last_leads
        """Whether ``mbarrier.test_wait`` says no once before it waits for a phase."""
        self.stepped = False
        """Whether somebody chooses each step: :class:`.stepped.SteppedMachine`."""
        self.clock = 0
        self.now = 1
        """The moment: it advances wherever a thread publishes what it has written."""
        self.polls = 0
        """Looks at memory or at a clock that others change."""
        self.progress = 0
        """Counts what other threads could notice: stores by atomics, arrivals, exits."""
        self.changes = 0
        """Counts work of others than threads that has been done: it may have changed anything."""
        self.workspace = 0
        self.stack = MAX_STACK
        self.stacks = CallStacks()
        self.agents: list[WorkUnderWay] = []
        self.told = Told()
        """Who listens to what happens."""


__all__ = ["MAX_STACK", "STACKED", "STACKED_OBSERVED", "LaunchState", "WorkUnderWay"]
