"""The kernels of *Attention*: right on the emulator under every schedule, every slip judged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from phasebit import process, toolchain
from phasebit.chapters.attention import attend, mistaken, rungs

SCHEDULES = "eager", "late", "random"


@pytest.mark.parametrize("kernel", attend.KERNELS)
def test_a_kernel_file_holds_one_idea(kernel: str) -> None:
    lines = attend.source(kernel).splitlines()
    assert lines[0].startswith("// ") and '#include "attention/attention.cuh"' in lines
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
    programs: attend.Programs, kernel: str, schedule: str, causal: bool
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
def test_heads_of_128() -> None:
    texts = {name: attend.source(name) for name in attend.KERNELS[1:]}
    programs = attend.Programs(texts, (128, True))
    for name in texts:
        done = programs.attend(name, attend.heads(128, 70, 200), True)
        assert not done.run.findings and done.error <= 1, name


@pytest.mark.nvcc
def test_every_slip_is_found_or_silent_as_it_says() -> None:
    for name, said in mistaken.verdicts(mistaken.SLIPS).items():
        says = mistaken.SLIPS[name].says
        assert re.search(says, said) if says else not said, f"{name}: {said}"


def test_enough_slips() -> None:
    assert len(mistaken.SLIPS) >= 16 and sum(not s.says for s in mistaken.SLIPS.values()) == 2


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
