"""The fastest plans of the main record and cuBLAS timed anew, in several processes.

Each process has its own matrices, at other addresses, and its own random numbers; within it the
two take turns as in the main record. What differs between processes and not within one is then
seen: a mean of one process does not show it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from typing import Any

from phasebit import measure, toolchain
from phasebit.chapters.every_shape import bench
from phasebit.chapters.every_shape.choice import contenders
from phasebit.chapters.every_shape.shapes import SHAPES, Shape
from phasebit.instruments import beside_torch

NAME = "every_shape_processes"
PROCESSES = 5
_LIMIT = 120.0  # seconds for one of them


def fastest(found: dict[str, Any]) -> dict[Shape, str]:
    """The text of each shape's fastest plan, by the main record.

    Raises :class:`toolchain.CudaError` where the engine has that plan no more.
    """
    chosen: dict[Shape, str] = {}
    for row in found["shapes"]:
        shape = Shape(*row["shape"])
        texts = {str(plan): plan.text for plan in contenders(shape)}
        if row["fastest"] not in texts:
            raise toolchain.CudaError(
                f"{shape}: no plan is called {row['fastest']!r} now: measure every_shape anew first"
            )
        chosen[shape] = texts[row["fastest"]]
    return chosen


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, when a kernel fails or is
    wrong, or when a process fails or takes too long.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here(NAME)
    bench.loaded(fastest(measure.read("every_shape")).values())  # each process finds them built
    runs = [_process() for _ in range(PROCESSES)]
    for number, run in enumerate(runs, 1):
        both = " / ".join(f"{mean(run, way):.3f}" for way in ("warm_us", "flushed_us"))
        print(f"⏱ process {number}: {both} of cuBLAS, warm and flushed", flush=True)
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            **bench.protocol(torch),
            "choice": "the fastest plan of each shape is that of the record every_shape",
            "processes": f"{PROCESSES}, one after the other, each with its own matrices",
        },
        "processes": runs,
    }


def mean(run: list[dict[str, Any]], way: str) -> float:
    """The geometric mean over the shapes of cuBLAS's median time over ours, of one process."""
    return statistics.geometric_mean(ratio(row, way) for row in run)


def ratio(row: dict[str, Any], way: str) -> float:
    """cuBLAS's median time over ours at one shape, in one process."""
    vendor = statistics.median(row["times"][bench.VENDOR][way])
    (ours,) = (name for name in row["times"] if name != bench.VENDOR)
    return float(vendor / statistics.median(row["times"][ours][way]))


def one() -> list[dict[str, Any]]:
    """What a process measures: each shape's plan beside cuBLAS."""
    torch = beside_torch.torch_here(NAME)
    found = measure.read("every_shape")
    texts = fastest(found)
    by_turns = bench.Bench(torch, bench.loaded(texts.values()))
    names = {Shape(*row["shape"]): row["fastest"] for row in found["shapes"]}
    return [by_turns.side_by_side(shape, {names[shape]: texts[shape]}) for shape in SHAPES]


def _process() -> list[dict[str, Any]]:
    ask = f"import json; from {__name__} import one; print(json.dumps(one()))"
    try:
        done = subprocess.run(
            [sys.executable, "-c", ask], env={**os.environ}, capture_output=True, text=True,
            timeout=_LIMIT,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise toolchain.CudaError(
            f"{NAME}: a process took more than {_LIMIT:g} s: is the GPU busy?"
        ) from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise toolchain.CudaError(f"{NAME}: a process failed: {last}")
    run: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return run
