"""A launch as its threads see it: its state, and what they ask of the scheduler.

``machine.scheduler`` answers.  ``g`` is a group of threads, ``machine.group``, which lies above.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from phasebit.emulator.findings import Sentence
from phasebit.emulator.machine.launch_state import LaunchState
from phasebit.emulator.machine.waiting import Waiting
from phasebit.emulator.ptx.syntax import Instruction


class RunningLaunch(LaunchState, ABC):
    """See the module's text."""

    parked: dict[Any, Waiting]
    """The groups that wait, and for what."""

    # -- turns ----------------------------------------------------------------

    @abstractmethod
    def make_ready(self, g: Any) -> None:
        """Put a group on the ready list, merged with one that stands at the same place."""

    @abstractmethod
    def park(self, g: Any, waiting: Waiting) -> int:
        """Take a group off the machine until someone wakes it; the -1 a block returns."""

    def may_wait(
        self, g: Any, passes: Callable[[], bool], sites: Sequence[Any], waiting: Waiting
    ) -> bool:
        """Whether threads may look now whether a phase is complete; here they always may."""
        return True

    @abstractmethod
    def wake(self, g: Any, pc: int, time: int | None = None) -> None:
        """A parked group goes on at ``pc``, not before ``time``."""

    @abstractmethod
    def sleep(self, g: Any, duration: int) -> int:
        """``nanosleep``: others first; time passes when nobody else can run."""

    @abstractmethod
    def catch_up(self, g: Any, moment: int, what: str) -> None:
        """What the group waited for happened later than the group's own time: it waited."""

    @abstractmethod
    def gather(self, g: Any, membermask: Any) -> bool:
        """Bring the threads of the member masks together; True when all are here already."""

    @abstractmethod
    def exit_threads(self, g: Any) -> None:
        """These threads are done; barriers and warps no longer count them."""

    # -- where they stand -----------------------------------------------------

    @abstractmethod
    def executing_access(self) -> int:
        """The number of the instruction that is being executed; -1 between two blocks."""

    @abstractmethod
    def executing(self) -> Instruction | None:
        """The instruction that is being executed; None between two blocks."""

    @abstractmethod
    def where(self, g: Any) -> Sentence:
        """The instruction at which a group stands, and its place."""

    @abstractmethod
    def source_line(self, g: Any) -> str:
        """``kernel.cu:7``, the same whatever compiles it; the PTX line where no source is known."""

    @abstractmethod
    def place(self, access: int) -> Sentence:
        """An instruction by its number, and where it comes from."""


__all__ = ["RunningLaunch"]
