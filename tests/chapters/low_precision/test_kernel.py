"""The kernels of *Low precision, block by block*: right, and each slip found.

No GPU that it is for was at hand.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from phasebit import files, process, toolchain
from phasebit.chapters.low_precision import mixed, nvfp4
from phasebit.chapters.low_precision.block_scale_slips import SLIPS
from phasebit.edits import replace_once
from phasebit.emulator import EmulatorError

pytestmark = pytest.mark.nvcc


def judge(
    kernel: str, shape: tuple[int, int, int], schedule: str = "late", *change: str
) -> str:
    m, n, k = shape
    form, text = nvfp4.format_of(kernel), nvfp4.source(kernel)
    a, b = nvfp4.plain(m, k, m, form), nvfp4.plain(n, k, n + 1, form)
    if change:
        text = replace_once(text, *change)
    try:
        run, c = nvfp4.multiply(a, b, text, schedule=schedule)
    except EmulatorError as error:
        return "\n".join([str(error), *map(str, error.findings)])
    exact = np.array_equal(c, a.values() @ b.values().T)
    return "\n".join([*map(str, run.findings), *["WRONG"] * (not exact)])


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("shape", [(128, 128, 256), (130, 300, 1088), (1, 1, 32)])
@pytest.mark.parametrize("kernel", nvfp4.KERNELS)
def test_it_is_right_without_a_finding(
    kernel: str, shape: tuple[int, int, int], schedule: str
) -> None:
    assert judge(kernel, shape, schedule) == ""


SHAPES = {
    nvfp4.ALONE: (130, 40, 1088),
    nvfp4.PAIR: (300, 130, 544),
    nvfp4.TWO_SUMS: (300, 500, 544),
    nvfp4.POWERS: (130, 40, 1088),
    nvfp4.PAIRS_STAY: (300, 500, 544),
}
"""On which a kernel's slips are tried: ragged; of blocks that stay, three tiles each."""


@pytest.mark.parametrize(
    ("kernel", "name"), [(kernel, name) for kernel, slips in SLIPS.items() for name in slips]
)
def test_every_slip_is_found(kernel: str, name: str) -> None:
    old, new, says = SLIPS[kernel][name]
    if kernel == mixed.NAME:
        said = judge_mixed(replace_once(files.kernel(mixed.KERNEL), old, new), "late")
    else:
        said = judge(kernel, SHAPES[kernel], "late", old, new)
    assert re.search(says, said), said


def judge_mixed(text: str, schedule: str, of: tuple[str, str] = ("e4m3", "e2m1")) -> str:
    a, b = mixed.plain(130, 256, of[0], 1), mixed.plain(40, 256, of[1], 2)
    try:
        run, c = mixed.multiply(a, b, text, schedule=schedule)
    except EmulatorError as error:
        return "\n".join([str(error), *map(str, error.findings)])
    exact = np.array_equal(c, a.values() @ b.values().T)
    return "\n".join([*map(str, run.findings), *["WRONG"] * (not exact)])


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("of", [("e4m3", "e2m1"), ("e2m1", "e5m2"), ("e2m3", "e3m2")])
def test_two_formats_are_multiplied_exactly(of: tuple[str, str], schedule: str) -> None:
    assert judge_mixed("", schedule, of) == ""


def test_a_k_that_the_unpacking_copy_cannot_take_is_refused() -> None:
    with pytest.raises(ValueError, match="multiple of 128"):
        mixed.multiply(mixed.plain(1, 96, "e4m3", 1), mixed.plain(1, 96, "e4m3", 2))


@pytest.mark.parametrize("kernel", [*nvfp4.KERNELS, mixed.NAME])
def test_the_file_holds_one_idea(kernel: str) -> None:
    lines = files.kernel(f"low_precision/{kernel}").splitlines()
    assert lines[0].startswith("// ") and len(lines) <= 200 and max(map(len, lines)) <= 100


@pytest.mark.parametrize("kernel", [*nvfp4.KERNELS, mixed.NAME])
def test_ptxas_takes_it_without_a_warning(kernel: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel.cu"
    path.write_text(nvfp4.source(kernel))
    strict = ["-Xptxas", "-warn-spills,-Werror", "-Werror", "all-warnings"]
    command = toolchain.nvcc_command("cubin", "sm_100a", options=strict)
    done = process.run([*command, path, "-o", tmp_path / "kernel.cubin"], timeout=120)
    assert done.ok and not done.stderr, done.stderr


def test_a_k_whose_rows_are_not_aligned_is_refused() -> None:
    with pytest.raises(ValueError, match="multiple of 32"):
        nvfp4.multiply(nvfp4.plain(1, 48, 1), nvfp4.plain(1, 48, 2))
