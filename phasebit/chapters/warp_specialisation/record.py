"""*Warp specialisation and its bugs*: registers of four kernels, and the clinic under sanitizers.

Each kernel of ``warp_specialisation/registers`` is compiled, disassembled and timed beside cuBLAS.
Each patient of the clinic and its repaired twin run as they are, and under the four tools of
compute-sanitizer. Another record, ``clean_kernels``, has the kernels of the book that must have
no finding.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from phasebit import files, measure, process, replay, toolchain
from phasebit.chapters.warp_specialisation import clinic, registers, reported
from phasebit.instruments import programs, sanitizer

NAME = "warp_specialisation"

VARIANTS = ("outside", "inside", "function", "setmaxnreg")
"""Where the sums of the consumers are declared; files of ``warp_specialisation/registers``."""

ROLES = ("produce", "consume")
_LAPS = 3  # processes of each timed kernel
_LAUNCHES = 200  # warm launches in each
_SEEDS = 5  # processes of each patient: one for each seed of its inputs
_SECONDS = 30.0  # a process that has not ended after this time hangs
_JOBS = 12  # processes at a time


def record() -> dict[str, Any]:
    """Measure on this machine's GPU, with nvdisasm and compute-sanitizer of its CUDA toolkit.

    Raises :class:`toolchain.CudaError` when one of these is missing or a kernel fails.
    """
    facts, cublas = measure.facts(), measure.find_cublas()
    rules = {
        "patients": f"{_SEEDS} processes each, inputs from seeds 1 to {_SEEDS}; "
        f"the kernel is given 10 s; {_JOBS} processes at a time",
        "tools": sanitizer.protocol(),
    }
    today = {**facts, "compute-sanitizer": sanitizer.version(), "protocol": rules}
    return {
        "benchmark": NAME,
        **today,
        "protocol": {
            "registers": "ptxas -v; nvdisasm -gi, an instruction belongs to the function that its "
            "line is in",
            "times": f"{_LAUNCHES} warm launches in each of {_LAPS} processes after 50 that do not "
            "count, CUDA events; kernels by turns; inputs random, cached; "
            f"cublasSgemm from {cublas.name} by turns in the same processes, pedantic f32",
            **rules,
        },
        "registers": _registers(cublas),
        "clinic": _looked_at("clinic", patients(), today),
        "reported": _looked_at("reported", reports(), today),
    }


# Registers


def variant(name: str) -> str:
    """The text of one of the four kernels."""
    return files.kernel(f"warp_specialisation/registers/{name}")


def ignored() -> str:
    """The kernel with ``setmaxnreg``, but with no number of registers fixed at its entry."""
    return variant("setmaxnreg").replace("(THREADS, 1)", "(THREADS)")


def _registers(cublas: Path) -> dict[str, Any]:
    result: dict[str, Any] = {}
    texts = {name: variant(name) for name in VARIANTS}
    texts["ignored"] = ignored()
    for name, text in texts.items():
        code, allocation = registers.cubin(text)
        roles = registers.by_function(code, registers.lines_of(text, ROLES))
        result[name] = {
            **asdict(allocation),
            "roles": {role: asdict(part) for role, part in roles.items()},
            "warm_us": [],
            "cublas_us": [],
        }
    ready = {name: toolchain.build(variant(name)).program for name in VARIANTS}
    for _ in range(_LAPS):
        for name, program in ready.items():
            times = programs.times(program, "warm", "--repeats", str(_LAUNCHES), "--cublas", cublas)
            for kind in ("warm_us", "cublas_us"):
                result[name][kind] += times[kind]
    return result


# The clinic


def _looked_at(part: str, texts: dict[str, str], today: dict[str, Any]) -> dict[str, Any]:
    """What is known of each program: one that the record holds as it is, is not run again."""
    known = {name: fingerprint(text) for name, text in texts.items()}
    kept = sanitizer.kept(NAME, part, known, today)
    new = _clinic({name: text for name, text in texts.items() if name not in kept})
    return {name: kept.get(name) or {"date": today["date"]} | new[name] for name in texts}


def _clinic(texts: dict[str, str]) -> dict[str, Any]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        built = dict(zip(texts, pool.map(_build, texts.items()), strict=True))
    result: dict[str, Any] = {name: {} for name in texts}
    with ThreadPoolExecutor(_JOBS) as pool:
        plain = {
            name: [pool.submit(_run, program, seed) for seed in range(1, _SEEDS + 1)]
            for name, program in built.items()
            if isinstance(program, Path)
        }
        said = {
            (name, tool): pool.submit(
                sanitizer.under, tool, [program, "--seed", "1"], _file(name), _SECONDS
            )
            for tool in sanitizer.TOOLS
            for name, program in built.items()
            if isinstance(program, Path)
        }
        for name, program in built.items():
            if not isinstance(program, Path):
                result[name] = {"runs": {f"not compiled: {program}": 1}, "tools": {}}
                result[name]["text"] = fingerprint(texts[name])
                continue
            runs = [run.result() for run in plain[name]]
            result[name] = {
                "runs": dict(Counter(runs)),
                "tools": {tool: said[name, tool].result() for tool in sanitizer.TOOLS},
                "text": fingerprint(texts[name]),
            }
    return result


def fingerprint(text: str) -> str:
    """What a record knows a program by: its text without comments and spacing."""
    return hashlib.sha256(replay.normal_form(text).encode()).hexdigest()[:16]


def patients() -> dict[str, str]:
    """Every text that runs: ``"01_one_warp_loads broken"`` -> the text."""
    texts = {
        f"{name} {twin}": clinic.source(name, twin == "repaired")
        for name in clinic.names()
        for twin in ("broken", "repaired")
    }
    for name, which in clinic.VARIANTS:
        texts[f"{name} {which}"] = clinic.variant(name, which)
    return texts


def reports() -> dict[str, str]:
    """The programs after threads, as :func:`patients` has the others."""
    return {
        f"{report.name} {twin}": clinic.source(report.name, twin == "repaired")
        for report in reported.REPORTS
        if report.name not in clinic.names()
        for twin in ("broken", "repaired")
    }


def _file(name: str) -> str:
    return f"{name.split()[0]}.cu"


def _build(item: tuple[str, str]) -> Path | str:
    """The program, or what the compiler said."""
    name, text = item
    try:
        return toolchain.build(text, name=_file(name)).program
    except toolchain.CompileError as error:
        return str(error).splitlines()[0]


def _run(program: Path, seed: int) -> str:
    """How one process ended, in a word or two."""
    done = process.run([program, "--seed", str(seed)], timeout=_SECONDS)
    if "did not end" in done.stderr or done.stopped:
        return "never ends"
    if "WRONG" in done.stdout:
        return "wrong"
    failed = re.search(r"failed: (\w+)", done.stderr)
    return "right" if done.ok else failed[1] if failed else f"status {done.status}"
