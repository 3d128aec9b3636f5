"""Four rows of a matrix, each from its own place, the rules named after their sections.

There was no Blackwell to compare with.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phasebit as pb
from phasebit.emulator.errors import Fault
from phasebit.emulator.launch import Module, Run
from tests.emulator.tensor_kernels import HEAD

SCHEDULES = ("eager", "late", "random")
ROWS, WIDTH, COLUMNS = 40, 64, 32
GATHER = "cp.async.bulk.tensor.2d.shared::{}.global.tile::gather4.mbarrier::complete_tx::bytes{} "
SCATTER = "cp.async.bulk.tensor.2d.tile::scatter4.global.shared::cta.bulk_group "
KERNEL = HEAD + """
.visible .entry kernel(.param .align 64 .b8 from[128], .param .align 64 .b8 into[128],
    .param .u64 rows, .param .u32 first, .param .u32 bytes)
{
    .reg .pred %p<3>; .reg .b32 %r<30>; .reg .b64 %rd<4>; .reg .b16 %h<2>;
    .shared .align 1024 .b8 tile[1024]; .shared .align 8 .b64 full;
    mov.b64 %rd1, from; mov.b64 %rd2, into; cvta.param.u64 %rd1, %rd1; cvta.param.u64 %rd2, %rd2;
    ld.param.u64 %rd3, [rows]; ld.param.u32 %r1, [first]; ld.param.u32 %r11, [bytes];
    mov.b16 %h1, MASK;
    mov.u32 %r2, %tid.x; setp.ne.u32 %p1, %r2, 0; mov.u32 %r3, %cluster_ctarank;
    mul.wide.u32 %rd0, %r3, 32; add.u64 %rd0, %rd3, %rd0;
    @!%p1 mbarrier.init.shared::cta.b64 [full], 1;
    @!%p1 fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
    @%p1 bra END;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], %r11;
    setp.ne.u32 %p2, %r3, 0;
    @%p2 bra COME;
    ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd3];
    prefetch.tensormap [%rd1];
    cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4 [%rd1, {%r1, %r4, %r5, %r6, %r7}];
    COPY [tile], [%rd1, {%r1, %r4, %r5, %r6, %r7}], [full] MORE;
COME:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0; @!%p2 bra COME;
    ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd0+16];
    STORE [%rd2, {%r1, %r4, %r5, %r6, %r7}], [tile];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
END:
    barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
    ret;
}
"""


def moved(
    taken: list[int], *given: list[int], first: int = 0, swizzle: str = "none", blocks: int = 1,
    box: int = COLUMNS, oob: str = "zeros", **more: Any,
) -> tuple[Any, Any, Run]:  # fmt: skip
    """The matrix, what the blocks made of another, and the run."""
    matrix = np.random.default_rng().standard_normal((ROWS, WIDTH)).astype(np.float32)
    out = np.full((ROWS, WIDTH), -1, np.float32)
    rows = np.array([number for each in given for number in (*taken, *each)], np.int32)
    text = KERNEL.replace("COPY", GATHER.format("cluster", ".multicast::cluster") if blocks > 1
                          else GATHER.format("cta", ""))  # fmt: skip
    text = text.replace("MORE", ", %h1" if blocks > 1 else "").replace("STORE", SCATTER)
    maps = [pb.TensorMap(x, (box, 1), swizzle=swizzle, oob_fill=oob) for x in (matrix, out)]
    run = Module(text.replace("MASK", str((1 << blocks) - 1)))["kernel"].launch(
        blocks, 32, [*maps, rows, first, 16 * box], cluster=blocks, **more
    )
    return matrix, out, run


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
def test_5_5_3_four_rows_move(swizzle: str, schedule: str) -> None:
    """Whatever the swizzle: it is the same on the way in and out."""
    box = {"32B": 8, "64B": 16}.get(swizzle, COLUMNS)
    taken, given = [7, 3, 39, 3], [1, 30, 2, 0]
    matrix, out, run = moved(
        taken, given, first=4, swizzle=swizzle, box=box, schedule=schedule
    )
    wanted = np.full((ROWS, WIDTH), -1, np.float32)
    wanted[given, 4 : 4 + box] = matrix[taken, 4 : 4 + box]
    assert np.array_equal(out, wanted) and not run.hazards


def test_5_5_3_rows_outside_are_filled_and_not_written() -> None:
    matrix, out, _ = moved([-1, 5, ROWS, 6], [3, ROWS, 4, ROWS + 1])
    wanted = np.full((ROWS, WIDTH), -1, np.float32)
    wanted[[3, 4], :COLUMNS] = 0
    assert np.array_equal(out, wanted)
    _, out, _ = moved([ROWS, 5, 5, 5], [3, 4, 5, 6], oob="nan")
    assert np.isnan(out[3, :COLUMNS]).all() and not np.isnan(out[4:]).any()


def test_5_5_3_columns_outside() -> None:
    """A box that reaches over the edge of the rows: a whole piece of 16 bytes fits, or none."""
    matrix, out, _ = moved([1, 2, 3, 4], [5, 6, 7, 8], first=WIDTH - 8)
    assert np.array_equal(out[5:9, -8:], matrix[1:5, -8:]) and (out[5:9, :-8] == -1).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_9_7_9_27_1_2_one_gather_for_two_blocks(schedule: str) -> None:
    taken = [9, 8, 7, 6]
    matrix, out, run = moved(taken, [0, 1, 2, 3], [4, 5, 6, 7], blocks=2, schedule=schedule)
    assert np.array_equal(out[:4, :COLUMNS], matrix[taken, :COLUMNS]) and not run.hazards
    assert np.array_equal(out[4:8, :COLUMNS], matrix[taken, :COLUMNS])


def test_what_cannot_be() -> None:
    with pytest.raises(Fault, match="no coordinate may be negative"):
        moved([0, 1, 2, 3], [0, 1, -1, 2])
    with pytest.raises(Fault, match="must be a multiple of 16 bytes"):
        moved([0, 1, 2, 3], [0, 1, 2, 3], first=2)
    text = KERNEL.replace("COPY", GATHER.format("cta", "")).replace("MORE", "")
    text = text.replace("{%r1, %r4, %r5, %r6, %r7}], [full]", "{%r1, %r4}], [full]")
    maps = [pb.TensorMap(np.zeros((ROWS, WIDTH), np.float32), (COLUMNS, 1))] * 2
    with pytest.raises(Fault, match="a column and four rows, not 2 numbers"):
        Module(text.replace("STORE", SCATTER).replace("MASK", "1"))["kernel"].launch(
            1, 32, [*maps, np.zeros(8, np.int32), 0, 512]
        )
