"""A program of the book on the emulator, in a process of its own, as a reader's cell runs it."""

from __future__ import annotations

import sys

from phasebit import process, toolchain
from phasebit.runtime import library


def emulate(
    text: str, *args: str, target: str = "sm_90a", schedule: str = "late", timeout: float = 120
) -> process.Finished:
    """Compile a whole program and run it; its findings are in ``stderr``."""
    program = toolchain.build(text, target=target, runtime=library.build()).program
    command = [sys.executable, "-m", "phasebit", "run", "--schedule", schedule, program, *args]
    return process.run(command, timeout=timeout)
