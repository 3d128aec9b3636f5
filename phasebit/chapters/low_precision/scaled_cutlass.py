"""What our products of NVFP4 execute, role by role, beside CUTLASS's in CuTe DSL: same problem.

``python tools/cutlass_scaled.py CHECKOUT`` counts; the page shows what it kept.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from phasebit import files
from phasebit.chapters.low_precision import nvfp4
from phasebit.chapters.low_precision.quantise import NVFP4
from phasebit.instruments import cutlass_examples
from phasebit.instruments.executed import Counts, counting, side_by_side

if TYPE_CHECKING:
    from phasebit.measure import Table

RECORD = "low_precision_cutlass.json"
SHAPE = (512, 512, 1024)
"""C of eight tiles of 128 × 256, four slices each, by one block; or of four of 256 × 256, by a
pair."""

FILE = f"{cutlass_examples.KERNELS}/blockscaled_gemm/dense_blockscaled_gemm_persistent.py"
COMPARED = {"a block": (nvfp4.TWO_SUMS, False), "a pair": (nvfp4.PAIRS_STAY, True)}
"""What the table calls two kernels -> ours, and whether a pair runs CUTLASS's."""

ROLES = {"load": range(4, 5), "multiply": range(5, 6), "store": range(4)}
CUTLASS = {**ROLES, "multiply": range(4, 5), "load": range(5, 6)}


def operands() -> list[Any]:
    """A and B, whose product is exact."""
    m, n, k = SHAPE
    return [nvfp4.plain(rows, k, rows + seed, NVFP4) for seed, rows in enumerate((m, n))]


def ours(name: str, pair: bool) -> Counts:
    """Of one of our kernels, a block or a pair; ``RuntimeError`` where it is not right."""
    a, b = operands()
    launch = nvfp4.prepare(a, b, nvfp4.source(name), blocks=1 + pair)
    with counting(ROLES) as counts:
        run, c = launch.run(schedule="eager")
    if run.findings or not np.array_equal(c, a.values() @ b.values().T):
        raise RuntimeError(f"{name} is not right: run its tests")
    return counts


def cutlass(repository: Path, pair: bool) -> Counts:
    """The same of CUTLASS's kernel, tiles of 128 × 256 or of a pair's 256 × 256."""
    import cuda.bindings.driver as cuda
    import cutlass
    import cutlass.cute as cute
    import cutlass.utils as utils
    from cutlass.cute.nvgpu import OperandMajorMode
    from cutlass.cute.runtime import make_ptr

    import phasebit.cute
    from phasebit.doors import device_arrays as device

    example = cutlass_examples.module(repository, FILE)
    a, b = operands()
    types = (cutlass.Float4E2M1FN,) * 2 + (cutlass.Float8E4M3FN,) * 2 + (cutlass.Float32,)
    k_major = OperandMajorMode.K
    with (
        counting(CUTLASS) as counts,
        phasebit.cute.emulated("sm_100a", schedules="eager") as runs,
    ):
        arrays = [device.array(nvfp4.packed(each.codes)) for each in (a, b)]
        arrays += [device.array(nvfp4.atoms(each.scales)) for each in (a, b)]
        arrays.append(device.array(np.full(SHAPE[:2], np.nan, np.float32)))
        given = [make_ptr(kind, array.data_ptr(), cute.AddressSpace.gmem, assumed_align=32)
                 for kind, array in zip(types, arrays, strict=True)]  # fmt: skip
        kernel = example.Sm100BlockScaledPersistentDenseGemmKernel(
            16, (256, 256) if pair else (128, 256), (2, 1) if pair else (1, 1)
        )
        layouts, stream = (k_major, k_major, utils.LayoutEnum.ROW_MAJOR), cuda.CUstream(0)
        made = cute.compile(kernel, *given, layouts, (*SHAPE, 1), 1, stream,
                            options="--opt-level 2")  # fmt: skip
        made(*given, (*SHAPE, 1), stream)
    if runs.findings or not np.array_equal(np.asarray(arrays[-1]), a.values() @ b.values().T):
        raise RuntimeError(f"{FILE} was not right, or {runs}")
    return counts


def recorded() -> dict[str, Any]:
    """The record: ``package``, ``nvcc``, ``commit``, ``date``, and the counts of each kernel."""
    found: dict[str, Any] = json.loads((files.records() / RECORD).read_text(encoding="utf-8"))
    return found


def table(*some: str) -> Table:
    """Ours beside CUTLASS's, from the record; ``some``: words of the rows, if not all."""
    from phasebit.measure import Table

    record = recorded()
    sides = [record["counts"][name][whose] for name in COMPARED for whose in ("ours", "cutlass")]
    heads = [f"{name}: {whose}" for name in COMPARED for whose in ("ours", "CUTLASS's")]
    what = "C of {} × {} in f32, k = {}, NVFP4".format(*SHAPE)
    rows = tuple(row for row in side_by_side(sides, ROLES)
                 if not some or any(words in row[0] for words in some))  # fmt: skip
    return Table(("executed in a launch", *heads), rows,
                 f"{what}; nvcc {record['nvcc']}; {record['package']}; "
                 f"{record['date']}")  # fmt: skip


__all__ = ["COMPARED", "RECORD", "SHAPE", "cutlass", "operands", "ours", "recorded", "table"]
