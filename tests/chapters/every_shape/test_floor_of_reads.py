"""What only reads weights reads all of them; and the changed kernels beside it are right."""

from __future__ import annotations

import pytest

from phasebit.chapters.every_shape import few_rows, floor_of_reads, floor_texts, on_emulator, plans
from phasebit.chapters.every_shape.plans import SHARED, Plan
from phasebit.chapters.every_shape.shapes import Shape
from tests.kernels.emulated import emulate

N, K = 128, 512
_PLAN = Plan(plans.FEW, 1, 16, 3)
_MAIN = """
#include <vector>
int main() {{
    const int rows = {n}, cols = {k}, words = rows * cols / 2;
    std::vector<unsigned> host(words);
    unsigned state = 1, right = 0, *sum;
    for (unsigned& word : host) word = state = state * 1664525u + 1013904223u, right += word;
    unsigned half = 0;
    for (int i = 0; i < words / 2; ++i) half += host[i];
    bf16* matrix;
    CHECK(cudaMalloc(&matrix, words * 4));
    CHECK(cudaMalloc(&sum, 4));
    CHECK(cudaMemcpy(matrix, host.data(), words * 4, cudaMemcpyHostToDevice));
    const Way ways[] = {{{ways}}};
    const unsigned wanted[] = {{{wanted}}};
    for (int i = 0; i < int(sizeof ways / sizeof *ways); ++i) {{
        unsigned seen;
        CHECK(cudaMemset(sum, 0, 4));
        read_all(matrix, rows, cols, &ways[i], 1, sum, 0);
        CHECK(cudaMemcpy(&seen, sum, 4, cudaMemcpyDeviceToHost));
        printf("%d: %s\\n", i, seen == wanted[i] ? "right" : "WRONG");
        read_all(matrix, rows, cols, &ways[i], 0, sum, 0);
        CHECK(cudaDeviceSynchronize());
    }}
}}
"""


def _small() -> dict[str, floor_texts.Way]:
    """All ways, at a size for the emulator: three multiprocessors."""
    return floor_texts.ways(Shape(16, N, K), _PLAN, 3)


@pytest.mark.nvcc
def test_all_is_read_once() -> None:
    ways = _small()
    wanted = {floor_texts.HALF: "half", floor_texts.NOTHING: "0"}
    text = floor_texts.READ + _MAIN.format(
        n=N, k=K, ways=", ".join("{" + ", ".join(map(str, w.numbers)) + "}" for w in ways.values()),
        wanted=", ".join(wanted.get(name, "right") for name in ways),
    )  # fmt: skip
    done = emulate(text)
    assert done.ok and not done.stderr, done.stdout + done.stderr
    assert done.stdout == "".join(f"{i}: right\n" for i in range(len(ways)))


@pytest.mark.parametrize("shape", few_rows.PLANS)
def test_the_ways_fit_the_shapes(shape: Shape) -> None:
    for name, way in floor_texts.ways(shape, few_rows.PLANS[shape], 132).items():
        if way.slots == 0 or name == floor_texts.NOTHING:
            continue
        assert way.slots * way.bytes <= SHARED - 1024 and way.slots <= 32, name
        part = 2 if name == floor_texts.HALF else 1
        assert way.pieces * way.bytes * part == shape.n * shape.k * 2, name
        assert way.bytes % 1024 == 0 or way.cols > 64, name
    assert shape.n * shape.k * 2 % 32768 == 0
    two = floor_of_reads._NARROW[shape]
    assert two.slots * two.slot <= (SHARED - 1024) // 2 - 2048


@pytest.mark.nvcc
@pytest.mark.parametrize(("groups", "schedule"), [(2, "eager"), (4, "late")])
def test_boxes_of_two_steps_are_right(groups: int, schedule: str) -> None:
    done = emulate(floor_texts.wide(groups, 2), "10", "136", "384", schedule=schedule)
    assert done.ok and not done.stderr, done.stdout + done.stderr


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("kernel", "promotion"), [(plans.FEW, "L2_128B"), (plans.WEIGHTS, "L2_256B")]
)
def test_whole_lines_change_nothing(kernel: str, promotion: str) -> None:
    done = emulate(floor_texts.promoted(Plan(kernel, 1, 16, 2), promotion), "10", "64", "328")
    assert done.ok and not done.stderr, done.stdout + done.stderr


@pytest.mark.nvcc
def test_fewer_rows_than_a_slot_has_are_right() -> None:
    done = emulate(floor_texts.fewer_rows(Plan(plans.FEW, 1, 16, 2), 56), "10", "136", "328")
    assert done.ok and not done.stderr, done.stdout + done.stderr


@pytest.mark.nvcc
def test_tiles_of_fewer_rows_are_right() -> None:
    for plan in (Plan(plans.FEW, 1, 16, 3), Plan(plans.WEIGHTS, 1, 48, 2)):
        done = on_emulator.multiply(plan.text, 10, 64 if plan.swapped else 120, 328)
        assert done.exact and not done.run.findings, done.run.findings
