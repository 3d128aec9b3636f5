"""What is found, gathered: each mistake once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from phasebit.emulator.findings import Finding, Sentence, say
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.machine.scheduler import Machine
from phasebit.emulator.ptx.syntax import Instruction
from phasebit.emulator.ptx.types import Array

LIMIT = 1000
"""Findings of one rule that one run keeps."""


class Findings(LaunchObserver):
    """Collects findings; the same pair of instructions is reported once."""

    def __init__(self, machine: Machine, found: list[Finding]) -> None:
        self.machine = machine
        self.found = found
        self.seen: dict[Any, int] = {}
        """What is known already -> its number in ``found``."""
        self.alike: dict[Any, bool] = {}
        """Races of stores -> whether all of them left what was there."""
        self.kept: Counter[str] = Counter()

    def instruction(self, access: int) -> Instruction | None:
        accesses = self.machine.program.instructions
        return accesses[access] if 0 <= access < len(accesses) else None

    def is_copy(self, access: int) -> bool:
        """Whether an instruction is a bulk copy."""
        instruction = self.instruction(access)
        return instruction is not None and self.machine.program.traits(
            instruction
        ).engine == "copies"

    def is_reduction(self, access: int) -> bool:
        """Whether an instruction is ``red``, which tells nobody what it has read."""
        instruction = self.instruction(access)
        return instruction is not None and self.machine.program.traits(
            instruction
        ).tells_nothing(instruction)

    def place(self, access: int) -> Sentence:
        """```ld.shared.f32 …` at PTX line 12 (kernel.cu:7)``."""
        instruction = self.instruction(access) or self.machine.executing()
        return say("`{}` at {}", instruction.text, instruction.where) if instruction else say("?")

    def report(
        self, rule: str, sentence: Sentence, access: int, key: Any, by: Instruction | None = None
    ) -> None:
        """Keep a finding of a rule, unless one with this key is known already.

        ``access``: the checker's number for the instruction; -1 for ``by``, or without it for
        the one being executed.
        """
        if key in self.seen or self.kept[rule] >= LIMIT:
            return
        self.seen[key] = len(self.found)
        self.kept[rule] += 1
        instruction = self.instruction(access) or by or self.machine.executing()
        self.found.append(Finding(rule, sentence, instruction.where if instruction else None))
        for told in self.machine.told[LaunchObserver.finds]:
            told()

    def weigh(self, key: Any, bytes_there: Callable[[], Array]) -> None:
        """The finding with this key is a race of stores: one of equal values is of another grade.

        ``bytes_there``: what lies at the place; it is asked for now, and after the stores.
        """
        number, before = self.seen.get(key), bytes_there()
        if number is None:
            return

        def settle() -> None:
            same = np.array_equal(before, bytes_there())
            self.alike[key] = self.alike.get(key, True) and same
            rule = "race-equal-stores" if self.alike[key] else "race"
            self.found[number] = replace(self.found[number], rule=rule)

        self.machine.after_block.append(settle)

    def misused(self, g: Group, text: Any) -> None:
        """A barrier is used in a way that PTX leaves undefined."""
        where = self.machine.where(g)
        self.report("barrier-misuse", say("{}: {}", text, where), -1, ("misuse", where))


__all__ = ["Findings"]
