"""The checks of *Measuring honestly* accept what is right and refuse planted wrong answers."""

from __future__ import annotations

import statistics

import pytest

from phasebit import files
from phasebit.chapters.measuring import exercises as check
from phasebit.chapters.measuring.exercises import ToyGpu
from tests.book.notebooks import ROOT, code, solutions, source

CHAPTER = next(ROOT.glob("book/*/??_measuring.ipynb"))


def refuses(judge: object, answer: object) -> None:
    assert "not right yet" in judge.verdict(answer)  # type: ignore[attr-defined]


def test_no_answer_yet() -> None:
    for each in (check.possible, check.bound, check.honest):
        assert each.verdict(lambda *a: ...).endswith("not answered yet"), each
    for text in (check.mistakes, check.count_wrong):
        assert text.verdict(...).endswith("not answered yet")


@pytest.mark.nvcc
def test_the_solutions_of_the_chapter() -> None:
    names: dict[str, object] = {}
    answers = []
    for text in solutions(CHAPTER):
        exec(text, names)
        answers.append(names.pop("answer", None))
    program, source_text = filter(None, answers)
    assert check.mistakes.verdict(program) == "mistakes: OK (6 programs)"
    assert str(check.count_wrong.verdict(source_text)).startswith("count_wrong: OK")
    for exercise in ("possible", "bound", "honest"):
        verdict = getattr(check, exercise).verdict(names[exercise])
        assert verdict.startswith(f"{exercise}: OK"), verdict


@pytest.mark.parametrize(
    "wrong",
    [
        lambda flop, moved, us, tb, tf: us * 1e-6 >= moved / (tb * 1e12),  # memory only
        lambda flop, moved, us, tb, tf: us * 1e-6 >= flop / (tf * 1e12),  # arithmetic only
        lambda flop, moved, us, tb, tf: us * 1e-6 >= (moved / tb + flop / tf) / 1e12,  # the sum
        lambda flop, moved, us, tb, tf: us * 1e-3 >= max(moved / tb, flop / tf) / 1e12,  # ms
        lambda flop, moved, us, tb, tf: us * 1e-6 < max(moved / tb, flop / tf) / 1e12,
        lambda flop, moved, us, tb, tf: True,
        lambda flop, moved, us, tb, tf: 1,
    ],
)
def test_possible_refuses(wrong: object) -> None:
    refuses(check.possible, wrong)


U = {"f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}


def gamma(K: int, u: float) -> float:
    return K * u / (1 - K * u)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda K, sums, output: gamma(K, U[sums]),  # the output is not rounded
        lambda K, sums, output: gamma(K, U[sums]) + U[output],  # without the second order
        lambda K, sums, output: (1 + gamma(K, U[sums])) * (1 + U[output]) - 1,  # always rounded
        lambda K, sums, output: gamma(K, 2 * U[sums]),  # the spacing, not half of it
        lambda K, sums, output: gamma(K, U[output]),
        lambda K, sums, output: K * U[sums],
        lambda K, sums, output: 0.1,
    ],
)
def test_bound_refuses(wrong: object) -> None:
    refuses(check.bound, wrong)


COUNTS = check.COUNT_WRONG.replace(
    "    // yours\n",
    "    if (i >= n) return;\n"
    "    if (!(fabs(got[i] - exact[i]) <= allowed[i])) atomicAdd(count, 1);\n",
)
ASKED = "!(fabs(got[i] - exact[i]) <= allowed[i])"


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("right", "wrong", "why"),
    [
        (ASKED, "fabs(got[i] - exact[i]) > allowed[i]", "NaN"),
        (ASKED, "!(got[i] - exact[i] <= allowed[i])", "too small"),
        (ASKED, "!(fabs(got[i] - exact[i]) < allowed[i])", "nothing allowed"),
        (ASKED, "!(fabs(got[i] - exact[i]) <= 1e-2)", "too large"),
        (ASKED, "!(abs(int(got[i] - exact[i])) <= allowed[i])", "it adds"),
        (ASKED, "!(fabs(got[i] - exact[i]) <= allowed[i] * fabs(exact[i]))", "it adds"),
        (ASKED, "isnan(got[i]) || fabs(got[i] - exact[i]) > allowed[i] + 1", "too large"),
        (ASKED, "fabs(got[i] - exact[i]) <= allowed[i]", "all are right"),
        ("if (i >= n) return;", "", "allocation|outside|beyond|bytes"),
        ("if (i >= n) return;", "if (i >= n - 1) return;", "it adds"),
        ("if (i >= n) return;", "if (i > n) return;", "allocation|outside|beyond|bytes"),
        ("atomicAdd(count, 1)", "count[0] += 1", "race|it adds"),
        ("atomicAdd(count, 1)", "atomicExch(count, 1)", "it adds"),
        ("atomicAdd(count, 1)", "atomicAdd(count, i)", "it adds"),
        ("atomicAdd(count, 1)", "atomicAdd(count + 1, 1)", "it adds"),
        ("atomicAdd(count, 1)", "(atomicAdd(count, 1), atomicAdd(count + 1, 1))", "something else"),
        ("if (i >= n) return;", "if (i == 0) count[0] = 0; if (i >= n) return;", "race|it adds"),
        ("blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x", "it adds"),
        ("if (i >= n) return;", "if (i) return;", "it adds"),
        ("extern", "nonsense", "line"),
    ],
)
def test_count_wrong_refuses(right: str, wrong: str, why: str) -> None:
    assert right in COUNTS
    said = check.count_wrong.verdict(COUNTS.replace(right, wrong))
    assert "not right yet" in said and any(word in said for word in why.split("|")), said


@pytest.mark.nvcc
@pytest.mark.parametrize("other", [check.COUNT_WRONG, 5])
def test_count_wrong_refuses_what_counts_nothing(other: object) -> None:
    refuses(check.count_wrong, other)


@pytest.mark.nvcc
def test_count_wrong_accepts_a_loop_of_one_block() -> None:
    loop = COUNTS.replace(
        "    if (i >= n) return;\n    if (",
        "    for (int k = i; k < n; k += blockDim.x * gridDim.x)\n    if (",
    )
    loop = loop.replace("got[i]", "got[k]").replace("exact[i]", "exact[k]")
    assert "OK" in check.count_wrong.verdict(loop.replace("allowed[i]", "allowed[k]"))


@pytest.mark.parametrize("wrong", ["ABCDEF", "CADEF", "CADEFF", 5, "CADFEB"])
def test_mistakes_refuses(wrong: object) -> None:
    refuses(check.mistakes, wrong)


def timed(gpu: ToyGpu, flush: bool = True, wait: bool = False, count: int = 101) -> list[float]:
    pairs = []
    for _ in range(count):
        if flush:
            gpu.flush()
        if wait:
            gpu.wait()
        before = gpu.event()
        gpu.launch()
        pairs.append((before, gpu.event()))
    gpu.wait()
    return [gpu.elapsed(before, after) for before, after in pairs]


def around(gpu: ToyGpu) -> float:
    """The flush is timed, too."""
    before = gpu.event()
    for _ in range(100):
        gpu.flush()
        gpu.launch()
    after = gpu.event()
    gpu.wait()
    return gpu.elapsed(before, after) / 100


def host(gpu: ToyGpu) -> float:
    gpu.launch()
    times = []
    for _ in range(100):
        gpu.flush()
        gpu.wait()
        start = gpu.clock()
        gpu.launch()
        gpu.wait()
        times.append(gpu.clock() - start)
    return statistics.median(times)


def nobody_waits(gpu: ToyGpu) -> float:
    start = gpu.clock()
    gpu.launch()
    return gpu.clock() - start


def too_early(gpu: ToyGpu) -> float:
    before = gpu.event()
    gpu.launch()
    return gpu.elapsed(before, gpu.event())


@pytest.mark.parametrize(
    "wrong",
    [
        lambda gpu: statistics.median(timed(gpu, flush=False)),  # in the cache
        lambda gpu: statistics.fmean(timed(gpu)),  # disturbed, and with the first launch
        lambda gpu: statistics.fmean(timed(gpu)[1:]),
        lambda gpu: timed(gpu, count=1)[0],  # the first launch
        lambda gpu: timed(gpu, count=2)[1],  # a single one, which may be disturbed
        lambda gpu: statistics.median(timed(gpu, wait=True)),  # an empty queue: the host's pace
        lambda gpu: max(timed(gpu)),
        around,
        host,
        nobody_waits,
        too_early,
        lambda gpu: 30.0,
        lambda gpu: True,
    ],
)
def test_honest_refuses(wrong: object) -> None:
    refuses(check.honest, wrong)


def test_the_toy_keeps_its_promises() -> None:
    gpu = ToyGpu(5)
    start = gpu.clock()
    gpu.launch()
    assert gpu.clock() - start < 10  # it returns at once
    gpu.wait()
    assert gpu.clock() - start > 2000  # the first launch loads the kernel
    with pytest.raises(ValueError, match="as event"):
        gpu.elapsed(0, 1)


@pytest.mark.parametrize("kernel", ["measuring/matvec", "measuring/clocks", "measuring/caches"])
def test_a_cell_is_its_file(kernel: str) -> None:
    cells = [source(cell) for cell in code(CHAPTER)]
    assert "%%cuda\n" + files.kernel(kernel).rstrip("\n") in cells


def test_a_count_of_wrong_results_is_an_int() -> None:
    """As it is declared: from NumPy 2.5 on the types say that a sum of its own is none."""
    assert {type(right) for *_, right in check._results()} == {int}
