"""Of a box that reaches over the edge of its tensor, a store reads what reaches memory, no more.

The rest of the tile may be anything: never written, or written by others meanwhile.
"""

from __future__ import annotations

import numpy as np
import pytest

import phasebit as pb
from phasebit.emulator import Run
from phasebit.emulator.numbers.swizzle import MODES
from tests.emulator.tensor_ptx import run
from tests.emulator.wgmma_cases import HEAD

ROWS, COLUMNS = 6, 8
"""Of the tensor; the box has 8 rows of 16 columns."""

STORE = (
    HEAD
    + """
.visible .entry kernel(.param .align 64 .b8 map[128], .param .u64 places)
{
    .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<4>; .shared .align 1024 .b8 tile[512];
    mov.u64 %rd1, map; cvta.param.u64 %rd1, %rd1; ld.param.u64 %rd2, [places];
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.u64 %rd2, %rd2, %rd3;
    ld.global.u32 %r2, [%rd2]; mov.u32 %r3, tile; add.u32 %r3, %r3, %r2; mov.u32 %r5, 0;
    and.b32 %r2, %r1, 15; setp.lt.u32 %p1, %r2, 8; setp.lt.u32 %p2, %r1, 96;
    and.pred %p1, %p1, %p2; setp.eq.u32 %p2, %r1, 0;
    @%p1 st.shared.u32 [%r3], %r1;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @%p2 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd1, {%r5, %r5}], [tile];
    @%p2 cp.async.bulk.commit_group;
    MEANWHILE
    @%p2 cp.async.bulk.wait_group 0;
    ret;
}
"""
)


def store(meanwhile: str, swizzle: str, schedule: str) -> Run:
    out = np.zeros((ROWS, COLUMNS), np.uint32)
    made = pb.TensorMap(out, (16, 8), swizzle=swizzle)
    thread = np.arange(128)
    places = MODES[swizzle](4 * thread) if swizzle != "none" else 4 * thread
    found = run(STORE.replace("MEANWHILE", meanwhile), made, places.astype(np.uint32),
                schedule=schedule)  # fmt: skip
    assert np.array_equal(out, thread.reshape(8, 16)[:ROWS, :COLUMNS])
    return found


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("swizzle", ["none", "64B"])
class TestStore:
    def test_what_lies_outside_need_not_be_written(self, swizzle: str, schedule: str) -> None:
        assert store("", swizzle, schedule).findings == []

    def test_what_lies_outside_may_be_written_again(self, swizzle: str, schedule: str) -> None:
        assert store("@!%p1 st.shared.u32 [%r3], %r1;", swizzle, schedule).findings == []

    def test_what_lies_inside_may_not(self, swizzle: str, schedule: str) -> None:
        found = store("@%p1 st.shared.u32 [%r3], %r1;", swizzle, schedule).findings
        assert ["may still read it" in one.message for one in found] == [True], found
