"""Where a tensor map lies and what its box reaches: each mistake with its sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phasebit as pb
from phasebit.emulator.errors import Fault
from phasebit.launching.launch import Module

TEXT = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 other, .param .u64 x)
{
    .shared .align 128 .b8 tile[4096]; .shared .align 128 .b8 own[128]; .shared .align 8 .b64 full;
    .local .align 64 .b8 mine[128];
    .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .pred %p;
    mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1;
    mbarrier.init.shared::cta.b64 [full], 1; fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], BYTES;
    PLACE
    COPY
L:  mbarrier.try_wait.parity.shared::cta.b64 %p, [full], 0; @!%p bra L;
    ret;
}
"""
LOAD = ("cp.async.bulk.tensor.{n}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[tile], [%rd1, {{{at}}}], [full];")  # fmt: skip
STORE = ("mbarrier.complete_tx.shared::cta.b64 [full], 64; cp.async.bulk.tensor.{n}d"
         ".global.shared::cta.tile.bulk_group [%rd1, {{{at}}}], [tile];")  # fmt: skip


def said(
    copy: str = LOAD, at: str = "0, 0", n: int = 2, place: str = "", nbytes: int = 64,
    **more: Any,
) -> str:  # fmt: skip
    """The fault's sentence, or nothing. The tensor is 8 × 16 of f32, the box 4 × 4."""
    x = np.zeros((8, 16), np.float32)
    made = pb.TensorMap(x, more.pop("box", (4, 4)), **more)
    text = TEXT.replace("PLACE", place).replace("BYTES", str(nbytes))
    kernel = Module(text.replace("COPY", copy.format(n=n, at=at)))["k"]
    try:
        kernel.launch(1, 1, [made, np.zeros(32, np.uint32), x])
    except Fault as error:
        assert str(error).startswith("cp.async.bulk by all threads of block 0: ")
        assert "at PTX line 1" in str(error)
        return str(error).removeprefix("cp.async.bulk by all threads of block 0: ")
    return ""


def test_a_box_that_is_right() -> None:
    assert said() == said(at="4, 4") == said(at="12, 6") == ""


@pytest.mark.parametrize(("place", "says"), [
    ("mov.u64 %rd2, own; cvta.shared.u64 %rd1, %rd2;",
     "the tensor map lies in shared memory; it must be a parameter, or in global or constant "),
    ("mov.u64 %rd2, mine; cvta.local.u64 %rd1, %rd2;",
     "the tensor map lies in local memory, a copy of the thread's own, which the copy engine "
     "cannot read: declare the parameter const __grid_constant__ CUtensorMap; "),
    ("add.u64 %rd1, %rd1, 32;", " is no multiple of 64; "),
])  # fmt: skip
def test_a_map_in_another_place(place: str, says: str) -> None:
    assert says in said(place=place)


def test_what_is_no_map() -> None:
    why = said(place="ld.param.u64 %rd1, [other];")
    assert why.startswith("there is no tensor map at 0x7000")
    assert ("pass a pb.TensorMap, or the result of cuTensorMapEncodeTiled, as a const "
            "__grid_constant__ parameter; ") in why  # fmt: skip


@pytest.mark.parametrize(("options", "says"), [
    ({"n": 1, "at": "0"}, "the tensor map has 2 dimensions, not 1; "),
    ({"n": 3, "at": "0, 0, 0"}, "the tensor map has 2 dimensions, not 3; "),
    ({"at": "1, 0"},
     "the box begins at element 1 of the innermost dimension, byte 4; this must be a "
     "multiple of 16 bytes; "),
    ({"at": "-2, 0"},
     "the box begins at element -2 of the innermost dimension, byte -8; this must be "),
    ({"at": "-4, 0"}, ""), ({"at": "0, -1"}, ""),
    ({"at": "0, -1", "copy": STORE},
     "a store's box may reach over the end of the tensor, but it begins "
     "at (0, -1): no coordinate may be negative; "),
    ({"at": "-4, 0", "copy": STORE},
     "a store's box may reach over the end of the tensor, but it begins "
     "at (-4, 0): no coordinate may be negative; "),
    ({"at": "12, 6", "copy": STORE}, ""), ({"at": "0, 0", "copy": STORE}, ""),
])  # fmt: skip
def test_where_a_box_begins(options: dict[str, Any], says: str) -> None:
    why = said(**options)
    assert why.startswith(says) and bool(why) == bool(says)


@pytest.mark.parametrize(("dims", "strides", "at", "says"), [
    ((16, 9), (64,), "0, 8",
     "the box at (0, 8) reaches outside of the tensor's memory: do dims (16, 9) "
     "and strides (64,) of the tensor map fit the allocation? It is 0 bytes after the end of "),
    ((16, 9), (64,), "0, 6", "the box at (0, 6) reaches 16 bytes past the end of "),
    ((16, 9), (64,), "0, 4", ""),
])  # fmt: skip
def test_a_map_that_says_more_than_there_is(
    dims: tuple[int, ...], strides: tuple[int, ...], at: str, says: str
) -> None:
    why = said(dims=dims, strides=strides, at=at)
    assert why.startswith(says) and bool(why) == bool(says), why
