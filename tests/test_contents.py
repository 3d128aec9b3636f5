"""The chapters, and which of them each one needs."""

from __future__ import annotations

import doctest
import json
from pathlib import Path

import pytest
import yaml

from phasebit import contents, files
from phasebit.contents import Chapter

EVERY = contents.chapters(files.book())


def test_the_examples_hold() -> None:
    result = doctest.testmod(contents)
    assert result.attempted and not result.failed


@pytest.mark.parametrize("needs", [None, "barriers", [3]])
def test_a_chapter_that_does_not_say_what_it_needs_is_refused(
    needs: object, tmp_path: Path
) -> None:
    path = tmp_path / "01_x.ipynb"
    cells = [{"cell_type": "markdown", "source": ["# A title"]}]
    said = {"tier": "cpu"} | ({} if needs is None else {"needs": needs})
    path.write_text(json.dumps({"metadata": {"phasebit": said}, "cells": cells}))
    with pytest.raises(ValueError, match=r"01_x\.ipynb does not say which chapters it needs"):
        contents.read(path)


def test_a_page_without_a_number_stays_in_its_part() -> None:
    names = [chapter.name for chapter in EVERY]
    assert names.index("block_order") == names.index("tensor_cores") + 1
    numbers = [chapter.number for chapter in EVERY if chapter.number]
    assert numbers == sorted(numbers) == [*range(1, len(numbers) + 1)]


def test_chapters_stand_in_the_order_of_the_table_of_contents(tmp_path: Path) -> None:
    toc = yaml.safe_load((files.book().parent / "_toc.yml").read_text(encoding="utf-8"))
    listed = [one["file"] for part in toc["parts"] for one in part["chapters"]]
    mine = [path.relative_to(files.book().parent).with_suffix("").as_posix()
            for path in contents.notebooks(files.book())]  # fmt: skip
    assert mine == [name for name in listed if (files.book().parent / f"{name}.ipynb").is_file()]
    book = tmp_path / "book"
    for name in ("part1/01_a", "part1/02_b", "part1/x", "appendix/c"):
        (book / name).parent.mkdir(parents=True, exist_ok=True)
        (book / f"{name}.ipynb").touch()
    assert [path.stem for path in contents.notebooks(book)] == ["01_a", "02_b", "x", "c"]
    lines = (f"      - file: book/{name}\n" for name in ("part1/01_a", "part1/x", "part1/02_b"))
    (tmp_path / "_toc.yml").write_text("".join(lines))
    assert [path.stem for path in contents.notebooks(book)] == ["01_a", "x", "02_b", "c"]


def misplaced(every: list[Chapter]) -> list[str]:
    """What a reader who goes from the first page to the last would meet too early."""
    before: set[str] = set()
    found = []
    for chapter in every:
        found += [
            f"{chapter.name} needs {name}, which does not come before it"
            for name in chapter.needs if name not in before
        ]  # fmt: skip
        before.add(chapter.name)
    return found


def said_twice(every: list[Chapter]) -> list[str]:
    """Needs that follow from other needs of the same chapter."""
    return [
        f"{chapter.name} needs {other}, which needs {one}: leave {one} out"
        for chapter in every
        for one in chapter.needs
        for other in chapter.needs
        if one != other and one in {each.name for each in contents.way(every, other)}
    ]


def test_what_a_chapter_needs_comes_before_it_and_is_said_once() -> None:
    assert not misplaced(EVERY)
    assert not said_twice(EVERY)


def test_needs_that_are_wrong_are_noticed() -> None:
    def book(**needs: tuple[str, ...]) -> list[Chapter]:
        return [Chapter(Path(name), "", "cpu", its) for name, its in needs.items()]

    assert misplaced(book(a=("b",), b=("none",))) == [
        "a needs b, which does not come before it", "b needs none, which does not come before it"
    ]  # fmt: skip
    assert said_twice(book(a=(), b=("a",), c=("a", "b"))) == [
        "c needs b, which needs a: leave a out"
    ]
    with pytest.raises(ValueError, match="no chapter 'none'"):
        contents.way(book(a=("none",)), "a")


def test_the_way_to_the_newest_tensor_cores_is_shorter_than_the_book() -> None:
    way = [chapter.name for chapter in contents.way(EVERY, "tensor_memory")]
    assert way[0] == "state_machine" and way[-1] == "tensor_memory" and len(way) < 14
