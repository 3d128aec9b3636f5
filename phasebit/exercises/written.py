"""Kernels that a reader has written: their text, the compiler's words, a run with every check."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from phasebit.exercises.judge import NotAnswered, Wrong

BLANK = "// yours"
"""What stands in a kernel that nobody has written yet."""


def written(answer: object, keep: Iterable[str], what: str = "kernel") -> str:
    """The text of an answer in which each line of ``keep`` stands once; ``what`` it is a text of.

    Raises ``NotAnswered`` while it is blank, ``Wrong`` when it is no text or a line is gone.
    """
    if not isinstance(answer, str):
        raise Wrong(f"give the text of the {what}, as a string")
    if BLANK in answer:
        raise NotAnswered
    for line in keep:
        if answer.count(line) != 1:
            raise Wrong(f"keep the line {line}")
    return answer


@contextmanager
def compiling() -> Iterator[None]:
    """What the compiler says of the text is what is ``Wrong`` with it."""
    from phasebit import toolchain
    from phasebit.emulator import LaunchError

    try:
        yield
    except (toolchain.CudaError, LaunchError) as error:
        raise Wrong(str(error)) from error


def compiled(text: str, kernel: str, target: str | None = None) -> Any:
    """The module of a text that has this kernel; ``Wrong`` with the compiler's words."""
    from phasebit.launching.launch import compile

    with compiling():
        module = compile(text, target)
        module[kernel]  # or LaunchError says which kernels there are
    return module


@contextmanager
def running(where: str) -> Iterator[None]:
    """A run that the emulator stops is ``Wrong``; ``where`` says which run it was."""
    from phasebit.emulator import EmulatorError

    try:
        yield
    except EmulatorError as error:
        raise Wrong(f"{where}: {str(error).splitlines()[0]}") from error


def clean(run: Any, where: str) -> None:
    """A run in which the emulator finds a mistake is ``Wrong``."""
    if run.findings:
        finding = run.findings[0]
        line = f" at line {finding.lines[0]}" if finding.lines else ""
        raise Wrong(f"{where}: the emulator finds {finding.kind}{line}: {finding.message[:160]} …")


def fenced(kernel: Any) -> None:
    """A kernel that lacks one of the fences around a barrier is ``Wrong``.

    The emulator does not ask for them where a kernel has none at all, since compilers leave them
    out; the PTX ISA does.
    """
    for fence in ("before", "after"):
        if f"tcgen05.fence::{fence}_thread_sync" not in kernel.ptx:
            raise Wrong(f"there is no tcgen05.fence::{fence}_thread_sync, which the PTX ISA asks "
                        f"for {fence} threads meet")  # fmt: skip
