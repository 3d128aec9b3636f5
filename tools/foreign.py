"""Run programs that others wrote on the emulator, under every schedule, and keep what it says.

    python tools/foreign.py --from FOLDER [--seconds N] [--again] [NAME …]

tests/foreign/catalogue.toml lists them: a repository, a commit, a path, arguments that make it
small. FOLDER has a clone of each repository, as OWNER+NAME or OWNER+NAME/repo. What has run is kept
in records/foreign.json after each program and is not run again, so this may be stopped at any
time, and several may run side by side.
Programs of CuTe DSL need nvidia-cutlass-dsl and PyTorch, those of Triton triton and PyTorch, the
others nvcc; none needs a GPU. None of their code is kept. NAME: those alone whose names begin so;
--again: also what has run before.
"""

from __future__ import annotations

import argparse
import datetime
import fcntl
import importlib.metadata
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections import Counter
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from phasebit import files, process
from phasebit.emulator import Finding
from phasebit.runtime import apart
from phasebit.runtime.command import nvcc_command

ROOT = Path(__file__).resolve().parent.parent
CATALOGUE = ROOT / "tests" / "foreign" / "catalogue.toml"
JUDGED, PAGE = CATALOGUE.with_name("judged.toml"), CATALOGUE.with_name("programs.md")
RECORD = "foreign.json"
SCHEDULES = "eager", "random", "late"
PROTOCOL = (
    "each launch under the schedules eager, random and late, from the same memory, with every "
    "check; a program's own comparison sees what late left, and of a CUDA program each schedule's"
)
PACKAGES = {
    "triton": ("triton", "torch"),
    "cute": ("nvidia-cutlass-dsl", "torch"),
    "cuda": ("nvidia-cutlass-dsl", "torch"),
}
"""Whose versions a record names, by door."""
SAID_WRONG = re.compile(r"^.*(\b(FAIL(ED|URE)?|MISMATCH|[Tt]est failed)\b|❌).*$", re.M)
"""A line of a program that ends well although its result is wrong."""
CHECKS = re.compile(r"assert|allclose|PASS|verif|[Cc]ompare|validate|check_tensor")
"""What stands in the text of a program that looks at its result."""


@dataclass(frozen=True)
class Program:
    """One program of the catalogue."""

    name: str
    repository: str
    commit: str
    folders: tuple[str, ...]
    """What of the repository it needs."""
    path: str
    door: str
    """``cute``, ``triton`` or ``cuda``."""
    arch: str
    arguments: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    edits: tuple[tuple[str, ...], ...] = ()
    """Sizes that the text has and that are made smaller: what it says, what it says then; with
    a file before, another of its folder that says so."""
    also: tuple[str, ...] = ()
    """Files below its folder that are compiled with it."""
    module: str = ""
    """What runs it, as ``python -m`` has it: pytest. Arguments after :: are tests of the file."""


def catalogue() -> list[Program]:
    """All programs, in the order of the file."""
    given = tomllib.loads(CATALOGUE.read_text(encoding="utf-8"))
    made: list[Program] = []
    for group in given["programs"]:
        about = given["repositories"][group["repository"]]
        for line in group["paths"]:
            path, *arguments = line.split()
            name = f"{group['repository']}: {line}"
            if any(name == one.name for one in made):  # the same for another GPU
                name += f" for {group['arch']}"
            made.append(Program(
                name, about["repository"], about["commit"],
                tuple(group.get("folders", about["folders"])), group.get("under", "") + path,
                group["door"], group["arch"], (*arguments, *group.get("arguments", ())),
                tuple(group.get("include", ())), tuple(group.get("options", ())),
                tuple(map(tuple, group.get("edits", ()))), tuple(group.get("also", ())),
                group.get("module", ""),
            ))  # fmt: skip
    return made


@cache
def checkout(
    clones: Path, repository: str, commit: str, folders: tuple[str, ...]
) -> tempfile.TemporaryDirectory[str]:
    """These folders of a commit."""
    name = repository.replace("/", "+")
    found = [each for each in (clones / name / "repo", clones / name) if each.is_dir()]
    if not found:
        raise FileNotFoundError(f"{clones} has no clone {name}")
    made = tempfile.TemporaryDirectory(prefix="phasebit-")
    command = ["git", "-C", str(found[0]), "archive", commit, *folders]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as given,
        tarfile.open(fileobj=given.stdout, mode="r|") as archive,
    ):
        archive.extractall(made.name, filter="data")
    return made


def told(findings: tuple[Finding, ...]) -> list[dict[str, Any]]:
    """What was found: each rule at each place once, how often, and how grave."""
    counted = Counter(
        (each.rule, each.grade, str(each.places[0]) if each.places else "") for each in findings
    )
    return [{"rule": rule, "grade": grade, "at": _place(at), "times": n}
            for (rule, grade, at), n in sorted(counted.items())]  # fmt: skip


def _place(text: str) -> str:
    found = re.findall(r"\(([\w.+-]+:\d+)\)", text)
    return found[0] if found else text


def run(program: Program, folder: Path, seconds: float) -> dict[str, Any]:
    """What became of one program."""
    source = folder / program.path
    names = (source.name, *program.also, *(edit[0] for edit in program.edits if len(edit) == 3))
    originals = {name: (source.parent / name).read_text(encoding="utf-8") for name in names}
    texts = dict(originals)
    for *other, before, after in program.edits:
        name = other[0] if other else source.name
        if before not in texts[name]:
            return {"verdict": f"not run: its text has no {before!r}"}
        texts[name] = texts[name].replace(before, after)
    for name, text in texts.items():
        (source.parent / name).write_text(text, encoding="utf-8")
    begun = time.monotonic()
    try:
        made = _by_nvcc(program, folder, source, seconds) if program.door == "cuda" else _by_door(
            program, source, seconds)  # fmt: skip
    finally:  # another program of the catalogue may be the same text with other edits
        for name, text in originals.items():
            (source.parent / name).write_text(text, encoding="utf-8")
    checks = any(map(CHECKS.search, texts.values())) and "--skip_ref_check" not in program.arguments
    if made.get("verdict") == "ended":
        made["verdict"] = "right" if checks else "ran"
    return made | {"seconds": round(time.monotonic() - begun)}


def _ended(done: process.Finished) -> str:
    if done.ok:
        wrong = SAID_WRONG.search(done.stdout)
        return f"not right: {wrong[0].strip()[:160]}" if wrong else "ended"
    lines = (done.stderr.strip() or done.stdout.strip() or "?").splitlines()
    said = [line for line in lines if re.match(r"\w*(Error|Exception)\b", line)] or lines
    return f"not right: {done.stopped or said[-1].strip()[:160]}"


def _by_door(program: Program, source: Path, seconds: float) -> dict[str, Any]:
    words = [f"phasebit.{program.door}", "--target", program.arch, "--schedule", "all"]
    tests = [f"{source}{word}" for word in program.arguments if word.startswith("::")]
    rest = [word for word in program.arguments if not word.startswith("::")]
    what = ["-m", program.module] if program.module else []
    done, report = apart.reported(
        lambda file: [*words, "--report", file, *what, *(tests or [source]), *rest], seconds
    )
    return {"verdict": _ended(done), "findings": told(report.findings)}


def _by_nvcc(program: Program, folder: Path, source: Path, seconds: float) -> dict[str, Any]:
    built = source.with_suffix(".built")
    options = [f"-arch={program.arch}", "-std=c++17", "-O2", "-lineinfo", "-w", *program.options,
               *(f"-I{folder / each}" for each in program.include)]  # fmt: skip
    sources = [str(source), *(str(source.parent / name) for name in program.also)]
    command = [*nvcc_command([*options, *sources]), "-o", str(built)]
    done = process.run(command, timeout=seconds)
    if not done.ok:
        error = next((line for line in done.stderr.splitlines() if "error" in line), "")
        return {"verdict": f"not compiled: {done.stopped or error.strip()[-160:]}"}
    findings: list[Finding] = []
    for schedule in SCHEDULES:
        done, report = apart.run(
            [built, *program.arguments], seconds, seconds + 30, "--schedule", schedule,
            cwd=source.parent,
        )  # fmt: skip
        findings += report.findings
        if (ended := _ended(done)) != "ended":
            return {"verdict": f"{schedule}: {ended}", "findings": told(tuple(findings))}
    return {"verdict": "ended", "findings": told(tuple(dict.fromkeys(findings)))}


def _recorded(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))["programs"] if path.exists() else {}


def keep(path: Path, made: dict[str, Any]) -> None:
    """Put these into the record, beside what it has of the programs that the catalogue names.

    Both are read again each time, under a lock: several of this tool may run side by side.
    """
    with CATALOGUE.open(encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = _recorded(path) | made
        record = {
            "benchmark": "foreign", "date": datetime.date.today().isoformat(),
            "protocol": PROTOCOL, "schedules": SCHEDULES,
            "programs": {one.name: kept[one.name] for one in catalogue() if one.name in kept},
        }  # fmt: skip
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--from", dest="clones", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--seconds", type=float, default=240, help="the longest for one program")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--record", type=Path, default=files.records() / RECORD, metavar="FILE")
    parser.add_argument("names", nargs="*", metavar="NAME")
    given = parser.parse_args()
    path = given.record
    wanted = catalogue()
    for one in wanted:
        about = json.loads(json.dumps(asdict(one)))
        del about["name"]
        for name in ("also", "module"):
            if not about[name]:
                del about[name]
        if given.names and not any(one.name.startswith(name) for name in given.names):
            continue
        before = _recorded(path).get(one.name, {})
        if all(before.get(key) == value for key, value in about.items()) and not given.again:
            continue
        folder = Path(checkout(given.clones, one.repository, one.commit, one.folders).name)
        made_with = {name: _version(name) for name in PACKAGES[one.door]}
        made = about | run(one, folder, given.seconds) | {"packages": made_with}
        print(f"{made.get('seconds', 0):4} s  {one.name}: {made['verdict']}, "
              f"{len(made.get('findings', []))} places", flush=True)  # fmt: skip
        keep(path, {one.name: made})
    record = json.loads(path.read_text(encoding="utf-8"))
    print(f"{len(record['programs'])} of {len(wanted)} programs have run")
    if given.record == files.records() / RECORD:
        PAGE.write_text(page(record), encoding="utf-8")


def page(record: dict[str, Any]) -> str:
    """A page for people: each program, how it ended, what was found and why that is right."""
    judged = tomllib.loads(JUDGED.read_text(encoding="utf-8"))
    programs = record["programs"]
    clean = sum(not made.get("findings") for made in programs.values())
    lines = [
        "# Programs that others wrote, on the emulator", "",
        "Written by `python tools/foreign.py` from `records/foreign.json` and `judged.toml`. "
        f"{len(programs)} programs, {record['date']}; {clean} without a finding. Each finding "
        f"has a reason. How: {record['protocol']}.", "",
        "| program | target | result | found, and why |", "| --- | --- | --- | --- |",
    ]  # fmt: skip
    for name, made in programs.items():
        reasons = "; ".join(
            f"`{rule}`: {judged.get(name, {}).get(rule, '?')}"
            for rule in dict.fromkeys(one["rule"] for one in made.get("findings", []))
        )
        verdict = made["verdict"].replace("|", "/")
        lines.append(f"| {name} | {made['arch']} | {verdict} | {reasons or '–'} |")
    return "\n".join(lines) + "\n"


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
