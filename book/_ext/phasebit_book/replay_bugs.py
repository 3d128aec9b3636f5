"""Scenes of the collection of bugs: any of them by its name, as it was and repaired.

The whole program runs, host code and all. What is shown is where the broken one is found out: the
launch and the blocks that its findings name, and the first block of each other launch.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from phasebit import bugs
from phasebit.emulator import Finding, LaunchObserver, demangle, observing
from phasebit.launching.slot_history import Places, Ring
from phasebit.runtime.emulated import EmulatorBackend
from phasebit.runtime.run_program import run_program

from .replay_scenes import Scene

FILE = "bug.cu"
MOST = 4
"""Places of a run that are shown."""


class _Found:
    """Collects the findings of a program."""

    apart = True

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def found(self, findings: Sequence[Finding]) -> None:
        self.findings += findings

    def counted(self, kernel: str, launch: int, counters: Mapping[str, float]) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def ended(self, end: Any, standing: Finding | None) -> None:
        self.findings += [standing] if standing else []


def run(text: str, arch: str, schedule: str) -> list[Finding]:
    """Run a program of the collection in this process; what was found."""
    told = _Found()
    program = bugs.build(text, FILE, arch)
    with _silent() as nowhere:
        backend = EmulatorBackend(True, schedule)
        run_program([program], backend, limit=bugs.SECONDS, reporter=told, stdout=nowhere)
    return told.findings


@contextmanager
def _silent() -> Iterator[int]:
    """Nowhere to write to, where also standard error leads meanwhile."""
    sys.stderr.flush()
    nowhere, before = os.open(os.devnull, os.O_WRONLY), os.dup(2)
    os.dup2(nowhere, 2)
    try:
        yield nowhere
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(nowhere)


class _Launches(LaunchObserver):
    """The kernels that were launched, by name."""

    def __init__(self) -> None:
        self.machines: list[Any] = []

    def starts(self, batch: Any) -> None:
        if batch.machine not in self.machines:
            self.machines.append(batch.machine)


def places(bug: bugs.Bug) -> dict[str, tuple[int, int]]:
    """What is shown -> the number of its launch, from 0, and of its block; first where it fails."""
    seen = _Launches()
    with observing(seen):
        findings = run(bug.text("broken"), bug.arch, "late")
    named = [(finding.launch - 1, each.block) for finding in findings if finding.launch
             for threads in finding.threads for each in threads.blocks]  # fmt: skip
    others = [(launch, 0) for launch in range(len(seen.machines))
              if launch not in {number for number, _ in named}]  # fmt: skip
    shown = sorted(dict.fromkeys(named), key=lambda place: (place[0] != named[0][0], place))
    every = [*shown, *others][:MOST]
    kernels = [demangle(machine.program.kernel.name) for machine in seen.machines]
    if len(every) == 1:
        return {"": every[0]}
    if len({launch for launch, _ in every}) == 1:
        return {f"block {block}": (launch, block) for launch, block in every}
    return {f"{kernels[launch]}, block {block}": (launch, block) for launch, block in every}


@cache
def scene(
    name: str, size: str = "", rings: tuple[Ring | Places, ...] = (),
    barriers: tuple[str, ...] = (),
) -> Scene:  # fmt: skip
    """A bug by the name of its folder.

    ``size`` says what the program does; ``rings`` and ``barriers`` are those of a scene, and where
    there are none the barriers are called as the program calls them. Raises as ``bugs.bug``.
    """
    bug = bugs.bug(name)

    def texts() -> dict[str, str]:
        return {"with the mistake": bug.text("broken"), "repaired": bug.text("fixed")}

    def emulate(text: str, schedule: str) -> list[Finding]:
        return run(text, bug.arch, schedule)

    return Scene(
        bug.title, size or f"the whole program, {len(bug.text('broken').splitlines())} lines",
        texts, emulate, rings, barriers, file=FILE,
        places=lambda: places(bug), own_names=not (rings or barriers),
    )  # fmt: skip


__all__ = ["places", "run", "scene"]
