"""The files that a new chapter begins with: its notebook, its module of checks, their test.

Every section that CONTRIBUTING.md asks for is there, with "…" where the author writes. Nothing is
executed, and no check is written: the tests stay red until somebody does both.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from phasebit import contents

GRADES = ("easy", "medium", "hard")

SETUP = """\
try:
    import phasebit as pb
except ModuleNotFoundError:  # on Colab
    %pip install -q "phasebit[notebook] @ git+{address}"
    import phasebit as pb
%load_ext phasebit"""

OPENING = """\
# {title}

*After this chapter you can: ….*"""

MIDDLE = """\
## A question

…

Your guess: …"""

RUN = "…, a picture drawn from that run, a wrong turn and why."

EXERCISE = """\
#### Exercise: …
<!-- ex-{label}-{grade} -->

*{Grade}.* …"""

ANSWER = """\
answer = ...

check.{grade}(answer)"""

SOLUTION = """\
<details><summary>Solution</summary>
<!-- ex-{label}-{grade} -->

~~~python
answer = ...
~~~

</details>"""

CLOSING = """\
## What carries over

- …

*Sources*: …, {cite}`cuda-guide`."""

CHECKS = '''\
"""Checks of *{title}*."""

from __future__ import annotations

from typing import Any

from phasebit.exercises.judge import Wrong, judged


@judged
def easy(answer: Any) -> str:
    """What the answer is, with its units."""
    raise Wrong("nobody has written this check")


@judged
def medium(answer: Any) -> str:
    """What the answer is, with its units."""
    raise Wrong("nobody has written this check")


@judged
def hard(answer: Any) -> str:
    """What the answer is, with its units."""
    raise Wrong("nobody has written this check")
'''

TEST = '''\
"""The checks of *{title}* accept what is right and refuse planted wrong answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from phasebit.chapters.{name} import exercises


@pytest.mark.parametrize("check", [exercises.easy, exercises.medium, exercises.hard])
def test_an_open_exercise_is_said_to_be_open(
    check: Callable[[Any], None], capsys: pytest.CaptureFixture[str]
) -> None:
    check(...)
    assert "not answered yet" in capsys.readouterr().out
'''


def cells(name: str, title: str, address: str) -> list[tuple[str, str, list[str]]]:
    """The notebook's cells in order: kind, source, tags."""
    label = name.replace("_", "-")
    first = f"from phasebit.chapters.{name} import exercises as check\n\n"
    made: list[tuple[str, str, list[str]]] = [
        ("markdown", OPENING.format(title=title), []),
        ("code", SETUP.format(address=address), ["setup"]),
        ("markdown", MIDDLE, []),
        ("code", 'print("…")', []),
        ("markdown", RUN, []),
    ]
    before = "## Exercises\n\n"
    for grade in GRADES:
        words = {"label": label, "grade": grade, "Grade": grade.capitalize()}
        made.append(("markdown", before + EXERCISE.format(**words), []))
        made.append(("code", first + ANSWER.format(**words), ["exercise"]))
        before, first = SOLUTION.format(**words) + "\n\n", ""
    return [*made, ("markdown", before.rstrip(), []), ("markdown", CLOSING, [])]


def notebook(name: str, title: str, tier: str, address: str) -> str:
    """The notebook's file, of nbformat 4.5."""
    written: list[dict[str, Any]] = []
    for number, (kind, source, tags) in enumerate(cells(name, title, address)):
        cell: dict[str, Any] = {"cell_type": kind}
        if kind == "code":
            cell["execution_count"] = None
        cell["id"] = f"cell-{number:02}"
        cell["metadata"] = {"tags": tags} if tags else {}
        if kind == "code":
            cell["outputs"] = []
        written.append({**cell, "source": source.splitlines(keepends=True)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {
        "cells": written,
        "metadata": {"kernelspec": kernel, "phasebit": {"needs": [], "tier": tier}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def make(root: Path, path: Path, title: str, tier: str) -> list[Path]:
    """Write a chapter's first files, the notebook at ``path``; returns them."""
    name = contents.name(path)
    address = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    module, tests = root / "phasebit/chapters" / name, root / "tests/chapters" / name
    files = {
        path: notebook(name, title, tier, address["repository"]["url"]),
        module / "__init__.py": f'"""*{title}*: …"""\n',
        module / "exercises.py": CHECKS.format(title=title),
        tests / "__init__.py": "",
        tests / "test_exercises.py": TEST.format(title=title, name=name),
    }
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return list(files)
