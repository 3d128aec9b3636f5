"""DeepGEMM's kernel for Blackwell: e4m3 by e4m3 or e2m1, with scales in tensor memory.

Nothing is fetched: ``PHASEBIT_RIVALS`` names a folder with checkouts of DeepGEMM and of CUTLASS,
whose headers it includes; the harness beside this file is ours and checks every element.

Four rules it breaks; no result is wrong. Every warp of the epilogue gives an address of lane 0,
while warp w reaches the lanes from 32 (w % 4) on (PTX ISA, restrictions of tcgen05.ld). A block
leaves while its last store may still read shared memory. In a pair the blocks meet with
``barrier.cluster.arrive.relaxed``, which orders nothing: neither the address of tensor memory,
which one warp writes and others read, nor the last loads before tensor memory is given back. And
the other block's scales are told by an arrival of .cta scope, the default.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

import pytest

from phasebit import toolchain
from phasebit.instruments import rivals
from phasebit.runtime import library
from phasebit.runtime.emulated import EmulatorBackend
from phasebit.runtime.in_process import Runs
from phasebit.runtime.run_program import run_program

if rivals.FOLDER not in os.environ:
    pytest.skip(
        f"{rivals.FOLDER} names no folder with DeepGEMM and CUTLASS: NOT asked",
        allow_module_level=True,
    )

pytestmark = [pytest.mark.foreign, pytest.mark.nvcc]

HARNESS = Path(__file__).with_name("deep_gemm_blackwell.cu")
CASES = {
    "e4m3": 0, "e4m3, B N-major": 1, "e2m1": 2, "e2m1, B N-major": 3, "e4m3, a pair": 4,
    "e2m1, a pair": 5,
}  # fmt: skip
ALONE = {"wrong-tensor-quarter", "bulk-in-flight-at-exit"}
PAIR = ALONE | {"race", "missing-tcgen05-commit"}
SECONDS = 300.0


@functools.cache
def built() -> Path:
    folders = (
        rivals.checkout("DeepGEMM") / "deep_gemm/include", rivals.checkout("cutlass") / "include"
    )  # fmt: skip
    options = "-std=c++20", "-O3", "-DNDEBUG", "-w", "--expt-relaxed-constexpr"
    return toolchain.build(
        HARNESS.read_text(encoding="utf-8"), name="deep_gemm_blackwell", target="sm_100a",
        options=(*options, *(f"-isystem={folder}" for folder in folders)),
        runtime=library.for_linking(toolchain.nvcc().major), timeout=600,
    ).program  # fmt: skip


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("case", CASES)
def test_the_product_is_right_and_what_is_found_is_there(
    case: str, schedule: str, capfd: pytest.CaptureFixture[str]
) -> None:
    runs = Runs()
    backend = EmulatorBackend(schedule=schedule)
    status = run_program([built(), str(CASES[case])], backend, limit=SECONDS, reporter=runs)
    assert (status, capfd.readouterr().out) == (0, "OK\n")
    rules = {each.rule for each in runs.findings}
    assert rules - {"narrow-scope"} == (PAIR if "pair" in case else ALONE)
    assert ("narrow-scope" in rules) == ("pair" in case)
