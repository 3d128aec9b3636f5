"""A part of what is alike, where time is short: one of N members of each family of tests.

A family is one test function with its parameters, in a tier that compiles or looks at pages, or
with the marker ``drawn``. Which members run is drawn by the commit, so a commit can be tried again,
and the next one tries others.
All that is not in a family runs, and so does each member that proves a rule of the checker.
Families of one file that share their parameters, as pages or kernels, draw the same ones: what is
loaded or compiled for one test serves the others.

``make test`` chooses N so that the tests take about :data:`MINUTES` on the processors at hand, once
an earlier run has compiled their programs, and says which; from eight processors on that is 1.
``make test ONE_OF=1`` runs everything anywhere.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

TIERS = frozenset({"nvcc", "foreign", "site"})
MINUTES = 12
ALONE, FAMILIES = 1280, 4120
"""Seconds of one processor for the tests that are in no family, and for all that are in one, where
earlier runs have compiled most of what they need: on two processors one of 26 took 12 minutes.
With nothing compiled yet that takes 17, and all tests took 45."""


def fitting(processors: int, minutes: float = MINUTES) -> int:
    """The least N with which the tests take no more than about so many minutes.

    Where the tests of no family take that long already, it is one so large that one member of
    each family runs.

    >>> fitting(1), fitting(2), fitting(4), fitting(16)
    (4120, 26, 3, 1)
    """
    left = max(1, int(minutes * 60 * processors) - ALONE)
    return -(-FAMILIES // left)


def whole(processors: int) -> int:
    """About how many minutes all tests take, with nothing compiled yet."""
    return round((ALONE + FAMILIES) / 60 / processors)


def commit(root: Path) -> str:
    """What the draw goes by: the commit that is checked out, or "no commit"."""
    command = ["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "no commit"


def drawn(members: Sequence[str], n: int, seed: str) -> set[str]:
    """One of ``n`` of the members of a family, by their names, rounded up.

    >>> len(drawn([f"test_a[{i}]" for i in range(10)], 3, "abc"))
    4
    """

    def lot(member: str) -> bytes:
        return hashlib.sha256(f"{seed} {member.partition('[')[2]}".encode()).digest()

    return set(sorted(members, key=lot)[: -(-len(members) // n)])


def left_out(
    items: Sequence[pytest.Item], n: int, seed: str, tier: Callable[[pytest.Item], str],
    stays: Callable[[str], object],
) -> dict[str, list[pytest.Item]]:  # fmt: skip
    """What a draw of one of ``n`` leaves out: the name of a family -> its members that do not run.

    ``stays`` says of a test's name that it is in no draw.
    """
    families: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        alike = tier(item) in TIERS or item.get_closest_marker("drawn")
        if alike and hasattr(item, "callspec") and not stays(item.nodeid):
            families[item.nodeid.partition("[")[0]].append(item)
    left = {}
    for name, members in families.items():
        chosen = drawn([item.nodeid for item in members], n, seed)
        left[name] = [item for item in members if item.nodeid not in chosen]
    return {name: members for name, members in left.items() if members}
