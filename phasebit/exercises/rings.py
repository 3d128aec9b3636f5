"""A ring written from blank: a kernel ``reverse`` that writes each tile of a vector out backwards.

What a ring may cost (arrivals, copies, meetings) is the chapter's to judge; that it is a right
kernel, under every schedule, is judged here.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from phasebit.exercises.judge import Wrong
from phasebit.exercises.written import clean, running

SCHEDULES = (("late", 0), ("eager", 0), ("random", 5))
"""How the emulator runs a ring: the schedule's name, and its seed."""


def turned_round(
    module: Any, tile: int, threads: int, tiles: int, words: str, judge: Callable[[Any, str], None]
) -> None:
    """Run ``reverse(x, y, tiles)`` of a module once for each of :data:`SCHEDULES`, in one block.

    A tile has ``tile`` floats, drawn anew. ``judge(run, where)`` has the last word of each run;
    ``words`` begin the sentence that says where. Raises ``Wrong`` when the emulator stops the
    kernel or finds a mistake, and when ``y`` is not each tile of ``x`` backwards.
    """
    import numpy as np

    for schedule, seed in SCHEDULES:
        where = f"with {words}, schedule {schedule}"
        x = np.random.default_rng(random.randrange(1 << 30)).standard_normal(tiles * tile)
        x = x.astype(np.float32)
        y = np.full_like(x, np.nan)
        with running(where):
            run = module["reverse"].launch(
                grid=1, block=threads, args=[x, y, tiles], device="emulator", schedule=schedule,
                seed=seed,
            )  # fmt: skip
        clean(run, where)
        if not np.array_equal(y, x.reshape(tiles, tile)[:, ::-1].ravel()):
            raise Wrong(f"{where}: y is not each tile backwards")
        judge(run, where)
