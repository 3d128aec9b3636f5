"""The kernels of *Tensor cores without Hopper*: right, without conflicts or spills, watched."""

from __future__ import annotations

import re
import shutil

import pytest

from phasebit import hardware, process, toolchain
from phasebit.chapters.tensor_cores.clean import RUNGS
from phasebit.chapters.tensor_cores.clean import checked as program
from tests.kernels import targets
from tests.kernels.emulated import emulate


def assert_right(done: process.Finished) -> None:
    assert done.ok and not done.stderr, done.stdout + done.stderr
    assert len(re.findall("^matmul: OK", done.stdout, re.MULTILINE)) == 2


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["late", "eager", "random"])
@pytest.mark.parametrize("rung", RUNGS)
def test_right_under_every_schedule(rung: str, schedule: str) -> None:
    assert_right(emulate(program(RUNGS[rung]), schedule=schedule))


needs_gpu = pytest.mark.skipif(hardware.gpu() is None, reason="no NVIDIA GPU here")


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize(("read", "write"), [("bf16", "f32"), ("f16", "f16")])
@pytest.mark.parametrize("rung", RUNGS)
def test_right_on_the_gpu(rung: str, read: str, write: str) -> None:
    built = toolchain.build(program(RUNGS[rung], read, write))
    for _ in range(3):  # what is tried is drawn anew
        assert_right(process.run([built.program], timeout=60))


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("rung", ["swizzled tiles", "a ring", "super-rows"])
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_clean_under_compute_sanitizer(rung: str, tool: str) -> None:
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("compute-sanitizer is not installed")
    built = toolchain.build(program(RUNGS[rung]))
    done = process.run([sanitizer, "--tool", tool, built.program, "--seed", "14"], timeout=300)
    assert done.ok, done.stdout + done.stderr
    assert re.search(r"(ERROR SUMMARY: 0 errors|0 hazards displayed \(0 errors)", done.stdout)


@pytest.mark.nvcc
@pytest.mark.parametrize("write", ["f16", "f32"])
@pytest.mark.parametrize("rung", ["naive", "swizzled tiles", "super-rows"])
def test_right_on_a_chip_without_asynchronous_copies(rung: str, write: str) -> None:
    assert_right(emulate(program(RUNGS[rung], "f16", write), target="sm_75"))


@pytest.mark.nvcc
def test_right_with_bf16_results() -> None:
    assert_right(emulate(program(RUNGS["super-rows"], write="bf16"), target="sm_80"))


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("target", "read"), [("sm_75", "f16"), ("sm_80", "bf16"), ("sm_90a", "bf16")]
)
def test_the_large_tiles_compile_without_spills_or_warnings(target: str, read: str) -> None:
    slots = 2 if target == "sm_75" else 3
    launch = f"launch_aligned<Tiling<128, 256, 64, 64, 64>, {slots}, 16>(g, 8);"
    if target == "sm_75":  # whose blocks have 64 KiB of shared memory
        launch = "launch_aligned<Tiling<128, 128, 32, 64, 64>, 2, 16>(g, 8);"
    built = targets.assemble(program(launch, read), target)
    assert built.warnings == ""
    assert not any(use.spills for use in built.resources)


@pytest.mark.nvcc
def test_the_assembler_warns_of_no_rung() -> None:
    functions = (
        f"void rung_{i}(const Product& g) {{ {RUNGS[rung]} }}" for i, rung in enumerate(RUNGS)
    )
    text = program("", "bf16", "f32").replace(
        '#include "gemm.cuh"', "using Product = Gemm<In, Out>;"
    )
    built = targets.assemble("\n".join([text, *functions]), "sm_90a")
    assert built.warnings == "" and len(built.resources) >= len(RUNGS)


# One mistake each, and what must be said about it.
MISTAKES = {
    "a tile is multiplied before it is there": (
        "wait_group<SLOTS - 2>", "wait_group<SLOTS - 1>", "race|uninitialised|wrong result",
    ),
    "a slot is filled while it is read": (
        "empty = full;\n", "empty = advance(full);\n", "race|wrong result",
    ),
    "the last tile is left out": ("tile < tiles; ++tile", "tile < tiles - 1; ++tile", "wrong"),
    "super-rows of the wrong height": (
        "const int height = rows - first < super ? rows - first : super;",
        "const int height = super;", "wrong result|invalid",
    ),
}  # fmt: skip


@pytest.mark.nvcc
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_ring_is_found(mistake: str) -> None:
    right, wrong, verdict = MISTAKES[mistake]
    text = whole("tensor_cores/gemm.cuh")
    assert right in text
    done = emulate(text.replace(right, wrong), "--seed", "1", right=text)
    assert re.search(verdict, done.stderr), done.stdout + done.stderr


TILE_MISTAKES = {
    "the swizzle of a row twice as tall": ("chunk ^= CHUNKS == 4 ? row / 2 % 4 : row % 8;",
                                           "chunk = CHUNKS == 4 ? row / 2 % 4 : row % 8;"),
    "fragments of B not transposed": ("ptx::ldmatrix_x4_trans(", "ptx::ldmatrix_x4("),
    "no zeros beyond the last row": ("i * STEP < rows ? cols : 0", "cols"),
    "no zeros beyond the last column": ("i >= inside", "false"),
    "rows of C exchanged": ("lane / 4 + half * 8;", "lane / 4 + (1 - half) * 8;"),
    "a pair stored where only one belongs": ("if (pairs && col + 1 < g.N)", "if (pairs)"),
    "beta forgotten": ("g.alpha * sum + g.beta * float(old)", "g.alpha * sum"),
}  # fmt: skip


@pytest.mark.nvcc
@pytest.mark.parametrize("mistake", TILE_MISTAKES)
def test_a_mistake_in_the_tiles_is_found(mistake: str) -> None:
    right, wrong = TILE_MISTAKES[mistake]
    text = whole("tensor_cores/tile.cuh")
    assert right in text
    for seed in range(6):  # what is drawn decides which shapes are tried
        done = emulate(text.replace(right, wrong), "--seed", str(seed), right=text)
        if re.search("wrong result|invalid|uninitialised|race", done.stderr):
            return
    raise AssertionError(done.stdout + done.stderr)


def whole(header: str) -> str:
    """A program with a header's text in place of its inclusion, to plant mistakes in."""
    text = program("launch_gemm<Tiling<64, 64, 32, 32, 32>, 3>(g, 2);")
    waiting = [f"tensor_cores/{name}.cuh" for name in ("gemm", "one_slot", "warp", "tile")]
    for name in waiting[: waiting.index(header) + 1]:
        own = toolchain.headers(f'#include "{name}"')[name].replace("#pragma once", "")
        text = text.replace(f'#include "{name}"\n', own)
    # tensor_cores/naive.cuh includes the tiles once more.
    return text.replace('#include "tensor_cores/naive.cuh"\n', "")
