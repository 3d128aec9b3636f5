"""The model of answers: with room for many it is the chain's, and one slot makes a block wait."""

from __future__ import annotations

import pytest

from phasebit.chapters.chain import asked_ahead, rates


@pytest.mark.parametrize("k", [128, 512, 1024])
@pytest.mark.parametrize("out_bytes", [4, 2])
def test_with_room_for_many_answers_it_is_the_chain(k: int, out_bytes: int) -> None:
    chain = rates.gemm(k, out_bytes=out_bytes).per_tile()
    assert asked_ahead.per_tile(k, 8, out_bytes=out_bytes) == chain


def test_a_second_slot_hides_the_answer_as_the_page_says() -> None:
    for k in 128, 256, 512, 1024:
        for size in 4, 2:
            one, two = (asked_ahead.per_tile(k, slots, out_bytes=size) for slots in (1, 2))
            if k == 512:  # by a tenth, and by more than a fifth
                assert one / two > (1.1 if size == 4 else 1.2)
            assert two == rates.gemm(k, out_bytes=size).per_tile() and (one > two) == (k < 1024)


def test_an_answer_that_comes_at_once_needs_no_second_slot_for_f32() -> None:
    assert asked_ahead.per_tile(128, 1, answer=0) == asked_ahead.per_tile(128, 2, answer=0)


def test_the_picture_has_a_point_for_each_depth() -> None:
    said = str(asked_ahead.picture(512, 1024)).splitlines()
    assert said[1:] == ["C in f32: 1.11 1.00", "C in bf16: 1.23 1.00"]


def test_a_run_that_is_too_short_says_so() -> None:
    with pytest.raises(ValueError, match="give more"):
        asked_ahead.per_tile(512, 1, tiles=6)
