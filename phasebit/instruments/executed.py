"""What the roles of a kernel for Blackwell execute, and how many bytes move at each level.

Counted in launches on the emulator, ours and others' alike: no time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Counts:
    """Of all blocks of the launches that were watched."""

    instructions: dict[str, int] = field(default_factory=dict)
    """Role -> warp instructions of PTX."""
    products: int = 0
    """``tcgen05.mma``."""
    commits: int = 0
    """``tcgen05.commit``."""
    powers: int = 0
    """``ex2``, by warps: 32 exponentials each."""
    barriers: int = 0
    """``mbarrier.init``."""
    columns: int = 0
    """Of tensor memory that a block holds."""
    copies: int = 0
    """Bulk copies."""
    read: int = 0
    """Bytes that bulk copies write to shared memory, boxes counted whole."""
    multiplied: int = 0
    """Bytes of shared memory that products read, of a pair in both blocks."""
    fetched: int = 0
    """Bytes from tensor memory to registers."""
    stored: int = 0
    """Bytes from registers to tensor memory."""
    shared: int = 0
    """Bytes from registers to shared memory."""
    written: int = 0
    """Bytes that bulk copies read in shared memory, boxes counted whole."""
    slots: int = 0
    """Steps of the emulator's clock from a block's first product to its last, of all blocks."""

    @property
    def copied(self) -> int:
        """Bytes that bulk copies move, in and out."""
        return self.read + self.written


@contextmanager
def counting(roles: Mapping[str, range]) -> Iterator[Counts]:
    """Counts what launches do meanwhile; complete behind the block.

    ``roles``: the warps of a block that each role has; other warps are left out.
    """
    from phasebit.emulator import (
        AccessObserver,
        BulkCopyObserver,
        LaunchObserver,
        TensorObserver,
        observing,
    )

    counts = Counts()
    opcodes: Counter[str] = Counter()
    role_of = {warp: role for role, warps in roles.items() for warp in warps}
    by_role: Counter[str] = Counter(dict.fromkeys(roles, 0))
    begun: dict[int, list[int]] = {}  # block -> the clock at its products

    class Watcher(LaunchObserver, AccessObserver, BulkCopyObserver, TensorObserver):
        def enters(self, g: Any) -> None:
            block = g.batch.machine.program.blocks[g.pc].instructions
            names = [instruction.opcode for instruction in block]
            for warp in {int(w) for w in g.batch.warp_of[g.lanes]}:
                if (mine := warp % g.batch.warps) in role_of:
                    by_role[role_of[mine]] += len(names)
                opcodes.update(names)

        def stores(self, g: Any, index: Any, accesses: Any) -> bool:
            if accesses.space == "shared":
                counts.shared += g.n * sum(size for _, size in accesses.requests)
            return False

        def starts_copies(self, g: Any, copies: Any) -> None:
            for _, copy in copies:
                counts.copies += 1
                if copy.target.space == "shared":
                    counts.read += copy.size
                else:
                    counts.written += copy.size

        def allocated(self, g: Any, region: Any) -> None:
            counts.columns = max(counts.columns, region.columns.stop)

        def multiplies(
            self, g: Any, target: Any, source: Any, reads: Any, adds: Any, *others: Any
        ) -> None:
            counts.multiplied += sum(4 * len(one.words(2)) for one in reads)
            slot = int(g.batch.warp_of[g.lanes[0]]) // g.batch.warps
            begun.setdefault(int(g.batch.blocks[slot]), []).append(g.time)

        def loads_columns(self, g: Any, regions: Any, registers: int) -> None:
            counts.fetched += sum(len(lanes) for lanes, _ in regions) * registers * 4

        def stores_columns(self, g: Any, regions: Any, registers: int) -> None:
            counts.stored += sum(len(lanes) for lanes, _ in regions) * registers * 4

    with observing(Watcher()):
        yield counts

    def of(begins: str) -> int:
        return sum(number for opcode, number in opcodes.items() if opcode.startswith(begins))

    counts.instructions = dict(by_role)
    counts.products, counts.commits = of("tcgen05.mma"), of("tcgen05.commit")
    counts.powers, counts.barriers = of("ex2"), of("mbarrier.init")
    counts.slots = sum(max(times) - min(times) + 1 for times in begun.values())


LEVELS = {
    "from global to shared memory": "read",
    "from shared memory to the tensor core": "multiplied",
    "from tensor memory to registers": "fetched",
    "from registers to shared memory": "shared",
    "from shared to global memory": "written",
}
"""What moves at each level -> its count."""


def side_by_side(sides: Sequence[Mapping[str, Any]], roles: Iterable[str]) -> tuple[Any, ...]:
    """Rows of a table: counts of several launches, each as :func:`dataclasses.asdict` gives them.

    Roles of which none executes anything are left out.
    """
    rows = [(f"warp instructions of PTX: {role}", *(f"{s['instructions'][role]:,}" for s in sides))
            for role in roles if any(s["instructions"][role] for s in sides)]  # fmt: skip
    for words, key in (("products of the tensor core", "products"), ("commits", "commits"),
                       ("mbarriers", "barriers"), ("columns of tensor memory held", "columns"),
                       ("bulk copies", "copies")):  # fmt: skip
        rows.append((words, *(f"{s[key]:,}" for s in sides)))
    filled = (f"{s['products'] / s['slots']:.1%}" if s["slots"] else "–" for s in sides)
    rows.append(("slots of the tensor core filled", *filled))
    for words, key in LEVELS.items():
        rows.append((f"KiB {words}", *(f"{s[key] >> 10:,}" for s in sides)))
    return tuple(rows)
