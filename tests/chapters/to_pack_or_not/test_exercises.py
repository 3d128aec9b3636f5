"""The checks of *To pack or not to pack* accept what is right and reject what is nearly right."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from phasebit import native, nests
from phasebit.chapters.to_pack_or_not import exercises as checks
from phasebit.nests import packing
from phasebit.nests.examples import EXAMPLES
from tests.book.notebooks import ROOT, code, prose, solutions, source

CHAPTER = next(ROOT.glob("book/*/??_to_pack_or_not.ipynb"))


def column(rows: int, ld: int) -> int:
    return len({row * ld * 4 // 4096 for row in range(rows)})


def again(loops: list[tuple[str, int]], indices: set[str]) -> dict[int, int]:
    found, uses = {}, 1
    for depth in reversed(range(len(loops))):
        variable, extent = loops[depth]
        if variable not in indices:
            uses *= extent
            found[depth] = uses
    return found


def all_outside(loops: list[tuple[str, int]], indices: set[str]) -> dict[int, int]:
    whole = math.prod(extent for variable, extent in loops if variable not in indices)
    return dict.fromkeys(again(loops, indices), whole)


RIGHT: dict[str, Callable[..., Any]] = {
    "pages_of_column": column,
    "used_again": again,
}

WRONG: list[tuple[str, Callable[..., Any]]] = [
    ("pages_of_column", lambda rows, ld: -(-rows * ld * 4 // 4096)),
    ("pages_of_column", lambda rows, ld: rows),
    ("pages_of_column", lambda rows, ld: min(rows, -(-rows * ld * 4 // 4096))),
    ("pages_of_column", lambda rows, ld: len({row * ld // 4096 for row in range(rows)})),
    # What is no number, no list, no order at all.
    ("pages_of_column", lambda rows, ld: np.arange(2)),
    ("pages_of_column", lambda rows, ld: {row * ld * 4 // 4096 for row in range(rows)}),
    ("used_again", all_outside),
    (
        "used_again",
        lambda loops, indices: {d: n for d, (v, n) in enumerate(loops) if v not in indices},
    ),
    ("used_again", lambda loops, indices: {d: n for d, (v, n) in enumerate(loops) if v in indices}),
    ("used_again", lambda loops, indices: {}),
    ("used_again", lambda loops, indices: {"0": 1, 1: 2}),
    ("used_again", lambda loops, indices: [*again(loops, indices).items()]),
]


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_answer_is_accepted(name: str) -> None:
    check = getattr(checks, name)
    assert check.verdict(RIGHT[name]).startswith(f"{name}: OK")
    assert check.verdict(lambda *given: ...) == f"{name}: not answered yet"


def test_the_solutions_in_the_chapter_are_right() -> None:
    names: dict[str, Any] = {"plain": checks.PLAIN}
    for solution in solutions(CHAPTER):
        exec(solution, names)
    for name in RIGHT:
        assert getattr(checks, name).verdict(names[name]).startswith(f"{name}: OK")
    assert checks.order_and_pack.verdict(names["mine"]).startswith("order_and_pack: OK")
    (cell,) = (source(each) for each in code(CHAPTER) if "check.order_and_pack" in source(each))
    assert eval(cell.partition("plain = ")[2].partition("\n")[0], {"nests": nests}) == checks.PLAIN


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (checks.PLAIN.pack("A", 1), "where j is innermost, not k"),
        (checks.PLAIN.interchange("k", "i", "j"), "1.00 of the cycles of misses is left"),
        (checks.PLAIN.interchange("i", "k", "j").pack("B", 0), "takes 262144 bytes"),
        (checks.PLAIN.interchange("k", "i", "j").pack("A", 1), "of the cycles of misses is left"),
        (nests.parse("C[i][j] += A[k][i] * B[j][k]", k=256, i=256, j=256), "another nest"),
        ("k i j", "give a nest"),
    ],
)
def test_another_order_or_copy_is_rejected(answer: Any, said: str) -> None:
    found = checks.order_and_pack.verdict(answer)
    assert found.startswith("order_and_pack: not right yet") and said in found, found


def test_an_order_and_a_copy_that_are_not_given() -> None:
    assert checks.order_and_pack.verdict(...) == "order_and_pack: not answered yet"


@pytest.mark.parametrize(("name", "answer"), WRONG)
def test_a_wrong_answer_is_rejected(name: str, answer: Callable[..., Any]) -> None:
    verdict = getattr(checks, name).verdict(answer)
    assert verdict.startswith(f"{name}: not right yet")
    assert len(verdict) < 300, verdict


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_no_function_is_rejected(name: str) -> None:
    said = f"{name}: not right yet: the answer is 5, and should be a function"
    assert getattr(checks, name).verdict(5) == said


def skeleton() -> str:
    """The cell of the last exercise, without its magic."""
    cell = next(each for each in code(CHAPTER) if source(each).startswith("%%cpp blocks"))
    return source(cell).partition("\n")[2]


def blocks(body: str) -> str:
    head, brace, tail = skeleton().partition("Array buffer) {\n")
    return checks.packed_blocks.verdict(native.compile(head + brace + body + tail))


def solution() -> str:
    _, _, folded = prose(CHAPTER).partition("{solution} ex-to-pack-or-not-blocks")
    return folded.partition("~~~cpp\n")[2].partition("~~~")[0]


@pytest.mark.nvcc
def test_the_packed_blocks_of_the_chapter_are_right() -> None:
    assert blocks(solution()) == f"packed_blocks: OK ({len(checks.PRODUCTS)} products)"
    assert blocks("") == "packed_blocks: not answered yet"


COPY = "buffer[(k - k0) * block + j - j0] = float(b[k * ld + j]);"
USE = "c[i * ld + j] += factor * buffer[(k - k0) * block + j - j0];"


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (USE, "c[i * ld + j] += factor * b[k * ld + j];", "it is right, and reads b"),
        (COPY, ";", "is nan, not"),
        (USE, USE.replace("+=", "="), "it was"),
        (USE, USE.replace("(k - k0) * block + j - j0", "(j - j0) * block + k - k0"), "not"),
        (COPY, COPY.replace("(k - k0) * block", "(k - k0) * ld"), "behind the buffer|ended by"),
        (COPY, COPY.replace("b[k * ld + j]", "b[j * ld + k]"), "not"),
        (COPY, COPY.replace("k * ld", "k * n"), "for n 30"),
        (COPY, "buffer[k * ld + j] = float(b[k * ld + j]);", "behind the buffer|ended by|not"),
        ("k1 = std::min(k0 + block, n)", "k1 = k0 + block", "not|ended by"),
        ("j1 = std::min(j0 + block, n)", "j1 = std::min(j0 + block, ld)", "between|not|ended by"),
        ("k0 < n", "k0 + block <= n", "not"),
        ("a[i * ld + k]", "a[k * ld + i]", "not"),
        ("", "", ""),
        (COPY, "{ buffer[(k - k0) * block + j - j0] = float(b[k * ld + j]); b[k * ld + j] = 0; }",
         "writes to a or b"),
        ("for (int64_t i = 0; i < n; i++)\n", "for (int64_t i = 1; i < n; i++)\n", "not"),
    ],
)  # fmt: skip
def test_wrong_packed_blocks_are_rejected(old: str, new: str, said: str) -> None:
    right = solution()
    if not said:  # the copy inside the loop over the rows
        copy = right[
            right.index("        for (int64_t k = k0") : right.index("        for (int64_t i")
        ]
        inside = right.replace(copy, "").replace("i++)\n", "i++) {\n" + copy, 1)
        changed, said = (
            inside.replace("            }\n    }\n", "            }\n    }}\n"),
            "reads b",
        )
    else:
        assert old in right, old
        changed = right.replace(old, new)
    verdict = blocks(changed)
    assert verdict.startswith("packed_blocks: not right yet"), verdict
    assert re.search(said, verdict), verdict


def test_another_cell_is_rejected() -> None:
    said = checks.packed_blocks.verdict(5)
    assert said.startswith("packed_blocks: not right yet: give a %%cpp cell with the function")


@pytest.mark.parametrize("name", ["contraction", "AᵀB", "batched", "tensor × matrix"])
def test_used_again_is_what_the_analysis_counts(name: str) -> None:
    nest = EXAMPLES[name]
    loops = [(level.variable, dict(nest.extents)[level.variable]) for level in nest.order]
    found = packing.places(nest)
    assert found
    for pack in found:
        (factor,) = (each for each in nest.factors if each.array == pack.array)
        indices = set(re.findall(r"[a-z]", str(factor)))
        assert again(loops, indices)[pack.depth] == packing.candidate(nest, pack).uses
