"""The whole product of *One thread multiplies*: right on the emulator, each mistake found.

No GPU that they are for was at hand, so nothing here asks one.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from phasebit import files, process, toolchain
from phasebit.chapters.one_thread_multiplies import blackwell
from phasebit.edits import replace_once
from phasebit.emulator import EmulatorError
from phasebit.runtime import library

OK = "matmul: OK, exact on whole numbers, for whole tiles and ragged edges\n"

MISTAKES = {
    "a Hopper descriptor": (
        "ptx::tcgen05_descriptor_128B(a) + 2 * step", "ptx::descriptor_128B(a) + 2 * step",
        "version 0: this is a Hopper descriptor", "ptx::descriptor_128B(a)"),
    "no swizzle in the copy": ("(p ^ r % 8)", "p", "WRONG", ""),
    "no proxy fence": (
        "        ptx::fence_proxy_async_shared();", "        ",
        "no fence.proxy.async", "ptx::tcgen05_mma_f16(sum"),
    "the parity never changes": (
        ", parity ^= 1", "", "may still read it", "tile[r * PIECES"),
    "nobody commits": (
        "            ptx::tcgen05_commit(&done);\n", "", "deadlock", "mbarrier_wait(&done"),
    "the commit comes first": (
        "            for (int step = 0; step < TILE_K / STEP; ++step)",
        "            ptx::tcgen05_commit(&done);\n"
        "            for (int step = 0; step < TILE_K / STEP; ++step)",
        "has not waited for an mbarrier", "ptx::tcgen05_ld_32x32b_x32"),
    "nothing begins with zero": (
        "slice + step > 0", "true", "nobody has written", "ptx::tcgen05_mma_f16(sum"),
    "the address is used too early": (
        "    __syncthreads();  // the others see the address and the barrier\n", "",
        "race|uninitialised|not allocated|not initialised", "sum = address"),
    "every warp reads the first quarter": (
        "sum + (warp * 32 << 16) + first", "sum + first",
        r"reaches only lanes 32 \(w % 4\)", "ptx::tcgen05_ld_32x32b_x32"),
    "deallocated while others read": (
        "    __syncthreads();  // everybody has read\n", "",
        "deallocates|nothing orders", "ptx::tcgen05_dealloc"),
    "never deallocated": (
        "        ptx::tcgen05_dealloc<TILE_N>(sum);\n", "",
        "128 columns of tensor memory allocated", "ptx::tcgen05_alloc"),
    "the instruction's shape is another": (
        "ptx::tcgen05_bf16_f32(TILE_M, TILE_N)", "ptx::tcgen05_bf16_f32(TILE_M, TILE_N / 2)",
        "nobody has written", "ptx::tcgen05_ld_32x32b_x32"),
    "A is taken for f16": (
        "ptx::tcgen05_bf16_f32(TILE_M, TILE_N)",
        "(ptx::tcgen05_bf16_f32(TILE_M, TILE_N) & ~(7 << 7))", "WRONG", ""),
}  # fmt: skip
"""What is replaced by what, what must be said, and what stands in the line named."""

SOURCE = files.kernel(blackwell.ONE)


def emulate(text: str, *options: str, args: tuple[str, ...] = ("--seed", "1")) -> process.Finished:
    program = toolchain.build(
        text, target="sm_100a", runtime=library.for_linking(toolchain.nvcc().major)
    ).program
    command = [sys.executable, "-m", "phasebit", "run", *options, str(program), *args]
    return process.run(command, timeout=120)


def test_a_kernel_file_holds_one_idea() -> None:
    lines = SOURCE.splitlines()
    assert lines[0].startswith("// ") and '#include "exact_product.cuh"' in lines
    assert len(lines) <= 100 and max(map(len, lines)) <= 100


@pytest.mark.nvcc
@pytest.mark.parametrize(("schedule", "seed"), [("eager", "1"), ("late", "2"), ("random", "3")])
def test_right_on_the_emulator(schedule: str, seed: str) -> None:
    done = emulate(SOURCE, "--schedule", schedule, args=("--seed", seed))
    assert done.ok and done.stdout == OK and not done.stderr, done.stdout + done.stderr


def verdict(text: str) -> str:
    """All that the emulator says about a product of whole numbers, ragged, of several tiles."""
    try:
        run, right = blackwell.multiply(text, 200, 132, 200)
    except EmulatorError as error:
        return "\n".join([str(error), *map(str, error.findings)])
    return "\n".join([*map(str, run.findings), "" if right else "WRONG"])


@pytest.mark.nvcc
@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_is_found(name: str) -> None:
    old, new, words, place = MISTAKES[name]
    text = replace_once(SOURCE, old, new)
    said = verdict(text)
    lines = [line for line in said.splitlines() if re.search(words, line)]
    assert lines, said
    if place:
        there = {i for i, line in enumerate(text.splitlines(), 1) if place in line}
        named = {int(number) for number in re.findall(r"(?:\.cu:|\bline )(\d+)", said)}
        assert there & named, f"lines {sorted(there)} are not named:\n{said}"


@pytest.mark.nvcc
def test_one_shape_may_be_asked_for() -> None:
    done = emulate(SOURCE, "--fast", args=("--shape", "1", "4", "8"))
    assert done.stdout == "matmul: OK, exact on 1 x 4 x 8\n" and not done.stderr, done.stderr


@pytest.mark.nvcc
def test_ptxas_takes_it_without_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "kernel.cu"
    path.write_text(SOURCE)
    strict = ["-Xptxas", "-warn-spills,-Werror", "-Werror", "all-warnings"]
    command = toolchain.nvcc_command("cubin", "sm_100a", options=strict)
    done = process.run([*command, path, "-o", tmp_path / "kernel.cubin"], timeout=120)
    assert done.ok and not done.stderr, done.stderr
