"""A ring written from blank: a kernel ``reverse`` that writes each tile of a vector out backwards.

What a ring may cost (arrivals, copies, meetings) is the chapter's to judge; that it is a right
kernel, under every schedule, is judged here.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

from phasebit.exercises.judge import NotAnswered, Wrong

BLANK = "// yours"
"""What stands in a kernel that nobody has written yet."""

SCHEDULES = (("late", 0), ("eager", 0), ("random", 5))
"""How the emulator runs a ring: the schedule's name, and its seed."""


def written(answer: object, keep: Iterable[str]) -> str:
    """The text of an answer in which each line of ``keep`` stands once.

    Raises ``NotAnswered`` while it is blank, ``Wrong`` when it is no text or a line is gone.
    """
    if not isinstance(answer, str):
        raise Wrong("give the text of the kernel, as a string")
    if BLANK in answer:
        raise NotAnswered
    for line in keep:
        if answer.count(line) != 1:
            raise Wrong(f"keep the line {line}")
    return answer


def compiled(text: str) -> Any:
    """A text with a kernel ``reverse``, compiled; ``Wrong`` with the compiler's words."""
    from phasebit import toolchain
    from phasebit.emulator import LaunchError
    from phasebit.launching.launch import compile

    try:
        module = compile(text)
        module["reverse"]  # or LaunchError says which kernels there are
    except (toolchain.CudaError, LaunchError) as error:
        raise Wrong(str(error)) from error
    return module


def turned_round(
    module: Any, tile: int, threads: int, tiles: int, words: str, judge: Callable[[Any, str], None]
) -> None:
    """Run ``reverse(x, y, tiles)`` of a module once for each of :data:`SCHEDULES`, in one block.

    A tile has ``tile`` floats, drawn anew. ``judge(run, where)`` has the last word of each run;
    ``words`` begin the sentence that says where. Raises ``Wrong`` when the emulator stops the
    kernel or finds a mistake, and when ``y`` is not each tile of ``x`` backwards.
    """
    import numpy as np

    from phasebit.emulator import EmulatorError

    for schedule, seed in SCHEDULES:
        where = f"with {words}, schedule {schedule}"
        x = np.random.default_rng(random.randrange(1 << 30)).standard_normal(tiles * tile)
        x = x.astype(np.float32)
        y = np.full_like(x, np.nan)
        try:
            run = module["reverse"].launch(
                grid=1, block=threads, args=[x, y, tiles], device="emulator", schedule=schedule,
                seed=seed,
            )  # fmt: skip
        except EmulatorError as error:
            raise Wrong(f"{where}: {str(error).splitlines()[0]}") from error
        if run.findings:
            finding = run.findings[0]
            raise Wrong(f"{where}: the emulator finds {finding.kind} at line {finding.lines[0]}")
        if not np.array_equal(y, x.reshape(tiles, tile)[:, ::-1].ravel()):
            raise Wrong(f"{where}: y is not each tile backwards")
        judge(run, where)
