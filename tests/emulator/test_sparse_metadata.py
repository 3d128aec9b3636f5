"""Which four bits of metadata are illegal: the lists of the PTX ISA, written out once more here."""

from __future__ import annotations

import pytest

from phasebit.emulator.errors import IllegalMetadata
from phasebit.emulator.numbers import sparse
from phasebit.launching.launch import Module

SAME_PLACE = {0b0000, 0b0101, 0b1010, 0b1111}
"""9.7.14.6.1 for ``mma.sp`` and 9.7.15.6.1 for ``wgmma``: "invalid values for metadata"."""
ORDERED = {0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110}
"""What ``mma.sp::ordered_metadata`` takes: the indices in order, the first in the low bits."""
LISTED = ORDERED | {0b0110}
"""9.7.16.10.8.2: what ``tcgen05`` takes."""
HALVES = {0b0100, 0b1110}
"""9.7.14.6.1, 9.7.15.6.1 and 9.7.16.10.8.1 for tf32: one of two, whose halves are places."""

WARP = """
    mma.{name}.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32
        {{%d0, %d1, %d2, %d3}}, {{{a}}}, {{{b}}}, {{%d0, %d1, %d2, %d3}}, %r2, 0x0;
"""
GROUP = """
    mov.u32 %r1, tile; shr.u32 %r1, %r1, 4; cvt.u64.u32 %rd1, %r1; setp.ne.u32 %p, 0, 0;
    mov.b64 %rd2, 0x0000000800400000; add.s64 %rd1, %rd1, %rd2;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sp.sync.aligned.m64n8k{k}.f32.{kind}.{kind} {{%d0, %d1, %d2, %d3}}, %rd1, %rd1,
        %r2, 0, %p, 1, 1{trans};
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
"""
HEAD = """.version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{
    .reg .b32 %r<9>; .reg .b32 %d<4>; .reg .b64 %rd<3>; .reg .pred %p;
    .shared .align 1024 .b8 tile[8192];
    mov.u32 %r2, METADATA; mov.b32 %d0, 0; mov.b32 %d1, 0; mov.b32 %d2, 0; mov.b32 %d3, 0;
    mov.b32 %r3, 0;
"""


def warp(name: str, kind: str) -> str:
    a, b = (4, 4) if kind == "tf32" else (2, 2)
    return WARP.format(name=name, kind=kind, a=", ".join(["%r3"] * a), b=", ".join(["%r3"] * b))


def group(kind: str) -> str:
    k, trans = (16, "") if kind == "tf32" else (32, ", 0, 0")
    return GROUP.format(kind=kind, k=k, trans=trans)


CASES = {
    "mma.sp": (warp("sp", "f16"), 32, set(range(16)) - SAME_PLACE),
    "mma.sp::ordered_metadata": (warp("sp::ordered_metadata", "f16"), 32, ORDERED),
    "mma.sp, tf32": (warp("sp", "tf32"), 32, HALVES),
    "wgmma.sp": (group("f16"), 128, set(range(16)) - SAME_PLACE),
    "wgmma.sp, tf32": (group("tf32"), 128, HALVES),
}


@pytest.mark.parametrize("what", CASES)
def test_the_isa_s_list_and_no_other(what: str) -> None:
    body, threads, legal = CASES[what]
    taken = set()
    for bits in range(16):
        metadata = f"{0x44444440 | bits:#x}"
        text = HEAD.replace("METADATA", metadata) + body + "ret;\n}\n"
        try:
            Module(text)["k"].launch(1, threads, [], check=False)
        except IllegalMetadata as error:
            assert f"{bits:04b} for chunk 0" in str(error)
        else:
            taken.add(bits)
    assert taken == legal


def test_9_7_16_10_8_the_list_of_tcgen05() -> None:
    """That its products take these and no other, ``test_tcgen05_sparse`` tries."""
    assert set(sparse.LISTED) == LISTED and set(sparse.HALVES) == HALVES
