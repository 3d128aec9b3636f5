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
