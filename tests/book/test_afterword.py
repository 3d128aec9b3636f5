"""The afterword's table is what `tools/levels.py` writes, every level has all its parts, and the
picture has each level's ring, by the numbers of its kernel."""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from phasebit import files

from .notebooks import ROOT

sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, str(ROOT / "book" / "_ext"))

import levels
from phasebit_book import levels as rings

NUMBERS = {"engines", "kernels", "slots", "bytes"}
"""What only the picture needs."""


def test_the_table_is_what_the_tool_writes() -> None:
    """Red after a change of a chapter's number or of book/levels.toml, until it has run."""
    text = levels.PAGE.read_text("utf-8")
    assert levels.page(text) == text, "python tools/levels.py"


def test_each_level_says_all() -> None:
    given = tomllib.loads((levels.BOOK / "levels.toml").read_text("utf-8"))["level"]
    assert len(given) >= 9
    for level in given:
        words = {*levels.COLUMNS, "chapter"}
        assert level.keys() - NUMBERS == words and all(level[key] for key in words), level
        assert {"slots", "bytes"} & level.keys() in (set(), {"slots", "bytes"}), level
        assert set(level.get("engines", ())) <= {"producer", "consumer", "full", "empty"}, level


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="needs the lines"):
        levels.page("# Afterword\n")


def test_a_number_that_is_wrong_is_noticed() -> None:
    text = levels.PAGE.read_text("utf-8")
    broken = text.replace("| 23 |", "| 22 |", 1)
    assert broken != text and levels.page(broken) == text


EVERY = rings.read(levels.BOOK)


def test_a_page_without_a_number_stands_behind_the_chapter_that_it_goes_on_from() -> None:
    rows = levels.table().splitlines()
    (at,) = (n for n, row in enumerate(rows) if row.startswith("| the grid "))
    assert rows[at].endswith("| {doc}`part6_blackwell/pairs_and_launch` |")
    assert rows[at - 1].endswith("| 23 |") and rows[at + 1].endswith("| 25 |")
    names = [level.words["level"] for level in EVERY]
    assert names[at - 2] == "the grid" and EVERY[at - 2].where == "Pairs"


SAID = {
    "copies that threads start": ("asynchronous_copies/mbarrier.cu", "2 KiB and 32 bytes each"),
    "the tensor core, in front": ("chain/chain.cu", "slots of 48 KiB in shared memory"),
    "the way out": ("chain/chain.cu", "Place<2> to;"),
    "the grid": ("chain/launch_control.cuh", "The answer, 16 bytes, comes to shared memory"),
    "between two GPUs": ("two_gpus/ring_harness.cuh", "turn t uses slot t % 2"),
}
"""Level -> a kernel, and what it says of its ring in words."""


def test_the_numbers_are_those_that_the_kernels_say_in_words() -> None:
    shown = {level.words["level"]: (level.slots, level.bytes) for level in EVERY}
    for name, (kernel, text) in SAID.items():
        assert text in (files.kernels() / kernel).read_text("utf-8"), name
    assert {name: shown[name] for name in SAID} == {
        "copies that threads start": (4, 2048 + 32),
        "the tensor core, in front": (4, 48 << 10),
        "the way out": (2, 128 * 128),  # 128 rows of 128 bytes
        "the grid": (2, 16),
        "between two GPUs": (2, 16 * 256 * 2),
    }


def test_the_text_says_from_where_to_where_they_go() -> None:
    drawn = [level for level in EVERY if level.slots]
    few, many = (pick(level.slots for level in drawn) for pick in (min, max))
    least, most = (pick(level.bytes for level in drawn) for pick in (min, max))
    text = levels.PAGE.read_text("utf-8")
    assert f"have {few} to {many} slots, of {rings.size(least)} to {rings.size(most)}." in text


def squares(svg: str) -> list[tuple[float, int]]:
    """Of each row that has slots: the middle of them, and how many; from the top."""
    found = [
        (float(y), float(x)) for x, y in re.findall(r'<rect class="slot" x="(\S+)" y="(\S+)"', svg)
    ]
    return [
        (sum(x for at, x in found if at == y) / count, count)
        for y, count in sorted(Counter(y for y, _ in found).items())
    ]


def misplaced(svg: str) -> list[str]:
    """Levels that have another number of squares than slots, or stand on the wrong side of one of
    another size."""
    drawn = [level for level in EVERY if level.slots]
    found = squares(svg)
    assert len(found) == len(drawn)
    wrong = [level.words["level"] for level, (_, count) in zip(drawn, found, strict=True)
             if count != level.slots]  # fmt: skip
    for level, (x, _) in zip(drawn, found, strict=True):
        for other, (beside, _) in zip(drawn, found, strict=True):
            if level.bytes < other.bytes and x >= beside:
                wrong.append(level.words["level"])
    return wrong


@pytest.mark.parametrize("narrow", [False, True])
def test_each_ring_has_its_slots_where_their_size_is(narrow: bool) -> None:
    drawn = rings.picture(EVERY)
    assert len(drawn.alt.splitlines()) == 1 + len(EVERY)
    assert not misplaced(drawn.narrow if narrow else drawn.svg)


def test_a_slot_more_or_of_another_size_would_be_seen() -> None:
    first = next(n for n, level in enumerate(EVERY) if level.slots)
    for wrong in (replace(EVERY[first], slots=3), replace(EVERY[first], bytes=1 << 20)):
        changed = [*EVERY[:first], wrong, *EVERY[first + 1 :]]
        assert EVERY[first].words["level"] in misplaced(rings.picture(changed).svg)


def test_who_does_it_has_a_colour_in_each_row() -> None:
    svg = rings.picture(EVERY).svg
    boxes = re.findall(r'width="148" .*?fill:var\(--pb-(\w+)', svg)
    hue = {None: "grey", False: "blue", True: "orange"}
    assert boxes == [
        hue[level.engines[role]] for level in EVERY for role in ("producer", "consumer")
    ]


def test_what_is_written_in_a_box_fits_into_it() -> None:
    drawn = rings.picture(EVERY)
    for svg in (drawn.svg, drawn.narrow):
        (across,) = re.findall(r'viewBox="-1 0 (\S+) ', svg)
        for x, anchor, text in re.findall(r'<text x="(\S+)" .*?anchor="(\w+)" .*?>(.*?)<', svg):
            half = rings.width(text) / (2 if anchor == "middle" else 1)
            assert float(x) + half < float(across) + 1, text


def test_kernels_that_do_not_agree_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "kernels", lambda: tmp_path)
    (tmp_path / "a.cu").write_text("constexpr int SLOTS = 4, BYTES = SLOTS * 16;\n")
    (tmp_path / "b.cu").write_text("constexpr int SLOTS = 2;  // fewer\n")
    assert rings.constants(["a.cu"]) == {"SLOTS": 4, "BYTES": 64}
    with pytest.raises(ValueError, match=r"SLOTS is 4, and 2 in b\.cu"):
        rings.constants(["a.cu", "b.cu"])
    with pytest.raises(ValueError, match="'STAGES' is no number by the constants SLOTS"):
        rings.computed("STAGES", {"SLOTS": 4})
