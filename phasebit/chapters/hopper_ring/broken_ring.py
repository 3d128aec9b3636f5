"""The ring of *The ring at full width* with one mistake each: on a GPU alone, and under sanitizers.

What the emulator says of the same programs is shown in the chapter, beside this record.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from phasebit import files, measure, process, replay, toolchain
from phasebit.edits import replace_once
from phasebit.instruments import sanitizer

NAME = "broken_ring"
KERNEL = "b_ring"

BROKEN: dict[str, tuple[str, str]] = {
    "as it is": ("", ""),
    "nobody waits for empty": ("        ptx::mbarrier_wait(&ring.empty[s], !phase);\n", ""),
    "full, the other parity": ("full[s], phase", "full[s], !phase"),
    "half of the bytes": ("sizeof(Stage));", "sizeof(Stage) / 2);"),
    "empty before the wait": ("ptx::wgmma_wait_group<0>()", "ptx::wgmma_wait_group<1>()"),
    "empty counts threads": ("CONSUMERS / 32", "CONSUMERS"),
    "no wgmma.fence": ("        ptx::wgmma_fence();\n", ""),
}
"""Mistake -> what stands in the ring's file, and what stands there instead."""

_SEEDS = 3  # processes of each program without a tool: one for each seed of its inputs
_SECONDS = 15.0  # a process that has not ended after this time hangs
_JOBS = 16  # processes at a time


_BOUND = "__launch_bounds__(THREADS, 1)", "__launch_bounds__(THREADS)"  # as recorded


def broken(mistake: str) -> str:
    """The ring with a mistake; raises ``ValueError`` when its file is not what it was."""
    text, (old, new) = files.kernel(f"hopper_ring/{KERNEL}"), BROKEN[mistake]
    text = replace_once(text, *_BOUND, f"{KERNEL}.cu")
    return replace_once(text, old, new, f"{KERNEL}.cu") if old else text


def record() -> dict[str, Any]:
    """How each program ends on this machine's GPU, and what each tool says of it.

    Raises :class:`toolchain.CudaError` when there is no GPU or no compute-sanitizer.
    """
    facts, version = measure.facts(), sanitizer.version()
    texts = {mistake: broken(mistake) for mistake in BROKEN}
    with ThreadPoolExecutor(_JOBS) as pool:
        programs = dict(zip(texts, pool.map(_build, texts), strict=True))
        seeds = range(1, _SEEDS + 1)
        started = {
            mistake: [pool.submit(_end, program, seed) for seed in seeds]
            for mistake, program in programs.items()
        }
        alone = {mistake: [each.result() for each in ends] for mistake, ends in started.items()}
        # What hangs takes time from what does not, so the tools look last at what goes wrong.
        tools: dict[tuple[str, str], Any] = {}
        for right in (True, False):
            looking = {
                (mistake, tool): pool.submit(
                    sanitizer.under, tool, [program, "--seed", "1"], _file(mistake), _SECONDS
                )
                for mistake, program in programs.items()
                if (set(alone[mistake]) == {"right"}) is right
                for tool in sanitizer.TOOLS
            }
            tools |= {key: future.result() for key, future in looking.items()}
        return {
            "benchmark": NAME,
            **facts,
            "compute-sanitizer": version,
            "protocol": {
                "alone": f"{_SEEDS} processes each, inputs from seeds 1 to {_SEEDS}, {_SECONDS:g} "
                f"s; {_JOBS} processes at a time",
                "tools": f"{sanitizer.protocol()}; seed 1, {_SECONDS:g} s",
            },
            "programs": {
                mistake: {
                    "text": replay.key(text),
                    "alone": alone[mistake],
                    "tools": {tool: tools[mistake, tool] for tool in sanitizer.TOOLS},
                }
                for mistake, text in texts.items()
            },
        }


def _file(mistake: str) -> str:
    return f"{mistake.replace(' ', '_').replace(',', '')}.cu"


def _build(mistake: str) -> str:
    return os.fspath(toolchain.build(broken(mistake), name=_file(mistake)).program)


def _end(program: str, seed: int) -> str:
    """``right``, ``wrong``, ``fails`` or ``hangs``."""
    done = process.run([program, "--seed", str(seed)], timeout=_SECONDS)
    if done.stopped:
        return "hangs"
    return "right" if done.ok else "wrong" if "wrong result" in done.stderr else "fails"
