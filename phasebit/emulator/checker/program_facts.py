"""What the checker must know of a program before it runs: engines, fences, the finest access."""

from __future__ import annotations

from phasebit.emulator.machine.scheduler import Machine
from phasebit.emulator.ptx.types import SIZE


class ProgramFacts:
    """See the module's text."""

    def __init__(self, machine: Machine) -> None:
        every = [chosen.entry.traits for chosen in machine.program.every()]
        engines = {traits.engine for traits in every}
        self.shift = _granule_shift(machine)
        """Words of memory have ``1 << shift`` bytes."""
        self.bulk = not engines <= {None, "threads"}
        """Whether the program has bulk copies, or tensor cores that read as they do."""
        self.copies = self.bulk or "threads" in engines
        """Whether it has copies that run beside its threads."""
        self.tensor_fences = {traits.tensor_fence for traits in every} - {""}
        """Which halves of ``tcgen05.fence`` it has."""
        self.outsiders = machine.cluster_size > 1 or self.bulk
        """Whether others than its own threads can reach the shared memory of a block."""


def _granule_shift(machine: Machine) -> int:
    """Look at words of 4 bytes, unless the program has narrower accesses."""
    narrowest = 4
    for chosen in machine.program.every():
        space = chosen.options.get("space", "generic")
        if chosen.entry.traits.words and space in ("shared", "global", "generic"):
            narrowest = min(narrowest, SIZE[chosen.types[0]])
    return narrowest.bit_length() - 1


__all__ = ["ProgramFacts"]
