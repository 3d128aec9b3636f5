"""The rungs that lead to the chain: what changes in each, what it executes, what the model says.

    python -m phasebit.chapters.chain.climb

counts the instructions again, and writes ``records/chain_ladder.json``. It needs nvcc and no GPU.
"""

from __future__ import annotations

import datetime
import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from phasebit import edits, files, toolchain
from phasebit.chapters.chain import kernels, rates, way_out
from phasebit.instruments.executed import counting

if TYPE_CHECKING:
    from phasebit.measure import Table

RECORD = "chain_ladder.json"
SHAPE = (512, 512, 512)
"""C of eight tiles of 128 × 256, eight slices each."""

ONE_STAGE = "one_thread_multiplies/tcgen05"


class Rung(NamedTuple):
    """A step of the ladder."""

    file: str
    """Of the chapter's kernels, or :data:`ONE_STAGE`."""
    new: str
    model: dict[str, Any]
    """What :func:`rates.gemm` is told of it."""
    stays: bool = True
    """Whether a block makes several tiles."""
    change: tuple[str, str] = ("", "")
    """Of the kernel's text."""


RUNGS = {
    "one stage": Rung(ONE_STAGE, "the tensor core", {"stages": 1, "sums": 1}, False),
    "a ring": Rung(kernels.RING, "four slots, filled by the copy engine", {"sums": 1}, False),
    "roles": Rung(kernels.ROLES, "a thread loads, a thread multiplies", {"sums": 1}, False),
    "pieces": Rung(kernels.PIECES, "the copy engine stores C", {"sums": 1}, False),
    "one box": Rung(kernels.ONE_BOX, "four warps meet, a thread stores", {"sums": 1}, False),
    "blocks that stay": Rung(
        kernels.CHAIN, "a block makes several tiles", {"sums": 1},
        change=("SUMS = 2; ", "SUMS = 1; "),
    ),
    "two sums": Rung(kernels.CHAIN, "a tile while another is carried out", {}),
    "a pair": Rung(kernels.PAIR, "two blocks share a product", {"stages": 6, "pair": True}),
}  # fmt: skip

OF_A_BLOCK = tuple(RUNGS)[:-1]
"""The rungs in which a block works alone."""


def difference(old: str, new: str, *functions: str) -> str:
    """What a rung's functions have otherwise than another's, without comments and spacing."""

    def text(name: str) -> str:
        source = kernels.source(name)
        return "\n".join(
            kernels.function(source, each) for each in functions if f" void {each}(" in source
        )

    return edits.difference(text(old), text(new))


def executed(name: str) -> int:
    """Warp instructions of PTX for C of :data:`SHAPE`: by a block, or by a block for each tile.

    Raises ``RuntimeError`` where the result is not right.
    """
    rung = RUNGS[name]
    if rung.file == ONE_STAGE:
        run, exact = _one_stage()
    else:
        changes = [rung.change] if rung.change[0] else []
        source = edits.replace_each(kernels.source(rung.file), changes)
        run, exact = kernels.multiply(source, *SHAPE, schedule="eager")
    if not exact or run.findings:
        raise RuntimeError(f"{rung.file} is not right: run its tests")
    return int(run.counters["smsp__inst_executed.sum"])


def _one_stage() -> tuple[Any, bool]:
    import numpy as np

    from phasebit.emulator import formats
    from phasebit.launching.launch import compile

    (m, n, k), draw = SHAPE, np.random.default_rng(18)
    a, b = (draw.integers(-4, 5, size).astype(np.float64) for size in ((m, k), (n, k)))
    c = np.full((m, n), np.nan, np.float32)
    bits = [np.asarray(formats.encode("bf16", x)) for x in (a, b)]
    kernel = compile(files.kernel(ONE_STAGE), "sm_100a")["matmul"]
    run = kernel.launch((n // 128, m // 128), 128, [*bits, c, m, n, k], schedule="eager")
    return run, bool(np.array_equal(c, a @ b.T))


def ways_out() -> Table:
    """How a tile of C leaves: each warp stores its rows, or a thread all, by one meeting or two."""
    from phasebit.emulator import LaunchObserver, observing
    from phasebit.measure import Table

    class Watcher(LaunchObserver):
        machine: Any = None

        def starts(self, batch: Any) -> None:
            self.machine = batch.machine

    rows = []
    box = kernels.source(kernels.ONE_BOX)
    for name, source in (("pieces.cu", kernels.source(kernels.PIECES)), ("one_box.cu", box),
                         ("two meetings a piece", way_out.twice(box))):  # fmt: skip
        watcher = Watcher()
        with observing(watcher):
            run, exact = kernels.multiply(source, 128, 256, 64, schedule="eager")
        if not exact or run.findings:
            raise RuntimeError(f"{name} is not right: run its tests")
        warps: Counter[str] = Counter()  # opcode, with how many operands -> executed by how many
        machine = watcher.machine
        for block, times in zip(machine.program.blocks, machine.block_warps, strict=True):
            for each in block.instructions if times else ():
                warps[f"{each.opcode} {len(each.operands)}"] += times
        (out,) = (n for opcode, n in warps.items() if "global.shared" in opcode)
        rows.append((name, str(out), str(128 * 256 * 4 // out >> 10),
                     str(warps["cp.async.bulk.wait_group.read 1"]),
                     str(warps["bar.sync 2"] // 4)))  # fmt: skip
    return Table(
        ("", "copies out", "KiB each", "waits for their reads", "meetings of four warps"),
        tuple(rows), "for a tile of 128 × 256 in f32",
    )  # fmt: skip


def clocks(name: str) -> float:
    """Of a tile in the model: from one to the next, or from its first copy to its last store."""
    rung = RUNGS[name]
    chain = rates.gemm(SHAPE[2], **rung.model)
    return float(chain.per_tile()) if rung.stays else max(work.end for work in chain.run(1))


def levels() -> Table:
    """KiB that move at each level for C of :data:`SHAPE` in f32, by runs of four kernels."""
    from phasebit.measure import Table

    rows = []
    for what, name in (("a block alone", kernels.CHAIN), ("two that share B", kernels.MULTICAST),
                       ("a pair", kernels.PAIR), ("two products of a pair", kernels.TWO_PRODUCTS),
                       ):  # fmt: skip
        source = kernels.source(name)
        with counting({}) as counts:
            run, exact = kernels.multiply(source, *SHAPE, schedule="eager")
        if not exact or run.findings:
            raise RuntimeError(f"{name} is not right: run its tests")
        assert counts.fetched == counts.written == 4 * SHAPE[0] * SHAPE[1]
        moved = kernels.fetched(source, *SHAPE), counts.read, counts.multiplied
        rows.append((what, str(counts.products), *(f"{n >> 10:,}" for n in moved),
                     str(kernels.Rings.of(source).slot >> 10)))  # fmt: skip
    return Table(
        ("kernel", "products issued", "read of A and B", "written to shared memory",
         "read by products", "a slot"),
        tuple(rows), "KiB; C of {} × {} in f32, k = {}; each kernel fetches 1,024 KiB of sums and "
        "stores as many".format(*SHAPE),
    )  # fmt: skip


def recorded() -> dict[str, Any]:
    """The record: ``nvcc``, ``date``, and of each rung the warp instructions."""
    found: dict[str, Any] = json.loads((files.records() / RECORD).read_text(encoding="utf-8"))
    return found


def table(names: tuple[str, ...] = OF_A_BLOCK) -> Table:
    """Rungs: what is new, what was executed, and the model's clocks."""
    from phasebit.measure import Table

    record = recorded()
    products = SHAPE[2] // rates.SLICE * 512
    rows = tuple(
        (name, f"{rung.file.rpartition('/')[2]}.cu", rung.new, f"{record['executed'][name]:,}",
         f"{clocks(name):,.0f}", f"{products / clocks(name):.2f}")
        for name, rung in RUNGS.items() if name in names
    )  # fmt: skip
    return Table(
        ("rung", "kernel", "new in it", "warp instructions", "clocks a tile",
         "tensor core busy"),
        rows, "C of {} × {}, k = {}: warp instructions of PTX, counted by the emulator; clocks of "
        "the model; nvcc {}, {}".format(*SHAPE, record["nvcc"], record["date"]),
    )  # fmt: skip


def main() -> None:
    """Write the record."""
    record = {
        "date": datetime.date.today().isoformat(), "target": "sm_100a",
        "nvcc": toolchain.nvcc().version, "shape": SHAPE,
        "executed": {name: executed(name) for name in RUNGS},
    }  # fmt: skip
    path = files.records() / RECORD
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
