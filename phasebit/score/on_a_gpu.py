"""What the tools that need a GPU share."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from phasebit import bugs, hardware, toolchain
from phasebit.instruments import sanitizer
from phasebit.score import Absent, Seen, since

SECONDS = 20.0
"""How long a program may run under a tool; one that ends takes about a second."""

AT_A_TIME = 16
"""How many programs share the GPU; each has a context of its own, and they take turns."""


def gpu() -> hardware.Gpu:
    """This machine's GPU. Raises :class:`Absent` where there is none."""
    found = hardware.gpu()
    if found is None:
        raise Absent("no GPU here")
    return found


class Sanitizer:
    """One tool of compute-sanitizer."""

    def __init__(self, tool: str) -> None:
        self.tool = tool

    def parts(
        self,
    ) -> tuple[str, Callable[[], str], Callable[[bugs.Bug], bool], Callable[[bugs.Bug, str], Seen]]:
        """What a module of ``phasebit/score/tools`` holds."""
        return self.tool, self.version, self.runs, self.look

    def version(self) -> str:
        """Its version, and the GPU. Raises :class:`Absent` where either is missing."""
        try:
            return f"compute-sanitizer {sanitizer.version()}, {gpu().name}"
        except toolchain.ToolMissing as error:
            raise Absent("no compute-sanitizer here") from error

    def runs(self, bug: bugs.Bug) -> bool:
        """Those whose architecture the GPU has."""
        return gpu().assembles(bug.arch)

    def look(self, bug: bugs.Bug, twin: str) -> Seen:
        """One process."""
        target = toolchain.nvcc().target_for(gpu())
        program = bug.build(twin, target=target, emulated=False)
        began = time.perf_counter()
        said = seen(sanitizer.under(self.tool, [program], f"{twin}.cu", SECONDS))
        return replace(said, facts={"seconds": since(began)})


def seen(said: Mapping[str, Any]) -> Seen:
    """What :func:`phasebit.instruments.sanitizer.judge` has read, for the record."""
    if said["verdict"] in ("nothing", "hangs"):
        return Seen(0, frozenset(), ended=said["verdict"] == "nothing")
    words = "; ".join(said["said"])
    return Seen(max(1, len(said["said"])), frozenset(said["lines"]), words)
