"""The programs of *Measuring honestly*: they compile everywhere, and no planted mistake passes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from phasebit import files, toolchain
from phasebit.edits import replace_once
from tests.kernels import targets
from tests.kernels.emulated import emulate

pytestmark = pytest.mark.nvcc

PROGRAMS = {
    "matvec": 2,
    "clocks": 1,
    "caches": 1,
    "roofline": 3,
    "empty": 1,
    "ceilings": 2,
    "gaps": 1,
}
"""Programs that run on the emulator, and the lines that each prints there."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiles_without_spills_or_warnings(name: str) -> None:
    build = targets.assemble(files.kernel(f"measuring/{name}"), "sm_75")
    assert build.warnings == ""
    assert not any(use.spills or use.shared for use in build.resources)


def test_the_program_of_cublas_compiles() -> None:
    assert toolchain.build(files.kernel("measuring/zeros"), target="sm_75").warnings == ""


def test_the_hopper_part_does_not_spill() -> None:
    build = targets.assemble(files.kernel("measuring/roofline"), "sm_90a")
    assert build.warnings == "" and not any(use.spills for use in build.resources)


@pytest.mark.parametrize("name", PROGRAMS)
def test_runs_on_the_emulator_and_prints_no_time(name: str) -> None:
    done = emulate(files.kernel(f"measuring/{name}"))
    assert done.ok and not done.stderr, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == PROGRAMS[name] and all(": OK" in line for line in lines), lines


@pytest.mark.parametrize("name", ["clocks", "caches", "roofline", "empty", "ceilings", "gaps"])
def test_the_emulator_has_no_times_to_keep(name: str, tmp_path: Path) -> None:
    done = emulate(files.kernel(f"measuring/{name}"), "--json", f"{tmp_path}/t")
    assert done.status == 1 and "the emulator has none" in done.stderr
    assert not list(tmp_path.iterdir())


MISTAKES = {
    "a column is left out": ("matvec", "k < K;", "k < K - 1;"),
    "only whole groups of lanes": ("matvec", "k < K;", "k < K / 32 * 32;"),
    "the last row is not written": ("matvec", "row >= M", "row >= M - 1"),
    "a lane's sum is lost": ("matvec", "step > 0", "step > 1"),
    "sums in bf16": (
        "matvec",
        "    for (int step",
        "    sum = float(__nv_bfloat16(sum));\n    for (int step",
    ),
    "a row is not a number": ("matvec", "= sum;", "= sum / row * row;"),
    "a quarter is not copied": ("roofline", "j < 4; ++j)\n        if (first + j * THREADS < "
                                "count) to[", "j < 3; ++j)\n        if (first + j * THREADS < "
                                "count) to["),
    "the rest is not copied": ("roofline", "+ THREADS * 4 - 1)", ")"),
    "a multiply-add is left out": (
        "roofline",
        "int i = 0; i < steps; ++i)\n        for (int j = 0; j < CHAINS",
        "int i = 1; i < steps; ++i)\n        for (int j = 0; j < CHAINS",
    ),
    "a tile is multiplied once too often": (
        "roofline",
        "i < steps; ++i)\n        for (auto",
        "i <= steps; ++i)\n        for (auto",
    ),
    "a word is not read": ("ceilings", "for (const uint4& each : held) own += each.x + each.y + "
                                       "each.z + each.w;",
                           "for (const uint4& each : held) own += each.x + each.y + each.z;"),
    "the last block is not read": ("ceilings", "+ THREADS * 4 - 1)", ")"),
    "a sum is lost on its way": ("ceilings", "step > 0", "step > 1"),
    "a pair of tiles is multiplied twice": ("ceilings", "b[(i + j) % TILES], c[j]", "b[j], c[j]"),
    "a round is left out": ("ceilings", "int round = 0;", "int round = 1;"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_seen(name: str) -> None:
    kernel, right, wrong = MISTAKES[name]
    text = files.kernel(f"measuring/{kernel}")
    done = emulate(replace_once(text, right, wrong), right=text)
    assert not done.ok and re.search("wrong result", done.stderr), done.stdout + done.stderr
