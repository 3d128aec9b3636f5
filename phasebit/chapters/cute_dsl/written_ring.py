"""A reader's ring in CuTe DSL: the text of two functions, in the frame of ``doubled.py``.

With CuTe DSL it is compiled as it is. Without it, it can be judged where its text is one of those
that were compiled beforehand, whatever its local names and its comments.
"""

from __future__ import annotations

import ast

from phasebit.chapters.cute_dsl import cute_ptx
from phasebit.edits import replace_once

ENTRY = "doubled"
FUNCTIONS = "produce", "consume"


def frame() -> tuple[str, str]:
    """The text of the file before the two functions, and behind them."""
    text = cute_ptx.source(ENTRY)
    return text[: text.index("@cute.jit")], text[text.index("@cute.kernel") :]


def solution() -> str:
    """The two functions as the file has them."""
    text = cute_ptx.source(ENTRY)
    return text[text.index("@cute.jit") : text.index("@cute.kernel")].strip()


def whole(answer: str) -> str:
    """The file with a reader's functions, in one form: no comments, local names by their order.

    Raises ``SyntaxError`` for a text that is no Python.
    """
    tree = ast.parse(answer)
    for function in tree.body:
        if isinstance(function, ast.FunctionDef):
            _rename(function)
    before, behind = frame()
    return f"{before}{ast.unparse(tree)}\n\n\n{behind}"


def _rename(function: ast.FunctionDef) -> None:
    if ast.get_docstring(function) is not None and len(function.body) > 1:
        function.body = function.body[1:]
    own = [node.id for node in ast.walk(function)
           if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]  # fmt: skip
    names = {name: f"name_{i}" for i, name in enumerate(dict.fromkeys(own))}
    for node in ast.walk(function):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)


_RIGHT = "2 * slots[31 - lane, slot.index]"
_COMMIT, _RELEASE = "        slot.commit()\n", "        slot.release()"
_WAIT = "slot = reader.wait_and_advance()"

CHANGES = {
    "": (),
    "the factor behind": ((_RIGHT, "slots[31 - lane, slot.index] * 2"),),
    "no tail": (("\n    writer.tail()", ""),),
    "x's rows counted by the consumer": (("range(y.shape[0]", "range(slots.shape[1]"),),
    "no commit": ((_COMMIT, ""),),
    "no release": ((f"\n{_RELEASE}", ""),),
    "acquire without advance": (("writer.acquire_and_advance()", "writer.acquire()"),),
    "wait without advance": ((_WAIT, "slot = reader.wait()"),),
    "committed before it is written": (
        (_COMMIT, ""),
        ("        slots[lane, slot.index] = x[job, lane]",
         "        slot.commit()\n        slots[lane, slot.index] = x[job, lane]"),
    ),
    "released before it is read": (
        (f"\n{_RELEASE}", ""),
        ("        y[job, lane] = 2", f"{_RELEASE}\n        y[job, lane] = 2"),
    ),
    "one lane commits": (
        (_COMMIT, "        if lane == 0:\n            slot.commit()\n"),),
    "one lane releases": (
        (_RELEASE, "        if lane == 0:\n            slot.release()"),),
    "its own lane": ((_RIGHT, "2 * slots[lane, slot.index]"),),
    "not doubled": ((_RIGHT, "slots[31 - lane, slot.index]"),),
}  # fmt: skip
"""Texts that are compiled beforehand: what is changed in the solution."""


def changed(name: str) -> str:
    """The functions after one of :data:`CHANGES`."""
    text = solution()
    for before, after in CHANGES[name]:
        text = replace_once(text, before, after)
    return text
