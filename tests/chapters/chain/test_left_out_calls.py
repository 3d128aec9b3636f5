"""Each call of the chain left out: what the page shows is what is found."""

from __future__ import annotations

import pytest

from phasebit import replay
from phasebit.chapters.chain import kernels, left_out_calls

CHAIN = kernels.source(kernels.CHAIN)
CALLS = left_out_calls.calls(CHAIN)
SILENT = {
    ("load", "tail(s.empty, at);"),
    ("multiply", "tail(s.sum_empty, to);"),
    ("matmul", "__syncwarp();"),
    ("matmul", "__syncthreads();"),
    ("matmul", "ptx::fence_mbarrier_init();"),
    ("matmul", "ptx::tcgen05_fence_before_thread_sync();"),
    ("matmul", "ptx::tcgen05_fence_after_thread_sync();"),
    ("matmul", "ptx::tcgen05_relinquish_alloc_permit();"),
}
"""What the chapter says that the emulator has nothing to say about."""


def test_a_call_is_found_and_left_out() -> None:
    source = "__device__ void load(int n) {\n    if (n) ptx::mbarrier_wait<2>(\n        n, 1);\n}\n"
    (call,) = left_out_calls.calls(source)
    assert (call.role, call.text) == ("load", "ptx::mbarrier_wait<2>( n, 1);")
    assert left_out_calls.without(source, call).splitlines()[1] == "    if (n) ;"


def test_every_wait_arrival_commit_and_fence_is_among_them() -> None:
    kernel = CHAIN.partition('#include "exact_product.cuh"')[0]
    for word in ("wait", "arrive", "commit", "fence", "dealloc", "relinquish", "tensor_store"):
        code = [line.partition("//")[0] for line in kernel.splitlines() if "ptx::" in line]
        assert sum(word in line for line in code) == sum(word in call.text for call in CALLS) > 0


def test_the_record_is_of_this_kernel() -> None:
    """Red after a change of the kernel or a header, until `python tools/left_out.py` has run."""
    record = left_out_calls.recorded()
    assert record["source"] == replay.key(CHAIN)
    assert [(row["role"], row["call"]) for row in record["rows"]] == [
        (call.role, call.text) for call in CALLS
    ]


def test_what_the_chapter_says_of_it() -> None:
    rows = left_out_calls.recorded()["rows"]
    assert {(row["role"], row["call"]) for row in rows if not row["kind"]} == SILENT
    assert sum(row["exact"] is True for row in rows) > len(rows) / 2
    assert all(row["exact"] for row in rows if not row["kind"])  # silent where nothing is wrong


def one_of_each() -> list[int]:
    """The last row for each way to end; ``tools/left_out.py`` runs them all."""
    rows = left_out_calls.recorded()["rows"]
    return sorted({(row["kind"], row["exact"]): i for i, row in enumerate(rows)}.values())


@pytest.mark.nvcc
@pytest.mark.parametrize("number", one_of_each())
def test_the_emulator_finds_what_is_recorded(number: int) -> None:
    row = left_out_calls.recorded()["rows"][number]
    found = left_out_calls.judge(left_out_calls.without(CHAIN, CALLS[number]))
    assert found._asdict() == {name: row[name] for name in found._fields}


@pytest.mark.nvcc
def test_with_all_of_them_it_is_right_and_clean() -> None:
    assert left_out_calls.judge(CHAIN) == left_out_calls.Finding("", "", True)
