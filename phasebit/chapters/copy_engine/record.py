"""*The copy engine*: how few threads saturate memory, wrong announcements, and hints to L2.

Three programs of the chapter print what they measure, a line for each launch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from phasebit import measure
from phasebit.chapters.copy_engine import hint_control, prefetch
from phasebit.instruments import programs

NAME = "copy_engine"
FURTHER = (hint_control.NAME, prefetch.NAME)
OUTCOMES = ("complete", "too early", "never")


def record() -> dict[str, Any]:
    """Measure on this machine's GPU, and save what the hint alone, and what a prefetch, is
    worth.

    Raises :class:`toolchain.CudaError` when there is none.
    """
    facts = measure.facts()
    measure.save(hint_control.record())
    measure.save(prefetch.record())
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "memory": "few_threads.cu: 1 GiB of pseudo-random bits, one block on each "
            "multiprocessor, CUDA events; a launch that does not count, then 5 that do, in 3 "
            "rounds; GB/s of each",
            "announced": "announced.cu: 2,112 blocks of one thread for each case, 200,000 looks "
            "at the barrier at most; how many blocks ended in which way",
            "hints": "hints.cu: 1 GiB of pseudo-random bits as a stream, and as many bytes read "
            "from a table, around; 132 blocks, 64 KiB under way in each; a launch that does not "
            "count, then 5 that do, in 3 rounds; GB/s of each, of stream and table together",
        },
        "memory": list(_memory(_output("few_threads", "time"))),
        "announced": list(_announced(_output("announced"))),
        "hints": _hints(_output("hints", "time")),
    }


def _output(kernel: str, *arguments: str) -> str:
    return programs.output(programs.kernel(f"{NAME}/{kernel}"), *arguments)


def _memory(said: str) -> Iterator[dict[str, Any]]:
    """One entry for each way: ``how``, ``threads``, ``bytes`` under way in a block, ``gb_s``."""
    rates: dict[tuple[str, int, int], list[float]] = {}
    for how, threads, bytes_, rate in re.findall(
        r"^⏱ (\w+) threads=(\d+) bytes=(\d+) (\S+)$", said, re.MULTILINE
    ):
        rates.setdefault((how, int(threads), int(bytes_)), []).append(float(rate))
    for (how, threads, under_way), each in rates.items():
        yield {"how": how, "threads": threads, "bytes": under_way, "gb_s": each}


def _announced(said: str) -> Iterator[dict[str, Any]]:
    """One entry for each case: ``copies``, ``more`` bytes than come, and blocks by outcome."""
    pattern = r"^(\d) copies, (\S+) bytes: complete (\d+), too early (\d+), never (\d+)$"
    for copies, more, *counts in re.findall(pattern, said, re.MULTILINE):
        blocks = dict(zip(OUTCOMES, map(int, counts), strict=True))
        yield {"copies": int(copies), "more": int(more), "blocks": blocks}


def _hints(said: str) -> dict[str, dict[str, list[float]]]:
    """MiB of the table -> hint -> GB/s of each launch."""
    rates: dict[str, dict[str, list[float]]] = {}
    for mib, hint, rate in re.findall(r"^⏱ table=(\d+) ([^:]+): (\S+)$", said, re.MULTILINE):
        rates.setdefault(mib, {}).setdefault(hint, []).append(float(rate))
    return rates
