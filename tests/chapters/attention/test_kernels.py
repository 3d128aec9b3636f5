"""The kernels of *Attention*: right on the emulator under every schedule, every slip judged."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from phasebit import process, toolchain
from phasebit.chapters.attention import attend, mistaken, rungs
from phasebit.edits import replace_once
from phasebit.emulator import Schedule

LEAN, DEALT = attend.KERNELS[4:], attend.KERNELS[5:]
SCHEDULES = "eager", "late", "random"


@pytest.mark.parametrize("kernel", attend.KERNELS)
def test_a_kernel_file_holds_one_idea(kernel: str) -> None:
    lines = attend.source(kernel).splitlines()
    softmax = "lean_softmax" if kernel in LEAN else "attention"
    assert lines[0].startswith("// ") and f'#include "attention/{softmax}.cuh"' in lines
    assert len(lines) <= 300 and max(map(len, lines)) <= 100


@pytest.fixture(scope="module")
def programs() -> attend.Programs:
    """All kernels for heads of 64, compiled at once."""
    texts = {name: attend.source(name) for name in attend.KERNELS}
    return attend.Programs(texts, (64, False), (64, True))


@pytest.mark.nvcc
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("kernel", attend.KERNELS)
def test_right_under_every_schedule(
    programs: attend.Programs, kernel: str, schedule: Schedule, causal: bool
) -> None:
    """Ragged, more queries than keys, so that causal some see no key; heads that share K and V."""
    h = attend.heads(64, 140, 131, layers=2, sharing=2, seed=len(kernel))
    done = programs.attend(kernel, h, causal, schedule=schedule)
    assert not done.run.findings and done.error <= 1


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", attend.KERNELS)
def test_right_for_large_scores_and_many_tiles(programs: attend.Programs, kernel: str) -> None:
    h = attend.heads(64, 70, 530, spread=40)
    done = programs.attend(kernel, h, True, schedule="random", blocks=1)
    assert not done.run.findings and done.error <= 1


@pytest.mark.nvcc
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("kernel", DEALT)
def test_sequences_of_any_lengths(
    programs: attend.Programs, kernel: str, schedule: Schedule, causal: bool
) -> None:
    """Packed: without queries, without keys, more of either, a single token; shared heads."""
    sequences = [
        attend.heads(64, queries, keys, layers=2, sharing=2, seed=queries)
        for queries, keys in ((70, 40), (0, 30), (1, 0), (300, 300), (20, 130), (1, 1))
    ]
    done = programs.attend_packed(kernel, sequences, causal, schedule=schedule)
    assert not done.run.findings and done.error <= 1


@pytest.mark.nvcc
@pytest.mark.parametrize("causal", [False, True])
def test_no_sequence_sees_what_is_infinite_in_another(
    programs: attend.Programs, causal: bool
) -> None:
    sequences = [attend.heads(64, n, n, layers=2, seed=n) for n in (70, 90, 30)]
    for x in sequences[1][1:]:
        x[:] = np.inf
    done = programs.attend_packed(attend.DYNAMIC, sequences, causal)
    others = np.concatenate([done.o[:70], done.o[160:]])
    right = np.concatenate([attend.exact(sequences[i], causal)[0].swapaxes(0, 1) for i in (0, 2)])
    assert not done.run.findings and np.abs(others - right).max() < 0.05


@pytest.mark.nvcc
def test_what_lies_behind_a_sequence_must_be_cleared() -> None:
    cut = "const bool cut = all.packed() && rows < KEYS;"
    text = replace_once(attend.source(attend.DYNAMIC), cut, "const bool cut = false;")
    program = attend.Programs({"kernel": text}, (64, False))
    sequences = [attend.heads(64, n, n, layers=2, seed=n) for n in (70, 30)]
    sequences[1].v[:] = np.inf
    assert np.isnan(program.attend_packed("kernel", sequences).o[:70]).all()


@pytest.mark.nvcc
@pytest.mark.parametrize("blocks", [1, 3, 40])
@pytest.mark.parametrize("kernel", DEALT)
def test_any_number_of_blocks(programs: attend.Programs, kernel: str, blocks: int) -> None:
    """Also more blocks than there are tiles of the output."""
    h = attend.heads(64, 600, 90, layers=3)
    done = programs.attend(kernel, h, True, schedule="random", blocks=blocks)
    assert not done.run.findings and done.error <= 1


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", attend.KERNELS[1:])
def test_heads_of_128(kernel: str) -> None:
    programs = attend.Programs({kernel: attend.source(kernel)}, (128, True))
    done = programs.attend(kernel, attend.heads(128, 70, 200), True)
    assert not done.run.findings and done.error <= 1


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", attend.KERNELS)
def test_every_slip_is_found_or_silent_as_it_says(kernel: str) -> None:
    names = [name for name, slip in mistaken.SLIPS.items() if slip.kernel == kernel]
    assert names
    for name, said in mistaken.verdicts(names).items():
        says = mistaken.SLIPS[name].says
        assert re.search(says, said) if says else not said, f"{name}: {said}"


def test_enough_slips() -> None:
    assert len(mistaken.SLIPS) >= 30 and sum(not s.says for s in mistaken.SLIPS.values()) == 2


def test_variants_and_stamps_fit_the_kernels() -> None:
    for name in (*rungs.LADDER, *rungs.VARIANTS):
        assert rungs.text(name)
    for rung in rungs.STAMPED:
        assert rungs.stamped(rung).count("stamp(128") >= 3


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", attend.KERNELS)
def test_ptxas_takes_it_without_a_spill(kernel: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel.cu"
    path.write_text(attend.alone(attend.source(kernel), (128, True), (64, False)))
    strict = ["-Xptxas", "-warn-spills,-Werror"]
    command = toolchain.nvcc_command("cubin", "sm_90a", options=strict)
    done = process.run([*command, path, "-o", tmp_path / "kernel.cubin"], timeout=120)
    assert done.ok, done.stderr
    assert "serialized" not in done.stderr
