"""The f32 ladder of chapter 9: its rungs, and the counters that the emulator predicts of them.

Every rung treats whole tiles alike, so a counter of a launch is ``blocks · (a + b · K)``. The
emulator launches one block with two values of K, and the line through the two gives the counter
of a product of any size, for Nsight Compute to confirm.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from phasebit import files
from phasebit.emulator.launch import compile as compile_ptx

METRICS = (
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
)
"""Sectors of global loads, wavefronts of shared loads, and bank conflicts of loads and stores."""


class Rung(NamedTuple):
    """One rung, as it is launched on whole tiles."""

    file: str  # in kernels/, without .cu
    kernel: str
    tile: int  # rows and columns of C that a block makes
    block: tuple[int, ...]  # threads
    shared: int = 0  # dynamic shared memory, bytes
    defines: str = ""


RUNGS: dict[str, Rung] = {
    "naive": Rung("09_a_naive", "naive", 32, (32, 32)),
    "coalesced": Rung("09_b_coalesced", "coalesced", 32, (32, 32)),
    "shared_tile": Rung("09_c_shared_tile", "shared_tile", 32, (32, 32)),
    "column": Rung("09_d_column", "column", 64, (512,)),
    "square": Rung("09_e_square", "square", 128, (256,)),
    "vectorised": Rung("09_f_vectorised", "vectorised<true>", 128, (256,)),
    "conflict_free": Rung("09_g_conflict_free", "conflict_free<true>", 128, (256,)),
    "warp_tile": Rung("09_h_warp_tile", "warp_tile<true>", 128, (256,)),
    "double_buffered": Rung("09_i_double_buffered", "double_buffered<true>", 128, (256,)),
    "tuned": Rung("09_j_tuned", "tuned<true, true>", 128, (256,), 66560),
}
"""The ladder, from the bottom up."""

VARIANTS: dict[str, Rung] = {
    **RUNGS,
    "swizzled": RUNGS["conflict_free"]._replace(defines="#define PADDED false\n"),
    "row_by_row": RUNGS["tuned"]._replace(defines="#define SERPENTINE false\n"),
}
"""The rungs, and two of them with one thing changed."""


def source() -> str:
    """All rungs and variants in one program without ``main``: ``naive_rung::launch(g)`` …"""
    parts = ['#define OWN_MAIN\n#include "09_product.cuh"\n#include "ptx.cuh"\n']
    for name, rung in VARIANTS.items():
        # Each file defines its own macros only where nobody has.
        parts.append(
            f"#undef PADDED\n#undef SERPENTINE\n{rung.defines}"
            f'namespace {name}_rung {{\n#include "{rung.file}.cu"\n}}\n'
        )
    return "".join(parts)


def count(name: str, depth: int, target: str = "sm_90a") -> dict[str, int]:
    """The emulator's :data:`METRICS` of one block of a rung, with whole tiles and K = ``depth``."""
    rung = VARIANTS[name]
    module = compile_ptx(f"#define OWN_MAIN\n{rung.defines}{files.kernel(rung.file)}", target)
    side = rung.tile
    rng = np.random.default_rng(9)
    a, b = rng.random((side, depth), np.float32), rng.random((depth, side), np.float32)
    addresses = []
    for label, array in (("A", a), ("B", b), ("C", np.full((side, side), np.nan, np.float32))):
        allocation = module.memory.allocate(array.nbytes, label)
        module.memory.bytes(allocation)[:] = np.frombuffer(array.tobytes(), np.uint8)
        addresses.append(allocation.address)
    product = struct.pack("3Q6i2f", *addresses, side, side, depth, depth, side, side, 1.0, 0.0)
    run = module[_mangled(module.kernels, rung.kernel)].launch(
        1, rung.block, [product], shared=rung.shared
    )
    return {metric: run.counters.get(metric, 0) for metric in METRICS}


def _mangled(kernels: Iterable[str], name: str) -> str:
    """The symbol of ``tuned<true, false>`` among those of a module."""
    base, _, arguments = name.partition("<")
    flags = "".join(f"Lb{int(word == 'true')}E" for word in re.findall(r"\w+", arguments))
    wanted = f"_Z{len(base)}{base}" + (f"I{flags}E" if flags else "")
    return next(symbol for symbol in kernels if symbol.startswith(wanted))


def predict(name: str, size: int, depths: tuple[int, int] = (64, 128)) -> dict[str, int]:
    """The :data:`METRICS` of a product of ``size``³, from one block with two depths.

    Raises ``ValueError`` for a size that is no multiple of the rung's tile.
    """
    blocks, rest = divmod(size, VARIANTS[name].tile)
    if rest:
        raise ValueError(f"{name} makes tiles of {VARIANTS[name].tile}: {size} is no multiple")
    less, more = (count(name, depth) for depth in depths)
    found = {}
    for metric in METRICS:
        slope = Fraction(more[metric] - less[metric], depths[1] - depths[0])
        found[metric] = int(blocks**2 * (less[metric] + slope * (size - depths[0])))
    return found
