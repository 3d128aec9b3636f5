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


@pytest.mark.parametrize("kernel", kernels.EVERY)
def test_a_kernel_file_holds_one_idea(kernel: str) -> None:
    lines = kernels.source(kernel).splitlines()
    assert lines[0].startswith("// ") and '#include "exact_product.cuh"' in lines
    assert len(lines) <= 200 and max(map(len, lines)) <= 100


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", kernels.EVERY)
def test_right_on_the_emulator(kernel: str) -> None:
    """The whole program, over shapes of its harness; the schedules have a test below."""
    assert harness(kernel) == OK


@pytest.mark.nvcc
def test_right_on_the_emulator_with_c_in_bf16() -> None:
    assert harness(kernels.CHAIN, "-DC_BF16") == OK.replace("exact", "rounded once")


def harness(kernel: str, *options: str) -> str:
    """What a kernel's program prints, run on the emulator with every check."""
    program = toolchain.build(
        kernels.source(kernel), target="sm_100a", options=options,
        runtime=library.for_linking(toolchain.nvcc().major),
    ).program  # fmt: skip
    command = [sys.executable, "-m", "phasebit", "run", "--schedule", "late", str(program)]
    done = process.run([*command, "--seed", "2"], timeout=300)
    assert done.ok and not done.stderr, done.stdout + done.stderr
    return done.stdout


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("kernel", kernels.EVERY)
def test_every_schedule_gives_the_same_and_no_finding(kernel: str, schedule: str) -> None:
    shape = slips.SHAPES[kernel]
    assert slips.judge(kernels.source(kernel), shape, schedule) == ""


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("kernel", [k for k in kernels.EVERY if k not in kernels.RUNGS[:2]])
def test_c_in_bf16_is_the_sum_rounded_once(kernel: str, schedule: str) -> None:
    m, n, k = slips.SHAPES[kernel]
    run, exact = kernels.multiply(
        kernels.source(kernel), m, n + -n % 8, k, schedule=schedule, out="bf16"
    )
    assert exact and not run.findings


@pytest.mark.nvcc
@pytest.mark.parametrize("name", slips.SLIPS)
def test_every_slip_is_found(name: str) -> None:
    slip = slips.SLIPS[name]
    assert re.search(slip.says, slips.verdict(slip)), slips.verdict(slip)


@pytest.mark.nvcc
def test_each_slip_of_a_box_is_found_whatever_the_result() -> None:
    found = {row[0]: row[1:] for row in slips.of_a_box().rows}
    assert {kind for kind, _ in found.values()} == {"race", "async", "barrier"}
    assert found["the box leaves before the four warps have met"] == ("race", "right")
    assert found["a box is filled again before it is read"] == ("async", "wrong")


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["eager", "random"])
@pytest.mark.parametrize("name", slips.OF_A_BOX)
def test_no_slip_of_a_box_hides_in_an_order(name: str, schedule: str) -> None:
    """Three blocks: in one order they run together and part at each meeting."""
    said = slips.verdict(slips.SLIPS[name], schedule)
    assert re.search(slips.SLIPS[name].says, said), said


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["eager", "random"])
@pytest.mark.parametrize(("kernel", "high"), [(kernels.LAUNCH_CONTROL, 128),
                                              (kernels.PAIR_CONTROL, 256)])  # fmt: skip
def test_launch_control_gives_every_tile_to_one_block(
    kernel: str, high: int, schedule: str
) -> None:
    source = kernels.source(kernel)
    with kernels.watching() as log:
        run, exact = kernels.multiply(source, 6 * high - 30, 256, 64, schedule=schedule)
    made = view.tiles_of_blocks(source, log)
    assert exact and not run.findings
    assert sum(made.values()) == 6 * kernels.Rings.of(source).blocks
    assert max(made.values()) > 1  # somebody took another block's


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", kernels.EVERY)
def test_ptxas_takes_it_without_a_warning(kernel: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel.cu"
    path.write_text(kernels.source(kernel))
    strict = ["-Xptxas", "-warn-spills,-Werror", "-Werror", "all-warnings"]
    command = toolchain.nvcc_command("cubin", "sm_100a", options=strict)
    done = process.run([*command, path, "-o", tmp_path / "kernel.cubin"], timeout=120)
    assert done.ok and not done.stderr, done.stderr
