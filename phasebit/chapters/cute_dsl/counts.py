"""Two kernels for one problem, compared instruction by instruction as the emulator runs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from phasebit.chapters.cute_dsl.lines import plain, short
from phasebit.chapters.cute_dsl.ptx_runs import ROLES

if TYPE_CHECKING:
    from phasebit.measure import Table


@dataclass
class Counted:
    """What the warps of a launch executed."""

    opcodes: Counter[str] = field(default_factory=Counter)
    """Opcode, as :func:`lines.short` has it -> by how many warps it was executed."""
    at_barriers: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Role, and ``waits`` or ``arrivals`` at mbarriers -> how often."""


@contextmanager
def counting(roles: Mapping[str, Sequence[int]] = ROLES) -> Iterator[Counted]:
    """Counts what one launch on the emulator executes meanwhile.

    ``roles``: which warps of a block each has.
    """
    from phasebit.emulator import observing

    counted = Counted()
    watcher = _watcher(counted, {w: role for role, warps in roles.items() for w in warps})
    with observing(watcher):
        yield counted
    machine = watcher.machine
    for block, warps in zip(machine.program.blocks, machine.block_warps, strict=True):
        for instruction in block.instructions if warps else ():
            counted.opcodes[short(instruction.opcode)] += warps


def _watcher(counted: Counted, role_of: Mapping[int, str]) -> Any:
    """Who listens to the emulator."""
    from phasebit.emulator import LaunchObserver, MbarrierObserver

    class Watcher(MbarrierObserver, LaunchObserver):
        machine: Any = None

        def starts(self, batch: Any) -> None:
            self.machine = batch.machine

        def __init__(self) -> None:
            self.passed: set[tuple[int, str, int]] = set()

        def arrives(self, g: Any, lanes: Any, site: Any, sem: str, scope: str) -> None:
            for warp in g.batch.warp_of[lanes]:
                self._note(int(warp) % g.batch.warps, "arrivals")

        def passes(self, g: Any, site: Any) -> None:
            for warp in {int(w) for w in g.batch.warp_of[g.lanes]}:
                key = warp, site.name, site.barrier.phase
                if key not in self.passed:  # a warp that is divided for a moment passes once
                    self.passed.add(key)
                    self._note(warp % g.batch.warps, "waits")

        def _note(self, warp: int, what: str) -> None:
            if warp in role_of:
                counted.at_barriers[role_of[warp], what] += 1

    return Watcher()


WORK = {
    "copies in": "cp.async.bulk.tensor, in", "copies in, without a map": "cp.async.bulk, in",
    "scales to tensor memory": "tcgen05.cp", "products": "tcgen05.mma",
    "commits of the tensor core": "tcgen05.commit", "loads of tensor memory": "tcgen05.ld",
    "waits for them": "tcgen05.wait::ld", "16-byte stores to shared memory": "st.shared",
    "copies out": "cp.async.bulk.tensor, out", "their groups": "cp.async.bulk.commit_group",
    "waits for groups": "cp.async.bulk.wait_group.read",
    "fences to the copy engine": "fence.proxy.async",
    "mbarriers": "mbarrier.init", "announcements of bytes": "mbarrier.arrive.expect_tx",
    "meetings at named barriers": "bar.sync", "tcgen05.fence": "tcgen05.fence",
}  # fmt: skip
"""What the page calls an instruction -> how its opcode begins."""


def compare(counted: Mapping[str, Counted], runs: Mapping[str, Any], what: str) -> Table:
    """The counts of launches side by side, by the names of both mappings, but for :func:`rest`.

    ``runs``: what each launch returned; ``what``: the caption, to which what is equal is added.
    """
    from phasebit.measure import Table

    def of(name: str, begins: str) -> int:
        return sum(n for opcode, n in counted[name].opcodes.items()
                   if opcode == begins or opcode.startswith(f"{begins}::"))  # fmt: skip

    rows = [(words, *(str(of(name, opcode)) for name in counted)) for words, opcode in WORK.items()
            if any(of(name, opcode) for name in counted)]  # fmt: skip
    moved = (str(runs[name].counters["cp_async_bulk.bytes"] >> 10) for name in counted)
    rows.append(("KiB that copies move", *moved))
    for role in ROLES:
        for did in ("waits", "arrivals"):
            times = [counted[name].at_barriers[role, did] for name in counted]
            if any(times):
                rows.append((f"{did} at mbarriers: {role}", *map(str, times)))
    alike = [row for row in rows if len(counted) > 1 and len(set(row[1:])) == 1]
    equal = ", ".join(row[0] for row in alike)
    return Table(("executed, by warps", *counted), tuple(row for row in rows if row not in alike),
                 f"{what}; equal: {equal}" if alike else what)  # fmt: skip


def rest(counted: Mapping[str, Counted]) -> str:
    """All other instructions: a line of this machine, since their number is its compiler's."""
    others = (f"{name} {sum(n for opcode, n in each.opcodes.items() if plain(opcode)):,}"
              for name, each in counted.items())  # fmt: skip
    return f"⏱ arithmetic, moves, branches: {'; '.join(others)}"
