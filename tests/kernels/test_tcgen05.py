"""Tensor memory's first kernel: right on the emulator, each mistake found, taken by ptxas."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from phasebit import files, process, toolchain
from phasebit.runtime import library

SOURCE = (files.kernels() / "16_tcgen05.cu").read_text("utf-8")
OK = "matmul: OK, exact on whole numbers, for whole tiles and ragged edges\n"

MISTAKES = {
    "a Hopper descriptor": (
        "           1ull << 46 | 2ull << 61;", "           1ull << 62;",
        "version 0: this is a Hopper descriptor"),
    "no swizzle in the copy": ("(p ^ r % 8) * 16", "p * 16", "WRONG"),
    "no proxy fence": ("        ptx::fence_proxy_async_shared();", "        ", "proxy"),
    "the parity never changes": (", parity ^= 1", "", "async"),
    "nobody commits": ("            ptx::tcgen05_commit(&done);\n", "", "deadlock"),
    "the commit comes first": (
        "            for (int step = 0; step < K; step += STEP)\n",
        "            ptx::tcgen05_commit(&done);\n"
        "            for (int step = 0; step < K; step += STEP)\n", "async"),
    "nothing begins with zero": ("slice + step > 0", "true", "uninitialised"),
    "the address is used too early": (
        "    __syncthreads();  // the others see the address and the barrier\n", "",
        "race|uninitialised|not allocated|not initialised"),
    "every warp reads the first quarter": ("sum + (warp * 32 << 16) + first", "sum + first",
                                           r"reaches only lanes 32 \(w % 4\)"),
    "deallocated while others read": (
        "    __syncthreads();  // everybody has read\n", "", "deallocate|nothing orders"),
    "the type of A": ("1 << 4 | 1 << 7 | 1 << 10", "1 << 4 | 1 << 10", "WRONG"),
}  # fmt: skip
"""What is replaced by what, and what must be said."""


def emulate(text: str, schedule: str = "late") -> process.Finished:
    try:
        program = toolchain.build(text, target="sm_100a", runtime=library.build()).program
    except toolchain.CompileError as error:
        return process.Finished("", str(error), 1, 0.0)
    command = [sys.executable, "-m", "phasebit", "run", "--schedule", schedule, program, "1"]
    return process.run(command, timeout=120)


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_right_on_the_emulator(schedule: str) -> None:
    done = emulate(SOURCE, schedule)
    assert done.ok and done.stdout == OK and not done.stderr, done.stdout + done.stderr


@pytest.mark.nvcc
@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_is_found(name: str) -> None:
    old, new, words = MISTAKES[name]
    assert SOURCE.count(old) == 1
    done = emulate(SOURCE.replace(old, new))
    assert re.search(words, done.stdout + done.stderr), done.stdout + done.stderr


@pytest.mark.nvcc
def test_ptxas_takes_it_without_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "kernel.cu"
    path.write_text(SOURCE)
    done = process.run(
        [toolchain.nvcc().path, "-gencode", "arch=compute_100a,code=sm_100a", "-Xptxas",
         "-warn-spills,-Werror", "-Werror", "all-warnings", "-I", files.kernels() / "include",
         "-cubin", "-o", tmp_path / "kernel.cubin", path], timeout=120,
    )  # fmt: skip
    assert done.ok and not done.stderr, done.stderr
