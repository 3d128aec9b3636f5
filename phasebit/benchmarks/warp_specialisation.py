"""Chapter 13: registers of four kernels, and the clinic under compute-sanitizer.

Each kernel of ``kernels/13_registers`` is compiled, disassembled and timed beside cuBLAS. Each
patient of the clinic and its repaired twin run as they are, and under the four tools of
compute-sanitizer.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from phasebit import clinic, files, measure, process, registers, replay, toolchain
from phasebit.benchmarks import programs

NAME = "13_warp_specialisation"

VARIANTS = ("outside", "inside", "function", "setmaxnreg")
"""Where the sums of the consumers are declared; the files of ``kernels/13_registers``."""

ROLES = ("produce", "consume")
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
_OPTIONS = {
    "memcheck": ["--padding", "128"],
    "racecheck": ["--racecheck-report", "all", "--num-cuda-barriers", "64"],
    "synccheck": ["--num-cuda-barriers", "64"],
}
_LAPS = 3  # processes of each timed kernel
_LAUNCHES = 200  # warm launches in each
_SEEDS = 5  # processes of each patient: one for each seed of its inputs
_SECONDS = 30.0  # a process that has not ended after this time hangs
_JOBS = 12  # processes at a time
_ERROR = re.compile(r"hazard|Invalid|Uninitialized|rror detected|instruction|exception")
_CALLER = re.compile(r"Host Frame|Device Frame|Saved host")
_SUMMARY = re.compile(r"SUMMARY|hazards? displayed|returned")


def record() -> dict[str, Any]:
    """Measure on this machine's GPU, with nvdisasm and compute-sanitizer of its CUDA toolkit.

    Raises :class:`toolchain.CudaError` when one of these is missing or a kernel fails.
    """
    facts, cublas = measure.facts(), measure.find_cublas()
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        raise toolchain.ToolMissing("no compute-sanitizer on PATH: it comes with the CUDA toolkit")
    version = process.run([sanitizer, "--version"], timeout=_SECONDS).stdout
    return {
        "benchmark": NAME,
        **facts,
        "compute-sanitizer": re.findall(r"Version (\S+)", version)[-1],
        "protocol": {
            "registers": "ptxas -v; nvdisasm -gi, an instruction belongs to the function that its "
            "line is in",
            "times": f"{_LAUNCHES} warm launches in each of {_LAPS} processes after 50 that do not "
            "count, CUDA events; kernels by turns; inputs random, cached; "
            f"cublasSgemm from {cublas.name} by turns in the same processes, pedantic f32",
            "patients": f"{_SEEDS} processes each, inputs from seeds 1 to {_SEEDS}; "
            f"the kernel is given 10 s; {_JOBS} processes at a time",
            "tools": "one process a patient and tool; "
            + "; ".join(f"{tool} {' '.join(options)}" for tool, options in _OPTIONS.items()),
        },
        "registers": _registers(cublas),
        "clinic": _clinic(sanitizer),
    }


# Registers


def variant(name: str) -> str:
    """The text of one of the four kernels."""
    return (files.kernels() / "13_registers" / f"{name}.cu").read_text(encoding="utf-8")


def _registers(cublas: Path) -> dict[str, Any]:
    result: dict[str, Any] = {}
    texts = {name: variant(name) for name in VARIANTS}
    texts["ignored"] = texts["setmaxnreg"].replace("(THREADS, 1)", "(THREADS)")
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


def _clinic(sanitizer: str) -> dict[str, Any]:
    texts = patients()
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
            (name, tool): pool.submit(_under, sanitizer, tool, program, _file(name))
            for tool in TOOLS
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
                "tools": {tool: said[name, tool].result() for tool in TOOLS},
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


def _under(sanitizer: str, tool: str, program: Path, file: str) -> dict[str, Any]:
    """What a tool says about a program."""
    command: list[str | Path] = [sanitizer, "--tool", tool, *_OPTIONS.get(tool, [])]
    command += [program, "--seed", "1"]
    done = process.run(command, timeout=_SECONDS)
    return judge(done.stdout + done.stderr, done.stopped != "", file)


def judge(text: str, stopped: bool, file: str) -> dict[str, Any]:
    """A tool's verdict: its first findings, and the lines of ``file`` that it named.

    ``found``    it named a place in the file
    ``said``     it reported something, and no place
    ``hangs``    it said nothing, and the kernel did not end
    ``nothing``  it had nothing to say
    """
    lines = [line.removeprefix("=========").strip() for line in text.splitlines()
             if line.startswith("=========")]  # fmt: skip
    errors = [line for line in lines if _ERROR.search(line) and not _SUMMARY.search(line)]
    place = re.compile(rf"{re.escape(file)}:(\d+)")
    frames = [line for line in lines if not _CALLER.search(line)]
    named = sorted({int(number) for line in frames for number in place.findall(line)})
    hangs = stopped or "did not end" in text
    said = [re.sub(r" (at|by|in) .*", "", line) for line in errors]
    kind = "found" if errors and named else "said" if errors else "hangs" if hangs else "nothing"
    return {"verdict": kind, "said": list(dict.fromkeys(said))[:2], "lines": named}
