"""cp.async that reads less than it writes: each thread answers for the bytes it reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from phasebit.emulator.errors import EmulatorError
from phasebit.launching.launch import Module

PTX = """
.version 9.0
.target sm_80
.address_size 64
.visible .entry copy(.param .u64 from, .param .u64 given, .param .u64 out)
{
    .reg .b32 %r<9>; .reg .b64 %rd<9>; .shared .align 16 .b8 tile[512];
    ld.param.u64 %rd1, [from]; ld.param.u64 %rd2, [given]; ld.param.u64 %rd3, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd4, %r1, 16; add.s64 %rd1, %rd1, %rd4; add.s64 %rd3, %rd3, %rd4;
    mul.wide.u32 %rd5, %r1, 4; add.s64 %rd2, %rd2, %rd5; ld.global.u32 %r2, [%rd2];
    mov.u32 %r3, tile; shl.b32 %r4, %r1, 4; add.u32 %r3, %r3, %r4;
    cp.async.cg.shared.global [%r3], [%rd1], 16, %r2;
    cp.async.wait_all;
    ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r3];
    st.global.v4.u32 [%rd3], {%r5, %r6, %r7, %r8};
    ret;
}
"""


def copy(readable: int, given: np.ndarray[Any, np.dtype[np.int32]]) -> Any:
    """Each of 32 threads copies its 16 bytes, of which the first ``readable`` in all exist."""
    out = np.full(512, 99, np.uint8)
    source = np.arange(readable, dtype=np.uint8)
    Module(PTX)["copy"].launch(1, 32, [source, given.astype(np.uint32), out])
    return source, out.reshape(32, 16)


@pytest.mark.parametrize("readable", [200, 197, 16, 7])
def test_what_is_not_read_may_lie_anywhere_and_becomes_zero(readable: int) -> None:
    given = np.clip(readable - 16 * np.arange(32), 0, 16)
    source, out = copy(readable, given)
    assert np.array_equal(out.ravel()[:readable], source)
    assert not out.ravel()[readable:].any()


def test_nobody_reads() -> None:
    assert not copy(1, np.zeros(32, np.int32))[1].any()


@pytest.mark.parametrize("thread", [12, 13, 31])
@pytest.mark.parametrize("others", [0, 4])
def test_reading_past_the_end_is_found_whatever_the_others_read(thread: int, others: int) -> None:
    """Bytes 0 to 199 exist: thread 12 may read 8, threads 13 to 31 none."""
    given = np.where(np.arange(32) < 12, others, 0)
    given[thread] = 12
    with pytest.raises(EmulatorError, match=rf"invalid global access by thread {thread}\b"):
        copy(200, given)


def test_ignore_src_makes_zeros_where_the_predicate_holds() -> None:
    """9.7.9.25.3.1: the source is not read there, and may lie anywhere."""
    text = PTX.replace(".reg .b32 %r<9>;", ".reg .b32 %r<9>; .reg .pred %p1;").replace(
        "cp.async.cg.shared.global [%r3], [%rd1], 16, %r2;",
        "setp.ne.u32 %p1, %r2, 0; cp.async.cg.shared.global [%r3], [%rd1], 16, %p1;",
    )
    ignored = np.arange(32) % 3 == 1
    ignored[20:] = True  # nothing lies there
    source, out = np.arange(1, 321).astype(np.uint8), np.full(512, 99, np.uint8)
    run = Module(text)["copy"].launch(1, 32, [source, ignored.astype(np.uint32), out])
    right = np.zeros((32, 16), np.uint8)
    right[:20] = source.reshape(20, 16)
    right[ignored] = 0
    assert np.array_equal(out.reshape(32, 16), right) and not run.findings


GROUPS = """
.version 9.0
.target sm_80
.address_size 64
.visible .entry copy(.param .u64 from, .param .u64 out)
{
    .reg .b32 %r<9>; .reg .b64 %rd<9>; .shared .align 16 .b8 tile[48];
    ld.param.u64 %rd1, [from]; ld.param.u64 %rd2, [out]; mov.u32 %r1, tile;
    cp.async.ca.shared.global [%r1], [%rd1], 16; cp.async.commit_group;
    cp.async.ca.shared.global [%r1+16], [%rd1+16], 16; cp.async.commit_group;
    cp.async.ca.shared.global [%r1+32], [%rd1+32], 16; cp.async.commit_group;
    cp.async.wait_group PENDING;
    ld.shared.u32 %r2, [%r1+PLACE]; st.global.u32 [%rd2], %r2;
    cp.async.wait_all;
    ret;
}
"""


@pytest.mark.parametrize("pending", range(5))
@pytest.mark.parametrize("group", range(3))
def test_all_groups_but_the_newest_are_done(pending: int, group: int) -> None:
    """9.7.9.25.3.3: after ``wait_group N`` the N newest may be on their way, and no other."""
    text = GROUPS.replace("PENDING", str(pending)).replace("PLACE", str(16 * group))
    source, out = np.arange(1, 13, dtype=np.uint32), np.zeros(1, np.uint32)
    run = Module(text)["copy"].launch(1, 1, [source, out], schedule="late")
    done = group < 3 - pending
    assert (out[0] == source[4 * group]) is np.bool_(done)
    assert [each.rule for each in run.findings] == ([] if done else ["missing-copy-wait"])
