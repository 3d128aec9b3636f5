"""The errors of the emulator: each one sentence that names the thing, the place and the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class EmulatorError(Exception):
    """Base of every error that the emulator raises on purpose.

    ``hazards``: what the checker had found before a kernel failed.
    """

    hazards: Sequence[Any] = ()

    def __str__(self) -> str:
        text = super().__str__()
        if self.hazards:
            more = f" (and {len(self.hazards) - 1} more)" if len(self.hazards) > 1 else ""
            text += f"\nbefore that the checker had found{more}: {self.hazards[0]}"
        return text


class PtxError(EmulatorError):
    """PTX text that the emulator cannot read or does not know; names the line."""

    def __init__(self, message: str, line: int | None = None, source: str | None = None) -> None:
        self.line = line
        self.source = source
        where = f"PTX line {line}: " if line is not None else ""
        after = f" (from {source})" if source else ""
        super().__init__(f"{where}{message}{after}")


class LaunchError(EmulatorError):
    """A launch that cannot begin: arguments, block size, shared memory."""


class Fault(EmulatorError):
    """An access or a trap that ends the kernel, as a sticky error does on a GPU."""


class Deadlock(EmulatorError):
    """Every thread waits and nothing is left that could wake one.

    ``waits``: for each group of threads that wait: who, for what, the line of the CUDA source
    (the innermost in the kernel's file; 0 if unknown), what is known of the thing they wait for.
    """

    def __init__(self, message: str, waits: Sequence[tuple[str, str, int, str]] = ()) -> None:
        super().__init__(message)
        self.waits = tuple(waits)


class Defect(EmulatorError):
    """The emulator itself failed: at instructions that ptxas refuses too, or by a mistake in it."""


class StepLimit(EmulatorError):
    """The kernel ran longer than the launch allowed."""
