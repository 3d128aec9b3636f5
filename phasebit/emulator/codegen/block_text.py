"""The Python text of one block's function, line after line.

``prologue`` fetches, at the function's beginning, what any of its lines may use; ``emit`` adds a
line.  A line that does an instruction's work bears it as a comment, its *note*; lines that only
prepare for it, written by ``aside``, do not.
"""

from __future__ import annotations


class BlockText:
    """See the module's text."""

    def __init__(self) -> None:
        self.head: dict[str, str] = {}
        """Local variable -> what it is set to at the beginning."""
        self.lines: list[str] = []
        self.note = ""
        """The comment that the next line bears."""
        self._temporaries = 0

    def emit(self, text: str) -> None:
        """Add a line, with the note if nobody has it yet."""
        self.lines.append(f"    {text}{self.note}")
        self.note = ""

    def aside(self, text: str) -> None:
        """Add a line, and keep the note for one that comes later."""
        self.lines.append(f"    {text}")

    def fresh(self, prefix: str = "t") -> str:
        """A local name that no line has yet."""
        self._temporaries += 1
        return f"{prefix}_{self._temporaries}"

    def prologue(self, name: str, text: str) -> str:
        """A local variable that is set at the function's beginning: its name."""
        self.head.setdefault(name, text)
        return name

    def function(self, number: int, label: str | None) -> list[str]:
        """The lines of the whole function, that of the block with this number."""
        return [
            f"def block_{number}(g):" + (f"  # {label}" if label else ""),
            "    R = g.registers",
            *(f"    {name} = {text}" for name, text in self.head.items()),
            *self.lines,
        ]


__all__ = ["BlockText"]
