"""What this machine can run: its processor, its GPU, and the tiers of the book.

A *tier* names what a chapter needs: ``cpu``, or the oldest GPU target that has the
instructions it uses. Targets that end in ``a`` run on exactly one generation: code
for ``sm_90a`` (wgmma) runs on compute capability 9.0 and on nothing newer.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from phasebit import process
from phasebit.emulator.capabilities import OLDEST_WITH_OWN_TARGET, capability

TIERS = ("cpu", "sm_75", "sm_80", "sm_90a", "sm_100a")
"""The tiers, each with what the one before it has and more."""

_SMI_SECONDS = 20


FAMILY = {("sm_100a", 103)}
"""A target, and a compute capability for which the same kernels compile."""


@dataclass(frozen=True)
class Gpu:
    """An NVIDIA GPU as its driver describes it."""

    name: str  # "NVIDIA H200"
    capability: tuple[int, int]  # compute capability, (9, 0)
    driver: str  # "580.159.04"

    @property
    def target(self) -> str:
        """The target to compile for, with the suffix ``a`` where the generation has one."""
        number = 10 * self.capability[0] + self.capability[1]
        return f"sm_{number}" + ("a" if number >= OLDEST_WITH_OWN_TARGET else "")

    def runs(self, tier: str) -> bool:
        """Whether code of this tier runs on this GPU.

        Raises ``ValueError`` for a name that is not in :data:`TIERS`.
        """
        if tier not in TIERS:
            raise ValueError(f"unknown tier {tier!r}: choose one of {', '.join(TIERS)}")
        if tier == "cpu":
            return True
        if tier.endswith("a"):
            return self.target == tier
        return self.capability >= divmod(capability(tier), 10)

    def executes(self, target: str) -> bool:
        """Whether machine code built for ``target`` (``"sm_80"``, ``"sm_90a"``) runs here."""
        major, minor = divmod(capability(target), 10)
        if target.endswith("a"):
            return (major, minor) == self.capability
        return major == self.capability[0] and minor <= self.capability[1]

    def in_place_of(self, target: str) -> str:
        """What to build for this GPU where code asks for ``target``: its own target, or the same.

        Machine code with the suffix ``a`` runs on one chip only; a kernel for it runs on a later
        chip of its family when it is compiled for that one, as on a B300 what is for ``sm_100a``
        (PTX ISA 10.2: what ``sm_100f`` has, ``sm_103f`` has).
        """
        own = 10 * self.capability[0] + self.capability[1]
        return self.target if (target, own) in FAMILY else target

    def takes(self, target: str) -> bool:
        """Whether a kernel written for ``target`` runs here, compiled for this GPU if need be."""
        return self.executes(self.in_place_of(target))

    def assembles(self, target: str) -> bool:
        """Whether the driver makes machine code for this GPU from PTX of ``target``.

        PTX runs on its own generation and all later ones; with the suffix ``a``, on its own only.
        """
        major, minor = divmod(capability(target), 10)
        if target[-1] in "af":
            return (major, minor) == self.capability
        return (major, minor) <= self.capability

    @property
    def tier(self) -> str:
        """The highest tier this GPU runs."""
        return [tier for tier in TIERS if self.runs(tier)][-1]


@functools.cache
def gpu() -> Gpu | None:
    """The first NVIDIA GPU of this machine, or ``None``.

    An empty ``CUDA_VISIBLE_DEVICES`` hides it, as it does from CUDA itself.
    """
    return parse_smi(_smi())


@functools.cache
def gpus() -> int:
    """How many NVIDIA GPUs this machine's driver lists; 0 where they are hidden, as above."""
    return sum(parse_smi(line) is not None for line in _smi().splitlines())


@functools.cache
def driver_cuda() -> tuple[int, int] | None:
    """The newest CUDA that this machine's driver runs programs of, as ``(12, 4)``; None without.

    Source: CUDA Driver API, chapter Version Management.
    """
    version = ctypes.c_int()
    try:
        if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version)):
            return None
    except (OSError, AttributeError):
        return None
    return version.value // 1000, version.value % 1000 // 10


def too_old_for(major: int) -> str:
    """Why the driver does not run programs of an nvcc of this major version; empty if it does.

    It runs those of its own major version, newer ones too, and of all before (CUDA Compatibility,
    chapter Minor Version Compatibility).
    """
    known = driver_cuda()
    if known is None or known[0] >= major:
        return ""
    return f"its driver is for CUDA {known[0]}.{known[1]}, older than this nvcc, {major}"


def _smi() -> str:
    """A line a GPU: name, compute capability, driver; empty where there is none."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1"):
        return ""
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return ""
    query = [smi, "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader"]
    try:
        answer = process.run(query, timeout=_SMI_SECONDS)
    except OSError:
        return ""
    return answer.stdout if answer.ok else ""  # a driver that does not answer runs no kernel


def parse_smi(text: str) -> Gpu | None:
    """Read the first line of ``nvidia-smi --query-gpu=name,compute_cap,driver_version``.

    >>> parse_smi("Tesla T4, 7.5, 550.54.15").target
    'sm_75'
    """
    fields = [field.strip() for field in text.strip().partition("\n")[0].split(",")]
    said = re.fullmatch(r"([0-9]{1,3})\.([0-9])", fields[1]) if len(fields) == 3 else None
    return Gpu(fields[0], (int(said[1]), int(said[2])), fields[2]) if said else None


@dataclass(frozen=True)
class Cache:
    """A data cache of one core, as the operating system describes it."""

    level: int
    bytes: int
    ways: int  # of associativity
    line: int  # bytes

    @property
    def sets(self) -> int:
        """Groups of ``ways`` lines; an address belongs to one of them."""
        return self.bytes // (self.ways * self.line)


@dataclass(frozen=True)
class Cpu:
    """The processor of this machine."""

    model: str  # "Intel(R) Xeon(R) Processor"
    caches: tuple[Cache, ...]  # those of data, the nearest first; empty where nobody says
    page: int  # bytes of a page of memory
    features: tuple[str, ...]  # "avx2", "fma", …, as the operating system calls them

    def cache(self, level: int) -> Cache | None:
        """The data cache of a level, if the operating system describes it."""
        return next((cache for cache in self.caches if cache.level == level), None)


@functools.cache
def cpu() -> Cpu:
    """The processor of this machine; what the operating system does not say is left empty."""
    return read_cpu(Path("/proc/cpuinfo"), Path("/sys/devices/system/cpu/cpu0/cache"))


def read_cpu(info: Path, caches: Path) -> Cpu:
    """Read Linux's description: the file ``/proc/cpuinfo`` and the caches of one core."""
    text = info.read_text(encoding="utf-8") if info.exists() else ""
    facts = dict(re.findall(r"^([^\t:]+?)\s*:\s*(.*)$", text.partition("\n\n")[0], re.MULTILINE))
    found = []
    for folder in sorted(caches.glob("index*")):
        said = {file.name: file.read_text().strip() for file in folder.iterdir() if file.is_file()}
        if said.get("type") in ("Data", "Unified") and said.get("size", "").endswith("K"):
            ways, line = int(said["ways_of_associativity"]), int(said["coherency_line_size"])
            found.append(Cache(int(said["level"]), int(said["size"][:-1]) << 10, ways, line))
    return Cpu(
        str(facts.get("model name") or platform.processor() or platform.machine()),
        tuple(sorted(found, key=lambda cache: cache.level)),
        os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096,
        tuple(str(facts.get("flags") or facts.get("Features") or "").split()),
    )
