"""Special registers (PTX ISA section 10), for every thread of a grid of clusters."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from phasebit.launching.launch import Module

BLOCK, GRID, CLUSTER = (4, 3, 6), (4, 2, 2), (2, 1, 2)
THREADS = 72

TEXT = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) .reqnctapercluster 2, 1, 2
{
    .reg .b32 %r<9>; .reg .b64 %d<4>; .reg .pred %p;
    ld.param.u64 %d1, [out];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z;
    mad.lo.u32 %r1, %r2, 4, %r1; mad.lo.u32 %r1, %r3, 12, %r1;
    mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ctaid.y; mov.u32 %r6, %ctaid.z;
    mad.lo.u32 %r4, %r5, 4, %r4; mad.lo.u32 %r4, %r6, 8, %r4;
    mad.lo.u32 %r1, %r4, 72, %r1;
    mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2;
    READ
    st.global.u32 [%d1], %r7;
    ret;
}
"""
Place = tuple[int, int, int]


def values(read: str) -> np.ndarray:
    """What each thread reads: [block, thread]."""
    out = np.zeros(16 * THREADS, np.uint32)
    text = TEXT.replace("READ", read)
    Module(text)["k"].launch(GRID, BLOCK, [out], cluster=CLUSTER, check=False)
    return out.reshape(16, THREADS)


def expected(rule: Callable[[Place, Place, int], int]) -> list[list[int]]:
    found = []
    for z, y, x in itertools.product(*(range(extent) for extent in reversed(GRID))):
        found.append([
            rule((x, y, z), (i, j, k), i + 4 * (j + 3 * k)) & 0xFFFFFFFF
            for k, j, i in itertools.product(*(range(extent) for extent in reversed(BLOCK)))
        ])  # fmt: skip
    return found


def rank(b: Place) -> int:
    return b[0] % 2 + 2 * (b[2] % 2)


RULES: dict[str, Callable[[Place, Place, int], int]] = {
    "laneid": lambda b, t, n: n % 32, "warpid": lambda b, t, n: n // 32,
    "nwarpid": lambda b, t, n: 64, "nsmid": lambda b, t, n: 8,
    "smid": lambda b, t, n: (b[0] + 4 * (b[1] + 2 * b[2])) % 8,
    "lanemask_eq": lambda b, t, n: 1 << n % 32, "lanemask_lt": lambda b, t, n: (1 << n % 32) - 1,
    "lanemask_le": lambda b, t, n: (2 << n % 32) - 1, "lanemask_ge": lambda b, t, n: -1 << n % 32,
    "lanemask_gt": lambda b, t, n: -2 << n % 32, "cluster_ctarank": lambda b, t, n: rank(b),
    "cluster_nctarank": lambda b, t, n: 4, "envreg0": lambda b, t, n: 0,
    "envreg1": lambda b, t, n: 0, "envreg31": lambda b, t, n: 0,
    "dynamic_smem_size": lambda b, t, n: 0, "total_smem_size": lambda b, t, n: 0,
}  # fmt: skip
for _i, _axis in enumerate("xyz"):
    RULES |= {
        f"tid.{_axis}": lambda b, t, n, i=_i: t[i], f"ntid.{_axis}": lambda b, t, n, i=_i: BLOCK[i],
        f"ctaid.{_axis}": lambda b, t, n, i=_i: b[i], f"nctaid.{_axis}": lambda b, t, n,
        i=_i: GRID[i],
        f"clusterid.{_axis}": lambda b, t, n, i=_i: b[i] // CLUSTER[i],
        f"nclusterid.{_axis}": lambda b, t, n, i=_i: GRID[i] // CLUSTER[i],
        f"cluster_ctaid.{_axis}": lambda b, t, n, i=_i: b[i] % CLUSTER[i],
        f"cluster_nctaid.{_axis}": lambda b, t, n, i=_i: CLUSTER[i],
    }  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_section_10_what_each_thread_reads(name: str) -> None:
    assert values(f"mov.u32 %r7, %{name};").tolist() == expected(RULES[name])


def test_a_kernel_knows_whether_it_was_launched_in_clusters() -> None:
    read = "mov.pred %p, %is_explicit_cluster; selp.u32 %r7, 5, 6, %p;"
    assert (values(read) == 5).all()
    alone = TEXT.replace(".reqnctapercluster 2, 1, 2", "").replace("READ", read)
    out = np.zeros(16 * THREADS, np.uint32)
    Module(alone)["k"].launch(GRID, BLOCK, [out], check=False)
    assert (out == 6).all()


@pytest.mark.parametrize(
    ("name", "high"), [("clock64", "clock_hi"), ("globaltimer", "globaltimer_hi")]
)
def test_clocks_go_on_and_have_two_halves(name: str, high: str) -> None:
    twice = f"mov.u64 %d2, %{name}; bar.sync 0; mov.u64 %d3, %{name};"
    later = values(f"{twice} sub.u64 %d2, %d3, %d2; cvt.u32.u64 %r7, %d2;")
    assert (later > 0).all() and (later < 10_000).all()
    assert not values(f"mov.u32 %r7, %{high};").any()


def shared(*arguments: Any, text: str, **more: Any) -> np.ndarray:
    out = np.zeros(1, np.uint32)
    Module(text)["k"].launch(1, 1, [out], **more)
    return out


@pytest.mark.parametrize(("name", "size"), [
    ("total_smem_size", 48 + 100), ("dynamic_smem_size", 100), ("aggr_smem_size", 48 + 100),
])  # fmt: skip
def test_sizes_of_shared_memory(name: str, size: int) -> None:
    text = f"""
.version 8.0
.target sm_90
.address_size 64
.extern .shared .align 16 .b8 more[];
.visible .entry k(.param .u64 out)
{{
    .shared .align 4 .b8 own[48]; .reg .b32 %r<2>; .reg .b64 %d<2>;
    ld.param.u64 %d1, [out]; mov.u32 %r1, more; mov.u32 %r1, own; mov.u32 %r1, %{name};
    st.global.u32 [%d1], %r1;
    ret;
}}
"""
    assert shared(text=text, shared=100).tolist() == [size]
