"""The kernels of chapters 4, 12, 13, 14 and 15 under the four tools of compute-sanitizer.

The programs check their results as always; a verdict counts only of a program that ended well.
(The patients of chapter 13 and their repaired twins are in that chapter's own record.)

All are clean but for one report. synccheck says "Missing wait" where a thread's copies arrive at a
barrier beside the thread itself, in ``12_mbarrier`` and in NVIDIA's own ``cuda::pipeline``
(``12_pipeline``): it seems to see one thread that arrives twice and does not wait in between.
Where the thread waits for its copies and then arrives, as in :func:`one_arrival`, it is content.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from phasebit import clinic, files, measure, replay, toolchain
from phasebit.benchmarks import programs, sanitizer
from phasebit.benchmarks import threads_and_memory as memory

NAME = "clean_kernels"

GEMM = {
    "naive": "launch_naive(g);",
    "plain tiles": "launch_one_slot<Tiling<64, 64, 64, 32, 32>, false, 2>(g);",
    "swizzled tiles": "launch_one_slot<Tiling<64, 64, 64, 32, 32>, true, 2>(g);",
    "a ring": "launch_gemm<Tiling<64, 64, 64, 32, 32>, 4>(g, 1);",
    "large warp tiles": "launch_gemm<Tiling<128, 256, 64, 64, 64>, 3>(g, 1);",
    "super-rows": "launch_gemm<Tiling<64, 64, 32, 32, 32>, 2>(g, 2);",
}
"""Chapter 14's kernels: rung -> how it is launched on any shape."""

PROGRAMS = (
    "04_bandwidth", "04_occupancy",
    "12_loads", "12_groups", "12_pipeline", "12_mbarrier", "12_latency",
    "15_bulk_copy", "15_tma_copy", "15_wgmma", "15_a_one_stage", "15_b_ring",
    "15_c_blocks_that_stay", "15_d_boxes_of_c", "15_e_pairs",
)  # fmt: skip
"""Programs of chapters 4, 12 and 15, by their files; chapter 4's others are launched from
Python."""

_TYPES = {"f16": "__half", "bf16": "__nv_bfloat16", "f32": "float"}
_SEED_ALONE = ("15_bulk_copy", "15_tma_copy", "15_wgmma")  # no other argument
_SECONDS = 200.0  # of one program under one tool
_REGISTERS = files.kernels() / "13_registers"
_COUNTED = "04 counted"  # launched from Python, on small arrays


def gemm(launch: str, read: str = "bf16", write: str = "f32") -> str:
    """A program that checks one kernel of chapter 14; ``read`` and ``write`` name its types."""
    return (
        '#include "14_gemm.cuh"\n#include "14_naive.cuh"\n'
        f"using In = {_TYPES[read]};\nusing Out = {_TYPES[write]};\n"
        f"void launch(const Gemm<In, Out>& g) {{ {launch} }}\n"
        '#include "gemm.cuh"\n'
    )


def texts() -> dict[str, str]:
    """Every program that is looked at: what it is called -> its source."""
    return {
        _COUNTED: "".join(map(files.kernel, memory.PROGRAMS)),
        **{name: files.kernel(name) for name in PROGRAMS},
        "12_mbarrier, one arrival": one_arrival(),
        "13 healthy": clinic.source("00_healthy"),
        **{f"13 {path.stem}": _short(path) for path in sorted(_REGISTERS.glob("*.cu"))},
        **{f"14 {rung}": gemm(launch) for rung, launch in GEMM.items()},
        "14 super-rows, f16": gemm(GEMM["super-rows"], "f16", "f16"),
    }


def one_arrival() -> str:
    """``12_mbarrier`` whose producers wait for their copies, so that only threads arrive."""
    text, line = files.kernel("12_mbarrier"), "__pipeline_arrive_on(&ring.full[slot]);"
    if text.count(line) != 1:
        raise ValueError(f"12_mbarrier no longer has the line {line!r}")
    return text.replace(line, "__pipeline_commit(); __pipeline_wait_prior(0);")


def _short(path: Path) -> str:
    """A kernel of ``kernels/13_registers`` with eight tiles: racecheck takes its time."""
    text = path.read_text(encoding="utf-8")
    if "K = 1024;" not in text:
        raise ValueError("the kernels of chapter 13 no longer have K = 1024")
    return text.replace("K = 1024;", "K = 64;")


def record() -> dict[str, Any]:
    """What each tool says of each program, on this machine's GPU.

    A program that the record holds as it is, looked at with the same tools on the same kind of
    GPU, keeps what was said of it and the day of that.

    Raises :class:`toolchain.CudaError` when there is no GPU or no compute-sanitizer, or when a
    program fails without it.
    """
    facts, known = measure.facts(), sanitizer.version()
    about = {
        "compute-sanitizer": known,
        "protocol": {
            "tools": sanitizer.protocol(),
            "inputs": "of the programs: seed 1 where they draw; "
            f"{', '.join(memory.PROGRAMS)}: launched from Python on small arrays, as for counting; "
            "those of 13_registers: K 64",
        },
    }
    everything = texts()
    kept = _kept(everything, facts | about)
    every = {name: text for name, text in everything.items() if name not in kept}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        built = dict(zip(every, pool.map(_command, every.items()), strict=True))
        list(pool.map(lambda command: programs.output(Path(command[0]), *command[1:]),
                      built.values()))  # fmt: skip
        said = {
            (name, tool): pool.submit(sanitizer.under, tool, command, _file(name), _SECONDS)
            for tool in sanitizer.TOOLS
            for name, command in built.items()
        }
        verdicts = {key: future.result() for key, future in said.items()}
    for (name, tool), verdict in verdicts.items():
        if verdict["verdict"] != "nothing":
            print(f"⏱ {tool}, {name}: {verdict}")
    looked_at = {
        name: {
            "text": replay.key(text),
            "date": facts["date"],
            "tools": {tool: verdicts[name, tool] for tool in sanitizer.TOOLS},
        }
        for name, text in every.items()
    }
    return {
        "benchmark": NAME,
        **facts,
        **about,
        "programs": {name: kept.get(name) or looked_at[name] for name in everything},
    }


def _kept(every: dict[str, str], today: dict[str, Any]) -> dict[str, Any]:
    """What the record says of programs that are still what they were, if it holds today."""
    try:
        before = measure.read(NAME)
    except FileNotFoundError:
        return {}
    if any(before.get(field) != value for field, value in today.items() if field != "date"):
        return {}
    return {
        name: {"text": said["text"], "date": said.get("date", before["date"]),
               "tools": said["tools"]}
        for name, said in before["programs"].items()
        if name in every and replay.key(every[name]) == said["text"]
    }  # fmt: skip


def _file(name: str) -> str:
    return f"{name.replace(' ', '_').replace(',', '')}.cu"


def _command(item: tuple[str, str]) -> list[str]:
    name, text = item
    if name == _COUNTED:
        return [sys.executable, "-m", memory.__name__, "kernels"]
    program = os.fspath(toolchain.build(text, name=_file(name)).program)
    if name == "04_bandwidth":
        return [program, "--json", os.devnull]
    return [program, "1"] if name in _SEED_ALONE else [program, "--seed", "1"]
