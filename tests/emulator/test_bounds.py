"""Invalid accesses in words: who, where, by how much, past the end of what."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.errors import Fault, Misaligned, OutOfBounds
from phasebit.launching.launch import Module

TEXT = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q, .param .u32 at, .param .u32 step)
{
    .shared .align 16 .b8 first[40]; .shared .align 16 .b8 second[16];
    .local .align 16 .b8 mine[32];
    .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p;
    ld.param.u64 %d1, [p]; ld.param.u64 %d2, [q]; ld.param.u32 %r1, [at]; ld.param.u32 %r2, [step];
    mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r3, %r2, %r1; cvt.s64.s32 %d3, %r1;
    mov.b32 %r4, 0; mov.b32 %r5, 0; mov.b64 %d7, 0;
    BODY
    ret;
}
"""
GLOBAL = "add.s64 %d4, %d1, %d3; st.global.u32 [%d4], %r4;"
WIDE = "add.s64 %d4, %d1, %d3; st.global.v2.u32 [%d4], {%r4, %r5};"
SHARED = "mov.u32 %r6, first; add.u32 %r6, %r6, %r1; st.shared.u32 [%r6], %r4;"
LOCAL = "mov.u64 %d4, mine; add.s64 %d4, %d4, %d3; st.local.u32 [%d4], %r4;"


def says(body: str, at: int, step: int = 0, threads: int = 32) -> tuple[Any, str]:
    """The kind of fault and its sentence; nothing where there is none."""
    first, second = np.zeros(25, np.uint32), np.zeros(6, np.uint32)  # 100 and 24 bytes
    try:
        Module(TEXT.replace("BODY", body))["k"].launch(
            1, threads, [first, second, at % 2**32, step]
        )
    except Fault as error:
        return type(error), str(error)
    return None, ""


@pytest.mark.parametrize(("body", "at", "step", "kind", "sentence"), [
    (GLOBAL, 0, 0, None, ""), (GLOBAL, 96, 0, None, ""), (GLOBAL, 0, 3, Misaligned,
     "invalid global access by thread 1 of block 0: address 0x7000000001{}3 is misaligned: not a "
     "multiple of 4; "),
    (GLOBAL, 98, 0, OutOfBounds, "reaches 2 bytes past the end of argument 0 (100 bytes); "),
    (GLOBAL, 100, 0, OutOfBounds, "is 0 bytes after the end of argument 0 (100 bytes); "),
    (GLOBAL, 96, 4, OutOfBounds, "access by thread 1 of block 0: address"),
    (GLOBAL, -4, 0, OutOfBounds, "is 4 bytes before argument 0 (100 bytes); "),
    (WIDE, 88, 0, None, ""),
    (WIDE, 96, 0, OutOfBounds, "reaches 4 bytes past the end of argument 0 (100 bytes); "),
    (WIDE, 4, 0, Misaligned, "is misaligned: not a multiple of 8; "),
    (SHARED, 0, 0, None, ""), (SHARED, 60, 0, None, ""),
    (SHARED, 64, 0, OutOfBounds,
     "invalid shared access by thread 0 of block 0: address 64 (second+16)"
     " lies outside of the block's 64 bytes; "),
    (SHARED, 50, 0, Misaligned, "address 50 (second+2) is misaligned: not a multiple of 4; "),
    (SHARED, 0, 1, Misaligned, "by thread 1 of block 0: address 1 (first+1) is misaligned"),
    (SHARED, 36, 4, OutOfBounds, "by thread 7 of block 0: address 64 (second+16) lies outside"),
    (LOCAL, 0, 0, None, ""), (LOCAL, 28, 0, None, ""),
    (LOCAL, 32, 0, OutOfBounds,
     "invalid local access by thread 0 of block 0: address 32 of a stack of 32 bytes; "),
    (LOCAL, 16, 4, OutOfBounds, "by thread 4 of block 0: address 32 of a stack of 32 bytes; "),
    (LOCAL, 2, 0, OutOfBounds, "address 2 of a stack of 32 bytes; "),
])  # fmt: skip
def test_what_is_said_of_an_access(
    body: str, at: int, step: int, kind: type[Fault] | None, sentence: str
) -> None:
    found, said = says(body, at, step)
    assert found is kind, said
    parts = [re.escape(part) for part in sentence.split("{}")]
    assert re.search(r"\w".join(parts), said), said
    assert not kind or "PTX line" in said


def test_the_last_thread_alone_is_outside() -> None:
    found, said = says(GLOBAL, 0, 4, threads=26)
    assert found is OutOfBounds and "by thread 25 of block 0" in said
    assert says(GLOBAL, 0, 4, threads=25) == (None, "")


def test_threads_may_reach_several_arrays() -> None:
    both = """
    sub.s64 %d5, %d2, %d1; setp.eq.u32 %p, %r3, 1; selp.b64 %d6, %d5, 0, %p;
    add.s64 %d4, %d1, %d6; add.s64 %d4, %d4, %d3; st.global.u32 [%d4], %r4;
    """
    assert says(both, 0, 0, threads=3) == (None, "")
    assert says(both, 20, 0, threads=3) == (None, "")
    found, said = says(both, 24, 0, threads=3)
    assert found is OutOfBounds and "by thread 1 of block 0" in said
    assert "0 bytes after the end of argument 1 (24 bytes)" in said
    found, said = says(both, 2, 0, threads=3)
    assert found is Misaligned and "by thread 0 of block 0" in said


def test_the_access_of_several_that_one_check_covers_is_named() -> None:
    three = "add.s64 %d4, %d1, %d3;" + "".join(
        f"\n    st.global.u32 [%d4+{offset}], %r4;" for offset in (0, 8, 16)
    )
    assert says(three, 80) == (None, "")
    for at, offset in ((84, 16), (92, 8), (100, 0)):
        found, said = says(three, at)
        assert found is OutOfBounds
        assert f"[%d4+{offset}]" in said or (offset == 0 and "[%d4+" not in said), said


def test_no_address_of_an_array() -> None:
    found, said = says("st.global.u32 [%d7], %r4;", 0)
    assert found is OutOfBounds and "address 0x0 is no address of an array; " in said


def test_an_access_that_is_wider_than_its_array_begins_inside() -> None:
    small = np.zeros(1, np.uint32)
    with pytest.raises(OutOfBounds) as raised:
        Module(TEXT.replace("BODY", WIDE))["k"].launch(1, 1, [small, np.zeros(6, np.uint32), 0, 0])
    assert "reaches 4 bytes past the end of argument 0 (4 bytes); " in str(raised.value)


SYSTEM = (
    "mov.u32 %r6, %reserved_smem_offset_begin; add.u32 %r6, %r6, %r1; ld.shared.u32 %r4, [%r6];"
)
BOTH = (
    "mov.u32 %r6, %reserved_smem_offset_begin; setp.eq.u32 %p, %r3, 3; mov.u32 %r7, first; "
    "selp.u32 %r6, %r7, %r6, %p; add.u32 %r6, %r6, %r1; st.shared.u32 [%r6], %r4;"
)


@pytest.mark.parametrize(("at", "step", "kind", "thread"), [
    (0, 0, None, 0), (1020, 0, None, 0), (1024, 0, OutOfBounds, 0), (992, 4, OutOfBounds, 8),
    (2, 0, OutOfBounds, 0), (-4, 0, OutOfBounds, 0), (2048, 0, OutOfBounds, 0),
])  # fmt: skip
def test_the_systems_own_shared_memory_is_for_who_asks_where_it_is(
    at: int, step: int, kind: type[Fault] | None, thread: int
) -> None:
    """1 KiB behind the block's; without the register nobody may read there."""
    found, said = says(SYSTEM, at, step)
    assert bool(found) == bool(kind)
    assert not kind or f"by thread {thread} of block 0" in said or "by all threads" in said
    assert says(SHARED, 32 + (at if at > 0 else 1024))[0] is not None


def test_some_threads_use_the_systems_shared_memory_and_others_the_blocks() -> None:
    assert says(BOTH, 0) == says(BOTH, 60) == (None, "")
    found, said = says(BOTH, 64)
    assert found is OutOfBounds and "by thread 3 of block 0: address 64 (second+16)" in said
