"""What *Attention* runs to see what a group waits for: right on the emulator, and what it reads."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from phasebit import measure
from phasebit.chapters.attention import attend, controls_view, softmax_alone, waits
from phasebit.launching.launch import compile

PINNED = [name for name in waits.ORDERS if waits.PINNED in name]
WAITING = [f"waits {name}" for name in dict.fromkeys(each.kernel for each in waits.SLACKS)]
_HOLD = "int waits[8];", "int waits[8] = {60, 60, 60, 60, 0, 0, 0, 60};"


@pytest.fixture(scope="module")
def programs() -> attend.Programs:
    """What is pinned, and copies in which all wait and all places are marked."""
    texts = {name: waits.plain(name) for name in PINNED}
    for each in waits.SLACKS:
        texts[f"waits {each.kernel}"] = waits.waiting(each.kernel).replace(*_HOLD)
    texts["marks"] = waits.waiting(waits.IN_TURN, within=True)
    return attend.Programs(texts, (64, True))


@pytest.mark.nvcc
@pytest.mark.parametrize("name", [*PINNED, *WAITING, "marks"])
def test_right_and_without_findings(programs: attend.Programs, name: str) -> None:
    h = attend.heads(64, 130, 140, layers=2, seed=len(name))
    done = programs.attend(name, h, True, blocks=1)
    assert not done.run.findings and done.error <= 1


@pytest.fixture(scope="module")
def next_scores() -> attend.Programs:
    return attend.Programs({"kernel": attend.source(attend.NEXT)}, (64, True), (64, False))


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("causal", "queries", "keys"), [(True, 300, 300), (True, 150, 270), (False, 300, 131)]
)
def test_next_scores_before_the_store(
    next_scores: attend.Programs, causal: bool, queries: int, keys: int
) -> None:
    """Tiles that begin with hidden ones, and groups without queries."""
    h = attend.heads(64, queries, keys, layers=3)
    done = next_scores.attend("kernel", h, causal, blocks=1)
    assert not done.run.findings and done.error <= 1


@pytest.mark.nvcc
def test_next_scores_of_sequences_of_any_lengths(next_scores: attend.Programs) -> None:
    sequences = [attend.heads(64, n, n, layers=2, seed=n) for n in (70, 290, 30)]
    done = next_scores.attend_packed("kernel", sequences, True, blocks=1)
    assert not done.run.findings and done.error <= 1


@pytest.mark.nvcc
def test_the_softmax_alone_is_right() -> None:
    pairs = [(softmax_alone.ROLES.index(a), softmax_alone.ROLES.index(b))
             for a, b in softmax_alone.ALONE.values()]  # fmt: skip
    kernels = compile(softmax_alone.text().split('extern "C"')[0] + "\n".join(
        f"template __global__ void softmax_alone<{a}, {b}>(int, float, float*, long long*);"
        for a, b in pairs
    ))  # fmt: skip
    right = softmax_alone.first_sums(0.127)
    for roles in pairs:
        sums, cycles = np.zeros((1, 256, 4), np.float32), np.zeros((1, 2), np.int64)
        kernels[f"softmax_alone<{roles[0]}, {roles[1]}>"].launch(
            (1,), 256, [1, np.float32(0.127), sums, cycles], shared=80 * 1024
        )
        for group, role in enumerate(roles):
            mine = slice(128 * group, 128 * group + 128)
            if softmax_alone.ROLES[role] in ("SOFTMAX", "BESIDE"):
                assert np.allclose(sums[0, mine, :2], right[mine], rtol=1e-4)


def test_every_program_fits() -> None:
    for name, d in waits.SAMPLED:
        text = waits.program(name, d)
        assert "attention_harness" not in text and f"COLUMNS = {d};" in text


@pytest.mark.nvcc
@pytest.mark.skipif(shutil.which("nvdisasm") is None, reason="no nvdisasm on PATH")
def test_where_the_exponentials_stand() -> None:
    """ptxas moves them behind the wait for the output, unless a branch keeps them before it."""
    for name in (waits.C, waits.C + waits.PINNED, waits.BEFORE, waits.F + waits.PINNED):
        before, behind = waits.placed(name, 128)
        if name.endswith(waits.PINNED):
            assert before > 30 and behind == 0
        else:
            assert before < 10 and behind > 25


def test_sums_that_wrapped() -> None:
    assert waits.between([(1 << 64) - 5, 7], 0, 1) == 12
    assert waits.between([7, 5], 0, 1) == -2


@pytest.mark.parametrize("kernel", [waits.C, waits.F])
def test_the_table_of_orders_names_each_once_and_has_numbers_alone(kernel: str) -> None:
    """A unit in the first row's cells, or the kernel's name in each row, did not fit a phone."""
    names = [kernel, *(name for name in PINNED if name.startswith(kernel))]
    found = controls_view.orders(measure.read("attention_waits"), names)
    said = [row[0] for row in found.rows]
    assert said[0] == kernel and len({*said}) == 3
    assert not any(name.startswith(kernel) for name in said[1:])
    assert all(float(cell) > 0 for row in found.rows for cell in row[2:])
    assert "the first row: TFLOP/s" in str(found)
