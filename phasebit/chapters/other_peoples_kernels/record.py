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
_SECONDS = 15.0  # a process that has not ended after this time hangs
_JOBS = 16  # processes at a time


def record() -> dict[str, Any]:
    """Run them on this machine's GPU, with compute-sanitizer of its CUDA toolkit.

    Raises :class:`toolchain.CudaError` when one of these is missing.
    """
    today = {
        **measure.facts(),
        "compute-sanitizer": sanitizer.version(),
        "protocol": {
            "runs": f"{_PROCESSES} processes of each program, {_JOBS} at a time; outputs poisoned",
            "tools": sanitizer.protocol(),
        },
    }
    return {"benchmark": NAME, **today, "programs": _programs(today)}


def _programs(today: dict[str, Any]) -> dict[str, Any]:
    """``"NAME broken"``, ``"NAME fixed"`` -> what is known of that program.

    One that the record holds as it is, is not run again.
    """
    gpu = hardware.gpu()
    target = toolchain.nvcc().target_for(gpu)
    here = [bug for bug in bugs.found_here() if gpu and gpu.assembles(bug.arch)]
    every = {f"{bug.name} {twin}": (bug, twin) for bug in here for twin in bugs.TWINS}
    texts = {name: fingerprint(bug.text(twin)) for name, (bug, twin) in every.items()}
    kept = sanitizer.kept(NAME, "programs", texts, today)
    wanted = {name: each for name, each in every.items() if name not in kept}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        programs = pool.map(
            lambda each: each[0].build(each[1], target=target, emulated=False), wanted.values()
        )
        built = dict(zip(wanted, programs, strict=True))
    with ThreadPoolExecutor(_JOBS) as pool:
        runs = {
            name: [pool.submit(_run, program) for _ in range(_PROCESSES)]
            for name, program in built.items()
        }
        said = {
            (name, tool): pool.submit(
                sanitizer.under, tool, [program], f"{wanted[name][1]}.cu", _SECONDS
            )
            for name, program in built.items()
            for tool in sanitizer.TOOLS
        }
        new = {
            name: {
                "text": texts[name],
                "date": today["date"],
                "runs": dict(Counter(run.result() for run in runs[name])),
                "tools": {tool: said[name, tool].result() for tool in sanitizer.TOOLS},
            }
            for name in wanted
        }
    return {name: kept.get(name) or new[name] for name in every}


def fingerprint(text: str) -> str:
    """What a record knows a program by: its text without comments and spacing."""
    return hashlib.sha256(replay.normal_form(text).encode()).hexdigest()[:16]


def _run(program: Path) -> str:
    """How one process ended, in a word or two."""
    done = process.run([program], timeout=_SECONDS)
    if done.stopped:
        return "never ends"
    return bugs.result(done.stdout + done.stderr, done.status).partition(":")[0]
