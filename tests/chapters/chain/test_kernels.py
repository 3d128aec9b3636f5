"""The kernels of *Four producers, four consumers*: right on the emulator, every slip found.

No GPU that they are for was at hand, so nothing here asks one.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from phasebit import process, toolchain
from phasebit.chapters.chain import kernels, slips, view
from phasebit.runtime import library

OK = "matmul: OK, exact on whole numbers, for whole tiles and ragged edges\n"


@pytest.mark.parametrize("kernel", (*kernels.KERNELS, *kernels.BESIDE))
def test_a_kernel_file_holds_one_idea(kernel: str) -> None:
    lines = kernels.source(kernel).splitlines()
    assert lines[0].startswith("// ") and '#include "exact_product.cuh"' in lines
    assert len(lines) <= 200 and max(map(len, lines)) <= 100


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", (*kernels.KERNELS, *kernels.BESIDE))
def test_right_on_the_emulator(kernel: str) -> None:
    """The whole program, over shapes of its harness; the schedules have a test below."""
    program = toolchain.build(
        kernels.source(kernel), target="sm_100a",
        runtime=library.for_linking(toolchain.nvcc().major),
    ).program  # fmt: skip
    command = [sys.executable, "-m", "phasebit", "run", "--schedule", "late", str(program)]
    done = process.run([*command, "--seed", "2"], timeout=300)
    assert done.ok and done.stdout == OK and not done.stderr, done.stdout + done.stderr


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("kernel", (*kernels.KERNELS, *kernels.BESIDE))
def test_every_schedule_gives_the_same_and_no_finding(kernel: str, schedule: str) -> None:
    shape = slips.SHAPES[kernel]
    assert slips.judge(kernels.source(kernel), shape, schedule) == ""


@pytest.mark.nvcc
@pytest.mark.parametrize("name", slips.SLIPS)
def test_every_slip_is_found(name: str) -> None:
    slip = slips.SLIPS[name]
    assert re.search(slip.says, slips.verdict(slip)), slips.verdict(slip)


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["eager", "random"])
def test_launch_control_gives_every_tile_to_one_block(schedule: str) -> None:
    source = kernels.source(kernels.LAUNCH_CONTROL)
    with kernels.watching() as log:
        run, exact = kernels.multiply(source, 700, 256, 64, schedule=schedule)
    made = view.tiles_of_blocks(source, log)
    assert exact and not run.findings and sum(made.values()) == 6
    assert max(made.values()) > 1  # somebody took another block's


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", (*kernels.KERNELS, *kernels.BESIDE))
def test_ptxas_takes_it_without_a_warning(kernel: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel.cu"
    path.write_text(kernels.source(kernel))
    strict = ["-Xptxas", "-warn-spills,-Werror", "-Werror", "all-warnings"]
    command = toolchain.nvcc_command("cubin", "sm_100a", options=strict)
    done = process.run([*command, path, "-o", tmp_path / "kernel.cubin"], timeout=120)
    assert done.ok and not done.stderr, done.stderr
