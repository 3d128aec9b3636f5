"""The f32 ladder of *Tiling on the GPU*: its rungs, and the counters the emulator predicts of them.

Every rung treats whole tiles alike, so a counter of a launch is ``blocks · (a + b · K)``. The
emulator launches one block with two values of K, and the line through the two gives the counter
of a product of any size, for Nsight Compute to confirm.
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phasebit import edits, files
from phasebit.edits import bare, replace_each
from phasebit.emulator import Run, Schedule
from phasebit.launching.launch import Module
from phasebit.launching.launch import compile as compile_ptx

Matrix = NDArray[np.float32]

METRICS = (
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "smsp__sass_inst_executed_op_shared_ld.sum",
    "smsp__sass_inst_executed_op_ldgsts.sum",
)
"""Sectors of global loads; wavefronts of shared loads; bank conflicts of loads and of stores; and
instructions, counted for whole warps: shared loads, and asynchronous copies."""

EXECUTED = "smsp__inst_executed.sum"
"""Instructions, counted for whole warps: of machine code on a GPU, of PTX on the emulator."""


class Rung(NamedTuple):
    """One rung, as it is launched."""

    file: str  # in kernels/tiling_on_the_gpu/, without .cu
    tile: int  # rows and columns of C that a block makes
    block: tuple[int, ...]  # threads
    asks: tuple[str, ...] = ()  # what its template wants to know: "aligned", "whole"
    depth: int = 1  # whole tiles have a K that is a multiple of this
    shared: int = 0  # dynamic shared memory, bytes
    flat: bool = False  # the grid has one dimension
    changes: tuple[tuple[str, str], ...] = ()  # what a variant replaces in the file, by what

    @property
    def letter(self) -> str:
        """The rung's place in the ladder, by which pictures name it."""
        return self.file[0]

    @property
    def kernel(self) -> str:
        """The kernel's name, without template arguments."""
        return self.file[len("a_") :]


RUNGS: dict[str, Rung] = {
    "naive": Rung("a_naive", 32, (32, 32)),
    "coalesced": Rung("b_coalesced", 32, (32, 32)),
    "shared_tile": Rung("c_shared_tile", 32, (32, 32)),
    "column": Rung("d_column", 64, (512,)),
    "square": Rung("e_square", 128, (256,)),
    "vectorised": Rung("f_vectorised", 128, (256,), ("aligned",)),
    "conflict_free": Rung("g_conflict_free", 128, (256,), ("aligned",)),
    "warp_tile": Rung("h_warp_tile", 128, (256,), ("aligned",)),
    "double_buffered": Rung("i_double_buffered", 128, (256,), ("aligned",)),
    "tuned": Rung("j_tuned", 128, (256,), ("aligned", "whole"), 32, 66560, True),
}
"""The ladder, from the bottom up."""

_LANES = (
    ("return lane >> 1 & 1 | lane >> 3 & 2;", "return lane / 8;"),
    ("return lane & 1 | lane >> 1 & 6;", "return lane % 8;"),
)


def _tuned(*changes: tuple[str, str], **other: int) -> Rung:
    tuned = RUNGS["tuned"]
    return tuned._replace(
        changes=changes,
        tile=other.get("tile", tuned.tile),
        block=(other.get("threads", 256),),
        depth=other.get("depth", tuned.depth),
        shared=other.get("shared", tuned.shared),
    )


TUNED: dict[str, Rung] = {
    "row_by_row": _tuned(("SERPENTINE = true", "SERPENTINE = false")),
    "lanes_in_rows": _tuned(*_LANES),
    "not_ahead": _tuned(("AHEAD = true", "AHEAD = false")),
    "always_ask": _tuned(("ALWAYS_ASK = false", "ALWAYS_ASK = true")),
    "one_resident": _tuned(("RESIDENT = 512 / THREADS", "RESIDENT = 1")),
    "depth_16": _tuned(("BK = 32", "BK = 16"), depth=16, shared=33280),
    "depth_8": _tuned(("BK = 32", "BK = 8"), depth=8, shared=16640),
    "row_order": _tuned(("SUPER = 8", "SUPER = 1")),
    "small_tile": _tuned(("SIDE = 128", "SIDE = 64"), tile=64, threads=64, shared=33792),
}
"""The last rung with one thing changed in each."""


def _square(tile: int, each: int, depth: int = 8) -> Rung:
    """Rung e with another tile of a block, another square of a thread, or other depth."""
    return RUNGS["square"]._replace(
        tile=tile,
        block=((tile // each) ** 2,),
        changes=(
            ("BM = 128, BN = 128, BK = 8;", f"BM = {tile}, BN = {tile}, BK = {depth};"),
            ("int T = 8;", f"int T = {each};"),
        ),
    )


SQUARES: dict[tuple[int, int], str] = {
    **{
        (tile, each): f"tile_{tile}_each_{each}"
        for tile, each in ((32, 1), (32, 2), (32, 4), (64, 2), (64, 4), (64, 8), (128, 4))
    },
    (128, 8): "square",
}
"""Rows of a block's tile, and of a thread's square -> the variant of rung e that has them. All
have tiles 8 deep; a block has as many threads as its tile has squares, from 64 to 1024."""

_BOUNDS = ("__launch_bounds__(THREADS)", "__launch_bounds__(THREADS, 2)")

SEPARATED: dict[str, Rung] = {
    **{name: _square(*which) for which, name in SQUARES.items() if name != "square"},
    "deep": _square(32, 1, 32),
    "two_resident": RUNGS["square"]._replace(changes=(_BOUNDS,)),
    "through_registers": Rung("i_through_registers", 128, (256,), ("aligned",)),
}
"""What rungs change together, apart: rung e with other tiles of a block and squares of a thread;
``deep``, rung c in the code of rung e; ``two_resident``, rung e with registers for two blocks; and
rung i without asynchronous copies."""

VARIANTS: dict[str, Rung] = {
    **RUNGS,
    "swizzled": RUNGS["conflict_free"]._replace(changes=(("PADDED = true", "PADDED = false"),)),
    "reordered": RUNGS["warp_tile"]._replace(changes=tuple((new, old) for old, new in _LANES)),
    **TUNED,
    **SEPARATED,
}
"""The rungs, and some of them with one thing changed."""


def text(name: str) -> str:
    """A rung's kernel and launch, as its file has them, or as a variant changes them.

    Raises ``ValueError`` for another name, and for a change that no longer fits the file.
    """
    if name not in VARIANTS:
        raise ValueError(f"the ladder has no rung {name!r}: choose from {', '.join(VARIANTS)}")
    found = files.kernel(f"tiling_on_the_gpu/{VARIANTS[name].file}")
    found = found.partition("\n#ifndef OWN_MAIN")[0]
    return replace_each(found, VARIANTS[name].changes, f"{VARIANTS[name].file}.cu")


def difference(before: str, after: str, since: str = "__global__") -> str:
    """The lines that a rung's kernel has otherwise than another's, with ``-`` and ``+``.

    They are compared from ``since`` to the kernel's end, without its name and without comments;
    ``…`` stands between changes that lie apart. Raises as :func:`text`, and ``ValueError`` where
    a kernel has no ``since``.
    """
    names = {f" {VARIANTS[name].kernel}(" for name in (before, after)}

    def as_read(line: str) -> str:
        for name in names:
            line = line.replace(name, " kernel(")
        return bare(line)

    return edits.difference(_lines(before, since), _lines(after, since), as_read)


def _lines(name: str, since: str) -> str:
    """The text of a rung's kernel from the line that has ``since`` on."""
    before, there, after = text(name).partition("\nvoid launch")[0].partition(since)
    if not there:
        raise ValueError(f"{VARIANTS[name].file}.cu has no {since!r} to begin with")
    return (before.rpartition("\n")[2] + there + after).rstrip()


def source() -> str:
    """All rungs and variants in one program without ``main``: ``naive_rung::launch(g)`` …"""
    headers = '#include "tiling_on_the_gpu/product.cuh"\n#include "ptx.cuh"\n'
    return headers + "".join(f"namespace {name}_rung {{\n{text(name)}\n}}\n" for name in VARIANTS)


def multiply(
    name: str,
    a: Matrix,
    b: Matrix,
    c: Matrix,
    alpha: float = 1.0,
    beta: float = 0.0,
    *,
    code: str | None = None,
    target: str = "sm_90a",
    schedule: Schedule = "late",
) -> Run:
    """C (M, N) = alpha·A·B + beta·C on the emulator, by a rung; returns the run.

    ``code`` is a changed copy of the rung's file, if given. Raises ``ValueError`` for an unknown
    rung, and as compiling and launching do.
    """
    return launched(VARIANTS[name], code or text(name), a, b, c, alpha, beta, target, schedule)


def launched(
    rung: Rung,
    kernel: str,
    a: Matrix,
    b: Matrix,
    c: Matrix,
    alpha: float,
    beta: float,
    target: str = "sm_90a",
    schedule: Schedule = "late",
    accesses: bool = False,
) -> Run:
    """C = alpha·A·B + beta·C on the emulator, by the kernel in a text, launched as ``rung`` says.

    ``accesses`` keeps each load and store in the run. Raises ``LookupError`` when the text has no
    kernel of the rung's name, else as compiling and launching do.
    """
    module = _module(kernel, target)
    (m, k), n = a.shape, b.shape[1]
    addresses = []
    for label, array in (("A", a), ("B", b), ("C", c)):
        allocation = module.memory.allocate(array.nbytes, label)
        module.memory.bytes(allocation)[:] = np.frombuffer(array.tobytes(), np.uint8)
        addresses.append(allocation)
    numbers = [each.address for each in addresses]
    product = struct.pack("3Q6i2f", *numbers, m, n, k, k, n, n, alpha, beta)
    facts = {
        "aligned": k % 4 == 0 and n % 4 == 0,
        "whole": m % rung.tile == 0 and n % rung.tile == 0 and k % rung.depth == 0,
    }
    facts["whole"] = facts["whole"] and facts["aligned"]
    symbol = _symbol(module.kernels, rung.kernel, [facts[each] for each in rung.asks])
    wide, high = -(-n // rung.tile), -(-m // rung.tile)
    grid = (wide * high,) if rung.flat else (wide, high)
    try:
        run = module[symbol].launch(
            grid, rung.block, [product], shared=rung.shared, schedule=schedule, accesses=accesses
        )
        c[...] = module.memory.bytes(addresses[2]).view(np.float32).reshape(m, n)
    finally:
        for allocation in addresses:
            module.memory.free(allocation)
    return run


@functools.lru_cache(maxsize=4)
def _module(kernel: str, target: str) -> Module:
    """A rung, compiled and read: for those with many instructions half a second's work."""
    return compile_ptx(f"{kernel}\n", target)


def _symbol(kernels: Iterable[str], name: str, flags: list[bool]) -> str:
    """The symbol of ``tuned<true, false>`` among those of a module."""
    arguments = "".join(f"Lb{int(flag)}E" for flag in flags)
    wanted = re.compile(rf"_Z(N.*)?{len(name)}{name}" + (f"I{arguments}E" if flags else ""))
    found = next((symbol for symbol in kernels if wanted.match(symbol)), None)
    if found is None:
        raise LookupError(f"no kernel is called {name}")
    return found


def count(name: str, depth: int) -> dict[str, int]:
    """The emulator's :data:`METRICS` of one block of a rung, with whole tiles and K = ``depth``."""
    counters = _one_block(name, depth).counters
    return {metric: counters.get(metric, 0) for metric in METRICS}


def _one_block(name: str, depth: int) -> Run:
    """One block of a rung on the emulator, with whole tiles and K = ``depth``."""
    side = VARIANTS[name].tile
    rng = np.random.default_rng(9)
    a, b = rng.random((side, depth), np.float32), rng.random((depth, side), np.float32)
    return multiply(name, a, b, np.full((side, side), np.nan, np.float32))


def executed(name: str) -> Fraction:
    """PTX instructions that a thread of a rung executes for each multiply-add of its main loop.

    From two depths of one block, so that what comes before and after the loop does not count.
    """
    first, step = _depths(VARIANTS[name])
    less, more = (_one_block(name, depth).counters[EXECUTED] for depth in (first, first + step))
    multiply_adds = VARIANTS[name].tile ** 2 * step
    return Fraction(32 * (more - less), multiply_adds)


def _depths(rung: Rung) -> tuple[int, int]:
    """K of the less deep of two products, and how much deeper the other is.

    Both have at least two tiles, since the last rung copies a single one twice.
    """
    return max(32, 2 * rung.depth), 32


def predict(name: str, size: int) -> dict[str, int]:
    """The :data:`METRICS` of a product of ``size``³, from one block with two depths.

    Raises ``ValueError`` for a size that is no multiple of the rung's tile.
    """
    rung = VARIANTS[name]
    blocks, rest = divmod(size, rung.tile)
    if rest:
        raise ValueError(f"{name} makes tiles of {rung.tile}: {size} is no multiple")
    first, step = _depths(rung)
    less, more = count(name, first), count(name, first + step)
    found = {}
    for metric in METRICS:
        slope = Fraction(more[metric] - less[metric], step)
        found[metric] = int(blocks**2 * (less[metric] + slope * (size - first)))
    return found
