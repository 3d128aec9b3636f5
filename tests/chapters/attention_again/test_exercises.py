"""The checks of *Attention again* accept what is right and refuse what people write."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from phasebit.chapters.attention_again import attention_slips as slips
from phasebit.chapters.attention_again import exercises as check
from phasebit.chapters.attention_again import polynomial, view
from phasebit.chapters.attention_again import tensor_attention as kernels
from phasebit.edits import replace_each
from tests.book.notebooks import ROOT, solutions

CHAPTER = next(ROOT.glob("book/*/??_attention_again.ipynb"))
BESIDE = CHAPTER.with_name("attention_beside.ipynb")
"""The page that asks for half of P."""

Edits = tuple[tuple[str, str], ...]


def answers(page: Path) -> list[dict[str, object]]:
    found = []
    for solution in solutions(page):
        names: dict[str, object] = {"polynomial": polynomial}
        exec(solution, names)
        found.append(names)
    return found


SKIPS, WEIGHTS, COUNTS, SOFTMAX = answers(CHAPTER)
HALVES = answers(BESIDE)[-1]


def test_no_answer_yet() -> None:
    for judge in check.skips, check.weights_in, check.signals:
        assert judge.verdict(lambda *a: ...).endswith("not answered yet")
    for each, what in (check.halves, "functions"), (check.softmax, "function"):
        assert each.verdict(...).endswith("not answered yet")
        assert each.verdict("// yours").endswith("not answered yet")
        assert f"give the text of the {what}" in each.verdict(3)


Maxima = list[list[float]]


def greatest(maxima: Maxima, threshold: float) -> list[int]:
    """As if the reference were the greatest score so far."""
    found, most = [], list(maxima[0])
    for step, row in enumerate(maxima[1:], 1):
        if any(x - old > threshold for x, old in zip(row, most, strict=True)):
            found.append(step)
        most = [max(x, old) for x, old in zip(row, most, strict=True)]
    return found


def together_moved(maxima: Maxima, threshold: float) -> list[int]:
    """As if all references of a warp moved together."""
    found, references = [], list(maxima[0])
    for step, row in enumerate(maxima[1:], 1):
        if any(x - old > threshold for x, old in zip(row, references, strict=True)):
            found.append(step)
            references = list(row)
    return found


def reached(maxima: Maxima, threshold: float) -> list[int]:
    return check.rescaling(maxima, threshold - 1e-9)


SKIPPED: dict[str, Callable[[Maxima, float], list[int]]] = {
    "the reference follows every maximum": greatest,
    "all rows of a warp move": together_moved,
    "a threshold that is reached": reached,
    "all rows must be above": lambda maxima, threshold: check.rescaling(
        [[min(row)] * 32 for row in maxima], threshold),
    "step 0 too": lambda maxima, threshold: [0, *check.rescaling(maxima, threshold)],
}  # fmt: skip


def test_skips_takes_the_solution() -> None:
    assert check.skips.verdict(SKIPS["rescaled_in"]).startswith("skips: OK")


@pytest.mark.parametrize("name", SKIPPED)
def test_skips_refuses(name: str) -> None:
    assert "not right yet" in check.skips.verdict(SKIPPED[name])


@pytest.mark.nvcc
def test_a_run_rescales_where_the_check_says() -> None:
    shape = kernels.Shape(256, 512)
    data = kernels.draw(shape, 3, 3.0)
    text = kernels.source(kernels.POLYNOMIAL)
    with view.watching() as log:
        kernels.attend(text, data, schedule="eager", check=False)
    made, _ = view.rescales(text, shape.depth, log, 4)
    scores = kernels.exact(data, False).scores[0].reshape(8, 32, 4, 128).max(axis=3)
    warps = [[list(map(float, scores[warp, :, step])) for step in range(4)] for warp in range(8)]
    assert made == sum(len(check.rescaling(each, kernels.THRESHOLD)) for each in warps)
    assert 0 < made < 24


def test_weights_takes_the_solution() -> None:
    assert check.weights_in.verdict(WEIGHTS["degree_and_threshold"]).startswith("weights_in: OK")
    assert [check.for_format(*each) for each in check.FORMATS.values()] == [
        (3, 127), (4, 15), (2, 8), (2, 15)]  # fmt: skip


WRONG_WEIGHTS: dict[str, Callable[[int, float], tuple[int, int]]] = {
    "always as for bf16": lambda bits, largest: (3, check.for_format(bits, largest)[1]),
    "the hidden bit forgotten": lambda bits, largest: check.for_format(bits - 1, largest),
    "rounded up": lambda bits, largest: (check.for_format(bits, largest)[0],
                                         check.for_format(bits, largest)[1] + 1),
    "the largest number itself": lambda bits, largest: (check.for_format(bits, largest)[0],
                                                        int(largest)),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_WEIGHTS)
def test_weights_refuses(name: str) -> None:
    assert "not right yet" in check.weights_in.verdict(WRONG_WEIGHTS[name])


def steps(keys: int) -> int:
    return -(-keys // 128)


SIGNALS = {
    "one tile where one has rows": lambda q, k, d: (
        min(2, -(-q // 128)) * steps(k) * (d // 16 + 8), 8 * steps(k), -(-2 * steps(k) // 3)),
    "the scores alone": lambda q, k, d: (
        2 * steps(k) * d // 16, 8 * steps(k), -(-2 * steps(k) // 3)),
    "keys rounded down": lambda q, k, d: (
        2 * (k // 128) * (d // 16 + 8), 8 * (k // 128), -(-2 * (k // 128) // 3)),
    "weights sum over the head": lambda q, k, d: (
        2 * steps(k) * (d // 16 + d // 16), 8 * steps(k), -(-2 * steps(k) // 3)),
    "no correction in the first step": lambda q, k, d: (
        2 * steps(k) * (d // 16 + 8), 8 * steps(k) - 4, -(-2 * steps(k) // 3)),
    "the softmax alone arrives": lambda q, k, d: (
        2 * steps(k) * (d // 16 + 8), 4 * steps(k), -(-2 * steps(k) // 3)),
    "threads arrive, not warps": lambda q, k, d: (
        2 * steps(k) * (d // 16 + 8), 256 * steps(k), -(-2 * steps(k) // 3)),
    "phases, not arrivals": lambda q, k, d: (
        2 * steps(k) * (d // 16 + 8), steps(k), -(-2 * steps(k) // 3)),
    "K alone goes through the ring": lambda q, k, d: (
        2 * steps(k) * (d // 16 + 8), 8 * steps(k), -(-steps(k) // 3)),
    "slots rounded down": lambda q, k, d: (
        2 * steps(k) * (d // 16 + 8), 8 * steps(k), 2 * steps(k) // 3),
    "every tile in every slot": lambda q, k, d: (
        2 * steps(k) * (d // 16 + 8), 8 * steps(k), 2 * steps(k)),
}  # fmt: skip


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run of the last kernel once."""
    monkeypatch.setattr(check, "counted", _counted)


_counted = functools.cache(check.counted)


@pytest.mark.nvcc
def test_signals_takes_the_solution(runs: None) -> None:
    assert check.signals.verdict(COUNTS["signals"]).startswith("signals: OK")


@pytest.mark.nvcc
@pytest.mark.parametrize("name", SIGNALS)
def test_signals_refuses(runs: None, name: str) -> None:
    answer: Callable[[int, int, int], tuple[int, int, int]] = SIGNALS[name]
    assert "not right yet" in check.signals.verdict(answer)


WAIT = "        ptx::mbarrier_wait(part ? &s.ready[tile] : &s.half[tile], step % 2);\n"
FENCE = "        ptx::tcgen05_fence_after_thread_sync();\n"
COUNT = "HALF_WARPS = 8, READY_WARPS = 4"
IN_HALVES: dict[str, Edits] = {
    "nothing has changed but the names": (
        (COUNT, "HALF_WARPS = 4, READY_WARPS = 8"), ("arrive(&s.half", "arrive(&s.ready"),
        (WAIT + FENCE, ""), ("    for (int part = 0; part < 2; ++part) {",
                             "    ptx::mbarrier_wait(&s.half[tile], step % 2);\n"
                             "    ptx::mbarrier_wait(&s.ready[tile], step % 2);\n" + FENCE +
                             "    for (int part = 0; part < 2; ++part) {")),
    "O is corrected after the first half": (
        (COUNT, "HALF_WARPS = 4, READY_WARPS = 8"), ("arrive(&s.half", "arrive(&s.ready")),
    "the counts of the other order": ((COUNT, "HALF_WARPS = 4, READY_WARPS = 8"),),
    "nobody waits for the first half": ((WAIT, f"        if (part)\n    {WAIT}"),),
    "nobody waits for the second half": ((WAIT, f"        if (!part)\n    {WAIT}"),),
    "no fence": ((FENCE, ""),),
    "a fence for the first half only": ((FENCE, f"        if (!part)\n    {FENCE}"),),
    "each half begins anew": (("k > 0);", "k % 4 > 0);"),),
    "every step anew": (("step > 0 || k > 0", "k > 0"),),
    "the first half twice": (("int k = part * 4; k < part * 4 + 4", "int k = 0; k < 4"),),
    "values of the first half": (("* STEP >> 4) * k,", "* STEP >> 4) * (k % 4),"),),
}  # fmt: skip

SCORES = "        ptx::mbarrier_wait(&s.s_full[tile], step % 2);\n"
AFTER = "        ptx::tcgen05_fence_after_thread_sync();\n"
MASK = "        if (p.seen(first) < (step + 1) * ROWS) mask(scores, seen - step * ROWS);\n"
WRITE = "        s.factors[tile][t] = factor;\n"
TELL = "        arrive(&s.factor_full[tile]);\n"
SUM = "        row.sum = row.sum * factor + weights<SHARE>(scores, p.scale, row.reference);\n"
BEFORE = "        ptx::tcgen05_fence_before_thread_sync();\n"
READY = "        arrive(&s.ready[tile]);\n"
LAST = "    s.sums[tile][t] = row.sum;\n"
ROLE: dict[str, Edits] = {
    "nobody waits for scores": ((SCORES, ""),),
    "no fence behind scores": ((AFTER, ""),),
    "no fence before ready": ((BEFORE, ""),),
    "each row decides on the mask": (("p.seen(first) <", "seen <"),),
    "the factor is not written": ((WRITE, ""),),
    "the factor is announced before it is written": ((WRITE + TELL, TELL + WRITE),),
    "the factor is announced after the weights": ((TELL, ""), (READY, TELL + READY)),
    "each thread arrives": (("arrive(&s.ready[tile])", "ptx::mbarrier_arrive(&s.ready[tile])"),),
    "ready before the weights": ((READY, ""), (SUM, READY + SUM)),
    "the sum is not rescaled": (("row.sum * factor + ", "row.sum + "),),
    "the sum is written each step, announced once": ((LAST, ""), (BEFORE, f"    {LAST}{BEFORE}"),
        ("    arrive(&s.sum_full[tile]);\n", "")),
    "the sum at the factor's barrier": (("arrive(&s.sum_full", "arrive(&s.factor_full"),),
}  # fmt: skip


def wrongs() -> dict[tuple[str, str], str]:
    """All wrong texts: exercise and name -> the answer."""
    halves, role = str(HALVES["source"]), str(SOFTMAX["source"])
    found = {("halves", name): replace_each(halves, edits) for name, edits in IN_HALVES.items()}
    return found | {("softmax", name): replace_each(role, each) for name, each in ROLE.items()}


@functools.cache
def programs() -> list[str]:
    """The programs of all answers."""
    put = {"halves": check.in_halves, "softmax": check.with_soften}
    texts = [check.in_halves(str(HALVES["source"])), check.with_soften(str(SOFTMAX["source"]))]
    return texts + [put[exercise](answer) for (exercise, _), answer in wrongs().items()]


@functools.cache
def together(first: int) -> Any:
    """A few of them, compiled by one call of nvcc."""
    from phasebit.launching.launch import compile

    texts = programs()[first : first + AT_ONCE]
    return compile(slips.together(texts), "sm_100a", [f"-DHEAD={check.SHAPE.depth}"])


AT_ONCE = 3


def compiled_with_others(text: str, depth: int) -> Any:
    """The kernel of a program."""
    number = programs().index(text)
    return together(number - number % AT_ONCE)[f"n{number % AT_ONCE}::attend"]


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "compiled", compiled_with_others)


@pytest.mark.nvcc
def test_halves_takes_the_solution(compiled: None) -> None:
    assert check.halves.verdict(HALVES["source"]).startswith("halves: OK")


@pytest.mark.nvcc
def test_softmax_takes_the_solution(compiled: None) -> None:
    assert check.softmax.verdict(SOFTMAX["source"]).startswith("softmax: OK")


@pytest.mark.nvcc
@pytest.mark.parametrize(("exercise", "name"), [("halves", n) for n in IN_HALVES]
                         + [("softmax", n) for n in ROLE])  # fmt: skip
def test_wrong_answers_are_refused(compiled: None, exercise: str, name: str) -> None:
    said = getattr(check, exercise).verdict(wrongs()[exercise, name])
    assert said.startswith(f"{exercise}: not right yet: "), said


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("answer", "says"),
    [("// nothing\n", "keep the line __device__ void soften"),
     ("template <int SHARE>\n" + check.SOFTEN + " {\n    flaot x;\n}\n", "flaot")],
)  # fmt: skip
def test_what_does_not_compile_is_refused(answer: str, says: str) -> None:
    said = check.softmax.verdict(answer)
    assert said.startswith("softmax: not right yet: ") and says in said
