"""What this machine can run: its GPU, and the tiers of the book.

A *tier* names what a chapter needs: ``cpu``, or the oldest GPU target that has the
instructions it uses. Targets that end in ``a`` run on exactly one generation: code
for ``sm_90a`` (wgmma) runs on compute capability 9.0 and on nothing newer.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from dataclasses import dataclass

TIERS = ("cpu", "sm_75", "sm_80", "sm_90a", "sm_100a")
"""The tiers, each with what the one before it has and more."""

_SMI_SECONDS = 20


@dataclass(frozen=True)
class Gpu:
    """An NVIDIA GPU as its driver describes it."""

    name: str  # "NVIDIA H200"
    capability: tuple[int, int]  # compute capability, (9, 0)
    driver: str  # "580.159.04"

    @property
    def target(self) -> str:
        """The target to compile for, with the suffix ``a`` where the generation has one."""
        major, minor = self.capability
        return f"sm_{major}{minor}" + ("a" if major >= 9 else "")

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
        return self.capability >= (int(tier[3:-1]), int(tier[-1]))

    def executes(self, target: str) -> bool:
        """Whether machine code built for ``target`` (``"sm_80"``, ``"sm_90a"``) runs here."""
        major, minor = divmod(int(target[3:].rstrip("a")), 10)
        if target.endswith("a"):
            return (major, minor) == self.capability
        return major == self.capability[0] and minor <= self.capability[1]

    def assembles(self, target: str) -> bool:
        """Whether the driver makes machine code for this GPU from PTX of ``target``.

        PTX runs on its own generation and all later ones; with the suffix ``a``, on its own only.
        """
        major, minor = divmod(int(target[3:].rstrip("af")), 10)
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
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1"):
        return None
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return None
    query = [smi, "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(
            query, capture_output=True, text=True, timeout=_SMI_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None  # a driver that does not answer runs no kernel
    return parse_smi(answer.stdout)


def parse_smi(text: str) -> Gpu | None:
    """Read the first line of ``nvidia-smi --query-gpu=name,compute_cap,driver_version``.

    >>> parse_smi("Tesla T4, 7.5, 550.54.15").target
    'sm_75'
    """
    fields = [field.strip() for field in text.strip().partition("\n")[0].split(",")]
    if len(fields) != 3 or not all(part.isdigit() for part in fields[1].split(".")):
        return None
    major, minor = map(int, fields[1].split("."))
    return Gpu(fields[0], (major, minor), fields[2])
