"""The slips of *Two GPUs* on two GPUs alone, and under sanitizers.

What the emulator says of the same programs is shown in the chapter, beside this record.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from phasebit import hardware, measure, process, replay, toolchain
from phasebit.chapters.two_gpus import clean, on_peers
from phasebit.chapters.two_gpus.link_slips import SLIPS, Slip
from phasebit.instruments import sanitizer

NAME = "broken_links"
RIGHT, WRONG, FAILS, HANGS = "right", "wrong", "fails", "hangs"
_TIMES = 3  # processes of each program without a tool
_SECONDS = 6.0  # a process that has not ended after this time hangs


def sources() -> dict[str, str]:
    """Slip -> the program."""
    return {name: slip.source for name, slip in SLIPS.items()}


def record() -> dict[str, Any]:
    """How each program ends on this machine's two GPUs, and what each tool says of it.

    One process at a time: kernels that wait for each other must run at the same time. Raises
    :class:`toolchain.CudaError` when there are no two GPUs, or no compute-sanitizer.
    """
    facts, version = measure.facts(), sanitizer.version()
    if hardware.gpus() < clean.GPUS:
        raise toolchain.CudaError(f"{NAME} needs two GPUs, and this machine has fewer")
    with ThreadPoolExecutor(16) as pool:
        built = dict(zip(SLIPS, pool.map(_build, sources().items()), strict=True))
    found = {name: _look(name, slip, built[name]) for name, slip in SLIPS.items()}
    return {
        "benchmark": NAME,
        **facts,
        "compute-sanitizer": version,
        "protocol": {
            "alone": f"{_TIMES} processes each, one if it hangs; {_SECONDS:g} s; seeds from 1 on; "
            f"products at full width {' × '.join(clean.SIZE)}",
            "tools": f"{sanitizer.protocol()}; seed 1, {_SECONDS:g} s",
        },
        "programs": found,
    }


def _build(item: tuple[str, str]) -> str:
    return os.fspath(toolchain.build(item[1], name=_file(item[0])).program)


def _look(name: str, slip: Slip, program: str) -> dict[str, Any]:
    ends: list[str] = []
    for seed in range(1, _TIMES + 1):
        ends.append(_end([program, *_arguments(slip, seed)]))
        if ends[-1] == HANGS:
            break
    command = [program, *_arguments(slip, 1)]
    said = {tool: sanitizer.under(tool, command, _file(name), _SECONDS) for tool in sanitizer.TOOLS}
    return {"text": replay.key(slip.source), "alone": ends, "tools": said}


def _arguments(slip: Slip, seed: int) -> Sequence[str]:
    return (*clean.SIZE, "--seed", f"{seed}") if slip.kernel in on_peers.RINGS else ()


def _file(name: str) -> str:
    return f"{name.replace(' ', '_').replace('.', '').replace(chr(39), '')}.cu"


def _end(command: Sequence[str]) -> str:
    done = process.run(command, timeout=_SECONDS)
    if done.stopped:
        return HANGS
    return RIGHT if done.ok else WRONG if done.status == 2 else FAILS
