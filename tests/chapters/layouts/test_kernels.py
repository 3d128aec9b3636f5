"""The kernels of *Layouts*: right under every schedule, and their checks see planted mistakes."""

from __future__ import annotations

import re

import pytest

from phasebit import files, hardware, process, toolchain
from phasebit.edits import replace_once
from tests.kernels import targets
from tests.kernels.emulated import emulate

PACKING = "layouts/packing"
SINCE = {PACKING: "sm_75"}

MISTAKES: dict[str, tuple[str, str, str]] = {
    "tiles are packed row by row": (
        PACKING, "packed[(tile * BK + i / ROWS) * BM + m0 % BM + i % ROWS]",
        "packed[(tile * BM + m0 % BM + i % ROWS) * BK + i / ROWS]"),
    "all products of a batch read the first tiles": (
        PACKING, "(size_t(batch) * gridDim.y + blockIdx.y)",
        "(size_t(0) * gridDim.y + blockIdx.y)"),
    "the last product of a batch is not packed": (
        PACKING, "b < EACH && b0 + b < p.batch; ++b) {",
        "b < EACH && b0 + b + 1 < p.batch; ++b) {"),
    "k is read beyond the matrix": (PACKING, "return m < p.M && k < p.K ?", "return m < p.M ?"),
    "strides exchanged": (PACKING, "p.A[m * p.sm + k * p.sk", "p.A[m * p.sk + k * p.sm"),
    "nobody waits for the tiles": (
        PACKING, "        __syncthreads();  // the tiles are there\n", ""),
}  # fmt: skip


def text(kernel: str) -> str:
    """The program with its own header in it, so that a mistake can be planted in either."""
    header = (files.kernels() / f"{kernel}.cuh").read_text("utf-8").replace("#pragma once", "")
    return files.kernel(kernel).replace(f'#include "{kernel}.cuh"\n', header)


def planted(name: str) -> str:
    kernel, right, wrong = MISTAKES[name]
    return replace_once(text(kernel), right, wrong)


@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_fits_its_kernel(name: str) -> None:
    assert planted(name) != text(MISTAKES[name][0])


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["late", "eager"])
@pytest.mark.parametrize("kernel", SINCE)
def test_right_on_the_emulator(kernel: str, schedule: str) -> None:
    done = emulate(files.kernel(kernel), target=SINCE[kernel], schedule=schedule)
    assert done.ok and not done.stderr, done.stdout + done.stderr
    assert re.search("OK, exact on whole numbers", done.stdout)


@pytest.mark.nvcc
@pytest.mark.parametrize("name", MISTAKES)
def test_the_emulator_sees_the_mistake(name: str) -> None:
    kernel = MISTAKES[name][0]
    done = emulate(planted(name), "--seed", "10", target=SINCE[kernel], right=text(kernel))
    assert not done.stopped
    seen = "wrong result|out of bounds|outside|uninitialised|race|^phasebit: "
    assert re.search(seen, done.stderr, re.MULTILINE), done.stdout + done.stderr


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", SINCE)
def test_compiles_without_spills_or_warnings(kernel: str) -> None:
    built = targets.assemble(files.kernel(kernel), SINCE[kernel], "sm_90a")
    assert built.warnings == ""
    assert not any(use.spills for use in built.resources)


@pytest.mark.gpu
@pytest.mark.skipif(hardware.gpu() is None, reason="no NVIDIA GPU here")
@pytest.mark.parametrize("kernel", SINCE)
def test_right_on_the_gpu(kernel: str) -> None:
    built = toolchain.build(files.kernels() / f"{kernel}.cu")
    done = process.run([built.program], timeout=60)
    assert done.ok and "OK, exact" in done.stdout, done.stdout + done.stderr
