"""Checks of *Attention*, and of *Attention: what binds* where they need its modules."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from phasebit.chapters.attention import attend, encounters, handed_out
from phasebit.chapters.attention.softmax import online
from phasebit.edits import replace_each
from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import Wrong, ask, judged
from phasebit.exercises.written import clean, compiled, compiling, running, written


@judged
def tile_cycles(answer: Callable[[int, int, int], float]) -> str:
    """``answer(d, queries, keys)``: the fewest cycles of a tile of scores, all of it overlapped."""
    draw = random.Random(190)

    def cases() -> Iterator[Case]:
        yield (128, 128, 128), 2048
        for _ in range(60):
            d = draw.choice([16, 32, 48, 64, 96, 128, 256])
            queries, keys = 64 * draw.randint(1, 4), 8 * draw.choice([1, 2, 3, 4, 8, 16, 22])
            products, exponentials = 4 * queries * keys * d // 4096, queries * keys // 16
            reads = queries // 64 * d * (32 + keys) // 32  # of 64 + 2 · keys rows
            yield (d, queries, keys), max(products, exponentials, reads)

    def words(d: int, queries: int, keys: int) -> str:
        return f"heads of {d}, {queries} queries and {keys} keys"

    return agree(answer, cases(), words, "tiles")


Part = tuple[float, float, list[float]]


@judged
def merge(answer: Callable[[Part, Part], Part]) -> str:
    """``answer(a, b)``: the state of a row after the keys of two parts, from the parts' states."""
    draw = np.random.default_rng(191)
    cases = 0
    for count in [(5, 3), (1, 1), (0, 4), (4, 0), (0, 0), (40, 2)] * 4:
        spread = draw.choice([1.0, 300.0])  # the largest exponents overflow float64 unless shifted
        scores, values = draw.normal(size=sum(count)) * spread, draw.normal(size=(sum(count), 3))
        first, second, whole = (
            _state(scores[a:b], values[a:b])
            for a, b in ((0, count[0]), (count[0], sum(count)), (0, sum(count)))
        )
        words = f"parts of {count[0]} and {count[1]} keys"
        with np.errstate(all="ignore"):
            given: Any = ask(answer, first, second, words=words)
        try:
            top, total, output = given
            close = np.allclose([top, total, *output], [whole[0], whole[1], *whole[2]], 1e-9)
        except (TypeError, ValueError) as error:
            raise Wrong(f"for {words} it gives {given!r}: give (top, sum, output)") from error
        if not close:
            raise Wrong(f"for {words} it gives ({top}, {total}, …), expected ({whole[0]}, "
                        f"{whole[1]}, …), or the output differs")  # fmt: skip
        cases += 1
    return f"{cases} rows"


def _state(scores: Any, values: Any) -> Part:
    last: Part = (-np.inf, 0.0, [0.0, 0.0, 0.0])
    for state in online(scores, values, max(1, len(scores))):
        last = state.top, state.sum, [float(x) for x in state.output]
    return last


HEAD = "template <int N> __device__ void step(float (&s)[N], float (&shrink)[2], float factor) {"
"""The line with which the softmax of a tile begins."""


def with_step(answer: str) -> str:
    """Kernel a with the reader's step in place of its own."""
    text = attend.flat(attend.ONE_GROUP)
    begin = text.index(HEAD)
    end = text.index("\n    }\n\n    // 1 / the sum", begin) + len("\n    }\n")
    return text[:begin] + answer.strip() + "\n" + text[end:]


@judged
def step(answer: str) -> str:
    """The softmax of a tile, written from blank: run on the emulator with every check.

    Causal: several tiles, ragged; rows that see no key; small and large scores.
    """
    text = with_step(written(answer, [HEAD], "function"))
    with compiling():
        program = attend.Programs({"kernel": text}, (64, True))
    runs = (
        ("three tiles", 70, 290, 1.0),
        ("some rows see no key", 150, 140, 1.0),
        ("large scores", 64, 260, 60.0),
    )
    for what, queries, keys, spread in runs:
        where = f"{what}: {queries} queries, {keys} keys"
        h = attend.heads(64, queries, keys, spread=spread, seed=random.randrange(1 << 30))
        with running(where):
            done = program.attend("kernel", h, causal=True)
        clean(done.run, where)
        if done.error > 1:
            raise Wrong(f"{where}: O is wrong")
    return f"{len(runs)} runs, no finding"


WINDOW = (
    "__device__ int first_tile(const Shape& shape, int row) {",
    "__device__ void mask_window(float (&s)[KEYS / 2], const Shape& shape, int row, int tile) {",
)
"""The lines with which the two functions of a window begin."""
_WIDTHS = 90, 200


def with_window(answer: str, width: int) -> str:
    """Kernel a whose causal queries see ``width`` keys, with the reader's two functions."""
    before = "template <int D> struct Shared {"
    constant = f"constexpr int WINDOW = {width};  // keys that a query sees at most\n\n"
    text = attend.source(attend.ONE_GROUP)
    text = text.replace("tile >= 0; --tile", "tile >= first_tile(shape, row); --tile")
    return replace_each(text, (("mask_tile<CAUSAL, KEYS>(", "mask_window("),
                               (before, f"{constant}{answer.strip()}\n\n{before}")))  # fmt: skip


@judged
def window(answer: str) -> str:
    """A sliding window: which tiles are fetched, what is masked; on the emulator, every check.

    A window narrower than a tile and a wider one; ragged tiles; rows that see no key.
    """
    text = written(answer, WINDOW, "two functions")
    texts = {str(width): with_window(text, width) for width in _WIDTHS}
    with compiling():
        program = attend.Programs(texts, (64, True))
    rows, tile = (attend.number(attend.source(attend.ONE_GROUP), name, 64)
                  for name in ("ROWS", "KEYS"))  # fmt: skip
    narrow, wide = _WIDTHS
    runs = (narrow, 70, 290), (wide, 150, 140), (narrow, 200, 333)
    for width, queries, keys in runs:
        where = f"{queries} queries, {keys} keys, a window of {width}"
        h = attend.heads(64, queries, keys, seed=random.randrange(1 << 30))
        with encounters.watching(texts[str(width)]) as log, running(where):
            done = program.attend(str(width), h, causal=True, window=width)
        clean(done.run, where)
        if done.error > 1:
            raise Wrong(f"{where}: O is wrong")
        row = (queries - 1) // rows * rows  # block 0 has the last queries
        first = max(0, row + keys - queries + 1 - width) // tile
        enough = (keys - 1) // tile + 1 - first
        came = sum(each.what == "completes" and each.where.startswith("k_full") for each in log)
        if came > enough:
            raise Wrong(f"{where}: the last block fetches {came} tiles of K, and sees {enough}")
    return f"{len(runs)} runs, no finding"


HIGHEST = "template <int N> __device__ void highest(const float (&s)[N], float (&high)[2]) const {"
"""The line with which the search for a thread's largest scores begins."""
_SCORES = 32
_TRY = f"""
__global__ void try_highest(const float* scores, const float* tops, float* found) {{
    Softmax softmax;
    float s[{_SCORES}], high[2];
    for (int h = 0; h < 2; ++h) softmax.top[h] = tops[2 * threadIdx.x + h];
    for (int i = 0; i < {_SCORES}; ++i) s[i] = scores[{_SCORES} * threadIdx.x + i];
    softmax.highest(s, high);
    for (int h = 0; h < 2; ++h) found[2 * threadIdx.x + h] = high[h];
}}
"""


def with_highest(answer: str) -> str:
    """The softmax with the reader's search in place of its own, and a kernel that calls it."""
    text = attend.alone(attend.flat(attend.ONE_GROUP))
    begin = text.index(HIGHEST)
    end = text.index("\n    }\n", begin) + len("\n    }\n")
    return text[:begin] + answer.strip() + "\n" + text[end:] + _TRY


@judged
def highest(answer: str) -> str:
    """The largest of a thread's scores by whole numbers: run on the emulator, compared exactly.

    Scores of both signs, of one, -∞ among them; no maximum of floats where none is negative.
    """
    text = with_highest(written(answer, [HIGHEST], "function"))
    kernel = compiled(text, "try_highest")["try_highest"]
    draw = np.random.default_rng()
    runs = 0
    for what, scores, tops in _searches(draw):
        found = np.full((32, 2), np.nan, np.float32)
        with running(what):
            run = kernel.launch((1,), 32, [scores, tops, found])
        clean(run, what)
        rows = scores.reshape(32, _SCORES // 4, 2, 2)
        right = np.maximum(rows.max(axis=(1, 3)), tops)
        if not np.array_equal(found, right):
            lane, h = np.argwhere(found != right)[0]
            raise Wrong(f"{what}: lane {lane} has {found[lane, h]:g} for its row {h}, expected is "
                        f"{right[lane, h]:g}")  # fmt: skip
        if scores.min() >= 0 and tops.min() >= 0 and run.counters.get("inst.floating", 0):
            raise Wrong(f"{what}: a maximum of floats is executed, and whole numbers suffice there")
        runs += 1
    return f"{runs} runs, no finding"


def _searches(draw: np.random.Generator) -> Iterator[tuple[str, Any, Any]]:
    """What it is, the scores of each lane, and the largest before."""
    none = np.float32(-np.inf)
    mixed = (40 * draw.normal(size=(32, _SCORES))).astype(np.float32)
    after = draw.uniform(0, 90, size=(32, 2)).astype(np.float32)
    yield "no score is negative", np.abs(mixed), after
    yield "scores of both signs", mixed, np.full((32, 2), none)
    yield "all scores are negative, none before", -np.abs(mixed) - 1, np.full((32, 2), none)
    yield "all scores are negative, and those before", -np.abs(mixed) - 1, -after - 1
    one = np.abs(mixed)
    one[draw.integers(32)] *= -1
    yield "one lane has negative scores alone", one, np.full((32, 2), none)
    for h in range(2):
        rows = np.abs(mixed).reshape(32, -1, 2, 2)
        rows[:, :, h] *= -1
        yield f"row {h} of each lane is negative", rows.reshape(32, -1), np.full((32, 2), none)
    hidden = np.where(draw.random(mixed.shape) < 0.7, none, -np.abs(mixed) - 1)
    hidden[draw.integers(32)] = none
    yield "some scores are -∞", hidden, np.full((32, 2), none)
    yield "the largest came before", -np.abs(mixed) - 1, after


@judged
def handed(answer: Callable[[list[int], int, int], list[int]]) -> str:
    """``answer(lengths, blocks, ahead)``: when each block has made its last tile.

    Made-up lists, the shortest first; then how long blocks are idle in kernel g, and asked later.
    """
    draw = random.Random(197)

    def cases() -> Iterator[Case]:
        for i in range(60):
            given = [draw.randint(1, 9) for _ in range(draw.randint(1, 2 + i // 2))]
            blocks, ahead = draw.randint(1, 2 + i // 10), draw.choice([0, 1, 1, 2])
            yield (given, blocks, ahead), handed_out.done(given, blocks, ahead)

    def words(given: list[int], blocks: int, ahead: int) -> str:
        return f"tiles of {given} handed to {blocks} blocks, {ahead} ahead,"

    agree(answer, cases(), words, "lists")
    tiles = handed_out.lengths(64, 1024)
    early, late = (100 * handed_out.idle(answer(tiles, 132, ahead)) for ahead in (1, 0))
    return f"60 lists; heads of 64, 1,024 tokens: idle {early:.1f} per cent, asked later {late:.1f}"
