"""What `make book` has just executed is compared, not executed again.

nbval sends each cell to a kernel and reads the messages that come back. Where ``make test`` finds
that nothing changed since ``make book`` executed every notebook on this machine, it names the
folder of what was executed in :data:`VARIABLE`, and :class:`Answers` takes the kernel's place: it
sends the outputs that the cell had there. What nbval compares, and how, is the same.
"""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from queue import Empty
from typing import Any

import nbformat

VARIABLE = "PHASEBIT_EXECUTED"


class Answers:
    """Stands where nbval's kernel would: ``cells`` are those with code, executed, in order."""

    def __init__(self, cells: list[Any]) -> None:
        self._cells = deque(cells)
        self._messages: deque[dict[str, Any]] = deque()

    def is_alive(self) -> bool:
        return True

    def execute_cell_input(self, source: str, allow_stdin: bool | None = None) -> int:
        """The number by which the answers to the next cell are known: that of those before it."""
        cell = self._cells.popleft()
        if cell.source != source:
            raise RuntimeError(f"make book executed another cell here: {cell.source!r}")
        number = len(self._cells)
        content = [(each.output_type, each) for each in cell.outputs]
        for kind, answer in [*content, ("status", {"execution_state": "idle"})]:
            header = {"msg_id": number}
            self._messages.append({"msg_type": kind, "content": answer, "parent_header": header})
        return number

    def await_reply(self, number: int, timeout: float | None = None) -> None:
        """It is there."""

    def await_idle(self, number: int, timeout: float) -> None:
        self._messages.clear()

    def get_message(self, stream: str, timeout: float | None = None) -> dict[str, Any]:
        if not self._messages:
            raise Empty
        return self._messages.popleft()

    def interrupt(self) -> None:
        """Nothing runs."""

    def stop(self) -> None:
        """Nothing runs."""


def cells(notebook: Path, root: Path) -> list[Any]:
    """The cells with code of a notebook as they were executed; none if they are not the same."""
    folder = os.environ.get(VARIABLE)
    if not folder or not notebook.is_relative_to(root):
        return []
    executed = root / folder / notebook.relative_to(root)
    if not executed.is_file():
        return []
    there, here = (
        [cell for cell in nbformat.read(file, as_version=4).cells if cell.cell_type == "code"]
        for file in (executed, notebook)
    )
    return there if [cell.source for cell in there] == [cell.source for cell in here] else []


def answer(collector: Any, root: Path) -> None:
    """Let a notebook of nbval's be answered from what was executed, where that is there."""
    found = cells(Path(collector.path), root)
    if not found:
        return

    def setup() -> None:
        collector.kernel = Answers(found)
        collector.setup_sanitize_files()

    collector.setup = setup
