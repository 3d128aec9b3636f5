"""The chapter's further programs: right on the emulator, and each mistake found."""

from __future__ import annotations

import re

import pytest

from phasebit import files
from phasebit.edits import replace_once
from tests.kernels.emulated import emulate

RIGHT = {
    "column_sums": "column_sums: OK, exact on whole numbers",
    "few_threads": "few_threads: OK, both ways read every byte they should",
    "hints": "hints: OK, every piece was the right one, with and without hints",
    "prefetched": "prefetched: OK, every piece was the right one",
    "announced": "2 copies, +0 bytes: complete 1, too early 0, never 0",
}
FENCE = "    ptx::fence_proxy_async_shared();  // the engine sees what this thread has stored,\n"
REDUCE = "        ptx::cp_reduce_async_bulk_add(sums, mine, cols * sizeof(float));\n"
SUMS, HINTS = "column_sums", "hints"
MISTAKES = {
    "the engine does not see the sums": (SUMS, FENCE, "", "proxy"),
    "one thread fences": (SUMS, FENCE, FENCE.replace("ptx", "if (threadIdx.x == 0) ptx", 1),
                          "proxy"),
    "the engine adds before the others are ready": (
        SUMS, "    __syncthreads();                  // and all the others\n", "", "proxy|race"),
    "every thread adds": (SUMS, "    if (threadIdx.x == 0) {", "    {", "WRONG"),
    "elements for bytes": (SUMS, "mine, cols * sizeof(float)", "mine, cols", "multiple of 16"),
    "nobody commits": (SUMS, "        ptx::cp_async_bulk_commit_group();\n", "",
                       "may still read"),
    "a block leaves early": (
        SUMS, "        ptx::cp_async_bulk_wait_group_read<0>();", "        //", "may still read"),
    "the slot is asked for before it is read": (
        HINTS, "ask(c + SLOTS, s);", "ask(c + SLOTS, (s + 1) % SLOTS);", "pending|async"),
    "the parity of the next round": (HINTS, "c / SLOTS & 1", "(c / SLOTS + 1) & 1", "async"),
    "a piece is read before it is there": (
        "prefetched", "ptx::mbarrier_wait(&full, copy & 1);",
        "ptx::mbarrier_wait(&full, (copy + 1) & 1);", "async|mbarrier"),
}  # fmt: skip
"""What is replaced by what, and what must be said."""


def source(kernel: str) -> str:
    return files.kernel(f"copy_engine/{kernel}")


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", RIGHT)
def test_right_on_the_emulator(kernel: str) -> None:
    done = emulate(source(kernel))
    assert done.ok and RIGHT[kernel] in done.stdout and not done.stderr, done.stdout + done.stderr


@pytest.mark.nvcc
@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_is_found(name: str) -> None:
    kernel, old, new, words = MISTAKES[name]
    whole = source(kernel)
    done = emulate(replace_once(whole, old, new), right=whole)
    assert re.search(words, done.stdout + done.stderr), done.stdout + done.stderr[:2000]
