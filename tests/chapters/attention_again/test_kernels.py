"""The kernels of *Attention again*: right on the emulator, every slip found.

No GPU that they are for was at hand, so nothing here asks one.
"""

from __future__ import annotations

import re
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from phasebit import files, process, toolchain, two_widths
from phasebit.chapters.attention_again import attention_slips as slips
from phasebit.chapters.attention_again import cutlass_fmha, role_counts, view
from phasebit.chapters.attention_again import tensor_attention as kernels
from phasebit.chapters.attention_again.tensor_attention import Shape
from phasebit.edits import replace_once
from phasebit.instruments import cutlass_examples
from phasebit.instruments.executed import Counts
from phasebit.runtime import library
from phasebit.timeline import Span

OK = "attention: OK, within its error bound, full and causal, on ragged sequences\n"


def test_a_file_holds_one_idea() -> None:
    folder = files.kernels() / kernels.FOLDER
    for path in folder.glob("*.cu*"):
        lines = path.read_text("utf-8").splitlines()
        assert lines[0].startswith("// ") and len(lines) <= 200 and max(map(len, lines)) <= 100
    assert {path.stem for path in folder.glob("*.cu")} == set(kernels.KERNELS)


def test_a_whole_source_has_its_headers_and_no_host_code() -> None:
    text = kernels.source(kernels.POLYNOMIAL)
    assert "struct Tile" in text and "void soften(" in text and "int main" not in text
    assert '#include "attention_again/' not in text
    with pytest.raises(ValueError, match="no function harden"):
        kernels.function(text, "harden")


@pytest.mark.nvcc
def test_the_program_is_right_on_the_emulator() -> None:
    """With its harness, as a reader with a Blackwell would run it."""
    path = files.kernels() / kernels.FOLDER / f"{kernels.POLYNOMIAL}.cu"
    text = path.read_text("utf-8").replace("#include", "#define HEAD 64\n#include", 1)
    program = toolchain.build(
        text, target="sm_100a", runtime=library.for_linking(toolchain.nvcc().major)
    ).program
    command = [sys.executable, "-m", "phasebit", "run", "--schedule", "late", str(program)]
    done = process.run([*command, "--seed", "2"], timeout=300)
    assert done.ok and done.stdout == OK and not done.stderr, done.stdout + done.stderr


CASES = [
    (kernels.IN_ORDER, Shape(128, 200), "late"),
    (kernels.IN_ORDER, Shape(130, 190, heads=2, causal=True), "random"),
    (kernels.ROLES, Shape(200, 260, causal=True), "random"),
    (kernels.CORRECTION, Shape(256, 200, 128), "late"),
    (kernels.CORRECTION, Shape(300, 300, causal=True), "random"),
    (kernels.POLYNOMIAL, Shape(200, 330, causal=True), "late"),
    (kernels.POLYNOMIAL, Shape(200, 130, causal=True), "random"),
    (kernels.REGISTERS, Shape(200, 330, 128, causal=True), "late"),
    (kernels.REGISTERS, Shape(300, 300, heads=2, causal=True), "random"),
    (kernels.REGISTERS, Shape(200, 130, causal=True), "random"),
]  # (200, 130): 70 queries see no key


@pytest.mark.nvcc
@pytest.mark.parametrize(("name", "shape", "schedule"), CASES)
def test_within_the_bound_and_no_finding(name: str, shape: Shape, schedule: str) -> None:
    found = kernels.judged(shape, kernels.source(name), schedule=schedule, seed=5)
    assert found.findings == 0 and found.right, found


def test_the_bound_is_narrower_than_the_one_of_the_harness() -> None:
    shape = Shape(200, 333, 128)
    right = kernels.exact(kernels.draw(shape), shape.causal)
    most = kernels.bound(shape, right) / right.sizes
    assert most.min() > 2.0**-8 and most.max() < 2.0**-6


def test_a_result_outside_of_the_bound_is_told() -> None:
    shape = Shape(5, 7)
    data = kernels.draw(shape)
    right = kernels.exact(data, False)
    out = right.out.copy()
    assert kernels.off(shape, data, out) == 0
    out[3, 0, 5] += 1.01 * kernels.bound(shape, right)[3, 0, 5]
    assert kernels.off(shape, data, out) > 1
    out[3, 0, 5] = np.nan
    assert kernels.off(shape, data, out) == np.inf


@pytest.mark.nvcc
def test_the_threshold_decides_how_often_o_is_rescaled() -> None:
    shape = Shape(130, 256)
    text = kernels.source(kernels.POLYNOMIAL)
    made = {}
    for spread in 1.0, 12.0:
        data = kernels.draw(shape, 0, spread)
        for threshold in 0.0, 8.0:
            with view.watching() as log:
                run, out = kernels.attend(text, data, threshold=threshold)
            assert not run.findings and kernels.off(shape, data, out) <= 1
            made[spread, threshold], able = view.rescales(text, shape.depth, log, 2)
            assert able == 8
    assert made[1.0, 0.0] >= 4 and made[1.0, 8.0] == 0 and made[12.0, 8.0] >= 4


@pytest.mark.nvcc
def test_our_first_barrier_for_the_sum_fails_in_random_orders_only() -> None:
    from phasebit.emulator import EmulatorError

    shape = Shape(128, 128)
    data = kernels.draw(shape)
    for schedule in "eager", "late":
        run, out = kernels.attend(slips.ours(), data, schedule=schedule)
        assert not run.findings and kernels.off(shape, data, out) <= 1
    text = kernels.source(kernels.POLYNOMIAL)
    failed = 0
    for seed in range(3):
        run, out = kernels.attend(text, data, schedule="random", seed=seed)
        assert not run.findings and kernels.off(shape, data, out) <= 1
        try:
            kernels.attend(slips.ours(), data, schedule="random", seed=seed)
        except EmulatorError as error:
            assert error.rule == "deadlock" and error.findings[0].rule == "mbarrier-phase-unseen"
            failed += 1
    assert failed
    said = slips.ours_in_many_orders().splitlines()
    fine = "within the bound: True, findings: 0"
    assert said[:2] == [f"eager: {fine}", f"late: {fine}"]
    assert said[2].endswith("True") and "nobody has seen" in " ".join(said[3:])


@pytest.mark.nvcc
@pytest.mark.parametrize("first", range(0, len(slips.SLIPS), 3))
def test_every_slip_is_found(first: int) -> None:
    """Three are compiled together; those that break no rule by the result."""
    for name, said in slips.verdicts([*slips.SLIPS][first : first + 3]).items():
        assert re.search(slips.SLIPS[name].says, said.all), (name, said)


@pytest.mark.nvcc
def test_the_timeline_names_who_overlaps() -> None:
    text = kernels.source(kernels.POLYNOMIAL)
    shape = Shape(130, 250)
    with view.watching() as log:
        run, _ = kernels.attend(text, kernels.draw(shape), schedule="eager")
    said = view.timeline(text, shape.depth, log).alt.splitlines()
    assert said[1] == "row loader, from left to right: K, V, K, V"
    assert said[2].startswith("row tensor core, from left to right: tile 0 step 0, tile 1 step 0")
    assert said[6].endswith("tile 0 of O leaves, tile 1 of O leaves")
    assert said[8] == (
        "softmax 0 makes the weights of step 1, while tensor core has step 0 of tile 1 "
        "and softmax 1 has step 1 of tile 1"
    )
    counted = view.instructions(text, run)
    assert list(counted) == ["loader", "multiplier", "softmax 0", "softmax 1", "correction",
                             "storer"]  # fmt: skip
    whole = run.counters["smsp__inst_executed.sum"]
    assert 0.98 * whole < sum(counted.values()) <= whole


def test_a_slip_that_no_longer_fits_is_refused() -> None:
    with pytest.raises(ValueError, match="nowhere"):
        replace_once(kernels.source(kernels.IN_ORDER), "no such line", "")


@pytest.mark.nvcc
def test_the_recorded_counts_are_those_of_the_last_kernel() -> None:
    """Instructions depend on the compiler; the others do not."""
    now, then = role_counts.ours(), Counts(**role_counts.recorded()["ours"])
    assert now.products == 2 * 4 * (8 + 8) and now.columns == 512 and now.barriers == 20
    for what in "products", "columns", "copied", "fetched", "stored", "barriers":
        assert getattr(now, what) == getattr(then, what), what
    for role, number in then.instructions.items():
        assert 0.8 * number < now.instructions[role] < 1.25 * number, role


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="give a checkout of NVIDIA/cutlass"):
        cutlass_examples.module(tmp_path, cutlass_fmha.FILE)


@pytest.mark.nvcc
def test_weights_come_behind_scores_in_half_of_a_slot() -> None:
    """P lies in 64 of 128 columns, and no column holds two things at once."""
    text = kernels.source(kernels.ROLES)
    with view.watching() as log:
        kernels.attend(text, kernels.draw(Shape(256, 400)), schedule="eager", check=False)
    held = view.held(text, 64, log)
    for first in range(0, 256, 32):
        mine = sorted(each for each in held if each.first == first)
        assert all(before.end <= after.begin for before, after in pairwise(mine))
        upper = first % 128 < 64
        assert [each.what for each in mine] == (["S", "P", "core"] if upper else ["S"]) * 4
    drawn = view.slots(text, 64, log)
    assert f'width="{two_widths.NARROW:.0f}"' in drawn.narrow[:200], "it fits a phone"
    said = drawn.alt.splitlines()
    assert said[1].startswith("row tile 0, columns from 0, from left to right: S 0, nothing, P 0")
    assert said[3].endswith("S 0, nothing, S 1, nothing, S 2, nothing, S 3")


@pytest.mark.nvcc
def test_roles_tell_each_other_what_the_kernel_says() -> None:
    text = kernels.source(kernels.POLYNOMIAL)
    with view.watching() as log:
        kernels.attend(text, kernels.draw(Shape(130, 250)), schedule="eager", check=False)
    drawn = view.who_tells_whom(text, 64, log)
    assert sorted(re.sub(r" warps? [\d–]+", "", drawn.alt).splitlines()[1:]) == [
        "correction → multiplier: ready",
        "correction → storer: out_full",
        "loader → multiplier: q_full, kv_full",
        "multiplier → correction: o_full",
        "multiplier → loader: kv_empty",
        "multiplier → softmax: s_full",
        "softmax → correction: factor_full, sum_full",
        "softmax → multiplier: ready",
    ]
    boxes, narrow = drawn.svg.count("<rect"), drawn.narrow.count("<rect")
    assert (boxes, narrow) == (5, 16)


def test_a_span_too_short_to_be_seen_takes_room_from_the_one_before() -> None:
    spans = [Span("core", 0, 1, "copy"), Span("core", 500, 900, "produce"),
             Span("core", 900, 901, "copy"), Span("core", 901, 1000, "consume"),
             Span("group", 0, 1000, "produce")]  # fmt: skip
    drawn = view._visible(spans)
    assert [(s.start, s.end) for s in drawn] == [
        (0, 8), (500, 893), (893, 901), (901, 1000), (0, 1000)]  # fmt: skip
