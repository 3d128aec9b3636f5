"""Why a group of threads does not run: what it waits for, in words and as functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from phasebit.emulator.findings import Sentence


@dataclass(eq=False)
class Waiting:
    """Why a group is parked."""

    what: str
    """``bar.sync 0``, ``mbarrier full+8`` …"""
    where: Sentence
    """The instruction."""
    explain: Any = None
    """A function that says more, when a report is needed."""
    may_fail: Any = None
    """For a test: called to answer "not yet" instead of waiting."""
    barrier: str = ""
    """The name of the mbarrier, where it is one."""
    missing: Callable[[], int] | None = None
    """The bytes announced there that have not come; negative: come, and not announced."""


__all__ = ["Waiting"]
