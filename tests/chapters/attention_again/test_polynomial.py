"""The polynomial of *Attention again*, its share in machine code, and what units need."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from phasebit import process, toolchain
from phasebit.chapters.attention_again import polynomial, softmax_code
from phasebit.chapters.attention_again import step_rates as rates
from phasebit.chapters.attention_again import tensor_attention as kernels


def test_the_kernel_has_the_coefficients_of_least_error() -> None:
    terms, _ = polynomial.remez(3)
    mine = polynomial.coefficients(kernels.source(kernels.POLYNOMIAL))
    assert np.array_equal(mine, terms.astype(np.float32))


def test_no_degree_does_worse_than_its_equal_ripples() -> None:
    errors = [polynomial.remez(degree)[1] for degree in range(1, 5)]
    assert all(a > 10 * b for a, b in itertools.pairwise(errors))
    terms, least = polynomial.remez(3)
    fine = np.linspace(-0.5, 0.5, 9999)
    for i in range(4):  # a nudge of any coefficient makes it worse
        for nudge in -1e-4, 1e-4:
            other = terms.copy()
            other[i] += nudge
            assert abs(np.polyval(other[::-1], fine) / np.exp2(fine) - 1).max() > least


def test_the_error_in_f32_is_below_what_the_bound_takes() -> None:
    terms = polynomial.coefficients(kernels.source(kernels.POLYNOMIAL))
    x = np.random.default_rng(1).uniform(-125, 20, 200_000)
    assert polynomial.error(x, terms) < kernels.POLYNOMIAL_ERROR


def test_a_share_moves_work_from_the_special_units_to_issue() -> None:
    needs = [rates.step(share) for share in softmax_code.SHARES]
    assert needs[0]["tensor core"] == needs[0]["special units"] == 1024
    special = [each["special units"] for each in needs]
    issue = [each["issue"] for each in needs]
    assert special == [1024 * (8 - share) / 8 for share in softmax_code.SHARES]
    assert issue == sorted(issue) and issue[2] < 1024 < issue[-1]


def test_the_record_has_every_share_and_loop() -> None:
    kept = softmax_code.read()["of eight exponentials by polynomial"]
    assert list(map(int, kept)) == list(softmax_code.SHARES)
    for share, each in kept.items():
        assert set(each["loops"]) == set(softmax_code.LOOPS)
        assert each["loops"]["weights"].get("MUFU", 0) == 32 - 4 * int(share)


def test_code_without_such_loops_is_refused() -> None:
    with pytest.raises(ValueError, match="no loop of the machine code is mask"):
        softmax_code.loops(".L_x_0:\n  /*0000*/  BRA `(.L_x_0) ;", softmax_code.LOOPS)


@pytest.mark.nvcc
def test_ptxas_makes_what_the_record_says() -> None:
    try:
        toolchain.tool("nvdisasm")
    except toolchain.ToolMissing as missing:
        pytest.skip(str(missing))
    kept = softmax_code.read()
    if softmax_code.version("nvcc") != kept["nvcc"]:
        pytest.skip(f"the record is of nvcc {kept['nvcc']}")
    kernels_of = {"of eight exponentials by polynomial": (softmax_code.shared, softmax_code.LOOPS),
                  "a row in registers": (softmax_code.unmasked, softmax_code.ROW)}  # fmt: skip
    for which, (text, loops) in kernels_of.items():
        assert softmax_code.compiled(text(2), loops) == kept[which]["2"]


@pytest.mark.nvcc
@pytest.mark.parametrize("name", [kernels.POLYNOMIAL, kernels.REGISTERS])
def test_ptxas_takes_the_last_kernels_without_a_warning(tmp_path: Path, name: str) -> None:
    path = tmp_path / "kernel.cu"
    path.write_text(kernels.source(name))
    strict = ["-Xptxas", "-warn-spills,-Werror", "-Werror", "all-warnings"]
    command = toolchain.nvcc_command("cubin", "sm_100a", options=strict)
    done = process.run([*command, path, "-o", tmp_path / "kernel.cubin"], timeout=120)
    assert done.ok and not done.stderr, done.stderr
