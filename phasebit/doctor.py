"""``python -m phasebit doctor``: what this machine has, what the book can do, what to mend."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
import shutil
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from phasebit import chapters, files, machine, toolchain

PYTHON = (3, 11)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. ``needed`` says whether the book executes without it."""

    what: str
    found: str  # "" when it is missing
    remedy: str = ""  # what to do when it is missing
    needed: bool = False

    @property
    def ok(self) -> bool:
        """Whether it is there."""
        return bool(self.found)


@dataclass(frozen=True)
class Ability:
    """What one chapter does on this machine."""

    chapter: str
    tier: str
    does: str


@dataclass(frozen=True)
class Diagnosis:
    """Everything the doctor found."""

    findings: tuple[Finding, ...]
    abilities: tuple[Ability, ...]

    @property
    def executable(self) -> bool:
        """Whether the book's notebooks can be executed here."""
        return all(finding.ok for finding in self.findings if finding.needed)

    def to_json(self) -> str:
        """The same as JSON, with ``executable``."""
        return json.dumps({"executable": self.executable, **asdict(self)}, indent=1)

    def __str__(self) -> str:
        wide = max(len(finding.what) for finding in self.findings)
        lines = []
        for finding in self.findings:
            mark = "ok" if finding.ok else ("MISSING" if finding.needed else "none")
            lines.append(f"{finding.what:<{wide}}  {mark:<7}  {finding.found or finding.remedy}")
        lines.append("")
        lines += [f"{each.chapter}: {each.does}" for each in self.abilities]
        verdict = "can" if self.executable else "cannot"
        lines += ["", f"The book {verdict} be executed on this machine."]
        return "\n".join(lines)


def examine() -> Diagnosis:
    """Look at this machine."""
    gpu = machine.gpu()
    try:
        compiler = toolchain.nvcc()
    except toolchain.ToolMissing as error:
        nvcc = Finding("nvcc", "", str(error), needed=True)
        target = None
    else:
        builds = ", ".join(compiler.targets)
        nvcc = Finding("nvcc", f"{compiler.version}, {compiler.path}; builds {builds}", needed=True)
        try:
            target = compiler.target_for(gpu)
        except toolchain.CudaError as error:
            target = None
            nvcc = Finding("nvcc", "", str(error), needed=True)
    version = platform.python_version()
    findings = [
        Finding(
            "Python",
            version if sys.version_info >= PYTHON else "",
            f"this is {version}: the book needs 3.11 or newer",
            needed=True,
        ),
        *_packages(),
        Finding("host compiler", shutil.which("g++") or "", "install g++", needed=True),
        nvcc,
        Finding("driver", gpu.driver if gpu else "", "no NVIDIA driver answers; fine without one"),
        Finding("GPU", _describe(gpu), "none: CUDA cells run on the emulator, with recorded times"),
        Finding("ncu", shutil.which("ncu") or "", "install Nsight Compute to read counters"),
    ]
    return Diagnosis(tuple(findings), tuple(_abilities(gpu, target)))


def _describe(gpu: machine.Gpu | None) -> str:
    if gpu is None:
        return ""
    major, minor = gpu.capability
    return f"{gpu.name}, compute capability {major}.{minor}, tier {gpu.tier}"


def _packages() -> Iterable[Finding]:
    """The packages that ``phasebit`` and its notebooks ask for."""
    for requirement in _requirements():
        match = re.match(r"[\w.-]+", requirement)
        name = match[0] if match else requirement
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found = ""
        wanted = requirement.partition(";")[0].strip()
        yield Finding(name, found, f"install it: pip install '{wanted}'", needed=True)


def _requirements() -> list[str]:
    """From the checkout, if this is one, else from the installed package."""
    checkout = files.kernels().parent / "pyproject.toml"
    if checkout.is_file():
        project = tomllib.loads(checkout.read_text(encoding="utf-8"))["project"]
        return [*project["dependencies"], *project["optional-dependencies"]["notebook"]]
    return importlib.metadata.requires("phasebit") or []


def _abilities(gpu: machine.Gpu | None, target: str | None) -> Iterable[Ability]:
    book = Path(files.kernels()).parent / "book"
    for chapter in chapters.chapters(book) if book.is_dir() else []:
        if chapter.tier == "cpu":
            does = "runs here"
        elif target is None:
            does = "can only be read: its CUDA cells need nvcc"
        elif gpu and gpu.runs(chapter.tier):
            does = f"runs on your GPU ({gpu.name})"
        else:
            does = f"runs on the emulator, with recorded times (its own take {chapter.tier})"
        title = f"{chapter.number} {chapter.title}" if chapter.number else chapter.title
        yield Ability(title, chapter.tier, does)
