"""Every chapter is whole: executed, without errors, and the same everywhere."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from phasebit import files, replay
from phasebit.hardware import TIERS

from .notebooks import CHAPTERS, ROOT, Cell, address, code, prose, read, source, texts

sys.path.insert(0, str(ROOT / "book" / "_ext"))

from phasebit_book import plain

each = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)

SETUP = """\
try:
    import phasebit as pb
except ModuleNotFoundError:  # on Colab
    %pip install -q "phasebit[notebook] @ git+{address}"
    import phasebit as pb
%load_ext phasebit"""

GUESS = re.compile(r"\*\*Guess\.\*\*.*")
"""How a page asks for a guess: the paragraph begins with these words."""

MACHINE_PATH = re.compile(r"/(?:home|root|Users|tmp|work|mnt|opt|private|content)/[\w.-]+")


def test_there_are_chapters() -> None:
    assert len(CHAPTERS) >= 4


@each
def test_first_code_cell_sets_the_notebook_up(path: Path) -> None:
    first = code(path)[0]
    assert source(first) == SETUP.format(address=address())
    assert "setup" in first["metadata"].get("tags", [])


@each
def test_every_cell_was_executed_in_order(path: Path) -> None:
    counts = [cell["execution_count"] for cell in code(path) if source(cell).strip()]
    assert counts == list(range(1, len(counts) + 1)), "run all cells from a fresh kernel and save"


@each
def test_saved_outputs_have_no_error(path: Path) -> None:
    for cell in code(path):
        for output in cell["outputs"]:
            assert output["output_type"] != "error", source(cell)
            assert output.get("name") != "stderr", source(cell)


def fields(cell: Cell, tag: str) -> set[bool]:
    """What the page's tag says of a cell, and the fields of JupyterLab and of Colab."""
    metadata = cell["metadata"]
    jupyter = metadata.get("jupyter", {})
    if tag == "hide-output":
        others = {metadata.get("collapsed", False), jupyter.get("outputs_hidden", False)}
    else:
        others = {metadata.get("cellView") == "form", jupyter.get("source_hidden", False)}
    return {tag in metadata.get("tags", []), *others}


def folded(cell: Cell) -> bool:
    """Whether a cell's output is hidden on the page, in JupyterLab and in Colab; all or none."""
    ways = fields(cell, "hide-output")
    assert len(ways) == 1, f"python tools/fold.py hides it everywhere: {source(cell)}"
    return ways.pop()


def given_away(cells: list[Cell]) -> list[str]:
    """The guesses whose answer stands in the open.

    It is in the cells whose metadata say ``"phasebit": {"answers": ID}``, with the id of the cell
    that asks; where none says so, in the first output after the guess.
    """
    told, guess, answers = [], "", [cell["metadata"].get("phasebit", {}) for cell in cells]
    named = {each["answers"]: "" for each in answers if "answers" in each}
    for cell, answer in zip(cells, answers, strict=True):
        if cell["cell_type"] == "markdown" and (asked := GUESS.search(source(cell))):
            if cell["id"] in named:
                named[cell["id"]] = asked.group()
            else:
                guess = asked.group()
            continue
        if not cell.get("outputs") or "setup" in cell["metadata"].get("tags", []):
            continue
        for asked_for in (named.get(answer.get("answers"), ""), guess):
            told += [asked_for] if asked_for and not folded(cell) else []
        guess = ""
    assert all(named.values()), "an answer stands after a cell that asks for a guess"
    return told


@each
def test_no_guess_is_given_away(path: Path) -> None:
    for cell in code(path):
        folded(cell)
    assert not given_away(read(path)["cells"])


def test_a_guess_that_is_given_away_is_noticed() -> None:
    asks = {"cell_type": "markdown", "id": "asks", "metadata": {}, "source": ["**Guess.** Which?"]}
    tells = {"cell_type": "code", "metadata": {}, "source": ["1"], "outputs": ["1"]}
    hidden = {"tags": ["hide-output"], "collapsed": True, "jupyter": {"outputs_hidden": True}}
    assert given_away([asks, tells]) == ["**Guess.** Which?"]
    assert given_away([asks, {**tells, "metadata": hidden}, tells]) == []
    answers = {"phasebit": {"answers": "asks"}}
    late = {**tells, "metadata": answers}
    assert given_away([asks, tells, late]) == ["**Guess.** Which?"]
    assert given_away([asks, tells, {**tells, "metadata": answers | hidden}]) == []
    with pytest.raises(AssertionError, match="after a cell that asks"):
        given_away([late])
    with pytest.raises(AssertionError, match="hides it everywhere"):
        given_away([asks, {**tells, "metadata": {"tags": ["hide-output"]}}])


# What JupyterLab and Colab would show as it is written.
RAW = re.compile(r"\{(?:exercise|solution)(?:-start|-end)?\}")


@each
def test_exercises_solutions_and_plumbing_are_read_everywhere(path: Path) -> None:
    """On the page, in JupyterLab and in Colab."""
    for cell in read(path)["cells"]:
        if cell["cell_type"] == "markdown":
            assert not RAW.search(source(cell)), f"python tools/fold.py: {source(cell)}"
        else:
            assert len(fields(cell, "hide-input")) == 1, f"python tools/fold.py: {source(cell)}"


@each
def test_each_exercise_has_its_solution_and_both_become_directives(path: Path) -> None:
    written = "\n\n".join(source(c) for c in read(path)["cells"] if c["cell_type"] == "markdown")
    asked = re.findall(r"^(?:`{3,}|:{3,})\{exercise\} .+\n:label: (\S+)$", prose(path), re.M)
    assert asked == re.findall(r"^(?:`{3,}|:{3,})\{solution\} (\S+)$", prose(path), re.M)
    assert len(asked) == written.count("#### Exercise: ") >= 3
    assert len(asked) == written.count("<details><summary>Solution</summary>\n<!-- ")


PLAIN = """\
Words.

<details><summary>Solution</summary>
<!-- ex-one -->

~~~python
answer = 3
~~~

</details>

#### Exercise: Two of them
<!-- ex-two -->

*Easy.* Count:

:::{note}
from 0.
:::"""
MADE = """\
Words.

<details><summary>Solution</summary>

:::{solution} ex-one

~~~python
answer = 3
~~~
:::

</details>

::::{exercise} Two of them
:label: ex-two

*Easy.* Count:

:::{note}
from 0.
:::
::::"""


def test_directives_of_exercises_are_made_and_unmade() -> None:
    assert plain.directives(PLAIN) == plain.directives(MADE) == MADE
    assert plain.plain(MADE) == plain.plain(PLAIN) == PLAIN
    fenced = "```{solution} one\n:class: dropdown\n\n~~~python\nanswer = 3\n~~~\n```"
    assert plain.plain(fenced).startswith("<details><summary>Solution</summary>\n<!-- one -->\n\n~")
    open_one = ":::{solution-start} two\n:::"
    assert RAW.search(open_one) and RAW.search(MADE) and not RAW.search(PLAIN)
    text = "#### A heading\n\nof no exercise"
    assert plain.directives(text) == plain.plain(text) == text


@each
def test_saved_outputs_name_no_path_of_a_machine(path: Path) -> None:
    for cell in code(path):
        for text in texts(cell):
            assert not MACHINE_PATH.search(text), MACHINE_PATH.search(text)


@each
def test_a_sign_begins_its_line(path: Path) -> None:
    """Elsewhere in a line the sanitizer would not see it."""
    for cell in code(path):
        for output in cell["outputs"]:
            for line in "".join(output.get("text", [])).splitlines():
                assert line.count("⏱") == line.startswith("⏱"), line


@each
def test_pictures_are_svg_with_words(path: Path) -> None:
    for cell in code(path):
        for output in cell["outputs"]:
            data = output.get("data", {})
            assert not {"image/png", "image/jpeg"} & data.keys(), source(cell)
            if "image/svg+xml" in data:
                svg = "".join(data["image/svg+xml"])
                assert 'role="img"' in svg and re.search(r"<title[ >]", svg), source(cell)
                words = "".join(data.get("text/plain", ""))
                assert len(words) > 20 and not words.startswith("<"), words


@each
def test_metadata(path: Path) -> None:
    notebook = read(path)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert notebook["metadata"]["phasebit"]["tier"] in TIERS
    assert "widgets" not in notebook["metadata"]
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)


@each
def test_a_chapter_has_its_parts(path: Path) -> None:
    text = prose(path)
    lines = text.splitlines()
    assert lines[0].startswith("# ")
    title_number = re.match(r"# (\d+)", lines[0])
    assert title_number is None or int(title_number[1]) == int(path.stem.split("_")[0])
    assert "*After this chapter you can:" in text
    headings = [line for line in lines if line.startswith("## ")]
    assert headings[0].startswith("## A question")
    assert any(line.startswith("## What carries over") for line in headings)
    assert "{exercise" in text and "{solution" in text
    assert "*Sources*" in text and "{cite" in text.partition("*Sources*")[2]


GRADES = ("Easy", "Medium", "Hard")


@each
def test_exercises_begin_with_their_grades(path: Path) -> None:
    begins = re.findall(r"\{exercise\} .*\n:label: .*\n\n(.*)", prose(path))
    grades = [match[1] for text in begins if (match := re.match(r"\*(\w+)\.\* \S", text))]
    assert len(grades) == len(begins) == prose(path).count("{exercise}") >= 3, begins
    assert grades == sorted(grades, key=GRADES.index), "the easier ones come first"


_NO_ITEM = re.compile(r"(?m)(?:\A|\n\n)(?:\d\d+|[02-9])[.)] ")
"""A paragraph that Markdown takes for a list with this number; a list begins with 1."""


@each
def test_no_answer_becomes_a_list(path: Path) -> None:
    for cell in read(path)["cells"]:
        if cell["cell_type"] == "markdown":
            assert not _NO_ITEM.search(source(cell)), source(cell)[:80]


def test_an_answer_that_becomes_a_list_is_noticed() -> None:
    assert _NO_ITEM.search("564. In a step a thread") and _NO_ITEM.search("So.\n\n64. The sum")
    assert not _NO_ITEM.search("1. Build\n2. Run") and not _NO_ITEM.search("It is\n\n2.5 times")


@each
def test_prose_names_no_path_and_loads_nothing(path: Path) -> None:
    text = prose(path)
    assert not MACHINE_PATH.search(text), MACHINE_PATH.search(text)
    assert not re.search(r"<(script|iframe|img|link)\b|src=[\"']https?:", text)


def test_every_cuda_cell_has_its_record_and_no_record_is_left_over() -> None:
    """Red after a change of a kernel or a header, until `make record` has run on a GPU."""
    wanted = set()
    for cell in (source(cell) for path in CHAPTERS for cell in code(path)):
        if cell.startswith("%%cuda"):
            magic, _, program = cell.partition("\n")
            args = " ".join(shlex.split(magic.partition("--args ")[2]))  # they may be quoted
            wanted.add(replay.key(program, args=args.split()))
    kept = {path.stem for path in (files.records() / "runs").glob("*.json")}
    assert kept == wanted
