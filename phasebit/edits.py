"""Changes to the text of a kernel: what is to be replaced stands there exactly once.

A mistake that is planted in a kernel, a stamp, a variant that is measured: each is an edit of a
file that may change one day. An edit that no longer fits, or fits twice, is refused. And where in
a text a statement begins, where a function stands, and which lines of two texts differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher


def replace_once(text: str, old: str, new: str, where: str = "the text") -> str:
    """The text with ``new`` in place of ``old``.

    Raises ``ValueError``, which names ``where``, unless ``old`` stands there exactly once.

    >>> replace_once("a ring of 4 slots", "4", "2")
    'a ring of 2 slots'
    """
    count = text.count(old)
    if count != 1:
        times = f"{count} times" if count else "nowhere"
        raise ValueError(
            f"{where} must hold {old.strip()!r} once to be changed there, and holds it {times}: "
            "write the edit anew"
        )
    return text.replace(old, new)


def replace_each(text: str, edits: Iterable[tuple[str, str]], where: str = "the text") -> str:
    """The text after several edits, one after another. Raises as :func:`replace_once`."""
    for old, new in edits:
        text = replace_once(text, old, new, where)
    return text


def excerpt(text: str, first: str, last: str) -> str:
    """The lines from the one that holds ``first`` to the next that holds ``last``.

    Raises ``ValueError`` where there are none.

    >>> excerpt("a;\\nb;\\nc;\\nd;", "b", "c")
    'b;\\nc;'
    """
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if first in line), len(lines))
    for end in range(start, len(lines)):
        if last in lines[end]:
            return "\n".join(lines[start : end + 1])
    raise ValueError(f"the text has no line with {first!r}, or none with {last!r} from there on")


def statement(text: Sequence[str], number: int) -> int:
    """The line, from 1, on which the assembler statement of a line begins; else the line itself.

    Compilers do not agree on which of its lines an instruction is.

    >>> statement(["f();", "asm volatile(", '    "exit;"', "    :: x);"], 4)
    2
    """
    begin = number
    while begin > 1:
        before = text[begin - 2].partition("//")[0].rstrip()
        if not before or before[-1] in ";{}":
            break
        begin -= 1
    return begin if "asm" in text[begin - 1] else number


def function(text: str, name: str) -> str:
    """A device function or a struct of a kernel, with the comment above it.

    Raises ``ValueError`` where there is none.

    >>> print(function("// Twice.\\n__device__ int two(int x) {\\n    return 2 * x;\\n}\\n", "two"))
    // Twice.
    __device__ int two(int x) {
        return 2 * x;
    }
    """
    found = re.search(
        rf"^(?://[^\n]*\n)*(?:template <[^\n]*>\s)?"
        rf"(?:struct {name} \{{.*?^\}};|__device__ (?:inline )?\w+ {name}\([^;{{]*\{{.*?^\}})$",
        text, re.M | re.S,
    )  # fmt: skip
    if found is None:
        raise ValueError(f"the kernel has no function {name}")
    return found[0]


def bare(line: str) -> str:
    """A line without its comment and its spacing.

    >>> bare("    x  += 1;  // next")
    'x += 1;'
    """
    return " ".join(line.partition("//")[0].split())


def difference(old: str, new: str, as_read: Callable[[str], str] = bare) -> str:
    """The lines that one text has otherwise than another, with ``-`` and ``+``.

    Lines are compared ``as_read``; ``…`` stands between changes that lie apart.

    >>> print(difference("a = 1;\\nb;\\nc = 2;", "a = 3;\\n  b;\\nc = 4;"))
    -a = 1;
    +a = 3;
            …
    -c = 2;
    +c = 4;
    """
    before, after = old.splitlines(), new.splitlines()
    matcher = SequenceMatcher(
        None, [as_read(x) for x in before], [as_read(x) for x in after], autojunk=False
    )
    changes = (
        [f"-{line}" for line in before[i:j]] + [f"+{line}" for line in after[k:n]]
        for kind, i, j, k, n in matcher.get_opcodes()
        if kind != "equal"
    )
    return "\n        …\n".join("\n".join(change) for change in changes)
