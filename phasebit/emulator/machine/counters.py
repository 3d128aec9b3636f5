"""Counters, named as Nsight Compute names them where they mean the same.

Instruction counts come for free: the machine notes how often each block ran and
for how many warps and threads.  The memory counters look at addresses, so they
exist only when the launch was made with ``check=True``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from phasebit.emulator.machine.program import Program


class Counters(Mapping[str, int]):
    """``run.counters``: a mapping from the name of a metric to its value."""

    def __init__(self) -> None:
        self.totals: Counter[str] = Counter()

    def add(self, name: str, amount: int) -> None:
        self.totals[name] += amount

    def add_all(self, cost: Iterable[tuple[str, int]]) -> None:
        totals = self.totals
        for name, amount in cost:
            totals[name] += amount

    def finish(self, program: Program, threads: list[int], warps: list[int]) -> None:
        """Count instructions: ``threads`` and ``warps`` have executed each block of the program."""
        totals = self.totals
        for block, function, of_threads, of_warps in zip(
            program.blocks, program.functions, threads, warps, strict=True
        ):
            if not of_threads:
                continue
            selected = program.graphs[function.name].selected
            for instruction in block.instructions:
                totals["smsp__inst_executed.sum"] += of_warps
                totals["smsp__thread_inst_executed.sum"] += of_threads
                chosen = selected.get(instruction)  # branches and calls are in no table
                totals[f"inst.{chosen.entry.family if chosen else 'control'}"] += of_warps
        totals["branch.divergent"] += 0

    def __getitem__(self, name: str) -> int:
        if name not in self.totals:
            raise KeyError(f"no counter {name!r}; there are: {', '.join(sorted(self.totals))}")
        return self.totals[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.totals))

    def __len__(self) -> int:
        return len(self.totals)

    def __str__(self) -> str:
        width = max((len(name) for name in self.totals), default=0)
        return "\n".join(f"{name:<{width}}  {self.totals[name]:>12,}" for name in self)
