"""*What it found in other people's kernels*: each bug and its fixed twin on this machine's GPU.

They run as they are, many processes of each, and under the four tools of compute-sanitizer. What
needs another architecture is left out.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from phasebit import bugs, hardware, measure, process, replay, toolchain
from phasebit.instruments import sanitizer

NAME = "other_peoples_kernels"

_PROCESSES = 20  # of each program
_SECONDS = 30.0  # a process that has not ended after this time hangs
_JOBS = 16  # processes at a time


def record() -> dict[str, Any]:
    """Run them on this machine's GPU, with compute-sanitizer of its CUDA toolkit.

    Raises :class:`toolchain.CudaError` when one of these is missing.
    """
    facts, version = measure.facts(), sanitizer.version()
    return {
        "benchmark": NAME,
        **facts,
        "compute-sanitizer": version,
        "protocol": {
            "runs": f"{_PROCESSES} processes of each program, {_JOBS} at a time; outputs poisoned",
            "tools": sanitizer.protocol(),
        },
        "bugs": _bugs(),
    }


def _bugs() -> dict[str, Any]:
    gpu = hardware.gpu()
    target = toolchain.nvcc().target_for(gpu)
    here = [bug for bug in bugs.found_here() if gpu and gpu.runs(bug.arch)]
    wanted = [(bug, twin) for bug in here for twin in bugs.TWINS]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        built = list(pool.map(lambda it: it[0].build(it[1], target=target, emulated=False), wanted))
    result: dict[str, Any] = {bug.name: {} for bug in here}
    with ThreadPoolExecutor(_JOBS) as pool:
        plain = [[pool.submit(_run, program) for _ in range(_PROCESSES)] for program in built]
        said = [
            {
                tool: pool.submit(sanitizer.under, tool, [program], f"{twin}.cu", _SECONDS)
                for tool in sanitizer.TOOLS
            }
            for (_, twin), program in zip(wanted, built, strict=True)
        ]
        for (bug, twin), processes, tools in zip(wanted, plain, said, strict=True):
            result[bug.name][twin] = {
                "runs": dict(Counter(run.result() for run in processes)),
                "tools": {tool: answer.result() for tool, answer in tools.items()},
                "text": fingerprint(bug.text(twin)),
            }
    return result


def fingerprint(text: str) -> str:
    """What a record knows a program by: its text without comments and spacing."""
    return hashlib.sha256(replay.normal_form(text).encode()).hexdigest()[:16]


def _run(program: Path) -> str:
    """How one process ended, in a word or two."""
    done = process.run([program], timeout=_SECONDS)
    if done.stopped:
        return "never ends"
    return bugs.result(done.stdout + done.stderr, done.status).partition(":")[0]
