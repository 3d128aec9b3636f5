"""What our products execute, role by role, beside CUTLASS's in CuTe DSL for the same problem.

``python tools/cutlass_products.py CHECKOUT`` counts; the page shows what it kept.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from phasebit import files
from phasebit.chapters.chain import kernels
from phasebit.instruments import cutlass_examples
from phasebit.instruments.executed import Counts, counting, side_by_side

if TYPE_CHECKING:
    from phasebit.measure import Table

RECORD = "chain_cutlass.json"
SHAPE = (512, 512, 512)
"""C of eight tiles of 128 × 256, eight slices each: by one block, or by one pair."""

FILES = {
    "static": f"{cutlass_examples.KERNELS}/dense_gemm/dense_gemm_persistent.py",
    "launch control": f"{cutlass_examples.KERNELS}/dense_gemm/dense_gemm_persistent_dynamic.py",
}
"""CUTLASS's examples, by who says which tiles a block makes."""

COMPARED = {
    "a block": (kernels.CHAIN, "static", False),
    "a pair": (kernels.PAIR, "static", True),
    "launch control": (kernels.LAUNCH_CONTROL, "launch control", False),
    "launch control, pairs": (kernels.PAIR_CONTROL, "launch control", True),
}
"""What the table calls two kernels -> ours; CUTLASS's file, and whether pairs run it."""

ROLES = {"load": range(4, 5), "multiply": range(5, 6), "store": range(4), "schedule": range(6, 7)}
CUTLASS = {**ROLES, "multiply": range(4, 5), "load": range(5, 6)}


def ours(name: str, out: str) -> Counts:
    """Of one of our kernels; ``RuntimeError`` where it is not right. ``out``: the type of C."""
    with counting(ROLES) as counts:
        run, exact = kernels.multiply(kernels.source(name), *SHAPE, schedule="eager", out=out)
    if run.findings or not exact:
        raise RuntimeError(f"{name} is not right: run its tests")
    return counts


def cutlass(repository: Path, file: str, pair: bool, out: str) -> Counts:
    """The same of CUTLASS's kernel, tiles of 128 × 256 or of a pair's 256 × 256."""
    import cuda.bindings.driver as cuda
    import cutlass
    import cutlass.cute as cute
    from cutlass.cute.runtime import from_dlpack

    import phasebit.cute
    from phasebit.doors import device_arrays
    from phasebit.emulator import formats

    example = cutlass_examples.module(repository, FILES[file])
    m, n, k = SHAPE
    draw = np.random.default_rng(18)
    a, b = (draw.integers(-4, 5, size).astype(np.float64) for size in ((m, k), (n, k)))
    of = {"f32": cutlass.Float32, "bf16": cutlass.BFloat16}

    def tensor(array: Any, kind: str) -> Any:
        made = from_dlpack(array, assumed_align=16)
        made.element_type = of[kind]
        return made.mark_layout_dynamic(leading_dim=1)

    empty = np.full((m, n), np.nan, np.float32) if out == "f32" else np.full((m, n), 0x7FFF, "u2")
    c = device_arrays.array(empty[..., None])
    with (
        counting(CUTLASS) as counts,
        phasebit.cute.emulated("sm_100a", schedules="eager") as runs,
    ):
        operands = [
            tensor(device_arrays.array(np.asarray(formats.encode("bf16", x))[..., None]), "bf16")
            for x in (a, b)
        ]
        operands.append(tensor(c, out))
        kernel = example.PersistentDenseGemmKernel(
            cutlass.Float32, pair, (256, 256) if pair else (128, 256), (2, 1) if pair else (1, 1),
            True,
        )  # fmt: skip
        clusters = [1] * (file == "static")
        compiled = cute.compile(kernel, *operands, *clusters, cuda.CUstream(0),
                                options="--opt-level 2")  # fmt: skip
        compiled(*operands, cuda.CUstream(0))
    right = np.asarray(formats.encode(out, a @ b.T)) if out == "bf16" else a @ b.T
    if runs.findings or not np.array_equal(np.asarray(c)[..., 0], right):
        raise RuntimeError(f"{FILES[file]} was not right, or {runs}")
    return counts


def recorded() -> dict[str, Any]:
    """The record: ``package``, ``nvcc``, ``commit``, ``date``, and the counts of each kernel."""
    found: dict[str, Any] = json.loads((files.records() / RECORD).read_text(encoding="utf-8"))
    return found


def table(which: tuple[str, ...], out: str = "f32", some: tuple[str, ...] = ()) -> Table:
    """Ours beside CUTLASS's, from the record; ``which`` of :data:`COMPARED`.

    ``some``: words of the rows that are wanted, if not all are.
    """
    from phasebit.measure import Table

    record = recorded()
    sides = [record["counts"][out][name][whose] for name in which for whose in ("ours", "cutlass")]
    heads = [f"{name}: {whose}" for name in which for whose in ("ours", "CUTLASS's")]
    what = "C of {} × {}, k = {}".format(*SHAPE)
    rows = tuple(row for row in side_by_side(sides, ROLES)
                 if not some or any(words in row[0] for words in some))  # fmt: skip
    return Table(("executed in a launch", *heads), rows,
                 f"{what}, {out}; nvcc {record['nvcc']}; {record['package']}; "
                 f"{record['date']}")  # fmt: skip

