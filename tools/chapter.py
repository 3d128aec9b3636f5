"""Put a chapter between two others, in a clean checkout.

    python tools/chapter.py insert SLUG --title TITLE --part FOLDER [--at NUMBER] [--tier TIER]

Whatever has a later number moves up by one: the notebooks' file names, ``_toc.yml``, links to
pages, and every mention of a chapter in the prose and in what notebooks have printed. Nothing else
of the book bears a number. Then the new chapter's notebook and folders are made, with the sections
that CONTRIBUTING.md asks for. Nothing is changed when something is off. With ``--part appendix``
the chapter has no number, and comes after the last of the appendix.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mentions
import skeleton

from phasebit import contents
from phasebit.hardware import TIERS

ROOT = Path(__file__).resolve().parent.parent
APPENDIX = "appendix"
_UNNUMBERED = re.compile(rf"^(?P<indent> *- file: )book/{APPENDIX}/(?P<name>\w+)$")
_LINE = re.compile(r"^(?P<indent> *- file: )book/(?P<part>[\w-]+)/(?P<number>\d+)_(?P<name>\w+)$")


class Refused(Exception):
    """The command cannot do what was asked; the message says why, in a sentence."""


@dataclass(frozen=True)
class Place:
    """A numbered chapter as ``_toc.yml`` has it."""

    line: int  # in the file, from 0
    part: str
    number: int
    name: str


def places(toc: str) -> list[Place]:
    """The numbered chapters of ``_toc.yml``, in its order."""
    found = ((line, _LINE.match(text)) for line, text in enumerate(toc.splitlines()))
    return [
        Place(line, match["part"], int(match["number"]), match["name"])
        for line, match in found
        if match
    ]


def prose(root: Path) -> list[Path]:
    """The files whose text may mention a chapter by its number: notebooks, pages, their causes."""
    kinds = ("*.md", "*.ipynb", "causes/*.toml")
    book = [path for kind in kinds for path in sorted((root / "book").rglob(kind))]
    pages = [path for path in book if not {"_vendor", ".ipynb_checkpoints"} & {*path.parts}]
    return [*sorted(root.glob("*.md")), *pages]


Edit = Callable[[str, bool], str]
"""Takes a text, and whether it was printed by a cell; returns what shall stand there."""


def edited(path: Path, edit: Edit) -> str:
    """What a file of prose holds when every text of it is edited; a notebook's form is kept."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return edit(text, False)
    notebook = json.loads(text)
    for holder, key in _texts(notebook):
        value, printed = holder[key], key != "source"
        new = edit("".join(value), printed)
        holder[key] = new.splitlines(keepends=True) if isinstance(value, list) else new
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def texts(path: Path) -> list[str]:
    """All the texts of a file of prose: of a notebook its cells, and what they have printed."""
    found: list[str] = []

    def take(text: str, printed: bool) -> str:
        found.append(text)
        return text

    edited(path, take)
    return found


def _texts(notebook: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Where a notebook holds text: a dictionary and a key in it."""
    for cell in notebook["cells"]:
        yield cell, "source"
        for output in cell.get("outputs", []):
            if "text" in output:
                yield output, "text"
            data = output.get("data", {})
            yield from ((data, kind) for kind, value in data.items() if not isinstance(value, dict))


def links(names: list[str]) -> re.Pattern[str]:
    """Finds the file names of numbered notebooks, in links to their pages."""
    return re.compile(rf"\b(\d\d)_({'|'.join(names)})\b")


def wrong(text: str, numbers: dict[str, int]) -> list[str]:
    """What of a text's chapter numbers the machine cannot keep right, or is wrong already.

    ``numbers``: chapter -> its number.
    """
    known = set(numbers.values())
    missing = [each.text for each in mentions.find(text) if not known >= set(each.numbers)]
    stale = [
        match[0] for match in links([*numbers]).finditer(text) if int(match[1]) != numbers[match[2]]
    ]
    return [*missing, *stale, *mentions.escaped(text)]


def insert(root: Path, name: str, title: str, part: str, at: int | None, tier: str) -> list[str]:
    """Put a chapter in and say what an author does next, in sentences; raises :class:`Refused`."""
    toc = (root / "_toc.yml").read_text(encoding="utf-8")
    if part == APPENDIX:
        return _append(root, toc, name, title, at, tier)
    there = places(toc)
    at, before = _place(there, name, part, at)
    numbers = {place.name: place.number for place in there}
    if found := {path: odd for path in prose(root) for text in texts(path)
                 if (odd := wrong(text, numbers))}:  # fmt: skip
        path, odd = next(iter(found.items()))
        raise Refused(
            f'{path.relative_to(root)} says "{odd[0]}", whose number cannot be kept right: '
            'write it as in "chapter 3" or "chapters 3, 4 and 5"'
        )

    def new(number: int) -> int:
        return number + (number >= at)

    def rename(text: str, printed: bool = False) -> str:
        text = links([*numbers]).sub(lambda match: f"{new(int(match[1])):02}_{match[2]}", text)
        return mentions.renumbered(text, new, columns=printed)

    rewritten = {path: edited(path, rename) for path in prose(root)}
    printing = [
        contents.name(path) for path in rewritten
        if path.suffix == ".ipynb" and any(map(mentions.find, _printed(path)))
    ]  # fmt: skip
    for path, text in rewritten.items():
        if text != path.read_text(encoding="utf-8"):
            path.write_text(text, encoding="utf-8")
    for place in reversed(there):
        if place.number >= at:
            folder = root / "book" / place.part
            old, later = (f"{n:02}_{place.name}.ipynb" for n in (place.number, place.number + 1))
            _move(root, folder / old, folder / later)
    lines = rename(toc).splitlines(keepends=True)
    match = _LINE.match(lines[there[0].line])
    assert match is not None
    lines.insert(before, f"{match['indent']}book/{part}/{at:02}_{name}\n")
    (root / "_toc.yml").write_text("".join(lines), encoding="utf-8")
    notebook = root / "book" / part / f"{at:02}_{name}.ipynb"
    made = skeleton.make(root, notebook, title, tier)
    said = [f"{path.relative_to(root)} is new." for path in made]
    said += [f"Chapters {at} to {len(there)} are now {at + 1} to {len(there) + 1}."] * (
        at <= len(there)
    )
    said += [f"{each} prints numbers of chapters: they are renewed." for each in printing]
    return [*said, f"Next: .venv/bin/python tools/execute.py {notebook.relative_to(root)}"]


def _append(
    root: Path, toc: str, name: str, title: str, at: int | None, tier: str
) -> list[str]:  # fmt: skip
    """Put a chapter without a number after the last of the appendix."""
    if at is not None:
        raise Refused("a chapter of the appendix has no number: leave --at out")
    lines = toc.splitlines(keepends=True)
    own = {match["name"]: n for n, line in enumerate(lines)
           if (match := _UNNUMBERED.match(line.rstrip()))}  # fmt: skip
    _named(name, {**{place.name: place.number for place in places(toc)}, **dict.fromkeys(own)})
    last = max(own.values())
    indent = lines[last].partition("book/")[0]
    lines.insert(last + 1, f"{indent}book/{APPENDIX}/{name}\n")
    (root / "_toc.yml").write_text("".join(lines), encoding="utf-8")
    notebook = root / "book" / APPENDIX / f"{name}.ipynb"
    said = [
        f"{path.relative_to(root)} is new." for path in skeleton.make(root, notebook, title, tier)
    ]
    return [*said, f"Next: .venv/bin/python tools/execute.py {notebook.relative_to(root)}"]


def _named(name: str, taken: Mapping[str, int | None]) -> None:
    """Raises :class:`Refused` for a name that can be none, or is a chapter's already."""
    if not re.fullmatch(r"[a-z]\w*", name) or name != name.lower():
        raise Refused(f"{name!r} cannot name a folder and a module: write it as in copy_engine")
    if name in taken:
        which = "a chapter of the appendix" if taken[name] is None else f"chapter {taken[name]}"
        raise Refused(f"{which} is called {name} already: choose another name")


def _place(there: list[Place], name: str, part: str, at: int | None) -> tuple[int, int]:
    """The new chapter's number and the line of ``_toc.yml`` before which it stands."""
    _named(name, {place.name: place.number for place in there})
    own = [place for place in there if place.part == part]
    if not own:
        known = ", ".join([*dict.fromkeys(place.part for place in there), APPENDIX])
        raise Refused(f"no part of the book is in book/{part}: choose from {known}")
    first, last = own[0].number, own[-1].number
    at = last + 1 if at is None else at
    if not first <= at <= last + 1:
        raise Refused(
            f"chapter {at} would not lie in {part}, which has {first} to {last}: "
            f"choose --at from {first} to {last + 1}"
        )
    return at, own[at - first].line if at <= last else own[-1].line + 1


def _printed(path: Path) -> list[str]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return ["".join(holder[key]) for holder, key in _texts(notebook) if key != "source"]


def _move(root: Path, old: Path, new: Path) -> None:
    """Rename a file, for git as well where it knows it."""
    command = ["git", "mv", str(old), str(new)]
    if subprocess.run(command, cwd=root, capture_output=True, check=False).returncode:
        old.rename(new)


def _clean(root: Path) -> None:
    """Raises :class:`Refused` where git has changes that nobody has committed."""
    command = ["git", "status", "--porcelain"]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if answer.stdout.strip():
        raise Refused(
            "the checkout has changes that are not committed: commit them first, so that what this "
            "command rewrites can be read by itself, and undone"
        )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("insert", help="put a new chapter between two others")
    command.add_argument("name", metavar="SLUG", help="its folders' name, as in copy_engine")
    command.add_argument("--title", required=True, help="what the page is called")
    command.add_argument("--part", required=True, help="the part's folder, as in part5_hopper")
    command.add_argument("--at", type=int, help="its number; after its part's last if not given")
    command.add_argument("--tier", default="cpu", choices=TIERS, help="what runs it whole")
    args = parser.parse_args(argv)
    try:
        _clean(ROOT)
        print(*insert(ROOT, args.name, args.title, args.part, args.at, args.tier), sep="\n")
    except Refused as error:
        print(f"chapter: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
