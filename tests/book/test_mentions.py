"""Every chapter that the prose mentions by number exists, and the machine knows each mention."""

from __future__ import annotations

import contextlib
import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .notebooks import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import chapter as command
import mentions

TOC = command.places((ROOT / "_toc.yml").read_text(encoding="utf-8"))
NUMBERS = {place.name: place.number for place in TOC}
PROSE = command.prose(ROOT)
OWN = ("tools/mentions.py", "tools/chapter.py", "tests/book/test_mentions.py",
       "tests/book/test_chapter_command.py", "book/_ext/phasebit_book/links.py",
       "tests/book/test_links.py", "tests/site/test_links.py")  # fmt: skip
"""Where numbers of chapters are the subject."""


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_prose_mentions_chapters_that_exist_in_words_that_the_machine_knows(path: Path) -> None:
    assert [each for text in command.texts(path) for each in command.wrong(text, NUMBERS)] == []


def test_there_are_mentions() -> None:
    """The check above would pass over prose that it cannot see."""
    notebooks = [path for path in PROSE if path.suffix == ".ipynb"]
    found = {path: sum(len(mentions.find(text)) for text in command.texts(path)) for path in PROSE}
    assert len(notebooks) > 16 and sum(map(bool, found.values())) > 15
    assert sum(found.values()) > 140


def bears_a_number(text: str) -> list[str]:
    """What names a chapter by number in a file that is no prose."""
    loose = re.findall(r"(?i)\bchapters?(?:[^\w.]|\n[ \t]*(?:#|//|\*)){1,4}\d+", text)
    return [*loose, *(match[0] for match in command.links([*NUMBERS]).finditer(text))]


def test_nothing_but_prose_bears_the_number_of_a_chapter() -> None:
    """Code names a chapter by its title or its folder, and so nobody has to renumber it."""
    answer = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if answer.returncode:
        pytest.skip("not a git checkout")
    exempt = {*(path.relative_to(ROOT).as_posix() for path in PROSE), *OWN, "_toc.yml"}
    wrong = {}
    for name in set(answer.stdout.splitlines()) - exempt:
        found = bears_a_number(name)
        with contextlib.suppress(UnicodeDecodeError, FileNotFoundError):
            found += bears_a_number((ROOT / name).read_text(encoding="utf-8"))
        if found:
            wrong[name] = found
    assert not wrong


def test_a_number_in_code_is_found() -> None:
    assert bears_a_number("# As in chapter 3.") and bears_a_number("// the ring of chapter\n// 12")
    assert bears_a_number('measure.read("15_copy_engine")')
    assert not bears_a_number("# Warren, *Hacker's Delight*, ch. 16; PTX ISA, section 9.7")
    assert not bears_a_number("chapter {number} of 16_product.cuh")


# -- the parser --------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("as in chapter 12.", [(12,)]),
        ("Chapter 4's tile", [(4,)]),
        ("Chapter 9&#x27;s tile", [(9,)]),
        ("(chapter 5), chapter 14, rows", [(5,), (14,)]),
        ("chapters 6 and 7", [(6, 7)]),
        ("chapters 9, 11 and 14", [(9, 11, 14)]),
        ("Chapters 9, 11, and 14", [(9, 11, 14)]),
        ("chapters 3 or 5", [(3, 5)]),
        ("chapters 6 to 10", [(6, 10)]),
        ("chapters 6–10, where", [(6, 10)]),
        ("chapters 1, 4 to 6 and 9", [(1, 4, 6, 9)]),
        ("in chapter\n3, and", [(3,)]),
        ("chapters 6 and 7. Then 12 rungs", [(6, 7)]),
        ("this chapter's 8 programs", []),
        ("later chapters use 16 × 8", []),
        ("section 9.7 of the PTX ISA", []),
    ],
)
def test_mentions_are_recognised(text: str, numbers: list[tuple[int, ...]]) -> None:
    assert [mention.numbers for mention in mentions.find(text)] == numbers
    assert mentions.escaped(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "chapter twelve", "chapter XII", "chapters 12", "chapters 3, 4", "chapter 3 and 4",
        "chapter 3 to 5", "chapter 3–5", "chapter **12**", "chapter&nbsp;12", "chapter-12",
        "chapter no. 12", "chapter12", "ch. 12", "chap. 12", "CHAPTER 12", "chapter 12a",
        "chapter 8.4", "the 12th chapter", "the third chapter", "the next chapter",
        "the previous two chapters", "the chapter before", "two chapters later", "sixteen chapters",
        "In this chapter 12 kernels", "python -m phasebit record 12", "ex-12-slots",
    ],
)  # fmt: skip
def test_what_the_machine_cannot_keep_right_is_found(text: str) -> None:
    assert mentions.escaped(text), text


def test_planted_wrong_numbers_are_found() -> None:
    numbers = {"barriers": 3, "copy_engine": 15}
    assert command.wrong("chapter 15, chapters 3 and 15", numbers) == []
    assert command.wrong("chapter 16", numbers) == ["chapter 16"]
    assert command.wrong("chapters 3 to 17", numbers) == ["chapters 3 to 17"]
    assert command.wrong("{doc}`part1/04_barriers`", numbers) == ["04_barriers"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("chapter 8 and Chapter 9's", "chapter 8 and Chapter 10's"),
        ("chapters 8, 9 and 14", "chapters 8, 10 and 15"),
        ("chapters 6 to 10", "chapters 6 to 11"),
        ("chapters 9–10", "chapters 10–11"),
        ("chapters 6 to 8", "chapters 6 to 8"),
        ("9 kernels of chapter\n9: 9", "9 kernels of chapter\n10: 9"),
    ],
)
def test_mentions_survive_a_chapter_put_before_the_ninth(before: str, after: str) -> None:
    assert mentions.renumbered(before, lambda number: number + (number >= 9)) == after


def test_the_parsers_examples_hold() -> None:
    assert doctest.testmod(mentions) == (0, 4)


def test_columns_stay_where_they_are() -> None:
    printed = "chapter 9, padded      equal\nchapter 14, rows of 64 equal\nchapter 9  1  2\n"
    moved = "chapter 10, padded     equal\nchapter 15, rows of 64 equal\nchapter 10 1  2\n"
    assert mentions.renumbered(printed, lambda number: number + 1, columns=True) == moved


# -- the book's numbers ------------------------------------------------------

_ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII")


def test_toc_files_parts_and_captions_agree() -> None:
    assert [place.number for place in TOC] == [*range(1, len(TOC) + 1)], "one after the other"
    files = sorted((ROOT / "book").glob("*/[0-9]*.ipynb"))
    listed = [ROOT / f"book/{each.part}/{each.number:02}_{each.name}.ipynb" for each in TOC]
    assert files == sorted(listed), "every notebook stands in _toc.yml, by its number"
    assert len(NUMBERS) == len(TOC), "no two chapters have one name"
    lines = (ROOT / "_toc.yml").read_text(encoding="utf-8").splitlines()
    captions = {}
    for place in TOC:
        above = [line for line in lines[: place.line] if "caption:" in line]
        captions[place.part] = above[-1].partition("caption:")[2].strip(' "')
    for number, (part, caption) in enumerate(captions.items(), 1):
        numeral, _, title = caption.removeprefix("Part ").partition(": ")
        word = title.lower().removeprefix("the ").replace(" ", "_")
        assert (numeral, part) == (_ROMAN[number - 1], f"part{number}_{word}")


def test_titles_do_not_repeat_their_number() -> None:
    for path in (path for path in PROSE if path.suffix == ".ipynb"):
        assert not re.match(r"# \W*\d", command.texts(path)[0]), path.name
