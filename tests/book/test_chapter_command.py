"""One command puts a chapter in between: proved in a copy of the checkout, in its middle."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from .notebooks import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import chapter as command

NAME, TITLE, PART, AT = "put_between", "Put between", "part3_locality", 8


@dataclass
class Checkout:
    """A copy of the book with a history of its own."""

    root: Path

    def run(self, *words: str, status: int = 0) -> str:
        """Run a program there; returns what it said."""
        environment = {**os.environ, "PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}
        answer = subprocess.run(
            words, cwd=self.root, env=environment, capture_output=True, text=True
        )
        assert answer.returncode == status, answer.stdout + answer.stderr
        return answer.stdout + answer.stderr

    def python(self, *words: str, status: int = 0) -> str:
        return self.run(sys.executable, *words, status=status)

    def insert(self, name: str = NAME, *more: str, status: int = 0) -> str:
        words = ("--title", TITLE, "--part", PART, "--at", str(AT), "--tier", "sm_75", *more)
        return self.python("tools/chapter.py", "insert", name, *words, status=status)

    def git(self, *words: str) -> str:
        author = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        return self.run("git", *author, *words)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The checkout's files, those of no commit yet included."""
    answer = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if answer.returncode:
        pytest.skip("not a git checkout")
    made = Checkout(tmp_path_factory.mktemp("book") / "checkout")
    for name in answer.stdout.splitlines():
        if (ROOT / name).is_file():
            (made.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, made.root / name)
    made.git("init", "-q")
    made.git("add", "-A")
    made.git("commit", "-qm", "as it was")
    return made


@pytest.fixture(scope="module")
def after(before: Checkout) -> Checkout:
    """The same with a chapter put between the seventh and the eighth."""
    made = Checkout(before.root.with_name("inserted"))
    shutil.copytree(before.root, made.root)
    said = made.insert()
    assert f"book/{PART}/{AT:02}_{NAME}.ipynb is new." in said
    made.git("add", "-A")
    return made


def test_numbers_from_there_on_move_up_and_nothing_else_changes(
    before: Checkout, after: Checkout
) -> None:
    changed = after.git("diff", "--cached", "--name-status", "--no-renames", "HEAD").split("\n")
    names = {line.split("\t")[1] for line in changed if line}
    folders = (f"phasebit/chapters/{NAME}/", f"tests/chapters/{NAME}/")
    prose = {path.relative_to(each.root).as_posix()
             for each in (before, after) for path in command.prose(each.root)}  # fmt: skip
    assert {name for name in names if not name.startswith(folders)} <= {*prose, "_toc.yml"}

    def back(number: int) -> int:
        return number - (number > AT)

    numbers = {each.name: each.number for each in command.places(toc(after))}
    old = {each.name: each.number for each in command.places(toc(before))}
    assert numbers == {NAME: AT} | {name: n + (n >= AT) for name, n in old.items()}

    def restored(text: str, printed: bool) -> str:
        text = command.links([*old]).sub(lambda m: f"{back(int(m[1])):02}_{m[2]}", text)
        return command.mentions.renumbered(text, back)

    def spaced(text: str) -> str:
        """Where a number has two digits now, a column may have given a space."""
        return re.sub(" +", " ", text)

    moved = 0
    for path in command.prose(after.root):
        if path.stem.endswith(NAME):
            continue
        name = path.relative_to(after.root).as_posix()
        was = before.root / command.links([*old]).sub(
            lambda m: f"{back(int(m[1])):02}_{m[2]}", name
        )
        moved += path.read_bytes() != was.read_bytes()
        assert spaced(command.edited(path, restored)) == spaced(was.read_text("utf-8")), name
        outputs = [printed(each) for each in (was, path)]
        said = re.findall(r"[Cc]hapters? (\d+)", outputs[0])
        assert (outputs[0] == outputs[1]) is all(int(number) < AT for number in said), name
    assert moved > 8, "prose mentions the chapters that were moved"


def toc(checkout: Checkout) -> str:
    return (checkout.root / "_toc.yml").read_text(encoding="utf-8")


def printed(path: Path) -> str:
    """What the cells of a notebook have put out; nothing for a page."""
    if path.suffix != ".ipynb":
        return ""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return json.dumps([cell.get("outputs") for cell in cells], ensure_ascii=False)


def test_the_book_with_the_new_chapter_passes_its_tests(after: Checkout) -> None:
    """Names, numbers, mentions, layers, the new notebook's parts; it was executed first."""
    after.python("tools/execute.py", f"book/{PART}/{AT:02}_{NAME}.ipynb")
    tests = ("book/test_mentions.py", "book/test_notebooks.py", "test_clean.py", f"chapters/{NAME}")
    chosen = f"mentions or notebooks or plan_of_the_house or {NAME}"
    options = ("-q", "-p", "no:cacheprovider", "-k", chosen)
    after.python("-m", "pytest", *options, *(f"tests/{name}" for name in tests))
    after.python("-m", "ruff", "check", "-q", f"phasebit/chapters/{NAME}", f"tests/chapters/{NAME}")


def test_the_command_line_knows_the_new_numbers(before: Checkout, after: Checkout) -> None:
    def listed(checkout: Checkout) -> list[str]:
        code = "from phasebit import doctor; print(*doctor.examine().abilities, sep='\\n')"
        return [line for line in checkout.python("-c", code).splitlines() if line]

    assert len(listed(after)) == len(listed(before)) + 1
    assert any(f"{AT} {TITLE}" in line for line in listed(after))
    asked = "from phasebit import recording; print(recording.chapter('16'), recording.chapter('5'))"
    assert after.python("-c", asked).split() == ["copy_engine", "measuring"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["gemm"], "chapter 8 is called gemm already"),
        (["Gemm"], "cannot name a folder and a module"),
        (["8_gemm"], "cannot name a folder and a module"),
        ([NAME, "--part", "part9_moon"], "no part of the book is in book/part9_moon"),
        ([NAME, "--part", "appendix"], "a chapter of the appendix has no number: leave --at out"),
        ([NAME, "--at", "12"], "choose --at from 6 to 11"),
        ([NAME, "--at", "0"], "choose --at from 6 to 11"),
        ([NAME, "--tier", "sm_1"], "invalid choice: 'sm_1'"),
    ],
)
def test_what_is_off_is_refused_in_a_sentence(before: Checkout, words: list[str], why: str) -> None:
    assert why in before.insert(*words, status=2)
    assert not before.git("status", "--porcelain")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("See the next chapter.", '"next chapter", whose number cannot be kept right'),
        ("See chapter 99.", '"chapter 99", whose number cannot be kept right'),
    ],
)
def test_a_mention_that_would_go_wrong_is_refused(before: Checkout, said: str, why: str) -> None:
    page = before.root / "book" / "glossary.md"
    kept = page.read_text(encoding="utf-8")
    page.write_text(kept + said, encoding="utf-8")
    try:
        assert "changes that are not committed" in before.insert(status=2)
        before.git("commit", "-qam", "a mention")
        assert why in before.insert(status=2)
        assert not before.git("status", "--porcelain")
    finally:
        page.write_text(kept, encoding="utf-8")
        before.git("commit", "-qam", "as it was")


def test_a_chapter_of_the_appendix_comes_last_there_and_moves_none(tmp_path: Path) -> None:
    for name in ("_toc.yml", "_config.yml"):
        shutil.copy(ROOT / name, tmp_path)
    before = (tmp_path / "_toc.yml").read_text()
    said = command.insert(tmp_path, NAME, TITLE, "appendix", None, "cpu")
    notebook = tmp_path / "book/appendix" / f"{NAME}.ipynb"
    assert f"book/appendix/{NAME}.ipynb is new." in said and notebook.exists()
    assert (tmp_path / "phasebit/chapters" / NAME / "exercises.py").exists()
    after = (tmp_path / "_toc.yml").read_text()
    line = f"      - file: book/appendix/{NAME}\n"
    assert after.replace(line, "") == before
    assert after.partition(line)[2].startswith("  - caption: Reference")
    for taken, which in ((NAME, "a chapter of the appendix"), ("gemm", "chapter 8")):
        with pytest.raises(command.Refused, match=f"{which} is called {taken} already"):
            command.insert(tmp_path, taken, TITLE, "appendix", None, "cpu")


def test_a_chapter_at_the_end_of_its_part_moves_the_next_parts() -> None:
    toc = (ROOT / "_toc.yml").read_text(encoding="utf-8")
    there = command.places(toc)
    last = [place for place in there if place.part == PART][-1]
    at, line = command._place(there, NAME, PART, None)
    assert (at, line) == (last.number + 1, last.line + 1)
    following = next(place.part for place in there if place.number == at)
    assert command._place(there, NAME, following, at)[1] > line, "or it begins the next part"
