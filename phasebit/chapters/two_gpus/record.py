"""*Two GPUs*: products that overlap what they send, beside NCCL and torch's own, by turns.

Needs two GPUs that reach each other's memory, and torch.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from phasebit import edits, files, measure, toolchain
from phasebit.chapters.two_gpus import broken_links, ranks, scatter_parts
from phasebit.instruments import beside_torch, programs

NAME = "two_gpus"
FURTHER = (broken_links.NAME, scatter_parts.NAME)
GPUS = 2
FOLDER = "two_gpus"
SHAPES = (8192, 8192, 8192), (8192, 7168, 4096), (4096, 4096, 4096)
"""M, N and K of the product that each GPU computes; reduce-scatter divides K between the two."""
NARROW = (512, 1024, 1536, 2048, 4096)
"""Columns of B, or this GPU's part of K, for the model."""
ROUNDS, FEWER = 10, 5
SECONDS = 200.0
"""How long the two processes may take."""

_LINE = re.compile(r"⏱ (?P<what>.+): (?P<number>[\d.]+) (?:us|GB/s)")


def texts() -> dict[str, str]:
    """The libraries: two kernels, the versions before each, and the product that tells nobody."""
    gather, waits, carried, copied = (
        files.kernel(f"{FOLDER}/{name}")
        for name in ("d_gather_ring", "e_ring_scatter", "g_carried_scatter", "h_copied_scatter")
    )
    return {
        "gather": gather,
        "gather, warps send": edits.replace_once(gather, "SENDERS = 0", "SENDERS = 3"),
        "scatter": copied,
        "scatter, carried": carried,
        "scatter, each warp waits": waits,
        "plain": files.kernel("hopper_ring/d_boxes_of_c"),
    }


def build(name: str) -> toolchain.Build:
    """One of :func:`texts`, as a library."""
    return toolchain.build(texts()[name], name=NAME, target="sm_90a", library=True)


def cases() -> list[tuple[str, int, bool, tuple[int, int, int]]]:
    """Kind, rounds, whether all contenders take part, and the shape of a GPU's product."""
    found = [("gather", ROUNDS, True, shape) for shape in SHAPES]
    found += [("scatter", ROUNDS, True, (m, n, k // 2)) for m, n, k in SHAPES]
    found += [("gather", FEWER, False, (8192, n, 8192)) for n in NARROW]
    found += [("scatter", FEWER, False, (8192, 8192, k)) for k in NARROW]
    return found


def link() -> dict[str, float]:
    """What the link carries: GB/s each way, both at once; microseconds of a flag."""
    printed = programs.output(programs.kernel(f"{FOLDER}/f_link"))
    return {match["what"]: float(match["number"]) for match in _LINE.finditer(printed)}


def record() -> dict[str, Any]:
    """Measure on this machine's two GPUs. What becomes of slips, and what each part of a
    reduce-scatter costs, is saved beside it.

    Raises :class:`toolchain.CudaError` when there are no two GPUs or no torch, or when a kernel
    fails or is wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here(NAME)
    if torch.cuda.device_count() < 2:
        raise toolchain.CudaError("two_gpus is measured on two GPUs, and this machine has one")
    measure.save(broken_links.record())
    measure.save(scatter_parts.record())
    with ThreadPoolExecutor(8) as pool:
        built = dict(zip(texts(), pool.map(build, texts()), strict=True))
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "clock": "CUDA events before and after a row of launches, on each GPU; of the two "
            "the longer time by launch",
            "order": f"in each round the contenders in a new random order, the same on both GPUs: "
            f"{ranks.REST:g} s without work, {ranks.WARM} launches that do not count, both GPUs "
            f"meet, then {ranks.EACH} that do; {ROUNDS} rounds, {FEWER} for the model's sizes",
            "processes": "one for each GPU; memory of the peer by torch's symmetric memory",
            "inputs": "normal random bf16 numbers, K innermost; no flush between launches",
            "check": "before timing, 64 rows by 64 columns against double, within (K + K/8 + 4)·"
            "2⁻²³·Σ|a·b| + 2⁻⁸·|c|, and 2⁻⁸ of the part that was sent",
            "vendor": f"NCCL and cuBLAS through torch {torch.__version__}; torch's overlapped "
            "operators are fused_all_gather_matmul and fused_matmul_reduce_scatter of symm_mem; "
            "no NVLink multicast anywhere",
            "parts stay": "the same kernels, whose parts are stored on their own GPU: a control; "
            "wrong on purpose, after the checks",
            "link": "64 MiB from each GPU to the other at the same time; medians of 7 rows of 10; "
            "the flag goes 2000 times",
        },
        "link": link(),
        "cases": _cases({name: each.program for name, each in built.items()}),
    }


def _cases(libraries: dict[str, Path]) -> list[dict[str, Any]]:
    """What both processes measure."""
    plan = {"cases": cases(), "libraries": {name: str(path) for name, path in libraries.items()}}
    return ranks.measured(ranks.__name__, plan, SECONDS)
