"""The kernels of *Past the vendor*: right under every schedule, every slip found."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from phasebit import files, hardware, process, toolchain
from phasebit.chapters.every_shape import (
    narrower,
    on_emulator,
    plans,
    row_ends,
    shape_slips,
    tries,
)
from phasebit.chapters.every_shape.choice import BY_WARPS
from phasebit.chapters.every_shape.plans import Plan
from phasebit.chapters.every_shape.shapes import Shape
from phasebit.chapters.every_shape.shares import Walk
from phasebit.edits import replace_once
from tests.kernels import targets
from tests.kernels.emulated import emulate

HARNESS = '#include "every_shape/harness.cuh"'

SMALL = {
    plans.SMALL: (Plan(plans.SMALL, 2, 32, 3), (130, 40, 264)),
    plans.EARLY: (Plan(plans.EARLY, 1, 32, 3), (70, 40, 264)),
    plans.WEIGHTS: (Plan(plans.WEIGHTS, 1, 16, 3), (20, 40, 136)),
    plans.FEW: (Plan(plans.FEW, 1, 16, 3), (20, 72, 264)),
    plans.PAIRS: (Plan(plans.PAIRS, 1, 48, 2, pair=2), (140, 104, 136)),
    plans.STREAM: (Plan(plans.STREAM, 1, 16, 2, waves=2), (64, 48, 264)),
    plans.PING_PONG: (Plan(plans.PING_PONG, 1, 16, 3, pair=2, waves=1), (256, 48, 264)),
    plans.SPLIT_K: (Plan(plans.SPLIT_K, 1, 32, 2, split=2), (70, 72, 264)),
    plans.BY_WARPS: (Plan(plans.BY_WARPS, 1, 96, 3, tail=2), (70, 104, 264)),
}
"""A plan small enough for the emulator, and a ragged shape, of each kernel but ``g_any.cu``."""

FURTHER = {
    "a box for a warp, four parts": (
        Plan(plans.STREAM, 1, 64, 4, waves=2, boxes=1), (64, 192, 264)),
    "parts left when a tile ends": (
        Plan(plans.PAIRS, 1, 96, 2, pair=2, boxes=1), (256, 192, 64)),
    "a part that is not full": (Plan(plans.PAIRS, 1, 48, 2, boxes=2), (130, 96, 136)),
    "ping-pong of 128 rows": (Plan(plans.PING_PONG, 2, 32, 3, pair=2), (300, 72, 136)),
    "ping-pong over pieces": (Plan(plans.PING_PONG, 1, 16, 3, waves=2), (64, 48, 264)),
    "K by four, fewer steps than blocks": (
        Plan(plans.SPLIT_K, 1, 64, 2, split=4), (10, 72, 136)),
    "by warps, all columns at once": (Plan(plans.BY_WARPS, 1, 32, 3), (70, 40, 264)),
    "by warps in parts, fewer steps than a part has": (
        Plan(plans.BY_WARPS, 2, 80, 3, tail=2), (130, 88, 40)),
    "by warps, room for 32 columns": (Plan(plans.BY_WARPS, 2, 112, 7, tail=1), (130, 136, 520)),
    "both transposed": (Plan(plans.PAIRS, 1, 128, 2, pair=2, across="AB"), (136, 200, 100)),
    "A transposed": (Plan(plans.PAIRS, 2, 64, 2, across="A"), (136, 72, 136)),
    "B transposed, ping-pong": (
        Plan(plans.PING_PONG, 1, 128, 2, pair=2, across="B"), (140, 136, 136)),
}  # fmt: skip
"""What else a plan can say, each tried once."""


def test_the_folder_holds_these_kernels() -> None:
    found = sorted(path.stem for path in (files.kernels() / "every_shape").glob("*.cu"))
    assert found == sorted(plans.KERNELS)


@pytest.mark.parametrize("kernel", plans.KERNELS)
def test_a_file_holds_one_idea(kernel: str) -> None:
    lines = plans.source(kernel).splitlines()
    assert lines[0].startswith("// ") and lines[-1] == HARNESS
    assert len(lines) <= 200 and max(map(len, lines)) <= 100


@functools.cache
def assembled() -> dict[str, targets.Assembled]:
    # Two headers are made for the constants that stand before them.
    texts = {each: shape_slips.whole(plans.source(each).replace(HARNESS, ""), ("stream_k", "pairs"))
             for each in SMALL}  # fmt: skip
    return targets.assemble_each(texts, "sm_90a")


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", SMALL)
def test_compiles_without_spills_or_warnings(kernel: str) -> None:
    built = assembled()[kernel]
    assert built.warnings == ""  # ptxas warns of multiplications that it must not overlap
    assert built.resources and not any(use.spills for use in built.resources)


@pytest.mark.nvcc
def test_no_plan_by_warps_has_products_that_wait_for_each_other() -> None:
    """Whether ptxas overlaps them depends on the constants."""
    found = list({each.text for shape in BY_WARPS for each in BY_WARPS[shape]})
    texts = {f"plan{i}": text.replace(HARNESS, "") for i, text in enumerate(found)}
    for name, built in targets.assemble_each(texts, "sm_90a").items():
        assert built.warnings == "", texts[name]
        assert not any(use.spills for use in built.resources), texts[name]


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("kernel", SMALL)
def test_right_under_every_schedule(kernel: str, schedule: str) -> None:
    plan, shape = SMALL[kernel]
    assert shape_slips.judge(plan.text, shape, schedule) == ""


@pytest.mark.nvcc
@pytest.mark.parametrize("what", FURTHER)
def test_what_else_a_plan_says_is_right(what: str) -> None:
    plan, shape = FURTHER[what]
    assert shape_slips.judge(plan.text, shape) == ""


@pytest.mark.nvcc
def test_tiles_of_240_columns_are_right() -> None:
    """No plan of the chapter has them; another record does."""
    assert shape_slips.judge(narrower.NARROWER.text, (300, 496, 72), "late") == ""
    head = row_ends.text(narrower.NARROWER, "L2_256B").partition(narrower.NARROWER.text)[0]
    none = "CU_TENSOR_MAP_L2_PROMOTION_NONE"
    assert head.endswith(f"#define {none} {none.replace('NONE', 'L2_256B')}\n")


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", [
    plans.EARLY, plans.ANY, plans.PING_PONG, plans.SPLIT_K, plans.BY_WARPS])  # fmt: skip
def test_the_whole_program_is_right(kernel: str) -> None:
    """Tiny and ragged shapes, infinities, NaN, three launches in flight, early ones."""
    groups = "HALVES" if kernel == plans.PING_PONG else "GROUPS"
    text = plans.with_constants(plans.source(kernel), **{groups: 1, "BN": 32, "SLOTS": 3})
    done = emulate(text)  # another seed in each run
    assert done.ok and not done.stderr, done.stdout + done.stderr
    assert len(re.findall("^product: OK", done.stdout, re.MULTILINE)) == 3


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ("    ptx::griddepcontrol_wait();               // the launch before has ended\n", "",
         "griddepcontrol.wait"),
        ("beta == 0 ? x : x + beta * float(to)", "x + beta * float(to)", "wrong result: .* is nan"),
        ("const int wide = over(p.K, 8) * 8;", "const int wide = p.K;",
         "multiple of 16|refuses"),
    ],
)  # fmt: skip
def test_a_slip_of_the_whole_program_is_found(right: str, wrong: str, says: str) -> None:
    text = plans.with_constants(plans.source(plans.ANY), GROUPS=1, BN=32, SLOTS=2)
    done = emulate(replace_once(text, right, wrong), "--seed", "1")
    assert re.search(says, done.stdout + done.stderr), done.stdout + done.stderr[:2000]


@pytest.mark.nvcc
@pytest.mark.parametrize("name", shape_slips.SLIPS)
def test_every_slip_is_found(name: str) -> None:
    slip = shape_slips.SLIPS[name]
    assert re.search(slip.says, shape_slips.verdict(slip)), shape_slips.verdict(slip)[:2000]


@pytest.mark.nvcc
def test_four_blocks_share_as_two_do() -> None:
    plan = Plan(plans.PAIRS, 1, 64, 2, pair=4)
    assert shape_slips.judge(plan.text, (300, 72, 72)) == ""


@pytest.mark.nvcc
def test_blocks_walk_as_python_does() -> None:
    plan = SMALL[plans.STREAM][0]
    for shape, workers in (((64, 48, 264), 2), ((64, 32, 456), 7), ((192, 48, 72), 2)):
        done = on_emulator.multiply(plan.text, *shape, workers=workers)
        walk = Walk.stream(plan.tiles(Shape(*shape)), plan.steps(Shape(*shape)), workers)
        assert done.exact and done.clean
        assert done.steps == {w: walk.length(w) for w in range(walk.workers)}


def test_every_try_fits_its_kernel() -> None:
    for each in tries.TRIES.values():
        assert each.text
    assert len({tries.part(name) for name in tries.PARTS}) == len(tries.PARTS)


@pytest.mark.gpu
@pytest.mark.skipif(hardware.gpu() is None, reason="no NVIDIA GPU")
@pytest.mark.parametrize("kernel", plans.KERNELS)
def test_right_on_the_gpu(kernel: str, tmp_path: Path) -> None:
    program = toolchain.build(plans.source(kernel), target="sm_90a").program
    for _ in range(3):  # what is tried is drawn anew
        done = process.run([program], timeout=60)
        assert done.ok and not done.stderr, done.stdout + done.stderr
