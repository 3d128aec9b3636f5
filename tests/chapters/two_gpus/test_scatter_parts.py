"""A reduce-scatter without one part of it after another: each contender leaves out what it says."""

from __future__ import annotations

import pytest

from phasebit.chapters.two_gpus import on_peers, record, scatter_parts
from phasebit.edits import replace_each
from phasebit.launching.build import ptx


def test_the_first_contender_is_the_kernel_and_the_last_the_product() -> None:
    given = record.texts()
    assert scatter_parts.text("whole") == given["scatter"]
    assert scatter_parts.text(scatter_parts.PLAIN) == given["plain"]


@pytest.mark.nvcc
@pytest.mark.parametrize("name", ["not added", "no copies, not added, not stored"])
def test_what_is_left_out_is_not_in_the_code(name: str) -> None:
    def count(name: str) -> tuple[int, int, int]:
        code = ptx(scatter_parts.text(name), "sm_90a")
        return (code.count("ld.acquire.sys"), code.count("st.global.v4"),
                code.count("wgmma.mma_async"))  # fmt: skip

    waits, stores, products = count("whole")
    assert waits and stores and products
    assert count(name) == (waits if name == "not added" else 0,
                           stores if name == "not added" else 0, products)  # fmt: skip


@pytest.mark.nvcc
@pytest.mark.parametrize("name", ["parts stay, not added", "no copies, not added, not stored"])
def test_what_is_wrong_on_purpose_ends_and_is_wrong(name: str) -> None:
    given = on_peers.source("h_copied_scatter")
    done = on_peers.run(replace_each(given, scatter_parts.PARTS[name], name), *on_peers.TINY)
    assert done.printed == "wrong\n" or done.verdict != "right"
