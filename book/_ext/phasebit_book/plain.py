"""Exercises as notebooks have them, and as Sphinx reads them.

JupyterLab and Colab know no directives. So an exercise is plain Markdown, to the end of its cell,
and so is a solution, which they fold; what they need not show, the label, stands in a comment::

    #### Exercise: How many waits?
    <!-- ex-waits -->

    *Easy.* …

    <details><summary>Solution</summary>
    <!-- ex-waits -->

    …

    </details>

When the book is built, both become the directives of sphinx-exercise.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from sphinx.application import Sphinx

OPEN, CLOSE = "<details><summary>Solution</summary>\n", "\n\n</details>"

_HEADING = re.compile(r"^#### Exercise: (.+)\n<!-- (\S+) -->\n(.*)\Z", re.M | re.S)
_FOLDED = re.compile(rf"^{re.escape(OPEN)}<!-- (\S+) -->\n(.*?){re.escape(CLOSE)}$", re.M | re.S)
_EXERCISE = re.compile(
    r"^(?P<fence>`{3,}|:{3,})\{exercise\} (.+)\n:label: (\S+)\n(.*?)\n(?P=fence)\s*\Z", re.M | re.S
)
_SOLUTION = re.compile(
    r"(?:<details><summary>Solution</summary>\n\n)?"
    r"^(?P<fence>`{3,}|:{3,})\{solution\} (\S+)\n(?::class: dropdown\n)?(.*?)\n(?P=fence)$"
    r"(?:\n\n</details>)?",
    re.M | re.S,
)


def directives(text: str) -> str:
    """The Markdown of a cell as Sphinx reads it: exercises and solutions are directives."""

    def exercise(found: re.Match[str]) -> str:
        fence = _fence(found[3])
        return f"{fence}{{exercise}} {found[1]}\n:label: {found[2]}\n{found[3].rstrip()}\n{fence}"

    def solution(found: re.Match[str]) -> str:
        fence = _fence(found[2])
        return f"{OPEN}\n{fence}{{solution}} {found[1]}\n{found[2]}\n{fence}{CLOSE}"

    return _HEADING.sub(exercise, _FOLDED.sub(solution, text))


def plain(text: str) -> str:
    """The Markdown of a cell as a notebook has it: without the directives of exercises.

    >>> plain("```{exercise} One\\n:label: ex-one\\n\\n*Easy.* Count.\\n```")
    '#### Exercise: One\\n<!-- ex-one -->\\n\\n*Easy.* Count.'
    """
    text = _SOLUTION.sub(lambda found: f"{OPEN}<!-- {found[2]} -->\n{found[3]}{CLOSE}", text)
    return _EXERCISE.sub(
        lambda found: f"#### Exercise: {found[2]}\n<!-- {found[3]} -->\n{found[4]}", text
    )


def _fence(text: str) -> str:
    """More colons than any line of a text begins with."""
    return ":" * (1 + max([2, *map(len, re.findall(r"^:+", text, re.M))]))


def read(app: Sphinx, page: str, source: list[str]) -> None:
    """Give Sphinx the directives of a notebook."""
    if Path(app.env.doc2path(page)).suffix != ".ipynb":
        return
    notebook = json.loads(source[0])
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = directives("".join(cell["source"]))
    source[0] = json.dumps(notebook)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
