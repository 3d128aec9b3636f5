"""What a launch tells whoever listens: its threads, their time, and how they are ordered."""

from __future__ import annotations

from typing import Any

from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.group import Group
from phasebit.emulator.ptx.types import Array, Value


class LaunchObserver:
    """Events of threads; see ``machine.events``."""

    def starts(self, batch: Batch) -> None:
        """Blocks have become resident."""

    def leaves(self, g: Group) -> None:
        """Threads leave the kernel."""

    def ends(self, batch: Batch) -> None:
        """All threads of a batch have left, and what they had started is done."""

    def gone(self) -> None:
        """The launch has ended or is given up: let go of what is large, since launches and those
        who watch them refer to each other, and stay until Python collects such circles."""

    def finds(self) -> None:
        """The checker has found something: it is the last of the launch's findings."""

    # -- time -----------------------------------------------------------------

    def enters(self, g: Group) -> None:
        """A group is about to run the block of the program at which it stands, ``g.pc``."""

    def ran(self, g: Group) -> None:
        """A group has run until its time."""

    def waited(self, g: Group, start: int, end: int, what: str) -> None:
        """A group waited."""

    def arrives_at(self, g: Group, barrier: str) -> None:
        """Threads arrive at an mbarrier or at the barrier of a cluster: its name."""

    # -- branches and warps ---------------------------------------------------

    def divides(self, g: Group, p: Array, join: int) -> None:
        """A branch divides a group by a predicate; its ways meet again at the block ``join``."""

    def gathered(self, g: Group, membermask: Any, all_here: bool) -> None:
        """The threads of a ``.sync`` instruction are together.

        ``all_here``: they are whole warps, and were so when they came.
        """

    def syncs_warp(self, g: Group) -> None:
        """``bar.warp.sync``: the threads of each warp wait for each other."""

    def shuffles(self, g: Group) -> None:
        """The threads of a warp tell each other values."""

    def shuffles_from(self, g: Group, sources: Array, wrong: Array) -> None:
        """``shfl``: some threads of a group, those ``wrong``, take the value of a lane of their
        warp, ``sources``, that their mask names and that is not there: it has left."""

    # -- memory ---------------------------------------------------------------

    def updates(
        self, g: Group, index: Value, width: int, sem: str, scope: str, count: int
    ) -> None:
        """An atomic on ``count`` neighbours a thread, each of ``width`` bytes."""

    def fences(self, g: Group, scope: str, sem: str) -> None:
        """``fence``: what the threads did so far comes before what they do from now on.

        ``sem``: ``release`` is for what they tell others from now on, ``acquire`` for what they
        have seen others tell; any other word is for both.
        """

    def fences_barriers(self, g: Group) -> None:
        """``fence.mbarrier_init``: the mbarriers that they have initialised may be published."""

    # -- other kernels --------------------------------------------------------

    def waits_for_grids(self, g: Group) -> None:
        """``griddepcontrol.wait``: the kernels before this one have ended."""

    # -- the rest -------------------------------------------------------------

    def sets_registers(self, g: Group, word: str, count: int) -> None:
        """``setmaxnreg``: ``inc`` or ``dec``, to so many registers a thread."""

    def misused(self, g: Group, text: Any) -> None:
        """Threads use a barrier in a way that PTX leaves undefined: a sentence says which."""


__all__ = ["LaunchObserver"]
