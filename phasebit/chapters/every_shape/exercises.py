"""Checks of *Past the vendor*."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations, islice

from phasebit import measure
from phasebit.chapters.every_shape import choice, on_emulator, plans, trial_tables, view, waves
from phasebit.chapters.every_shape.plans import Plan
from phasebit.chapters.every_shape.shape_slips import whole
from phasebit.chapters.every_shape.shapes import Shape
from phasebit.chapters.every_shape.shares import Walk
from phasebit.edits import replace_once
from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import Wrong, ask, judged, shown
from phasebit.exercises.written import clean, compiling, running, written


@judged
def busy(answer: Callable[[int, int, int, int, int], float]) -> str:
    """``answer(m, n, bm, bn, workers)``: the share of their time in which the workers multiply.

    Tiles of bm × bn are made whole, by turns, and each takes as long as any other.
    """
    draw = random.Random(181)

    def cases() -> Iterator[Case]:
        yield (8192, 8192, 128, 256, 132), 2048 / (16 * 132)
        yield (1024, 1024, 128, 256, 132), 32 / 132
        yield (130, 520, 128, 256, 5), 6 / 10
        for _ in range(60):
            bm, bn = draw.choice((64, 128, 256)), 16 * draw.randint(1, 16)
            m, n, workers = draw.randint(1, 3000), draw.randint(1, 3000), draw.randint(1, 132)
            tiles = -(-m // bm) * -(-n // bn)
            yield (m, n, bm, bn, workers), tiles / (-(-tiles // workers) * workers)

    def words(m: int, n: int, bm: int, bn: int, workers: int) -> str:
        return f"C of {m} × {n} in tiles of {bm} × {bn} by {workers} workers"

    return agree(answer, cases(), words, "products")


def _timed() -> Iterator[tuple[Shape, dict[Plan, float], float, float]]:
    """Each shape of the record: plans of whole tiles and their µs, the fastest, the model's."""
    for row in measure.read("every_shape")["shapes"]:
        shape = Shape(*row["shape"])
        us = {name: view.median(times, "warm") for name, times in row["all"].items()}
        whole_ = {plan: us[str(plan)] for plan in choice.PLANS
                  if str(plan) in us and plan.kernel in (plans.EARLY, plans.PAIRS)
                  and plan.pair <= 2}  # fmt: skip
        yield (shape, whole_, min(time for name, time in us.items() if name != view.VENDOR),
               us[view.chosen(row)])  # fmt: skip


def _clocks(plan: Plan, shape: Shape) -> float:
    step = max(waves.products_clocks(plan), waves.copies_clocks(plan, shape))
    return waves.walk(plan, shape).clocks * step


def _loses(answer: Callable[[int, int, int, int, int, int], float]) -> tuple[str, float, float]:
    """A choice by ``answer``: where it loses most, what it and the model lose in the mean.

    Where several plans have the least count, the geometric mean of their times counts.
    """
    lost, models = {}, []
    for shape, us, fastest, models_us in _timed():
        counts = {plan: answer(*shape, 64 * plan.groups, plan.bn, plan.pair) for plan in us}
        least = min(counts.values()) * (1 + 1e-9)
        tied = [us[plan] for plan, count in counts.items() if count <= least]
        lost[str(shape)] = view.geomean(tied) / fastest
        models.append(models_us / fastest)
    most = max(lost, key=lost.__getitem__)
    return f"{most} by {lost[most] - 1:.0%}", view.geomean([*lost.values()]), view.geomean(models)


@judged
def clocks(answer: Callable[[int, int, int, int, int, int], float]) -> str:
    """``answer(m, n, k, bm, bn, pair)``: steps that follow each other × clocks of a step.

    Tiles of bm × bn, by 132 blocks alone or by 66 pairs that share B. What a choice by these counts
    would lose at the shapes of the record is said of a right answer.
    """
    draw = random.Random(182)

    def cases() -> Iterator[Case]:
        for shape in Shape(1024, 1024, 1024), Shape(1000, 1000, 1000), Shape(8192, 8192, 8192):
            for plan in (Plan(plans.PAIRS, 1, 128, 4), Plan(plans.PAIRS, 1, 128, 4, pair=2),
                         Plan(plans.PAIRS, 2, 256, 4), Plan(plans.PAIRS, 2, 256, 4, pair=2)):
                yield (*shape, plan.groups * 64, plan.bn, plan.pair), _clocks(plan, shape)
        for _ in range(40):
            groups, bn, pair = draw.randint(1, 2), 16 * draw.randint(4, 16), draw.randint(1, 2)
            shape = Shape(*(8 * draw.randint(1, 900) for _ in range(3)))
            yield ((*shape, 64 * groups, bn, pair),
                   _clocks(Plan(plans.PAIRS, groups, bn, 4, pair=pair), shape))  # fmt: skip

    def words(m: int, n: int, k: int, bm: int, bn: int, pair: int) -> str:
        who = "pairs" if pair == 2 else "blocks alone"
        return f"{m} × {n} × {k} in tiles of {bm} × {bn}, {who}"

    tried = agree(answer, cases(), words, "products")
    most, mean, models = _loses(answer)
    return (f"{tried}; plans chosen by it take {mean - 1:.1%} longer than the fastest in the "
            f"geometric mean, most at {most}; the model's {models - 1:.1%}")  # fmt: skip


_STORED = (  # m, n, k, warp groups, columns of a tile, alpha, beta
    (70, 37, 72, 1, 32, 2.0, 0.0),  # C is full of NaN
    (130, 19, 136, 2, 16, -0.5, 3.0),
)


def with_store(answer: str) -> str:
    """``g_any.cu`` with a reader's ``store`` in place of its own."""
    text = plans.source(plans.ANY)
    return replace_once(text, plans.function(text, "store"), answer.strip())


@judged
def stored(answer: str) -> str:
    """``store`` of ``g_any.cu``, from blank: run on the emulator with every check."""
    keep = ["__device__ void store(Ring& ring, const float (&sums)[BN / 2], Out* C"]
    source = with_store(written(answer, keep, "function"))
    for m, n, k, groups, bn, alpha, beta in _STORED:
        where = f"{m} × {n} × {k}, α = {alpha:g}, β = {beta:g}"
        text = plans.with_constants(source, GROUPS=groups, BN=bn, SLOTS=2)
        with running(where), compiling():
            done = on_emulator.scaled(text, m, n, k, alpha, beta, most=2_000,
                                      seed=random.randrange(1 << 30))  # fmt: skip
        clean(done.run, where)
        if not done.exact:
            before = ", which was full of NaN," if beta == 0 else ""
            raise Wrong(f"{where}: C{before} is wrong")
    return f"{len(_STORED)} products, no finding"


_PLAN = Plan(plans.STREAM, 1, 16, 2, waves=2)
_SHAPES = (
    ((64, 48, 264), 2),  # three tiles of five steps for two workers
    ((128, 48, 136), 4),  # six of three for four
    ((192, 48, 72), 2),  # nine of two for two: some stay whole
    ((64, 32, 456), 7),  # two of eight for seven: a tile has several helpers
)


def with_walk(answer: str) -> str:
    """The kernel with a reader's ``bound`` and ``next`` in place of its own."""
    text = whole(_PLAN.text, ("stream_k",))
    begin = text.index("    __device__ int bound(int pair) const {")
    end = text.index("\n};\n", begin) + 1
    return replace_once(text, text[begin:end], "    " + answer.strip() + "\n")


@judged
def split(answer: str) -> str:
    """``bound`` and ``next`` of ``Walk``, from blank: run on the emulator with every check."""
    keep = ["__device__ int bound(int pair) const", "__device__ bool next(Piece& piece)"]
    source = with_walk(written(answer, keep, "two functions"))
    for shape, workers in _SHAPES:
        where = "{} × {} × {}".format(*shape) + f" by {workers} blocks"
        with running(where), compiling():
            done = on_emulator.multiply(
                source, *shape, workers=workers, seed=random.randrange(1 << 30), most=2_000
            )
        clean(done.run, where)
        if not done.exact:
            raise Wrong(f"{where}: C is wrong")
        if not done.clean:
            raise Wrong(f"{where}: a helper's sums were never taken")
        tiles, steps = _PLAN.tiles(Shape(*shape)), _PLAN.steps(Shape(*shape))
        equal = Walk.stream(tiles, steps, workers, _PLAN.waves).clocks
        if max(done.steps.values()) > equal:
            raise Wrong(f"{where}: a block makes {max(done.steps.values())} steps; with equal "
                        f"shares none makes more than {equal}")  # fmt: skip
    return f"{len(_SHAPES)} products, no finding"


_TURNS = Plan(plans.PING_PONG, 1, 16, 3)
_IN_TURN = (
    ((192, 48, 264), 2),  # nine tiles of five steps, more than slots, for two blocks
    ((64, 80, 72), 1),  # five of two for one
    ((64, 16, 264), 1),  # a single tile: one group has none
)


def with_turns(answer: str = "") -> str:
    """Ping-pong with a reader's ``my_turn`` and ``give_turn`` in place of its own lines.

    Without an answer, with the calls alone: what the page shows.
    """
    text = replace_once(
        _TURNS.text, "    ptx::mbarrier_wait(&ring.turn[group], (made / 2 + group + 1) % 2);\n",
        "    my_turn(ring, group, made);\n",
    )  # fmt: skip
    begin = text.index("        if (k == steps - 1) {\n")
    end = text.index("        }\n", begin) + len("        }\n")
    text = replace_once(text, text[begin:end],
                        "        if (k == steps - 1) give_turn(ring, group);\n")  # fmt: skip
    head = "// A group multiplies a piece"
    return replace_once(text, head, answer.strip() + "\n\n" + head)


@judged
def turns(answer: str) -> str:
    """``my_turn`` and ``give_turn`` of ping-pong: run on the emulator with every check."""
    keep = ["__device__ void my_turn(Ring& ring, int group, int made)",
            "__device__ void give_turn(Ring& ring, int group)"]  # fmt: skip
    source = with_turns(written(answer, keep, "two functions"))
    for shape, workers in _IN_TURN:
        for schedule in ("eager", "late"):
            where = "{} × {} × {}".format(*shape) + f", {schedule} copies"
            with running(where), compiling():
                done = on_emulator.multiply(source, *shape, workers=workers, schedule=schedule,
                                            seed=random.randrange(1 << 30), most=5_000)
            clean(done.run, where)
            if not done.exact:
                raise Wrong(f"{where}: C is wrong")
    return f"{len(_IN_TURN)} products, no finding"


Rounds = dict[str, list[float]]
"""Plan -> µs, a time for each round."""


def _true(times: Rounds, base: str, expected: dict[str, str]) -> dict[str, bool]:
    middle = statistics.median(times[base])
    return {
        name: trial_tables.became(statistics.median(times[name]) / middle - 1) == word
        for name, word in expected.items()
    }


def _rounds() -> Iterator[tuple[Rounds, str, dict[str, str]]]:
    """Made-up trials; some rounds are far too long, so that a mean goes wrong."""
    draw = random.Random()
    while True:
        us = draw.uniform(3, 900)
        more = {"base": 0.0} | {
            name: draw.choice((-0.3, -0.05, -0.025, -0.013, 0.0, 0.013, 0.025, 0.05, 0.9))
            for name in "abcde"
        }
        times = {}
        for name, longer in more.items():
            rounds = [us * (1 + longer) * draw.uniform(0.998, 1.002)
                      for _ in range(draw.randint(5, 12))]  # fmt: skip
            times[name] = [*rounds, us * draw.uniform(2, 4)]
            draw.shuffle(times[name])
        expected = {name: draw.choice(trial_tables.EXPECTED) for name in "abcd"}
        yield times, "base", expected


@judged
def as_written(answer: Callable[[Rounds, str, dict[str, str]], dict[str, bool]]) -> str:
    """``answer(times, base, expected)``: of each expected plan, whether it came out as written.

    By medians; what differs by less than 2 per cent is the same. Made-up rounds, then the record's.
    """
    made = [*islice(_rounds(), 60)]
    times, expected = trial_tables.trials(measure.read("every_shape"), Shape(5000, 5000, 5000))
    recorded = times, trial_tables.AS_IT_IS, expected

    def cases() -> Iterator[Case]:
        for case in (*made, recorded):
            yield case, _true(*case)

    def words(times: Rounds, base: str, expected: dict[str, str]) -> str:
        return f"times {shown(times, 200)}, base {base!r} and expected {expected}"

    agree(answer, cases(), words, "")
    middle = statistics.median(times[trial_tables.AS_IT_IS])
    said = "; ".join(
        f"{name}: {word}, was {trial_tables.became(statistics.median(times[name]) / middle - 1)}"
        for name, word in expected.items()
    )
    return f"{len(made)} made-up sets; what we wrote at 5000³: {said}"


Times = dict[str, dict[str, float]]
"""Shape -> plan -> µs; a plan that was not timed at a shape is missing there."""


def _apart(times: Times, sets: Iterable[tuple[str, ...]]) -> float:
    """By how much the kept plans take longer than the fastest of each shape: of the best set.

    In the geometric mean over shapes; infinity where a shape has no plan of any set.
    """
    rows = []
    for row in times.values():
        least = min(row.values())
        rows.append({plan: math.log(us / least) for plan, us in row.items()})
    inf = math.inf
    best = min(sum(min([row.get(plan, inf) for plan in kept]) for row in rows) for kept in sets)
    return math.exp(best / len(rows)) - 1


def _fewest(times: Times, count: int) -> float:
    """The least that ``count`` plans lose."""
    every = sorted({plan for row in times.values() for plan in row})
    return _apart(times, combinations(every, count))


def _tables() -> Iterator[tuple[Times, int]]:
    """Made-up times; first those at which other rules go wrong."""
    yield {"1": {"a": 10, "b": 11}, "2": {"a": 1000, "b": 940}}, 1  # the mean of times says b
    yield {"1": {"a": 10, "b": 30}, "2": {"a": 10, "b": 6}, "3": {"a": 10, "b": 6}}, 1  # most wins
    yield {"1": {"a": 4, "b": 9}, "2": {"b": 9}}, 1  # a was not timed everywhere
    yield {"1": {"a": 10, "b": 12, "c": 30}, "2": {"a": 30, "b": 12, "c": 10}}, 2  # b is best alone
    yield {"1": {"a": 100, "b": 145, "c": 900},  # the mean, the median and the most of ratios: b
           "2": {"a": 200, "b": 145, "c": 100}}, 1
    draw = random.Random()
    while True:
        plans_, shapes = "abcdefgh"[: draw.randint(4, 8)], draw.randint(3, 7)
        times = {
            f"shape {n}": {plan: round(size * draw.uniform(1, 2) ** 2, 1) for plan in plans_
                           if plan == plans_[0] or draw.random() < 0.85}
            for n, size in enumerate(draw.choices((5, 50, 500), k=shapes))
        }  # fmt: skip
        yield times, draw.randint(1, 3)


@judged
def keep(answer: Callable[[Times, int], Iterable[str]]) -> str:
    """``answer(times, count)``: the plans with which all shapes together lose least.

    Made-up times, and then those of the record, for one to three plans.
    """
    made = list(islice(_tables(), 60))
    for times, count in made:
        _kept(answer, times, count, f"{count} of the plans of {shown(times, 300)}")
    recorded = trial_tables.warm(measure.read("every_shape"))
    plans_ = {plan for row in recorded.values() for plan in row}
    lost = [_kept(answer, recorded, count, f"{count} of the record's {len(plans_)} plans")
            for count in (1, 2, 3)]  # fmt: skip
    said = ", ".join(f"{each:.1%}" for each in lost)
    return (f"{len(made)} tables; the best one, two and three of the record's {len(plans_)} plans "
            f"take {said} longer than the fastest of each shape")  # fmt: skip


def _kept(
    answer: Callable[[Times, int], Iterable[str]], times: Times, count: int, where: str
) -> float:
    """What the plans lose that an answer keeps; :class:`Wrong` where others lose less."""
    got = ask(answer, {shape: dict(row) for shape, row in times.items()}, count, words=where)
    if isinstance(got, str) or not isinstance(got, Iterable):
        raise Wrong(f"for {where} it gives {shown(got)}: give the names of the plans")
    kept = list(got)
    if len(kept) != count or len({*kept}) != count:
        raise Wrong(f"for {where} it gives {shown(kept)}: give {count} different ones")
    known = {plan for row in times.values() for plan in row}
    if strange := [each for each in kept if each not in known]:
        raise Wrong(f"for {where} it gives {shown(strange[0])}, which is none of them")
    if bare := [shape for shape, row in times.items() if not any(plan in row for plan in kept)]:
        raise Wrong(f"for {where} it keeps {shown(kept)}: none of them was timed at {bare[0]}")
    loses, least = _apart(times, [tuple(kept)]), _fewest(times, count)
    if loses > least + 1e-9:
        raise Wrong(f"for {where} it keeps {shown(kept)}, which take {loses:.2%} longer than the "
                    f"fastest, in the geometric mean; others take {least:.2%}")  # fmt: skip
    return loses
