"""DeepGEMM's own kernel of e4m3 with block scales, and its tensor maps: a whole program on the
emulator.

Nothing is fetched: ``PHASEBIT_RIVALS`` names a folder with checkouts of DeepGEMM and of CUTLASS,
whose headers it includes. The chapter's own harness draws shapes, checks every element, and looks
at what lies behind the matrices.

Two rules it breaks, neither of which has a wrong result here. The first lane of a warp gives a
slot back, and nothing says that the other lanes have read their scales: wgmma.wait_group brings the
lanes together, but orders no memory (our kernels have a __syncwarp there). And after the last tile
nobody waits until its store has read shared memory, and the block leaves.
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

UNITS = 2
"""Multiprocessors, as the harness has it on the emulator."""
SECONDS = 300.0

_LAUNCH = """
#include "eight_bits/product.cuh"

constexpr int SCALES = 128;

void launch(const Product& p) {
    theirs(p.A, p.B, p.C, p.a_scales, p.b_scales, p.M, p.N, p.K, p.multiprocessors, p.stream);
}

#include "eight_bits/product_harness.cuh"
"""


@functools.cache
def built(pair: int) -> Path:
    """The program; ``pair``: blocks that share a tile of A."""
    text, options = rivals.deep_gemm_text(0, 0, pair=pair, units=UNITS)
    theirs = text.replace('extern "C" void product(', "static void theirs(")
    return toolchain.build(
        theirs + _LAUNCH, name="deep_gemm", target="sm_90a", options=options,
        runtime=library.for_linking(toolchain.nvcc().major),
    ).program  # fmt: skip


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("pair", [1, 2])
def test_the_product_is_right_and_nothing_is_found_but_what_is_there(
    pair: int, schedule: str, capfd: pytest.CaptureFixture[str]
) -> None:
    runs = Runs()
    backend = EmulatorBackend(schedule=schedule)
    status = run_program([built(pair)], backend, limit=SECONDS, reporter=runs)
    assert status == 0
    assert {each.rule for each in runs.findings} == {"bulk-in-flight-at-exit", "race"}
    for each in runs.findings:
        stores, reads = "cp.async.bulk.tensor.2d.global", "read it, and nothing orders the two"
        assert (stores if each.rule != "race" else reads) in str(each)
        assert each.rule != "race" or "`ld.shared.f32" in str(each)
    assert capfd.readouterr().out.splitlines() == [
        "product: OK, exact on whole numbers",
        "product: OK on normal random numbers, within what the tensor core may cut off",
    ]
