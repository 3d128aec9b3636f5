"""Who tells whom, of any kernel: read from a run, not from its text."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from phasebit.measure import Table


def warps(numbers: Iterable[int]) -> str:
    """Numbers of warps in words: ``warp 4``, ``warps 0-3, 6``."""
    given = sorted(set(numbers))
    runs: list[list[int]] = []
    for number in given:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    parts = [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    return f"warp{'s' * (len(given) > 1)} {', '.join(parts)}"


def signals(launch: Callable[[], Any]) -> dict[str, tuple[str, str]]:
    """What a launch does at its mbarriers: barrier -> what tells it, and who waits for it."""
    from phasebit.emulator import MbarrierObserver, TensorObserver, observing

    told: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    asked: dict[str, set[int]] = defaultdict(set)

    def of(g: Any, lanes: Any) -> set[int]:
        return {int(w) % g.batch.warps for w in g.batch.warp_of[lanes]}

    class Watcher(MbarrierObserver, TensorObserver):
        def arrives(self, g: Any, lanes: Any, site: Any, sem: str, scope: str) -> None:
            instruction = g.batch.machine.executing()
            bytes_too = instruction is not None and "expect_tx" in instruction.opcode
            told[site.name]["bytes asked for by" if bytes_too else "arrivals of"] |= of(g, lanes)

        def commits(self, commit: Any) -> None:
            told[commit.site.name]["commits of"] |= of(commit.thread, commit.thread.lanes)

        def passes(self, g: Any, site: Any) -> None:
            asked[site.name] |= of(g, g.lanes)

    with observing(Watcher()):
        launch()
    return {
        name: (", ".join(f"{what} {warps(who)}" for what, who in sorted(told[name].items())),
               warps(asked[name]) if asked[name] else "nobody")
        for name in sorted({*told, *asked})
    }  # fmt: skip


def table(launches: dict[str, Callable[[], Any]]) -> Table:
    """A row for each kind of barrier of each kernel; ``launches``: by the kernels' names."""
    from phasebit.measure import Table

    rows = []
    for name, launch in launches.items():
        kinds = Counter(signals(launch).values())
        for (told, asked), count in sorted(kinds.items(), key=lambda kind: (-kind[1], kind[0])):
            rows.append((name, str(count), told, asked))
    return Table(("kernel", "mbarriers", "told by", "waited for by"), tuple(rows),
                 "seen on the emulator, one block")  # fmt: skip
