"""What accesses and messages of one launch mean to those that run beside it.

``checker.other_launches`` answers; it lies above the modules that ask.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from phasebit.emulator.checker.footprint import Footprint
from phasebit.emulator.machine.group import Group
from phasebit.emulator.ptx.types import Array


class Beside(ABC):
    """One launch's view of the others."""

    @abstractmethod
    def publish(self, g: Group, lanes: Array, position: int, releases: bool, scope: str) -> None:
        """A strong write of threads of one unit tells other launches what it may."""

    @abstractmethod
    def hear(self, g: Group, positions: Array, sem: str, scope: str, access: int) -> None:
        """A strong read learns what others have said there; a relaxed one at its next fence."""

    @abstractmethod
    def fence(self, g: Group, scope: str) -> None:
        """``fence``: what these threads have read before counts from now on, as far as it goes."""

    @abstractmethod
    def scopes(self, g: Group, positions: Array, scope: str, verb: str, access: int) -> None:
        """Strong accesses of two devices meet: do both have a scope that reaches so far?"""

    @abstractmethod
    def look(
        self, g: Group, words: Footprint, start: int, access: int, verb: str, strong: bool
    ) -> None:
        """An access to global memory: is what launches beside this one did there ordered before?"""

    @abstractmethod
    def written(self, x: Array) -> Array:
        """Whether words that this launch found unwritten have been written by others since."""


__all__ = ["Beside"]
