"""Special registers (PTX ISA section 10), for every thread of a grid of clusters."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.machine import special_registers
from phasebit.launching.launch import Module
from tests.emulator.machines import machine

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


def read(name: str, grid: int = 3, block: int = 40, time: int = 0, **how: Any) -> Any:
    """A register as all threads of a batch read it."""
    made = machine(grid=grid, block=block, check=False, **how)
    made.start_batch()
    made.workspace, made.clock = 0x123456789A, 70
    lanes = np.arange(made.batches[0].lanes)
    return special_registers.read(made.batches[0], lanes, time, name)


@pytest.mark.parametrize(("name", "value"), [
    ("reserved_smem_offset_begin", 128), ("reserved_smem_offset_0", 128),
    ("reserved_smem_offset_1", 128 + 512), ("reserved_smem_offset_end", 128 + 1024),
    ("reserved_smem_offset_cap", 128 + 1024), ("envreg0", 0), ("envreg1", 0x12),
    ("envreg2", 0x3456789A), ("envreg3", 0), ("gridid", 1), ("nsmid", 8), ("ntid.x", 40),
    ("nctaid.x", 3), ("nctaid.z", 1), ("tid.y", 0), ("total_smem_size", 16),
])  # fmt: skip
def test_what_all_threads_read_alike(name: str, value: int) -> None:
    found = read(name)
    assert not isinstance(found, np.ndarray) and int(found) == value
    assert found.dtype == special_registers.FORMS[name]


@pytest.mark.parametrize(("name", "time", "value"), [
    ("clock", 5, 5), ("clock", (3 << 32) + 5, 5), ("clock_hi", (3 << 32) + 5, 3),
    ("clock64", (3 << 32) + 5, (3 << 32) + 5), ("globaltimer", 5, 71), ("globaltimer", 71, 71),
    ("globaltimer", 99, 99), ("globaltimer_lo", (3 << 32) + 5, 5),
    ("globaltimer_hi", (3 << 32) + 5, 3),
])  # fmt: skip
def test_a_clock_is_the_groups_own_time_and_the_timer_goes_on(
    name: str, time: int, value: int
) -> None:
    assert int(read(name, time=time)) == value


def test_whoever_asks_for_a_clock_looks_at_what_others_change() -> None:
    made = machine(check=False)
    made.start_batch()
    (batch,) = made.batches
    for count, name in enumerate(sorted(special_registers.CLOCKS), 1):
        special_registers.read(batch, np.arange(64), 3, name)
        assert made.polls == count
    assert len(special_registers.CLOCKS) == 6
    special_registers.read(batch, np.arange(64), 3, "laneid")
    assert made.polls == 6 and "clock" not in batch.specials


def test_one_thread_reads_a_number() -> None:
    made = machine(grid=2, block=40, check=False)
    made.start_batch()
    (batch,) = made.batches
    for name, numbers in (("laneid", [5, 3, 0]), ("ctaid.x", [0, 0, 1]), ("tid.x", [5, 35, 0])):
        for lane, number in zip((5, 35, 40), numbers, strict=True):
            one = special_registers.read(batch, np.array([lane]), 0, name)
            assert one.ndim == 0 and one == number
        assert special_registers.read(batch, np.array([5, 35, 40]), 0, name).tolist() == numbers
    assert not isinstance(read("ctaid.x", 1), np.ndarray) and read("ctaid.x", 1) == 0


def test_the_registers_that_there_are() -> None:
    forms = special_registers.FORMS
    assert len(forms) == 3 * 8 + 19 + 5 + 32 + 3 + 1
    assert {name for name, form in forms.items() if form == np.uint64} == {
        "clock64", "globaltimer", "gridid",
    }  # fmt: skip
    assert forms["is_explicit_cluster"] == np.bool_ and forms["envreg31"] == np.uint32
    assert "envreg32" not in forms and "tid.w" not in forms
