"""The kernels of *Tensor memory* on the emulator: run, watched at their barriers, drawn.

No GPU that they are for was at hand. What compilers made of them is kept in a record.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import importlib.util
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from phasebit import build_cache, files, replay

if TYPE_CHECKING:
    from phasebit.draw import Picture
    from phasebit.emulator import Run
    from phasebit.timeline import Timeline

ONE, RING, PAIR = KERNELS = "tcgen05", "tcgen05_ring", "tcgen05_pair"
CUTE, CUTE_SHAPE = "cute", (256, 256, 192)
COMPILED = "blackwell_compiled.json"
SCOPED = f"{PAIR}, scopes of the cluster"
"""What the record calls the pair with every wait and arrival at the scope of the cluster."""

PIECES, PATTERN = 4 * 2 * 32 * 32 * 4, 1024
"""Bytes of the pieces of C on their way out, and of the swizzle's pattern."""


@dataclass(frozen=True)
class Rings:
    """The two rings of a kernel, by its source: slots, and where its barriers lie."""

    stages: int
    sums: int
    blocks: int
    """1, or 2 for a pair."""

    @classmethod
    def of(cls, source: str) -> Rings:
        def number(name: str) -> int:
            found = re.search(rf"constexpr int {name} = (\d+);", source)
            if found is None:
                raise ValueError(f"the kernel has no line `constexpr int {name} = …;`")
            return int(found[1])

        return cls(number("STAGES"), number("SUMS"), 2 if "__cluster_dims__" in source else 1)

    @property
    def tiles(self) -> int:
        """Bytes in front of the barriers: slices of A and B, and pieces of C."""
        slot = 64 * 2 * (128 + 256 // self.blocks)
        return self.stages * slot + PIECES

    @property
    def shared(self) -> int:
        """``sizeof(Shared)``: the barriers and the address need less than one pattern."""
        return self.tiles + PATTERN

    def barriers(self) -> dict[str, str]:
        """What the emulator calls each barrier -> what the kernel calls it."""
        names = [f"{kind} {slot}" for kind in ("full", "empty") for slot in range(self.stages)]
        names += [f"sum {kind} {slot}" for kind in ("full", "empty") for slot in range(self.sums)]
        return {f"memory+{self.tiles + 8 * i}": name for i, name in enumerate(names)}


def _whole_numbers(m: int, n: int, k: int, seed: int) -> tuple[list[Any], Any, Any]:
    """A (m, k) and B (n, k) as bits of bf16, C (m, n) full of NaN, and the product."""
    import numpy as np

    from phasebit.emulator import formats

    draw = np.random.default_rng(seed)
    a, b = (draw.integers(-4, 5, size).astype(np.float64) for size in ((m, k), (n, k)))
    bits = [np.asarray(formats.encode("bf16", x)) for x in (a, b)]
    return bits, np.full((m, n), np.nan, np.float32), a @ b.T


def multiply(
    source: str, m: int, n: int, k: int, *, workers: int = 1, schedule: str = "late", seed: int = 16
) -> tuple[Run, bool]:
    """C (m, n) = A (m, k) · B (n, k)ᵀ by a kernel of *Tensor memory*, on whole numbers.

    ``workers``: blocks of a persistent kernel, or pairs. Returns the run, and whether C is exact.
    """
    import numpy as np

    from phasebit.emulator import TensorMap
    from phasebit.launching.launch import compile

    bits, c, product = _whole_numbers(m, n, k, seed)
    kernel = compile(source, "sm_100a")["matmul"]
    arguments: list[Any] = [*bits, c, m, n, k]
    grid: tuple[int, ...] = (-(-n // 128), -(-m // 128))
    threads, shared = 128, 0
    if kernel.function.parameters[0].size == 128:  # a tensor map
        rings = Rings.of(source)
        maps = [TensorMap(x, (64, rows), data_type="bf16", swizzle="128B")
                for x, rows in zip(bits, (128, 256 // rings.blocks), strict=True)]  # fmt: skip
        arguments[:3] = [*maps, TensorMap(c, (32, 32), swizzle="128B")]
        grid, threads, shared = (workers * rings.blocks,), 192, rings.shared
    run = kernel.launch(grid, threads, arguments, shared=shared, schedule=schedule)
    return run, bool(np.array_equal(c, product))


# -- what compilers made of them ---------------------------------------------------


def source(name: str) -> str:
    """The source of one of :data:`KERNELS`, or of :data:`CUTE`."""
    return _source(name).read_text(encoding="utf-8")


def _source(name: str) -> Path:
    return files.kernels() / "tensor_memory" / f"{name}.{'py' if name == CUTE else 'cu'}"


def fingerprint(name: str) -> str:
    """What a kernel's source and its headers are: a record of another program is out of date.

    Comments in CUDA do not count.
    """
    text = source(name)
    return hashlib.sha256(text.encode()).hexdigest()[:16] if name == CUTE else replay.key(text)


def compiled() -> dict[str, Any]:
    """The record of ``tools/compiled.py``."""
    path = files.records() / COMPILED
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


def _unpacked(text: str) -> str:
    return gzip.decompress(base64.b64decode(text)).decode()


def scoped() -> str:
    """The pair's source with every wait and arrival at the scope of the cluster."""
    text = source(PAIR).replace("mbarrier_wait(", "mbarrier_wait_cluster(")
    return text.replace("mbarrier_arrive_at_after_reads(", "mbarrier_arrive_at(")


def sass(kernel: str) -> list[str]:
    """The instructions that ptxas made of a kernel, or of ``SCOPED``, from the record."""
    return _unpacked(compiled()["kernels"][kernel]["sass"]).splitlines()


def cute_ptx() -> tuple[str, str]:
    """PTX of ``kernels/tensor_memory/cute.py`` for CUTE_SHAPE, and where it comes from.

    Compiled now where CuTe DSL is installed, else from the record.
    """
    if importlib.util.find_spec("cutlass") is not None:
        from importlib.metadata import version

        return compile_cute(), f"compiled now by nvidia-cutlass-dsl {version('nvidia-cutlass-dsl')}"
    record = compiled()
    return _unpacked(record["cute"]["ptx"]), (
        f"compiled by {record['cute']['package']} on {record['date']}; it is not installed here"
    )


@functools.cache
def _scratch() -> build_cache.Scratch:
    """A folder that goes when Python does."""
    return build_cache.Scratch()


def compile_cute() -> str:
    """PTX of ``kernels/tensor_memory/cute.py`` for CUTE_SHAPE, by CuTe DSL; needs no GPU."""
    # It keeps a copy of its own, in the folder that this names when it is imported.
    os.environ.setdefault("CUTE_DSL_DUMP_DIR", _scratch().name)

    import cutlass.cute as cute  # type: ignore[import-not-found, unused-ignore]
    from cutlass.cute.runtime import (  # type: ignore[import-not-found, unused-ignore]
        make_fake_compact_tensor,
    )

    spec = importlib.util.spec_from_file_location("phasebit_cute", _source(CUTE))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    m, n, k = CUTE_SHAPE
    tensors = [
        make_fake_compact_tensor(kind, shape, stride_order=(1, 0), assumed_align=16)
        for kind, shape in ((module.BF16, (m, k)), (module.BF16, (n, k)), (module.F32, (m, n)))
    ]
    made = cute.compile(module.matmul, *tensors, options="--gpu-arch sm_100a --keep-ptx")
    return str(made.__ptx__)


def multiply_cute(ptx: str, *, schedule: str = "late", seed: int = 16) -> tuple[Run, bool]:
    """Run that PTX on the emulator: the run, and whether C is exact."""
    import numpy as np

    from phasebit.emulator import TensorMap
    from phasebit.launching.launch import Module

    m, n, k = CUTE_SHAPE
    bits, c, product = _whole_numbers(m, n, k, seed)
    module = Module(ptx)
    kernel = module[module.kernels[0]]
    maps = [TensorMap(x, (64, 128), data_type="bf16", swizzle="128B") for x in bits]
    flags = [bytes(each.size) for each in kernel.function.parameters[:-3]]
    run = kernel.launch(
        (m // 128, n // 128), 192, [*flags, *maps, c], shared=3 * 32_768 + 2_048,
        schedule=schedule,
    )  # fmt: skip
    return run, bool(np.array_equal(c, product))


# -- what happens at its barriers --------------------------------------------------


class Seen(NamedTuple):
    """A phase that completed, a wait that went on because it had, or a warp's ``tcgen05.ld``."""

    what: str
    """``completes``, ``passes`` or ``fetches``."""
    barrier: str
    """Its name; for a fetch the first column and the one past the last, ``0-32``."""
    at: int
    """The emulator's clock."""
    block: int
    warp: int
    """Who waited; -1 for a completion."""


@contextmanager
def watching() -> Iterator[list[Seen]]:
    """Collects what happens at the mbarriers of kernels that run on the emulator meanwhile.

    And what is fetched from tensor memory.
    """
    from phasebit.emulator import observing

    log: list[Seen] = []
    with observing(_observer(log)):
        yield log


def _observer(log: list[Seen]) -> object:
    """Who listens to the emulator, and writes what it hears into a list."""
    from phasebit.emulator import MbarrierObserver, TensorObserver

    class Watcher(MbarrierObserver, TensorObserver):
        def completes(self, site: Any) -> None:
            block = int(site.batch.blocks[site.slot])
            log.append(Seen("completes", site.name, site.time, block, -1))

        def passes(self, g: Any, site: Any) -> None:
            batch = g.batch
            for warp in sorted({int(w) for w in batch.warp_of[g.lanes]}):
                slot, mine = divmod(warp, batch.warps)
                at = max(g.time, site.opened)
                log.append(Seen("passes", site.name, at, int(batch.blocks[slot]), mine))

        def loads_columns(self, g: Any, regions: Any, registers: int) -> None:
            for lanes, region in regions:
                slot, warp = divmod(int(g.batch.warp_of[lanes[0]]), g.batch.warps)
                columns = f"{region.columns.start}-{region.columns.stop}"
                log.append(Seen("fetches", columns, g.time, int(g.batch.blocks[slot]), warp))

    return Watcher()


LOADER, MULTIPLIER, EPILOGUE = 4, 5, 0
"""Warps; of the epilogue's four the first."""


def timeline(source: str, log: list[Seen]) -> Timeline:
    """The two rings of a block on the emulator's clock, which counts instructions.

    A slot of shared memory is *filled* from the loader's wait at ``empty`` to the end of that
    phase of ``full``, and *drained* from the multiplier's wait to the arrival of its commit; a sum
    likewise, by multiplier and epilogue.
    """
    from phasebit.pipeline.ring_drawing import RingDrawing
    from phasebit.timeline import Timeline

    rings = Rings.of(source)
    names = rings.barriers()
    events: dict[tuple[str, str], list[int]] = {}
    for seen in log:
        if seen.block == 0 and seen.barrier in names and seen.warp in (
            -1, LOADER, MULTIPLIER, EPILOGUE
        ):  # fmt: skip
            events.setdefault((seen.what, names[seen.barrier]), []).append(seen.at)
    drawing = RingDrawing()

    def ring(prefix: str, row: str, slots: int, fills: str, drains: str) -> None:
        for slot in range(slots):
            steps = [
                events.get((what, f"{prefix}{kind} {slot}"), [])
                for what, kind in (("passes", "empty"), ("completes", "full"),
                                   ("passes", "full"), ("completes", "empty"))
            ]  # fmt: skip
            for turn, (begin, full, taken, empty) in enumerate(zip(*steps, strict=False)):
                label = str(slot + turn * slots)
                drawing.turn(f"{row} {slot}", begin, full, taken, empty, label)
                if fills:
                    drawing.span(fills, begin, full, "produce", label)
                drawing.span(drains, taken, empty, "consume", label)

    ring("", "slot", rings.stages, "copy engine", "tensor core")
    ring("sum ", "sum", rings.sums, "", "epilogue")
    rows = ["copy engine", *(f"slot {i}" for i in range(rings.stages)), "tensor core",
            *(f"sum {i}" for i in range(rings.sums)), "epilogue"]  # fmt: skip
    return Timeline(
        rows, drawing.spans, unit="clock",
        title="Two rings on the emulator, whose clock counts instructions: a model, no time",
        legend={"produce": "being filled", "full": "full", "consume": "being drained"},
    )  # fmt: skip


class Work(NamedTuple):
    """A job of a role in the model."""

    role: str
    number: int
    begin: int
    end: int


def chain(
    tiles: int, slices: int, *, stages: int, sums: int, copy: int, product: int, epilogue: int
) -> list[Work]:
    """Two rings in a row, by Part I's rule: a role begins when it is free and its slot is ready.

    ``copy`` and ``product``: clocks for a slice; ``epilogue``: for a tile of ``slices`` slices.
    """
    done: list[Work] = []
    copied: list[int] = []  # when each job of a role ends
    multiplied: list[int] = []
    stored: list[int] = []

    def work(role: str, ends: list[int], clocks: int, *waits: int) -> None:
        begin = max([*ends[-1:], *waits, 0])
        ends.append(begin + clocks)
        done.append(Work(role, len(ends) - 1, begin, begin + clocks))

    for tile in range(tiles):
        for slice_ in range(tile * slices, (tile + 1) * slices):
            empty = multiplied[slice_ - stages] if slice_ >= stages else 0
            work("copy engine", copied, copy, empty)
            first = slice_ == tile * slices
            sum_empty = stored[tile - sums] if first and tile >= sums else 0
            work("tensor core", multiplied, product, copied[slice_], sum_empty)
        work("epilogue", stored, epilogue, multiplied[-1])
    return done


def per_tile(done: list[Work]) -> float:
    """Clocks from one finished tile to the next, over the second half of the tiles."""
    ends = [each.end for each in done if each.role == "epilogue"]
    half = len(ends) // 2
    return (ends[-1] - ends[half - 1]) / (len(ends) - half)


def draw_chain(done: list[Work], title: str) -> Timeline:
    """The model's jobs, a row a role."""
    from phasebit.timeline import Span, Timeline

    kinds = {"copy engine": "produce", "tensor core": "consume", "epilogue": "store"}
    spans = [Span(w.role, w.begin, w.end, kinds[w.role], str(w.number)) for w in done]
    legend = {"produce": "copies a slice", "consume": "multiplies a slice",
              "store": "stores a tile"}  # fmt: skip
    return Timeline(list(kinds), spans, title=title, legend=legend)


def picture(source: str, log: list[Seen]) -> Picture:
    """:func:`timeline`; its sentence says of each tile what was drained while it was filled.

    The clock depends on the compiler; that sentence hardly does.
    """
    from phasebit.draw import Picture

    drawn = timeline(source, log)
    sums: dict[str, dict[int, tuple[float, float]]] = {"produce": {}, "consume": {}}
    for span in drawn.spans:
        if span.row.startswith("sum ") and span.kind in sums:
            sums[span.kind][int(span.label)] = span.start, span.end
    lines = []
    slots = Rings.of(source).sums
    for tile, (begin, end) in sorted(sums["produce"].items()):
        beside = [str(other) for other, (start, stop) in sorted(sums["consume"].items())
                  if start < end and begin < stop]  # fmt: skip
        what = f"while tile {', '.join(beside)} is carried out" if beside else "alone"
        lines.append(f"tile {tile} is added up in sum {tile % slots}, {what}")
    return Picture(drawn.svg(), f"{drawn.title}.\n" + "\n".join(lines))


def columns(source: str, log: list[Seen]) -> Picture:
    """Tensor memory of block 0 as it fills and empties: columns across, events downwards.

    A sum is shown as full columns of one tile, from the multiplier's wait at *sum empty* on; a
    piece is empty again when warp 0 of the epilogue has fetched it.
    """
    from phasebit.draw import Cell, Picture, chart

    piece, wide = 32, 256
    rings = Rings.of(source)
    names = rings.barriers()
    cells: list[Cell | None] = [None] * (512 // piece)
    count = [0] * rings.sums
    rows, events, filled = [], [], []
    for seen in sorted((s for s in log if s.block == 0), key=lambda s: s.at):
        name = names.get(seen.barrier, "")
        if seen.what == "fetches" and seen.warp == EPILOGUE:
            first, last = (int(n) // piece for n in seen.barrier.split("-"))
            cells[first:last] = [None] * (last - first)
            events.append(f"columns {first * piece} to {last * piece - 1} fetched")
        elif name.startswith("sum ") and (seen.what, name[4:8]) in (
            ("passes", "empt"), ("completes", "full")
        ):  # fmt: skip
            slot = int(name[-1])
            full = seen.what == "completes"
            tile = slot + rings.sums * count[slot]
            count[slot] += full
            first = slot * wide // piece
            hue = "orange" if full else "blue"
            cells[first : first + wide // piece] = [Cell(str(tile), hue)] * (wide // piece)
            events.append(f"tile {tile} {'is complete' if full else 'begins'}")
            if full:
                filled.append(f"tile {tile} in columns {slot * wide} to {(slot + 1) * wide - 1}")
        else:
            continue
        rows.append(list(cells))
    title = "Tensor memory of one block, as it fills and empties"
    drawn = chart(
        rows, rows=events, columns=range(0, 512, piece), row_label="what happens",
        column_label="32 columns, all lanes, from this one on", title=title,
        legend={"blue": "being added up", "orange": "complete, not yet fetched"},
    )  # fmt: skip
    return Picture(drawn.svg, f"{title}: {'; '.join(filled)}; each fetched 32 columns at a time.")
