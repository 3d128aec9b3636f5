"""The products of *Eight bits*: right under every schedule, each slip found; what sums keep."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import pytest

from phasebit import files, hardware, process, toolchain
from phasebit.chapters.eight_bits import contenders as variants
from phasebit.chapters.eight_bits import product, sums
from phasebit.chapters.eight_bits import scale_slips as slips
from phasebit.chapters.eight_bits import sum_errors as errors
from phasebit.chapters.eight_bits.scaled import ROWS, SQUARES
from tests.kernels import targets
from tests.kernels.emulated import emulate

pytestmark = pytest.mark.nvcc
OK = (
    "product: OK, exact on whole numbers\n"
    "product: OK on normal random numbers, within what the tensor core may cut off\n"
)
MADE = (
    "promotion every 32", "consumers take turns", "scales of B a step ahead",
    "unrolled, scales of B in shared memory",
)  # fmt: skip
"""Variants with edits that could make them wrong."""
RIGHT = {name: slips.fewer_slots(product.source(name)) for name in product.KERNELS}


@functools.cache
def compiled() -> dict[str, Any]:
    """Every kernel that these tests run, compiled together."""
    texts = {f"right {name}": text for name, text in RIGHT.items()}
    texts |= {name: slips.fewer_slots(slips.broken(name)) for name in slips.SLIPS}
    texts |= {
        name: slips.fewer_slots(variants.variant(name))
        for name in variants.VARIANTS
        if name in MADE
    }
    return product.kernels(texts)


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("shape", [slips.SHAPE, (1, 8, 16)])
@pytest.mark.parametrize("kernel", product.KERNELS)
def test_right_without_a_finding(kernel: str, shape: tuple[int, int, int], schedule: str) -> None:
    assert slips.judge(compiled()[f"right {kernel}"], shape, schedule, of=kernel) == ""


@pytest.mark.parametrize("name", slips.SLIPS)
def test_every_slip_is_found(name: str) -> None:
    slip = slips.SLIPS[name]
    said = slips.judge(compiled()[name], of=slip.kernel)
    assert re.search(slip.says, said), said


@pytest.mark.parametrize("name", MADE)
def test_a_variant_is_right(name: str) -> None:
    assert slips.judge(compiled()[name]) == ""


@pytest.mark.parametrize("kernel", product.KERNELS)
def test_infinities_and_nans_come_through(kernel: str) -> None:
    """e4m3 has no infinity: too large a product of scales makes one, a NaN stays one."""
    in_blocks = kernel != product.ONE_SCALE
    a = product.plain(130, 144, 1, blocks=ROWS if in_blocks else None)
    b = product.plain(8, 144, 2, blocks=SQUARES if in_blocks else None)
    a.codes[3, 5] = 0x7F
    a.codes[4], b.codes[:] = 0x38, 0x38  # ones
    if in_blocks:
        a.scales[4, 0] = 3e38
    run, c = product.multiply(a, b, compiled()[f"right {kernel}"], blocks=1, of=kernel)
    assert not run.findings and np.isnan(c[3]).all()
    assert not np.isnan(np.delete(c, 3, axis=0)).any()
    assert np.isinf(c[4]).all() == in_blocks


@pytest.mark.parametrize("kernel", product.KERNELS)
def test_the_whole_program(kernel: str) -> None:
    done = emulate(product.source(kernel), "--seed", "3")
    assert done.ok and done.stdout == OK and not done.stderr, done.stdout + done.stderr


def test_ptxas_takes_them_without_spills_or_warnings() -> None:
    texts = {
        f"kernel_{name}": product.source(name).replace(product.HARNESS, "")
        for name in product.KERNELS
    }
    for build in targets.assemble_each(texts, "sm_90a").values():
        assert build.warnings == ""  # ptxas warns of multiplications that it must not overlap
        assert build.resources and not any(use.spills for use in build.resources)


@pytest.mark.parametrize("kernel", [*product.KERNELS, "sum_bits"])
def test_a_file_holds_one_idea(kernel: str) -> None:
    lines = files.kernel(f"eight_bits/{kernel}").splitlines()
    assert lines[0].startswith("// ") and len(lines) <= 200 and max(map(len, lines)) <= 100


def test_a_k_whose_rows_are_not_aligned_is_refused() -> None:
    a, b = (product.plain(8, 24, seed, blocks=None) for seed in (1, 2))
    with pytest.raises(ValueError, match="multiple of 16"):
        product.multiply(a, b)


def test_the_tensor_core_keeps_thirteen_bits_of_a_sum() -> None:
    kept = {element: sums.survivors(element).index(False) - 1 for element in sums.BYTES}
    assert kept == {"e4m3": 13, "bf16": 23}


def test_a_sum_of_small_terms_stalls_and_promotion_mends_it() -> None:
    assert sums.stalled("e4m3", 180) == errors.growing(0.75, 5760, 5760)[-1] < 5760 * 0.75
    assert sums.stalled("e4m3", 180, 4) == 5760 * 0.75


@pytest.mark.gpu
@pytest.mark.skipif(hardware.gpu() is None, reason="no NVIDIA GPU")
@pytest.mark.parametrize("kernel", product.KERNELS)
def test_right_on_the_gpu(kernel: str) -> None:
    program = toolchain.build(product.source(kernel), target="sm_90a").program
    for _ in range(3):  # what is tried is drawn anew
        done = process.run([program], timeout=60)
        assert done.ok and done.stdout == OK and not done.stderr, done.stdout + done.stderr
