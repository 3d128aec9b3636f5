"""Call stacks by number: groups of threads become one again only where these are the same."""

from __future__ import annotations


class CallStacks:
    """The stacks that the threads of a launch have had; 0 is the empty one."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[int, int], int] = {}
        self.parents: list[int] = [0]

    def number(self, below: int, resume: int) -> int:
        """The number of the call stack that has ``resume`` on top of stack ``below``."""
        key = (below, resume)
        if key not in self.numbers:
            self.numbers[key] = len(self.parents)
            self.parents.append(below)
        return self.numbers[key]

    def parent(self, stack: int) -> int:
        """The stack after a return."""
        return self.parents[stack]


__all__ = ["CallStacks"]
