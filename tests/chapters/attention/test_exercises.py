"""The checks of *Attention* accept what is right and refuse what people write."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from phasebit.chapters.attention import exercises as check
from phasebit.edits import replace_once
from tests.book.notebooks import ROOT
from tests.chapters.answers import solved

CHAPTER = next(ROOT.glob("book/*/??_attention.ipynb"))


def test_no_answer_yet() -> None:
    assert check.tile_cycles.verdict(lambda *a: ...).endswith("not answered yet")
    assert check.merge.verdict(lambda *a: ...).endswith("not answered yet")
    assert check.step.verdict("// yours").endswith("not answered yet")
    assert check.window.verdict("// yours").endswith("not answered yet")


def test_the_solutions_in_python_are_right() -> None:
    for name in ("tile_cycles", "merge"):
        assert f"{name}: OK" in getattr(check, name).verdict(solved(CHAPTER)[name])


def tile(
    operations: int = 4, rate: int = 4096, special: float = 16, q: int = 64, rows: int = 2,
    size: int = 2, group: int = 64, way: Callable[..., float] = max,
) -> Callable[[int, int, int], float]:  # fmt: skip
    def tile_cycles(d: int, queries: int, keys: int) -> float:
        reads = queries / group * size * d * (q + rows * keys) / 128
        return way(operations * queries * keys * d / rate, queries * keys / special, reads)

    return tile_cycles


def test_tile_cycles_accepts_the_right_counts() -> None:
    assert "tile_cycles: OK" in check.tile_cycles.verdict(tile())


@pytest.mark.parametrize(
    "wrong",
    [
        tile(operations=2), tile(rate=8192), tile(special=32), tile(way=min),
        tile(way=lambda *all_three: sum(all_three)), tile(way=lambda products, *_: products),
        tile(way=lambda _, exponentials, __: exponentials), tile(way=lambda *three: three[2]),
        tile(way=lambda products, exponentials, _: max(products, exponentials)),
        tile(q=0), tile(rows=1), tile(rows=4), tile(size=1), tile(size=4), tile(group=128),
    ],
)  # fmt: skip
def test_tile_cycles_refuses(wrong: Callable[..., float]) -> None:
    assert "not right yet" in check.tile_cycles.verdict(wrong)


def merged(
    top: Callable[..., float] = max, guard: bool = True, scale_sum: bool = True,
    scale_output: bool = True, divide: bool = False, upside_down: bool = False,
) -> Callable[..., object]:  # fmt: skip
    def merge(a: tuple, b: tuple) -> object:
        highest = top(a[0], b[0])
        base = 0 if guard and highest == -math.inf else highest
        left, right = (
            math.exp(base - x if upside_down else x - base) if x > -math.inf else 0.0
            for x in (a[0], b[0])
        )
        if not guard and -math.inf in (a[0], b[0]):
            left = right = math.nan
        total = (left * a[1] + right * b[1]) if scale_sum else a[1] + b[1]
        if not scale_output:
            left = right = 1.0
        output = [left * x + right * y for x, y in zip(a[2], b[2], strict=True)]
        return highest, total, [x / total for x in output] if divide and total else output

    return merge


def test_merge_accepts_another_right_one() -> None:
    assert "merge: OK" in check.merge.verdict(merged())


@pytest.mark.parametrize(
    "wrong",
    [
        merged(top=min), merged(guard=False), merged(scale_sum=False), merged(scale_output=False),
        merged(divide=True), merged(upside_down=True), lambda a, b: a, lambda a, b: 1,
        lambda a, b: (max(a[0], b[0]), a[1] + b[1], [*a[2], *b[2]]),
        lambda a, b: (a[0] + b[0], a[1] * b[1], a[2]),
    ],
)  # fmt: skip
def test_merge_refuses(wrong: Callable[..., object]) -> None:
    assert "not right yet" in check.merge.verdict(wrong)


MOST = "most = fmaxf(most, __shfl_xor_sync(~0u, most, {}));"
OLD = "shrink[h] = ptx::ex2(top[h] * factor - base);"
WRONG = {
    "the rows are the halves": (("(i / 2 % 2 == h)", "(i / (N / 2) == h)"),
                                ("(i / 2 % 2 != h)", "(i / (N / 2) != h)")),
    "the rows alternate": (("(i / 2 % 2 == h)", "(i % 2 == h)"),
                           ("(i / 2 % 2 != h)", "(i % 2 != h)")),
    "two of four lanes": ((MOST.format(2), ""),),
    "no shuffle": ((MOST.format(1), ""), (MOST.format(2), "")),
    "lanes of another row": ((MOST.format(2), MOST.format(4)),),
    "infinities are subtracted": (("most == -INFINITY ? 0 : most * factor", "most * factor"),),
    "zero is the least": (("float most = top[h];", "float most = fmaxf(top[h], 0);"),
                          ("top[h] = most;", "top[h] = most; shrink[h] = 1;")),
    "shrink upside down": ((OLD, "shrink[h] = ptx::ex2(base - top[h] * factor);"),),
    "shrink after top": ((OLD, ""), ("top[h] = most;", "top[h] = most; " + OLD)),
    "no shrink": ((OLD, "shrink[h] = 1;"),),
    "top does not move": (("top[h] = most;", ""),),
    "the sum does not shrink": (("sum[h] *= shrink[h];", ""),),
    "the sum starts anew": (("sum[h] *= shrink[h];", "sum[h] = 0;"),),
    "no factor": (("ptx::ex2(s[i] * factor - base)", "ptx::ex2(s[i] - base)"),),
    "powers of e": (("ptx::ex2(s[i] * factor - base)", "expf(s[i] * factor - base)"),),
    "scores are summed": (("sum[h] += s[i];", ""), ("s[i] = ptx", "sum[h] += s[i];\ns[i] = ptx")),
    "another head": (("float factor)", "float scale)"),),
}  # fmt: skip


@pytest.mark.nvcc
def test_the_solution_runs() -> None:
    assert check.step.verdict(solved(CHAPTER)["function"]) == "step: OK (3 runs, no finding)"


@pytest.mark.nvcc
@pytest.mark.parametrize("name", WRONG)
def test_step_refuses(name: str) -> None:
    function = str(solved(CHAPTER)["function"])
    for old, new in WRONG[name]:
        function = replace_once(function, old, new)
    assert check.step.verdict(function).startswith("step: not right yet: ")


@pytest.mark.parametrize("wrong", [1, lambda: None, ["step"]])
def test_step_wants_text(wrong: object) -> None:
    assert "give the text of the function" in check.step.verdict(wrong)


WINDOWS = {
    "the rows alternate": ("8 * (i / 2 % 2)", "8 * (i % 2)"),
    "all warps have the first one's rows": ("16 * (t / 32) + ", ""),
    "all lanes have the first one's columns": (" + 2 * (t % 4)", ""),
    "the pairs of columns": (" + i % 2;", ";"),
    "a key too many": ("key <= last - WINDOW", "key < last - WINDOW"),
    "a key too few": ("key <= last - WINDOW", "key <= last - WINDOW + 1"),
    "its own key is hidden": ("key > last", "key >= last"),
    "the first query sees the first key": ("query + shape.keys - shape.queries;", "query;"),
    "no diagonal": ("key > last || ", ""),
    "no window": (" || key <= last - WINDOW", ""),
    "the tile's first key is left out": ("tile * KEYS + ", ""),
    "hidden scores are 0": ("= -INFINITY", "= 0"),
    "hidden scores are a large number": ("= -INFINITY", "= -1e30f"),  # rows that see no key
    "hidden scores are made small": ("s[i] = -INFINITY", "s[i] -= 100"),
    "every tile is fetched": ("return max(", "return 0 * max("),
    "the last query decides": ("row + shape.keys", "row + 63 + shape.keys"),
    "rounded up": (") / KEYS;", " + KEYS - 1) / KEYS;"),
    "tiles before the first": ("max(0, row", "(row"),
    "another name": ("int first_tile(", "int first("),
}


@pytest.mark.nvcc
def test_the_window_runs() -> None:
    functions = solved(CHAPTER)["two_functions"]
    assert check.window.verdict(functions) == "window: OK (3 runs, no finding)"


@pytest.mark.nvcc
@pytest.mark.parametrize("name", WINDOWS)
def test_window_refuses(name: str) -> None:
    said = check.window.verdict(replace_once(str(solved(CHAPTER)["two_functions"]), *WINDOWS[name]))
    assert said.startswith("window: not right yet: ")
    assert ("tiles of K, and sees" in said) == (name == "every tile is fetched")
