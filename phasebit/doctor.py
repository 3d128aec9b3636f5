"""``python -m phasebit doctor``: what this machine has, what the book can do, what to mend.

An installed package has no notebooks. There the emulator is asked for, and nothing else.
"""

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

import numpy as np

from phasebit import contents, emulator, files, hardware, toolchain

PYTHON = (3, 11)

COMPILER = "cuda-toolkit"
"""The package that brings an nvcc where there is none: of interest is whether there is one."""

# Adds 1 to the word of each thread: if this comes out right, the emulator executes PTX here.
_PROBE = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry probe(.param .u64 words)
{
    .reg .u32 %r<3>;
    .reg .u64 %rd<3>;
    ld.param.u64 %rd1, [words];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd1, %rd1, %rd2;
    ld.global.u32 %r2, [%rd1];
    add.u32 %r2, %r2, 1;
    st.global.u32 [%rd1], %r2;
    ret;
}
"""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. ``needed``: nothing is right without it."""

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
    """Everything the doctor found. ``book``: the notebooks are here, to be executed."""

    findings: tuple[Finding, ...]
    abilities: tuple[Ability, ...]
    book: bool = True

    @property
    def healthy(self) -> bool:
        """Whether everything is there that is needed."""
        return all(finding.ok for finding in self.findings if finding.needed)

    @property
    def executable(self) -> bool:
        """Whether the book's notebooks can be executed here."""
        return self.book and self.healthy

    def to_json(self) -> str:
        """The same as JSON, with ``healthy`` and ``executable``."""
        verdicts = {"healthy": self.healthy, "executable": self.executable}
        return json.dumps({**verdicts, **asdict(self)}, indent=1)

    def __str__(self) -> str:
        wide = max(len(finding.what) for finding in self.findings)
        lines = []
        for finding in self.findings:
            mark = "ok" if finding.ok else ("MISSING" if finding.needed else "none")
            lines.append(f"{finding.what:<{wide}}  {mark:<7}  {finding.found or finding.remedy}")
        if self.book:
            lines += ["", *(f"{each.chapter}: {each.does}" for each in self.abilities)]
        emulator_ok = all(finding.ok for finding in self.findings if finding.what == "emulator")
        lines += ["", f"emulator: {'ready' if emulator_ok else 'not ready'}"]
        if self.book:
            verdict = "can" if self.executable else "cannot"
            lines.append(f"The book {verdict} be executed on this machine.")
        return "\n".join(lines)


def examine() -> Diagnosis:
    """Look at this machine."""
    gpu = hardware.gpu()
    book = files.book().is_dir()
    try:
        compiler = toolchain.nvcc()
    except toolchain.ToolMissing as error:
        nvcc = Finding("nvcc", "", str(error), needed=book)
        target, old = None, ""
    else:
        old = hardware.too_old_for(compiler.major)
        said = f"{compiler.version}, {compiler.path}; builds {', '.join(compiler.targets)}"
        passed_over = "".join(f"; {each}: not used" for each in compiler.passed_over)
        nvcc = Finding("nvcc", said + passed_over, needed=book)
        try:
            target = compiler.target_for(None if old else gpu)
        except toolchain.CudaError as error:
            target = None
            nvcc = Finding("nvcc", "", str(error), needed=book)
    version = platform.python_version()
    findings = [
        Finding(
            "Python",
            version if sys.version_info >= PYTHON else "",
            f"this is {version}: the book needs 3.11 or newer",
            needed=True,
        ),
        *_packages(book),
        _emulator(),
        Finding(
            "host compiler",
            shutil.which("g++") or "",
            "install g++, which nvcc and whole programs need",
            needed=book,
        ),
        nvcc,
        Finding("driver", _driver(gpu, old), "no NVIDIA driver answers; fine without one"),
        Finding("GPU", _describe(gpu), "none: CUDA cells run on the emulator, with recorded times"),
        Finding("ncu", shutil.which("ncu") or "", "install Nsight Compute to read counters"),
    ]
    return Diagnosis(tuple(findings), tuple(_abilities(None if old else gpu, target)), book)


def _emulator() -> Finding:
    """Whether a kernel runs on it, tried."""
    words = np.arange(40, dtype=np.uint32)
    try:
        run = emulator.Module(_PROBE)["probe"].launch(grid=1, block=40, args=[words])
    except emulator.EmulatorError as error:
        return Finding("emulator", "", f"please report it: {error}", needed=True)
    right = not run.findings and bool((words == np.arange(1, 41)).all())
    return Finding(
        "emulator", "executes PTX" if right else "", "a kernel computes wrongly on it: please "
        "report it with the versions of Python and NumPy above", needed=True,
    )  # fmt: skip


def _driver(gpu: hardware.Gpu | None, old: str) -> str:
    if gpu is None or not old:
        return gpu.driver if gpu else ""
    return (
        f"{gpu.driver}; {old}: CUDA cells run on the emulator; update the driver, or take an nvcc "
        "of its version"
    )


def _describe(gpu: hardware.Gpu | None) -> str:
    if gpu is None:
        return ""
    major, minor = gpu.capability
    return f"{gpu.name}, compute capability {major}.{minor}, tier {gpu.tier}"


def _packages(book: bool) -> Iterable[Finding]:
    """The packages that ``phasebit`` and its notebooks ask for; the latter only the book needs."""
    for requirement in _requirements():
        match = re.match(r"[\w.-]+", requirement)
        name = match[0] if match else requirement
        if name == COMPILER:
            continue
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found = ""
        wanted, _, condition = map(str.strip, requirement.partition(";"))
        needed = book or "extra" not in condition
        why = "install it" if needed else "only notebooks need it"
        yield Finding(name, found, f"{why}: pip install '{wanted}'", needed=needed)


def _requirements() -> list[str]:
    """From the checkout, if this is one, else from the installed package."""
    checkout = files.kernels().parent / "pyproject.toml"
    if checkout.is_file():
        project = tomllib.loads(checkout.read_text(encoding="utf-8"))["project"]
        return [*project["dependencies"], *project["optional-dependencies"]["notebook"]]
    return importlib.metadata.requires("phasebit") or []


def _abilities(gpu: hardware.Gpu | None, target: str | None) -> Iterable[Ability]:
    for chapter in contents.chapters(files.book()):
        if chapter.tier == "cpu":
            does = "runs here"
        elif target is None:
            does = "can only be read: its CUDA cells need nvcc"
        elif gpu and gpu.runs(chapter.tier):
            does = f"runs on your GPU ({gpu.name})"
        else:
            does = f"runs on the emulator, with recorded times ({chapter.tier} GPUs have their own)"
        title = f"{chapter.number} {chapter.title}" if chapter.number else chapter.title
        yield Ability(title, chapter.tier, does)
