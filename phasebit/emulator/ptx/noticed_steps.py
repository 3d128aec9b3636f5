"""Which instructions are *steps*: what one thread does and another can notice in time.

Between two steps a thread computes, and reads and writes memory that other steps must protect; of
these the checker says whether they do.  So an order of steps is all that a schedule decides, as
long as nothing is found: an access that nothing orders with another is a step from then on.
"""

from __future__ import annotations

from typing import TypeAlias

from phasebit.emulator.ptx.syntax import Instruction
from phasebit.emulator.ptx.table import Selected

Stepwise: TypeAlias = frozenset[int] | None
"""None: no step stands by itself.  Else all do, and what stands in these lines of the PTX too."""


def is_wait(instruction: Instruction) -> bool:
    """Whether it waits for a phase of an mbarrier: a step once that phase is complete."""
    return instruction.mnemonic == "mbarrier" and instruction.modifiers[0] in (
        "try_wait", "test_wait",
    )  # fmt: skip


def is_step(instruction: Instruction, chosen: Selected) -> bool:
    """Whether others can notice when a thread executes it."""
    mnemonic, first = instruction.mnemonic, instruction.modifiers[:1]
    if mnemonic in ("bar", "barrier"):
        return first not in (("warp",), ("cluster",)) or "arrive" in instruction.modifiers
    if mnemonic == "mbarrier":
        return first != ("pending_count",) and not is_wait(instruction)
    if mnemonic == "cp" and "mbarrier" in instruction.modifiers:  # it adds to the pending count
        return "arrive" in instruction.modifiers and "noinc" not in instruction.modifiers
    if mnemonic in ("atom", "red"):
        return "async" not in first
    if chosen.entry.accesses:
        ordered = chosen.options.get("sem", "weak") != "weak"
        return ordered and chosen.options.get("space") not in ("local", "param", "const")
    return mnemonic == "tcgen05" and first in (("alloc",), ("dealloc",))


def is_own_step(instruction: Instruction, chosen: Selected, stepwise: Stepwise) -> bool:
    """Whether it is a step of such a program, and no wait."""
    if stepwise is None or is_wait(instruction):
        return False
    return instruction.line in stepwise or is_step(instruction, chosen)


def stands_alone(instruction: Instruction, chosen: Selected, stepwise: Stepwise) -> bool:
    """Whether such a program has a block for it alone."""
    if stepwise is None:
        return False
    return is_wait(instruction) or is_own_step(instruction, chosen, stepwise)


__all__ = ["Stepwise", "is_own_step", "is_step", "is_wait", "stands_alone"]
