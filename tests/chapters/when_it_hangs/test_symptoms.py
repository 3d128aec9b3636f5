"""The table of *When it hangs, when it is wrong*, and the commands that the page names."""

from __future__ import annotations

import re
import sys

import pytest

from phasebit import bugs, process
from phasebit.chapters.when_it_hangs import symptoms, view
from tests.book.notebooks import ROOT, prose

CHAPTER = ROOT / "book/appendix/when_it_hangs.ipynb"


@pytest.mark.nvcc
def test_the_emulator_names_the_rule_of_each_program() -> None:
    for one in symptoms.SYMPTOMS:
        ended, said = symptoms.verdict(one)
        if one.program in bugs.names() and (rule := bugs.bug(one.program).rule):
            assert said.startswith(rule), one
        if one.seen.startswith("it hangs"):
            assert ended == "it does not end"
    right = [one.seen for one in symptoms.SYMPTOMS if symptoms.verdict(one)[0] == "right"]
    assert len(right) == 6 and len(symptoms.SYMPTOMS) == 14, right
    silent = [one.program for one in symptoms.SYMPTOMS
              if symptoms.verdict(one)[1].startswith("nothing")]  # fmt: skip
    assert silent == ["swapped_extents"]


@pytest.mark.nvcc
def test_the_three_kernels_say_what_the_table_says() -> None:
    assert symptoms.own(symptoms.MISALIGNED)[0] == "Misaligned"
    assert "wgmma.fence" in symptoms.own(symptoms.PLAIN_TARGET)[1]
    assert symptoms.own(symptoms.CONFLICTS) == ("right", "31 bank conflicts in one store of a warp")


def test_the_commands_of_the_page_are_there() -> None:
    commands = re.findall(r"`python -m phasebit (\w+)([^`]*)`", prose(CHAPTER))
    assert {name for name, _ in commands} == {"run", "rules", "mutate"}
    for name, rest in commands:
        done = process.run([sys.executable, "-m", "phasebit", name, "--help"], timeout=60)
        for option in re.findall(r"--\w+", rest):
            assert option in done.stdout, (name, option)


@pytest.mark.nvcc
def test_the_broken_program_asks_too_early_at_the_first_step_of_the_second_tile() -> None:
    picture = view.parities()
    rows = [line.split("|")[1].split() for line in str(picture).splitlines() if "|" in line]
    assert rows == [[*"012345"], [*"0100.."], [*"010101"]]
    assert "passes before the copy has come" in picture._repr_mimebundle_()["image/svg+xml"]


@pytest.mark.nvcc
def test_the_picture_of_a_hang_comes_back_to_those_who_wait() -> None:
    text = str(view.waits("bytes_without_an_arrival"))
    assert "line 26 → phase 0 of full" in text and "phase 0 of full → 0 of 1 arrivals came" in text
    assert "128 of 128 bytes came" in text and text.endswith("could come only from")


@pytest.mark.nvcc
def test_another_hang_has_another_picture() -> None:
    """One arrival for a count of 32, and the bytes never announced: both boxes change."""
    text = bugs.bug("bytes_without_an_arrival").code
    for before, after in (
        ("expect(&full, sizeof slot);", "ptx::mbarrier_arrive(&full);"),
        ("ptx::mbarrier_init(&full, 1);", "ptx::mbarrier_init(&full, 32);"),
        ("ptx::cp_async_bulk_load(slot, in, sizeof slot, &full);", ""),
    ):
        assert text.count(before) == 1
        text = text.replace(before, after)
    seen = bugs.emulate(bugs.build(text, "planted.cu", "sm_90a"))
    drawn = str(view.waits_of(seen.findings))
    assert "1 of 32 arrivals came" in drawn and "bytes came" not in drawn
    with pytest.raises(ValueError, match="nobody waits in vain"):
        view.waits_of(bugs.bug("bytes_without_an_arrival").run("fixed").findings)


@pytest.mark.nvcc
def test_the_race_is_drawn_in_both_orders_and_the_repair_has_one() -> None:
    rows = [line.partition("warp ")[2] for line in str(view.orders()).splitlines()[2:6]]
    assert rows == ["3  #", "0   =", "3   #", "0  !"]
    with pytest.raises(ValueError, match="no place that is read after a store in one order"):
        view.orders("fixed")


@pytest.mark.nvcc
def test_nan_comes_up_in_the_first_tile_and_never_where_out_is_cleared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [
        line.split("|")[1].split() for line in str(view.first_nan()).splitlines() if "|" in line
    ]
    assert rows[0] == ["0", "7", "∞", "NaN"]
    assert [row[2:] for row in rows[1:4]] == [["NaN", "NaN"]] * 3
    assert all(len(set(row)) == 1 and "NaN" not in row for row in rows[4:])
    monkeypatch.setattr(view, "HELD", (1.0, 2.0, 3.0, 4.0))
    assert str(view.first_nan()).count("NaN") == 0
