"""The first kernel of *The copy engine*: right under every schedule, and each mistake found."""

from __future__ import annotations

import re

import pytest

from phasebit import files, hardware, process, toolchain
from phasebit.edits import replace_once
from tests.kernels.emulated import emulate

SOURCE = (files.kernels() / "copy_engine/tma_copy.cu").read_text("utf-8")
OK = "twice: OK, exact, for whole boxes and ragged edges, plain and swizzled\n"

MISTAKES = {
    "nobody waits for the box": ("    ptx::mbarrier_wait(&full, 0);\n", "", "async"),
    "no proxy fence": ("    ptx::fence_proxy_async_shared();", "    ", "proxy"),
    "the fence before the stores": (
        "    ptx::mbarrier_wait(&full, 0);\n",
        "    ptx::mbarrier_wait(&full, 0);\n    ptx::fence_proxy_async_shared();\n#define "
        "fence_proxy_async_shared mbarrier_nothing\n", "proxy",
    ),
    "only one thread fences": (
        "    ptx::fence_proxy_async_shared();",
        "    if (threadIdx.x == 0) ptx::fence_proxy_async_shared();", "proxy",
    ),
    "the store does not wait for the threads": (
        "    __syncthreads();                  // of all threads\n", "", "race"),
    "the others do not see the barrier": (
        "    __syncthreads();  // the others see the barrier\n", "", "race|failed|not initialised"),
    "the tile goes before it has been read": (
        "        ptx::cp_async_bulk_wait_group_read<0>();", "        ", "async"),
    "the copy is in no group that is waited for": (
        "        ptx::cp_async_bulk_commit_group();\n", "", "async"),
    "too many bytes expected": ("sizeof tile);", "2 * sizeof tile);", "too many announced"),
    "too few bytes expected": ("sizeof tile);", "sizeof tile / 2);", "not announced"),
    "two arrivals expected": ("mbarrier_init(&full, 1)", "mbarrier_init(&full, 2)", "deadlock"),
    "the other parity": ("mbarrier_wait(&full, 0)", "mbarrier_wait(&full, 1)", "async"),
    "the tile is not aligned": ("tensor_load(tile,", "tensor_load(tile + 8,", "multiple of 128"),
    "swizzled only on the way in": (
        "tensor_map_2d(out, rows, cols, ROWS, COLS, swizzle)",
        "tensor_map_2d(out, rows, cols, ROWS, COLS, CU_TENSOR_MAP_SWIZZLE_NONE)", "WRONG"),
    "rows and columns exchanged": ("tensor_load(tile, in, x, y", "tensor_load(tile, in, y, x",
                                   "WRONG"),
    "a box that is too wide for the swizzle": ("COLS = 64", "COLS = 128", "swizzle 128B allows"),
}  # fmt: skip
"""What is replaced by what, and what must be said."""


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_right_on_the_emulator(schedule: str) -> None:
    done = emulate(SOURCE, "1", schedule=schedule)
    assert done.ok and done.stdout == OK and not done.stderr, done.stdout + done.stderr


@pytest.mark.nvcc
@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_is_found(name: str) -> None:
    old, new, words = MISTAKES[name]
    text = replace_once(SOURCE, old, new)
    if "mbarrier_nothing" in new:
        text = text.replace("__global__ void __launch", "namespace ptx { __device__ void "
                            "mbarrier_nothing() {} }\n__global__ void __launch", 1)  # fmt: skip
    done = emulate(text, "1", right=SOURCE)
    assert re.search(words, done.stdout + done.stderr), done.stdout + done.stderr


@pytest.mark.gpu
@pytest.mark.skipif(hardware.gpu() is None, reason="no NVIDIA GPU")
def test_right_on_the_gpu() -> None:
    done = process.run([toolchain.build(SOURCE, target="sm_90a").program], timeout=60)
    assert done.ok and done.stdout == OK, done.stdout + done.stderr
