"""The kernels of *Two GPUs* on the emulator, right and with slips that people make."""

from __future__ import annotations

import pytest

from phasebit.chapters.two_gpus import hand_offs, link_slips, on_peers
from phasebit.chapters.two_gpus.link_slips import SLIPS

pytestmark = pytest.mark.nvcc


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("kernel", on_peers.SMALL)
def test_right_under_every_schedule(kernel: str, schedule: str) -> None:
    done = on_peers.run(on_peers.source(kernel), schedule=schedule)
    assert (done.printed, [str(each) for each in done.findings]) == ("right\n", [])


@pytest.mark.parametrize("schedule", ["late", "random"])
@pytest.mark.parametrize("kernel", [*on_peers.RINGS, "warps send"])
def test_the_rings_are_right(kernel: str, schedule: str) -> None:
    """The tiles of one half, one after the other, by one block: ragged, with two columns."""
    text = (
        on_peers.warps_send(on_peers.source(on_peers.RING_GATHER))
        if kernel == "warps send" else on_peers.source(kernel)
    )  # fmt: skip
    shape = on_peers.TWO_TILES if schedule == "late" else on_peers.TINY
    done = on_peers.run(text, *shape, schedule=schedule)
    assert (done.printed, [str(each) for each in done.findings]) == ("right\n", [])


def test_what_the_link_carries_arrives() -> None:
    assert on_peers.run(on_peers.source("f_link")).verdict == "right"


@pytest.mark.parametrize("name", SLIPS)
def test_a_slip_is_found_by_name(name: str) -> None:
    done = SLIPS[name].run()
    rules = {each.rule for each in done.findings}
    assert done.verdict == SLIPS[name].says, [str(each) for each in done.findings]
    assert SLIPS[name].kernel in on_peers.RINGS or len(rules) <= 1


def test_a_text_without_a_harness_keeps_its_kernels() -> None:
    assert ".entry" in on_peers.ptx(on_peers.source(on_peers.GATHER))
    assert "int main" in on_peers.with_harness(on_peers.source(on_peers.GATHER))


def test_the_picture_says_who_waits() -> None:
    done = on_peers.run(on_peers.source(on_peers.MULTIPLY), trace=True)
    found = hand_offs.of_turn(done, 1)
    assert [block.device for block in found] == [0] * 6 + [1] * 6
    said = hand_offs.picture(found).alt
    assert "GPU 1 peer's rows 0: goes on when GPU 0 has sent it" in said
    assert "0 of GPU 0" in str(hand_offs.table(found))


def test_a_turn_lies_between_the_reading_of_a_slot_and_its_next_filling() -> None:
    done = on_peers.run(on_peers.source(on_peers.MULTIPLY), trace=True)
    second = hand_offs.of_turn(done, 1)
    took = max(b.ends for b in second) - min(b.begins for b in second)
    said = hand_offs.slots(done).alt
    assert f"turn 3: slot 1 is filled, then read; turn 1 had been read {took} clocks before" in said


def test_a_slip_that_no_longer_fits_is_refused() -> None:
    gone = link_slips.Slip(on_peers.REDUCE, (("no such line", ""),), "race")
    with pytest.raises(ValueError, match="no such line"):
        gone.run()
