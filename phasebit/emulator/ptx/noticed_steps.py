"""Which instructions are *steps*: what one thread does and another can notice in time.

Between two steps a thread computes, and reads and writes memory that other steps must protect; of
these the checker says whether they do.  So an order of steps is all that a schedule decides.
"""

from __future__ import annotations

from phasebit.emulator.ptx.syntax import Instruction
from phasebit.emulator.ptx.table import Selected


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
    if mnemonic in ("atom", "red"):
        return "async" not in first
    if chosen.entry.accesses:
        ordered = chosen.options.get("sem", "weak") != "weak"
        return ordered and chosen.options.get("space") not in ("local", "param", "const")
    return mnemonic == "tcgen05" and first in (("alloc",), ("dealloc",))


__all__ = ["is_step", "is_wait"]
