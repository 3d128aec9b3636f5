"""``setmaxnreg`` in the checker: the warps of a warp group must agree (PTX ISA 9.7.19.5).

All four execute the same instructions with the same numbers, in one order.  Registers are given
to a warp group as a whole, so what they do not agree on has no meaning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from phasebit.emulator.group import Group
    from phasebit.emulator.hazards import Findings
    from phasebit.emulator.machine import Batch

WARPS = 4
"""Warps of a warp group."""


class RegisterCounts:
    """What each warp of each warp group has asked for."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.agreed: dict[tuple[Batch, int, int], list[tuple[str, int, str]]] = {}
        """Batch, block, warp group -> the requests in order: ``inc`` or ``dec``, the number, and
        the instruction of the warp that came first."""
        self.done: dict[tuple[Batch, int], int] = {}
        """Batch, warp -> how many it has executed."""

    def executed(self, g: Group, word: str, number: int, where: str) -> None:
        """These warps execute ``setmaxnreg``."""
        batch = g.batch
        for warp in np.unique(batch.warp_of[g.lanes]).tolist():
            slot, inside = divmod(warp, batch.warps)
            requests = self.agreed.setdefault((batch, slot, inside // WARPS), [])
            at = self.done.get((batch, warp), 0)
            self.done[batch, warp] = at + 1
            if at == len(requests):
                requests.append((word, number, where))
            elif requests[at][:2] != (word, number):
                first = requests[at]
                self.findings.report(
                    "barrier",
                    f"warp {inside} of block {int(batch.blocks[slot])} executes setmaxnreg.{word} "
                    f"{number}, another warp of its warp group setmaxnreg.{first[0]} {first[1]}: "
                    f"{where}; {first[2]}; all four must ask for the same number",
                    -1, ("setmaxnreg", where, first[2]),
                )  # fmt: skip

    def finish(self, batch: Batch) -> None:
        """A batch has left the kernel."""
        self.agreed = {key: x for key, x in self.agreed.items() if key[0] is not batch}
        self.done = {key: x for key, x in self.done.items() if key[0] is not batch}


__all__ = ["RegisterCounts"]
