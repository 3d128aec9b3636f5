"""The products of *The ring at full width*: right under every schedule, and well watched."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from phasebit import files, hardware, process, toolchain
from phasebit.chapters.hopper_ring import pays
from phasebit.edits import replace_once
from tests.kernels import targets
from tests.kernels.emulated import emulate
from tests.kernels.mistakes import HOPPER, planted, source

HARNESS = '#include "hopper_ring/product_harness.cuh"'
KERNELS = [
    name
    for name in files.kernel_names(".cu")
    if name.startswith("hopper_ring/") and HARNESS in files.kernel(name)
]
DESCRIPTION = "ptx::descriptor_128B(stage.b)"
SWIZZLE = "p.N, p.K, BN, BK, CU_TENSOR_MAP_SWIZZLE_128B"


def test_each_file_holds_one_idea() -> None:
    assert len(KERNELS) == 5
    for kernel in KERNELS:
        lines = source(kernel).splitlines()
        assert lines[0].startswith("// ") and lines[-1] == HARNESS
        assert len(lines) <= 200 and max(map(len, lines)) <= 100


def space(kernel: str) -> str:
    """What a kernel's namespace is called."""
    return f"kernel_{Path(kernel).name}"


@functools.cache
def assembled() -> dict[str, targets.Assembled]:
    texts = {space(each): source(each).replace(HARNESS, "") for each in KERNELS}
    return targets.assemble_each(texts, "sm_90a")


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", KERNELS)
def test_compiles_without_spills_or_warnings(kernel: str) -> None:
    build = assembled()[space(kernel)]
    assert build.warnings == ""  # ptxas warns of multiplications that it must not overlap
    assert build.resources and not any(use.spills for use in build.resources)


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_right_under_every_schedule(kernel: str, schedule: str) -> None:
    done = emulate(source(kernel), schedule=schedule)  # another seed in each run
    assert done.ok and not done.stderr, done.stdout + done.stderr
    assert len(re.findall("^product: OK", done.stdout, re.MULTILINE)) == 2


@pytest.mark.nvcc
@pytest.mark.parametrize("name", [name for name in pays.CONTENDERS if name.endswith("× 128")])
def test_right_in_the_narrower_tile(name: str) -> None:
    done = emulate(pays.text(name), schedule="late")
    assert done.ok and not done.stderr, done.stdout + done.stderr


@pytest.mark.nvcc
@pytest.mark.parametrize("name", HOPPER)
def test_every_mistake_is_found(name: str) -> None:
    done = emulate(planted(name), "--seed", "15", right=source(HOPPER[name][0]))
    assert re.search(HOPPER[name][3], done.stderr), done.stdout + done.stderr[:3000]


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        (DESCRIPTION, f"({DESCRIPTION} ^ 3ull << 62)", "swizzle 64B, but .* says 128B: .*:140"),
        (SWIZZLE, SWIZZLE.replace("128B", "NONE"), "swizzle 128B, but .* says none: .*:140"),
        ("b + 2 * k", "b + k", ""),  # 16 bytes where a step has 32
    ],
)
def test_a_mistake_in_a_description_is_found(right: str, wrong: str, words: str) -> None:
    shared = files.kernels() / "hopper_ring/product.cuh"
    text = shared.read_text("utf-8").replace("#pragma once", "")
    include = '#include "hopper_ring/product.cuh"'
    whole, mistaken = (
        replace_once(source("hopper_ring/b_ring"), include, header)
        for header in (text, replace_once(text, right, wrong))
    )
    done = emulate(mistaken, "--seed", "15", right=whole)
    assert "wrong result" in done.stderr, done.stdout + done.stderr[:3000]
    assert re.search(words, done.stderr), done.stderr[:3000]


@pytest.mark.gpu
@pytest.mark.skipif(hardware.gpu() is None, reason="no NVIDIA GPU")
@pytest.mark.parametrize("kernel", KERNELS)
def test_right_on_the_gpu(kernel: str) -> None:
    program = toolchain.build(source(kernel), target="sm_90a").program
    for _ in range(3):  # what is tried is drawn anew
        done = process.run([program], timeout=60)
        assert done.ok and not done.stderr, done.stdout + done.stderr
