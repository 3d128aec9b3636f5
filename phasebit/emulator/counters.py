"""Counters, named as Nsight Compute names them where they mean the same.

Instruction counts come for free: the machine notes how often each block ran and
for how many warps and threads.  The memory counters look at addresses, so they
exist only when the launch was made with ``check=True``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from phasebit.emulator.translate import Program


class Counters(Mapping[str, int]):
    """``run.counters``: a mapping from the name of a metric to its value."""

    def __init__(self, blocks: int) -> None:
        self.block_runs = [0] * blocks
        self.block_threads = [0] * blocks
        self.block_warps = [0] * blocks
        self.divergent = 0
        self.totals: Counter[str] = Counter()

    def add(self, name: str, amount: int) -> None:
        self.totals[name] += amount

    def add_all(self, cost: Iterable[tuple[str, int]]) -> None:
        totals = self.totals
        for name, amount in cost:
            totals[name] += amount

    def finish(self, program: Program) -> None:
        """Turn block counts into instruction counts."""
        totals = self.totals
        for block, function, threads, warps in zip(
            program.blocks, program.functions, self.block_threads, self.block_warps, strict=True
        ):
            if not threads:
                continue
            selected = program.graphs[function.name].selected
            instructions = [*block.body, *filter(None, [block.collective, block.end])]
            for instruction in instructions:
                totals["smsp__inst_executed.sum"] += warps
                totals["smsp__thread_inst_executed.sum"] += threads
                chosen = selected.get(instruction)  # branches and calls are in no table
                totals[f"inst.{chosen.entry.family if chosen else 'control'}"] += warps
        totals["branch.divergent"] = self.divergent

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
