"""The first wgmma of *Four warps multiply*: right under every schedule, each mistake found."""

from __future__ import annotations

import json
import re

import pytest

from phasebit import contents, files, hardware, process, toolchain
from phasebit.edits import replace_once
from tests.kernels.emulated import emulate

SOURCE = (files.kernels() / "warpgroup_products/wgmma.cu").read_text("utf-8")
OK = "matmul: OK, exact on whole numbers, for whole tiles and ragged edges\n"

MISTAKES = {
    "no proxy fence": ("        ptx::fence_proxy_async_shared();", "        ", "proxy"),
    "one thread fences": ("        ptx::fence_proxy_async_shared();",
                          "        if (threadIdx.x == 0) ptx::fence_proxy_async_shared();",
                          "no fence.proxy.async"),
    "no barrier after the stores": (
        "        __syncthreads();                  // and all the others\n", "", "race|proxy"),
    "no wgmma.fence": ("        ptx::wgmma_fence();\n", "", "no wgmma.fence"),
    "no wait": ("        ptx::wgmma_wait_group<0>();\n", "", "no wgmma.wait_group"),
    "a wait for too few": ("wgmma_wait_group<0>", "wgmma_wait_group<1>", "no wgmma.wait_group"),
    "no commit": ("        ptx::wgmma_commit_group();\n", "", "no wgmma.wait_group"),
    "the tile is overwritten before the wait": (
        "        ptx::wgmma_wait_group<0>();",
        "        if (k + DEPTH < K) fetch<ROWS>(a, A, M, K, row, k + DEPTH);\n"
        "        ptx::wgmma_wait_group<0>();", "may still read it"),
    "the tile is not aligned": (
        "uint4 b[COLS * PIECES];",
        "uint4 room[COLS * PIECES + 16];\n    uint4* const b = room + 16;",
        "begins in row 2 of the 128B"),
    "no swizzle": ("(p ^ r % 8)", "p", "WRONG"),
    "the swizzle of another row": ("(p ^ r % 8)", "(p ^ r % 4)", "WRONG"),
    "a step of 16 bytes": ("descriptor_128B(a) + 2 * step", "descriptor_128B(a) + step", "WRONG"),
    "always a fresh sum": ("k + step > 0", "false", "WRONG"),
    "rows of C exchanged": ("8 * (i / 2 % 2)", "8 * (i % 2)", "WRONG"),
    "no zeros at the edge": ("row + r < rows && k + 8 * p < K", "row + r < rows",
                             "WRONG|invalid global access"),
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
    done = emulate(replace_once(SOURCE, old, new), "1", right=SOURCE)
    assert re.search(words, done.stdout + done.stderr), done.stdout + done.stderr


@pytest.mark.gpu
@pytest.mark.skipif(hardware.gpu() is None, reason="no NVIDIA GPU")
def test_right_on_the_gpu() -> None:
    done = process.run([toolchain.build(SOURCE, target="sm_90a").program], timeout=60)
    assert done.ok and done.stdout == OK, done.stdout + done.stderr


def test_the_page_has_the_whole_kernel_and_shows_pieces_of_it() -> None:
    chapter = contents.notebook(files.book(), "warpgroup_products")
    cells = json.loads(chapter.read_text("utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells]
    assert "%%cuda\n" + SOURCE.rstrip("\n") in texts
    lines = SOURCE.splitlines()
    printed = [
        "".join(cell["outputs"][0]["text"])
        for text, cell in zip(texts, cells, strict=True)
        if text.startswith("view.listing(")
    ]
    shown = set()
    for number, code in re.findall(r"^ *(\d+)(?:  (.*))?$", "".join(printed), re.M):
        assert lines[int(number) - 1] == code
        shown.add(int(number))
    (said,) = (cell for cell, text in zip(cells, texts, strict=True) if "left_out.told" in text)
    named = re.findall(r"line (\d+)", "".join(said["outputs"][0]["text"]))
    assert named and {int(number) for number in named} <= shown
