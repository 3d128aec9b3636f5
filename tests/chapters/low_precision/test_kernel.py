"""The NVFP4 kernel of *Low precision, block by block*: right, and each slip found.

No GPU that it is for was at hand.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from phasebit import process, toolchain
from phasebit.chapters.low_precision import nvfp4
from phasebit.edits import replace_once
from phasebit.emulator import EmulatorError

pytestmark = pytest.mark.nvcc
SLIPS = {
    "the scales of A are not copied": (
        "            ptx::tcgen05_cp_scales(a_scales + SCALES * step, from.a_scales[step]);\n", "",
        "scale|nobody has written"),
    "the bytes of the scales are not announced": (
        " + sizeof to.a_scales + sizeof to.b_scales", "", "a bulk copy writes it"),
    "the slice is not waited for": (
        "        ptx::mbarrier_wait(&s.full[slot], phase);\n", "", "a bulk copy writes it"),
    "the loader does not wait for an empty slot": (
        "        ptx::mbarrier_wait(&s.empty[slot], phase ^ 1);\n", "", "with 0 of 1 pending"),
    "the slot is never given back": (
        "        ptx::tcgen05_commit(&s.empty[slot]);  // numbers and scales have been read\n", "",
        "deadlock"),
    "the sum is not waited for": (
        "    ptx::mbarrier_wait(&s.done, 0);\n", "", "async|nobody has written"),
    "nobody says that the sum is there": ("    ptx::tcgen05_commit(&s.done);\n", "", "deadlock"),
    "each step has the first step's scales": ("from.b_scales[step]", "from.b_scales[0]", "WRONG"),
    "each step has the first step's numbers": ("a + 2 * step,", "a,", "WRONG"),
    "scales are said to be ue8m0": (
        "= ptx::tcgen05_nvfp4(TILE_M, TILE_N)", "= ptx::tcgen05_nvfp4(TILE_M, TILE_N) | 1 << 23",
        "WRONG"),
    "a scale factor id that 4X has not": (
        "= ptx::tcgen05_nvfp4(TILE_M, TILE_N)", "= ptx::tcgen05_nvfp4(TILE_M, TILE_N) | 1 << 29",
        "scale factor id of A"),
    "A and B exchange their scales": (
        "a_scales + SCALES * step, b_scales + SCALES * step,\n",
        "b_scales + SCALES * step, a_scales + SCALES * step,\n", "WRONG"),
    "the scales lie in the sum": (
        "sum + TILE_N + slot * 2", "sum + slot * 2", "WRONG|scale|race|async"),
    "too few columns are allocated": (
        "COLUMNS = 256", "COLUMNS = 128", "not allocated|allocated"),
    "the sum begins with what was there": (
        "slice + step > 0", "true", "nobody has written"),
}  # fmt: skip
"""What is replaced by what, and what must be said."""


def judge(text: str, shape: tuple[int, int, int], schedule: str = "late") -> str:
    m, n, k = shape
    a, b = nvfp4.plain(m, k, m), nvfp4.plain(n, k, n + 1)
    try:
        run, c = nvfp4.multiply(a, b, text, schedule=schedule)
    except EmulatorError as error:
        return "\n".join([str(error), *map(str, error.findings)])
    exact = np.array_equal(c, a.values() @ b.values().T)
    return "\n".join([*map(str, run.findings), *["WRONG"] * (not exact)])


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("shape", [(128, 128, 256), (130, 40, 1088), (1, 1, 32)])
@pytest.mark.parametrize("kernel", nvfp4.KERNELS)
def test_it_is_right_without_a_finding(
    kernel: str, shape: tuple[int, int, int], schedule: str
) -> None:
    assert judge(nvfp4.source(kernel), shape, schedule) == ""


PAIRED = {
    "both blocks announce": (
        "        if (rank == 0)  // for both blocks\n",
        "",
        "too many announced",
    ),
    "one block's bytes are announced": (
        "PAIR * (sizeof to.a + sizeof to.b +",
        "(sizeof to.a + sizeof to.b +",
        "deadlock",
    ),
    "the second block is not told of the sum": ("(&s.done, BOTH)", "(&s.done, 1)", "deadlock"),
    "scales of the first half of B for both": (
        "from.b_scales[half][step]",
        "from.b_scales[0][step]",
        "WRONG",
    ),
    "each block has the first block's scales of A": (
        "a_tile * slices * STEPS + first",
        "(a_tile - rank) * slices * STEPS + first",
        "WRONG",
    ),
    "the halves of B's scales lie one behind the other": (
        "b_scales + SCALES * (PAIR * step + half)",
        "b_scales + SCALES * (STEPS * half + step)",
        "WRONG",
    ),
}


@pytest.mark.parametrize("name", PAIRED)
def test_every_slip_of_the_pair_is_found(name: str) -> None:
    old, new, says = PAIRED[name]
    said = judge(replace_once(nvfp4.source(nvfp4.PAIR), old, new), (300, 130, 544))
    assert re.search(says, said), said


@pytest.mark.parametrize("name", SLIPS)
def test_every_slip_is_found(name: str) -> None:
    old, new, says = SLIPS[name]
    said = judge(replace_once(nvfp4.source(), old, new), (130, 40, 1088))
    assert re.search(says, said), said


@pytest.mark.parametrize("kernel", nvfp4.KERNELS)
def test_the_file_holds_one_idea(kernel: str) -> None:
    lines = nvfp4.source(kernel).splitlines()
    assert lines[0].startswith("// ") and len(lines) <= 200 and max(map(len, lines)) <= 100


@pytest.mark.parametrize("kernel", nvfp4.KERNELS)
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
