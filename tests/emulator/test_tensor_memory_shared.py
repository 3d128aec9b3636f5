"""Two blocks on one multiprocessor share its 512 columns (PTX ISA 9.7.16.1, 9.7.16.7.1)."""

from __future__ import annotations

import re

import numpy as np
import pytest

from phasebit.emulator import Run
from phasebit.emulator.errors import Deadlock, LaunchError
from tests.emulator.tensor_ptx import HEAD, run

SCHEDULES = ("eager", "late", "random")
KERNEL = HEAD + """
.visible .entry kernel(.param .u64 out)
{
    .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<4>;
    .shared .align 4 .b32 slot[2];
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
    mul.wide.u32 %rd2, %r2, 4; add.u64 %rd1, %rd1, %rd2;
    BODY
    ret;
}
"""
TAKE = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot+{}], {};\n"
GIVE = "ld.shared.u32 %r4, [slot+{}]; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, {};\n"
QUIT = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n"
USE = (
    "ld.shared.u32 %r4, [slot]; add.u32 %r5, %r2, 7; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r4],"
    "{%r5}; tcgen05.wait::st.sync.aligned; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r6}, [%r4];"
    "tcgen05.wait::ld.sync.aligned; st.global.u32 [%rd1], %r6;"
)


def launch(body: str, blocks: int = 2, **more: object) -> tuple[Run, list[int]]:
    out = np.zeros(blocks, np.uint32)
    found = run(KERNEL.replace("BODY", body), out, threads=32, blocks=blocks,
                **more)  # type: ignore[arg-type]  # fmt: skip
    return found, out.tolist()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("columns", [128, 256, 512])
@pytest.mark.parametrize("blocks", [2, 5])
def test_9_7_16_7_1_a_block_waits_until_the_other_gives_back(
    blocks: int, columns: int, schedule: str
) -> None:
    body = TAKE.format(0, columns) + QUIT + USE + GIVE.format(0, columns)
    found, out = launch(body, blocks, schedule=schedule, resident=2)
    assert out == [7 + i for i in range(blocks)] and not found.findings


def test_9_7_16_1_what_one_block_has_another_gets_not() -> None:
    """Their addresses differ."""
    body = TAKE.format(0, 128) + "ld.shared.u32 %r4, [slot]; st.global.u32 [%rd1], %r4; " + (
        "bar.sync 0;" + GIVE.format(0, 128)
    )
    _, out = launch(body, 4, resident=4)
    assert sorted(out) == [0, 128, 256, 384]
    _, out = launch(body, 4)
    assert out == [0, 0, 0, 0]


TWICE = TAKE.format(0, 256) + TAKE.format(4, 256) + QUIT + GIVE.format(0, 256) + GIVE.format(4, 256)
ONCE = TAKE.format(0, 512) + QUIT + GIVE.format(0, 512)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_9_7_16_7_1_each_holds_what_the_other_waits_for(schedule: str) -> None:
    with pytest.raises(Deadlock) as caught:
        launch(TWICE, resident=2, schedule=schedule)
    assert re.search(
        "wait for 256 free columns of tensor memory: .*\n.*blocks 0 and 1 share a multiprocessor, "
        "and each holds columns that the other waits for", str(caught.value),
    ), caught.value  # fmt: skip
    found, _ = launch(ONCE, resident=2, schedule=schedule)
    assert not found.findings


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_9_7_16_7_1_the_danger_is_seen_where_each_block_is_alone(schedule: str) -> None:
    found, _ = launch(TWICE, schedule=schedule)
    (finding,) = found.findings
    assert finding.kind == "tensor" and finding.line
    assert "may each hold what the other waits for" in finding.message
    assert not launch(ONCE, schedule=schedule)[0].findings
    assert not launch(TWICE, blocks=1, schedule=schedule)[0].findings
    half = TWICE.replace("256", "128")
    assert not launch(half, schedule=schedule)[0].findings


def test_no_danger_where_shared_memory_keeps_blocks_apart() -> None:
    assert not launch(TWICE, shared=150 << 10)[0].findings


def test_a_multiprocessor_has_1_to_32_blocks() -> None:
    with pytest.raises(LaunchError, match="resident=0"):
        launch(ONCE, resident=0)
