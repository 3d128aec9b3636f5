"""Generic addresses: which space each lies in, to it and back; addresses in a cluster.

PTX ISA 9.7.9.19 (isspacep), 9.7.9.20 (cvta), 9.7.9.22 (mapa), 9.7.9.23 (getctarank), 9.7.17.
"""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.emulator.errors import EmulatorError
from phasebit.emulator.ops.loads_and_stores import store
from phasebit.emulator.ops.move import half_of, wide
from phasebit.launching.launch import Module
from tests.emulator.values import execute

SPACES = ("global", "const", "shared", "shared::cta", "shared::cluster", "local", "param")
KERNEL = """.version 8.7\n.target sm_90a\n.address_size 64
.const .align 4 .b32 fixed[2] = {11, 12};
.visible .entry k(.param .u64 out, .param .u32 n)
{
    .shared .align 16 .b8 box[256]; .local .align 16 .b8 own[32];
    .reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %rd<20>;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
    mad.lo.u32 %r3, %r2, 32, %r1; mul.wide.u32 %rd2, %r3, 8; add.u64 %rd2, %rd1, %rd2;
    mov.u32 %r4, %cluster_ctarank; xor.b32 %r5, %r4, 1; mov.u64 %rd9, 0;
    BODY
    st.global.u64 [%rd2], %rd9;
    ret;
}
"""


def run(body: str, blocks: int = 4, cluster: int = 2) -> list[int]:
    out = np.zeros(32 * blocks, np.uint64)
    text = KERNEL.replace("BODY", body)
    assert not Module(text)["k"].launch(blocks, 32, [out, 5], cluster=cluster).findings
    return out.reshape(blocks, 32)[:, 7].tolist()


ADDRESSES = {
    "global": ("mov.u64 %rd3, %rd1;", {"global"}),
    "shared": ("mov.u64 %rd3, box; cvta.shared.u64 %rd3, %rd3;",
               {"shared", "shared::cta", "shared::cluster"}),
    "the neighbour's": ("mov.u64 %rd3, box; cvta.shared.u64 %rd3, %rd3; mapa.u64 %rd3, %rd3, %r5;",
                        {"shared::cluster"}),
    "local": ("mov.u64 %rd3, own; cvta.local.u64 %rd3, %rd3;", {"local"}),
}  # fmt: skip


@pytest.mark.parametrize("of", ADDRESSES)
def test_9_7_9_19_the_space_of_a_generic_address(of: str) -> None:
    body, lies_in = ADDRESSES[of]
    for i, space in enumerate(SPACES):
        if space in ("const", "param"):
            continue  # constants lie among globals here, and parameters have no generic address
        body += f"isspacep.{space} %p1, %rd3; selp.u64 %rd4, {1 << i}, 0, %p1; or.b64 %rd9, %rd9, "
        body += "%rd4; "
    wanted = sum(1 << i for i, space in enumerate(SPACES) if space in lies_in)
    assert run(body) == [wanted] * 4


@pytest.mark.parametrize("space", ["shared", "local"])
def test_9_7_9_20_there_and_back(space: str) -> None:
    name = {"shared": "box", "local": "own"}[space]
    body = f"mov.u64 %rd3, {name}; mul.wide.u32 %rd6, %r1, {4 if space == 'shared' else 0}; "
    body += f"add.u64 %rd3, %rd3, %rd6; st.{space}.u32 [%rd3+8], %r3; add.u64 %rd3, %rd3, 8; "
    body += f"cvta.{space}.u64 %rd4, %rd3; ld.u32 %r6, [%rd4]; cvta.to.{space}.u64 %rd5, %rd4; "
    body += f"ld.{space}.u32 %r7, [%rd5]; mov.b64 %rd9, {{%r6, %r7}};"
    assert run(body) == [(n << 32) + n for n in (7, 39, 71, 103)]


@pytest.mark.parametrize(("space", "window"), [
    ("global", 0), ("const", 0), ("shared", 0x7800 << 32), ("local", 0x7900 << 32),
    ("param", 0x7A00 << 32),
])  # fmt: skip
def test_the_windows(space: str, window: int) -> None:
    given = np.array([0x40, 0x1000], np.uint64)
    generic = execute(f"cvta.{space}.u64", given)
    assert generic.tolist() == [window + 0x40, window + 0x1000]
    assert execute(f"cvta.to.{space}.u64", generic).tolist() == given.tolist()


def test_9_7_9_22_the_same_variable_in_another_block() -> None:
    """Bits 24 and up of a shared address are the rank."""
    body = "mov.u32 %r6, box; add.u32 %r6, %r6, 12; mapa.shared::cluster.u32 %r7, %r6, %r5; "
    body += "getctarank.shared::cluster.u32 %r8, %r7; mov.b64 %rd9, {%r7, %r8};"
    assert run(body) == [1 << 32 | 1 << 24 | 12, 12, 1 << 32 | 1 << 24 | 12, 12]
    body = "mov.u64 %rd3, box; cvta.shared.u64 %rd3, %rd3; mapa.u64 %rd4, %rd3, 3; "
    body += "getctarank.u64 %r8, %rd4; "
    body += "cvt.u64.u32 %rd5, %r8; shl.b64 %rd5, %rd5, 56; or.b64 %rd9, %rd4, %rd5;"
    assert run(body, 4, 4) == [3 << 56 | 0x7800 << 32 | 3 << 24] * 4


def test_a_store_of_all_threads_to_one_address_is_the_last_one_s() -> None:
    view = np.zeros(4, np.uint32)
    store(view, np.int64(2), np.arange(5, 9, dtype=np.uint32))
    store(view, np.array([0, 1, 0]), np.array([1, 2, 3], np.uint32))
    store(view, np.int64(3), np.uint32(9))
    assert view.tolist() == [3, 2, 8, 9]


def test_128_bits_and_their_halves() -> None:
    low, high = np.array([1, 2], np.uint64), np.array([3, 1 << 63], np.uint64)
    both = wide(low, high)
    assert both.shape == (2,) and both.itemsize == 16
    assert half_of(both, 0).tolist() == [1, 2] and half_of(both, 1).tolist() == [3, 1 << 63]
    one = wide(np.uint64(5), np.uint64(6))
    assert not isinstance(one, np.ndarray)
    assert (half_of(one, 0), half_of(one, 1)) == (5, 6)
    assert half_of(wide(np.uint64(5), high), 0).tolist() == [5, 5]


STACK = "stacksave.u64 %rd3; alloca.u64 %rd4, SIZE, ALIGN; stacksave.u64 %rd5; "


@pytest.mark.parametrize(("size", "align", "start", "end"), [
    ("16", "8", 0, 16), ("5", "16", 0, 5), ("%r9", "32", 0, 7),
])  # fmt: skip
def test_9_7_17_memory_of_the_stack(size: str, align: str, start: int, end: int) -> None:
    """It begins at a multiple of the alignment; each thread asks for as much as it wants."""
    body = "add.u32 %r9, %r1, 0; " + STACK.replace("SIZE", size).replace("ALIGN", align)
    body += f"rem.u64 %rd6, %rd4, {align}; sub.u64 %rd7, %rd5, %rd4; shl.b64 %rd6, %rd6, 32; "
    body += "or.b64 %rd9, %rd7, %rd6; stackrestore.u64 %rd3; stacksave.u64 %rd8; "
    body += "setp.ne.u64 %p1, %rd8, %rd3; @%p1 mov.u64 %rd9, 999;"
    assert run(body, 1, 1) == [end]


def test_what_is_asked_for_lies_behind_what_was_there() -> None:
    body = (
        "alloca.u64 %rd3, 12; alloca.u64 %rd4, 8; sub.u64 %rd9, %rd4, %rd3; st.local.u32 [%rd3+8],"
    )
    body += " 1; st.local.u32 [%rd4+4], 2; ld.local.u32 %r6, [%rd3+8]; cvt.u64.u32 %rd5, %r6; "
    body += "shl.b64 %rd5, %rd5, 32; or.b64 %rd9, %rd9, %rd5;"
    assert run(body, 1, 1) == [1 << 32 | 16]
    with pytest.raises(EmulatorError, match="stack of"):
        run("alloca.u64 %rd3, 12; st.local.u32 [%rd3+64], 1;", 1, 1)
