"""Records what Nsight Compute counts and what compute-sanitizer finds on a GPU.

    python -m tests.emulator.record build FOLDER     needs nvcc, no GPU
    python -m tests.emulator.record emulator OUT.json   needs nvcc: what the emulator finds
    python record.py counters FOLDER OUT.json        needs a GPU and ncu; FOLDER is all it reads
    python record.py sanitizer FOLDER OUT.json       needs a GPU and compute-sanitizer

A further argument is a pattern: only launches whose names match run, and what they
give replaces what OUT.json had of them.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

TARGET = "sm_90a"
FLAGS = ["-std=c++17", "-O3", "-lineinfo", "-diag-suppress", "177"]

GLOBAL_OPS = ("ld", "st", "atom", "red", "ldgsts")
SHARED_OPS = ("ld", "st", "atom", "ldgsts")
METRICS = [
    *(f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum"
      for what in ("requests", "sectors") for op in GLOBAL_OPS),
    "l1tex__t_requests_pipe_lsu_mem_global_op_ldgsts_cache_access.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_access.sum",
    *(f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum" for op in SHARED_OPS),
    *(f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum" for op in SHARED_OPS),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "l1tex__data_bank_reads.sum", "l1tex__data_bank_writes.sum",
    "smsp__inst_executed.sum", "smsp__thread_inst_executed.sum",
    *(f"smsp__inst_executed_op_{op}.sum"
      for op in ("shared", "shared_ld", "shared_st", "shared_atom", "global_ld", "global_st",
                 "global_atom", "global_red", "local_ld", "local_st", "ldsm", "ldgsts", "branch",
                 "generic_ld", "generic_st", "bar", "barrier", "sync")),
    *(f"smsp__sass_inst_executed_op_{op}.sum"
      for op in ("shared", "shared_ld", "shared_st", "shared_atom", "global_ld", "global_st",
                 "global_atom", "global_red", "ldsm", "ldgsts")),
    *(f"smsp__sass_l1tex_data_{what}_pipe_lsu{rest}.sum"
      for what, rest in (("bank_conflicts", "_mem_shared_op_ldsm"),
                         ("bank_conflicts", "_mem_shared_op_ld"),
                         ("bank_conflicts", "_mem_shared"))),
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared.sum",
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_ideal.sum",
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldsm.sum",
    "smsp__inst_executed_pipe_lsu.sum", "smsp__inst_executed_pipe_adu.sum",
]  # fmt: skip
"""Wanted; those that this ncu does not know are left out, and the record shows which it had."""

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
OPTIONS = {
    "memcheck": ["--padding", "128"],
    "racecheck": ["--racecheck-report", "all", "--num-cuda-barriers", "64"],
    "synccheck": ["--num-cuda-barriers", "64"],
}
"""Padding keeps arrays apart, or the first byte past one is another's."""

SECONDS = 12
"""A kernel under a tool that has not ended after this time is stopped: it hangs."""

LIMIT = 210
"""Seconds after which no further run is started."""


def build(folder: Path) -> None:
    """Compile the runner and every kernel; write the list of launches."""
    from phasebit import toolchain
    from tests.emulator import cases

    folder.mkdir(parents=True, exist_ok=True)
    here = Path(__file__).parent
    plain = ["-std=c++17", "-O2", "-cudart", "static"]
    command = toolchain.nvcc_command("program", TARGET, options=plain)
    subprocess.run([*command, here / "runner.cu", "-o", folder / "runner"], check=True)
    images: dict[tuple[str, tuple[str, ...]], str] = {}
    listed: dict[str, list[dict[str, Any]]] = {}
    sets = {
        "counters": cases.counted(),
        "planted": cases.planted(),
        "repaired": cases.planted(repaired=True),
    }
    for what, members in sets.items():
        for case in members:
            key = (case.source, case.options)
            if key not in images:
                images[key] = f"{len(images):02d}_{Path(case.file).stem}.cubin"
                source = folder / "source.cu"
                source.write_text(f'#line 1 "{case.file}"\n{case.source}', encoding="utf-8")
                options = [*FLAGS, *case.options]
                command = toolchain.nvcc_command("cubin", TARGET, options=options)
                subprocess.run([*command, source, "-o", folder / images[key]], check=True)
                source.unlink()
            kernel = "_Z6matmulPKfS0_Pf" if case.group.startswith("book") else case.kernel
            listed.setdefault(what, []).append(
                {"name": case.name, "image": images[key], "kernel": kernel, "grid": case.grid,
                 "block": case.block, "form": case.form, "bytes": case.bytes}
            )  # fmt: skip
    (folder / "launches.json").write_text(json.dumps(listed, indent=1), encoding="utf-8")
    (folder / "record.py").write_text(Path(__file__).read_text(encoding="utf-8"), encoding="utf-8")


def emulator(target: Path) -> None:
    """What the emulator finds in the planted mistakes and the repaired twins."""
    from phasebit import toolchain
    from tests.emulator import cases, replay

    record = {
        "what": "the emulator over planted mistakes and their repaired twins",
        "nvcc": ".".join(toolchain.nvcc().version.split(".")[:2]),
        "planted": {case.name: replay.summary(case) for case in cases.planted()},
        "otherwise": {},  # version of nvcc -> what differs from "planted" there
        "repaired": {case.name: replay.summary(case) for case in cases.planted(repaired=True)},
    }
    target.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def command(folder: Path, launch: dict[str, Any], kernel: str | None = None) -> list[str]:
    """The runner's command line for a launch."""
    return [str(folder / "runner"), str(folder / launch["image"]), kernel or launch["kernel"],
            str(launch["grid"]), str(launch["block"]), launch["form"],
            *map(str, launch["bytes"])]  # fmt: skip


def output(arguments: list[str], seconds: float = 300) -> tuple[str, int | None]:
    """What a command prints, and its exit status; None when it was stopped."""
    process = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        text, _ = process.communicate(timeout=seconds)
        return text, process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        text, _ = process.communicate()
        return text, None


def machine() -> dict[str, str]:
    """The GPU, its driver, and today."""
    fields, _ = output(
        ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    )
    name, driver = (part.strip() for part in fields.strip().splitlines()[0].split(","))
    return {"gpu": name, "driver": driver, "date": datetime.date.today().isoformat()}


def version(tool: str) -> str:
    """The last line with a number of what a tool prints about its version."""
    text, _ = output([tool, "--version"])
    return [line for line in text.splitlines() if re.search(r"\d+\.\d+", line)][-1].strip()


def merged(target: Path, record: dict[str, Any], parts: tuple[str, ...]) -> str:
    """The record as text, with what the file had for launches that did not run now."""
    if target.is_file():
        before = json.loads(target.read_text(encoding="utf-8"))
        for part in parts:
            record[part] = before[part] | record[part]
    return json.dumps(record, indent=1) + "\n"


def chosen(folder: Path, what: str, pattern: str) -> list[dict[str, Any]]:
    """The launches of a set whose names match."""
    launches = json.loads((folder / "launches.json").read_text(encoding="utf-8"))[what]
    return [launch for launch in launches if re.search(pattern, launch["name"])]


def counters(folder: Path, target: Path, pattern: str = "") -> None:
    """Nsight Compute's counters of every kernel."""
    text, _ = output(["ncu", "--query-metrics"])
    (target.parent / "metrics.txt").write_text(text, encoding="utf-8")
    known = {line.split()[0] for line in text.splitlines() if line.strip()}
    wanted = [m for m in METRICS if m.split(".")[0] in known]
    wanted += [m for m in METRICS if m.startswith("smsp__sass_") and m not in wanted]
    launches = chosen(folder, "counters", pattern)
    by_image: dict[str, list[dict[str, Any]]] = {}
    for launch in launches:
        by_image.setdefault(launch["image"], []).append(launch)
    kernels: dict[str, dict[str, int]] = {}
    for image, members in by_image.items():
        every = "all" if len(members) > 1 else members[0]["kernel"]
        tried = wanted
        while True:
            text, status = output(
                ["ncu", "--clock-control", "none", "--csv", "--page", "raw", "--print-units",
                 "base", "--metrics", ",".join(tried), *command(folder, members[0], every)]
            )  # fmt: skip
            unknown = set(re.findall(r"Failed to find metric (?:regex:)?\^?\(?([\w.]+)", text))
            (target.parent / f"ncu_{image}.txt").write_text(text, encoding="utf-8")
            if status == 0 or not unknown & set(tried):
                break
            tried = wanted = [m for m in tried if m not in unknown]
        lines = text.splitlines()
        start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
        if start is None:
            print(f"{image}: no table from ncu; it said:\n{text[-1500:]}")
            continue
        rows = list(csv.DictReader(io.StringIO("\n".join(lines[start:]))))
        for launch in members:
            name = "matmul" if "matmul" in launch["kernel"] else launch["kernel"]
            row = next((r for r in rows if r["Kernel Name"].split("(")[0] == name), None)
            if row is None:
                print(f"{launch['name']}: not in ncu's table")
                continue
            values = {m: row.get(m, "") for m in tried}
            kernels[launch["name"]] = {
                m: round(float(v.replace(",", "")))
                for m, v in values.items()
                if re.fullmatch(r"[\d,.]+", v or "")
            }
    record = {
        "what": "Nsight Compute's counters for microkernels and the book's kernels",
        "protocol": "ncu --clock-control none, one launch of each kernel, sm_90a, -O3",
        **machine(), "ncu": version("ncu"),
        "launches": {x["name"]: {"grid": x["grid"], "block": x["block"]} for x in launches},
        "kernels": kernels,
    }  # fmt: skip
    target.write_text(merged(target, record, ("launches", "kernels")), encoding="utf-8")
    print(f"{len(kernels)} of {len(launches)} kernels counted")


def judge(text: str, status: int | None) -> dict[str, Any]:
    """What a tool said: a verdict, its first findings, and the source lines it named.

    ``found``    it named a place in the source (``hung`` besides: it had to be stopped)
    ``hung``     it said nothing, and the program did not end
    ``crashed``  the program failed, and the tool did not say where
    ``nothing``  the program ended, and the tool had nothing to say
    """
    said = [line.removeprefix("=========").strip() for line in text.splitlines()
            if line.startswith("=========")]  # fmt: skip
    findings = [said[i - 1] for i, line in enumerate(said)
                if re.search(r"\.cuh?:\d+", line)
                and not re.search(r"\.cuh?:\d+|Frame", said[i - 1])]  # fmt: skip
    result: dict[str, Any] = {
        "verdict": "found" if findings else "hung" if status is None
        else "crashed" if "returned an error" in text else "nothing",
        "said": list(dict.fromkeys(re.sub(r" at __\w+__.*", "", f) for f in findings))[:3],
        "lines": sorted({int(n) for n in re.findall(r"\.cu:(\d+)", text)}),
    }  # fmt: skip
    if status is None and findings:
        result["hung"] = True
    return result


def sanitizer(folder: Path, target: Path, pattern: str = "") -> None:
    """compute-sanitizer's four tools over the planted mistakes and the repaired twins."""
    launches = {which: chosen(folder, which, pattern) for which in ("planted", "repaired")}
    logs: dict[str, str] = {}
    end = time.monotonic() + LIMIT

    def one(job: tuple[str, dict[str, Any], str]) -> tuple[str, str, str, dict[str, Any]]:
        which, launch, tool = job
        if time.monotonic() > end:
            return which, launch["name"], tool, {"verdict": "not run"}
        extra = OPTIONS.get(tool, [])
        text, status = output(
            ["compute-sanitizer", "--tool", tool, *extra, *command(folder, launch)], SECONDS
        )
        logs[f"{which} {launch['name']} {tool}"] = text
        return which, launch["name"], tool, judge(text, status)

    jobs = [(which, launch, tool) for tool in TOOLS for which in ("planted", "repaired")
            for launch in launches[which]]  # fmt: skip
    results: dict[str, dict[str, Any]] = {"planted": {}, "repaired": {}}
    with ThreadPoolExecutor(14) as pool:
        for which, name, tool, verdict in pool.map(one, jobs):
            results[which].setdefault(name, {})[tool] = verdict
    record = {
        "what": "compute-sanitizer over planted mistakes and their repaired twins",
        "protocol": f"one process a kernel and tool, at most {SECONDS} s; sm_90a, -O3 -lineinfo; "
        + "; ".join(f"{tool} {' '.join(options)}" for tool, options in OPTIONS.items()),
        **machine(), "compute-sanitizer": version("compute-sanitizer"), **results,
    }  # fmt: skip
    target.write_text(merged(target, record, ("planted", "repaired")), encoding="utf-8")
    (target.parent / "sanitizer_logs.json").write_text(json.dumps(logs), encoding="utf-8")
    print(f"{len(jobs)} runs")


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("build", "emulator", "counters", "sanitizer"):
        sys.exit(__doc__)
    if sys.argv[1] in ("build", "emulator"):
        {"build": build, "emulator": emulator}[sys.argv[1]](Path(sys.argv[2]))
    else:
        {"counters": counters, "sanitizer": sanitizer}[sys.argv[1]](
            Path(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:5]
        )
