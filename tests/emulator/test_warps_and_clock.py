"""Instructions are counted by warp, and a wait ends no earlier than what it waited for."""

from __future__ import annotations

import pytest

from phasebit.emulator import Run
from phasebit.launching.launch import Module

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"

# Threads with (tid & mask) == 0 skip four instructions.
BRANCH = """
.visible .entry branch(.param .u32 mask)
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    ld.param.u32 %r3, [mask];
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, %r3;
    setp.eq.u32 %p1, %r2, 0;
    @%p1 bra END;
    add.u32 %r2, %r2, 1;
    add.u32 %r2, %r2, 1;
    add.u32 %r2, %r2, 1;
    add.u32 %r2, %r2, 1;
END:
    ret;
}
"""


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(
    ("mask", "grid", "block", "skipping"),
    [
        (0, 1, 128, 4),  # nobody goes in: four warps skip
        (1, 1, 128, 0),  # every other thread of every warp goes in
        (31, 1, 128, 0),
        (32, 1, 128, 2),  # whole warps go in
        (96, 1, 128, 1),
        (1, 3, 96, 0),
        (32, 2, 80, 4),  # the last warp of a block is half empty
    ],
)
def test_each_warp_of_a_divided_group_counts_once(
    mask: int, grid: int, block: int, skipping: int, check: bool
) -> None:
    run = Module(HEAD + BRANCH)["branch"].launch(grid, block, [mask], check=check)
    warps = grid * -(-block // 32)
    assert run.counters["smsp__inst_executed.sum"] == 6 * warps + 4 * (warps - skipping)


RING = """
.visible .entry ring(.param .u32 items)
{
    .reg .pred %p<4>;
    .reg .b32 %r<9>;
    .shared .align 8 .b64 full;
    .shared .align 8 .b64 empty;
    ld.param.u32 %r1, [items];
    mov.u32 %r5, %tid.x;
    setp.ne.u32 %p1, %r5, 0;
    @%p1 bra READY;
    mbarrier.init.shared.b64 [full], 32;
    mbarrier.init.shared.b64 [empty], 32;
READY:
    bar.sync 0;
    mov.u32 %r6, 0;
    setp.ge.u32 %p2, %r5, 32;
    @%p2 bra CONSUMER;
    mov.u32 %r7, 1;
PRODUCE:
    mbarrier.try_wait.parity.shared.b64 %p3, [empty], %r7;
    @!%p3 bra PRODUCE;
    mbarrier.arrive.shared.b64 _, [full];
    xor.b32 %r7, %r7, 1;
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p1, %r6, %r1;
    @%p1 bra PRODUCE;
    ret;
CONSUMER:
    mov.u32 %r7, 0;
CONSUME:
    mbarrier.try_wait.parity.shared.b64 %p3, [full], %r7;
    @!%p3 bra CONSUME;
    mbarrier.arrive.shared.b64 _, [empty];
    xor.b32 %r7, %r7, 1;
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p1, %r6, %r1;
    @%p1 bra CONSUME;
    ret;
}
"""


def ring(items: int) -> Run:
    return Module(HEAD + RING)["ring"].launch(1, 64, [items])


def test_both_roles_of_a_ring_of_one_slot_wait_for_every_item() -> None:
    """Whichever warp the emulator happens to run first: each item is two waits on its clock."""
    waits = [s for s in ring(4).timeline.spans if s.kind == "wait"]
    assert [s.label.split()[-1] for s in waits if s.row == "warp 0"] == ["empty"] * 3
    assert [s.label.split()[-1] for s in waits if s.row == "warp 1"] == ["full"] * 4


def test_a_wait_ends_when_the_other_side_has_arrived() -> None:
    """The roles take turns, so an item costs both their parts: from a wait to an arrival."""
    block_after_wait, block_with_arrival = 1, 5
    turn = block_after_wait + block_with_arrival
    assert ring(5).cycles - ring(4).cycles == ring(9).cycles - ring(8).cycles == 2 * turn


def test_an_instruction_counts_in_the_family_that_it_was_selected_from() -> None:
    """``add`` is integer, floating and half; a branch is control."""
    run = Module(HEAD + BRANCH)["branch"].launch(1, 32, [1])
    counted = {name: n for name, n in run.counters.items() if name.startswith("inst.")}
    assert counted == {
        "inst.memory": 1, "inst.move": 1, "inst.logic": 1, "inst.compare": 1, "inst.control": 2,
        "inst.integer": 4,
    }  # fmt: skip
