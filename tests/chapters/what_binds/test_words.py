"""What *Attention: what binds* says in words of its records: a new measurement must keep it."""

from __future__ import annotations

from statistics import mean, median
from typing import Any

import pytest

from phasebit import measure
from phasebit.chapters.attention import attention_controls as controls
from phasebit.chapters.attention import (
    controls_view,
    handed_out,
    last_done,
    last_done_view,
    rungs,
    view,
)

CASES = [(128, False, 4096), (128, True, 4096), (64, False, 4096), (128, False, 1024)]
LATER = [*CASES[:3], (64, True, 4096)]


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    return measure.read(controls.NAME)


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    return measure.read("attention")


@pytest.fixture(scope="module")
def waits() -> dict[str, Any]:
    return measure.read("attention_waits")


def part(record: dict[str, Any], name: str, base: str, case: tuple[int, bool, int]) -> float:
    found = view.row(record, *case, part="variants")
    return found[name] / found[base]


def us(seen: dict[str, Any], d: int, name: str, causal: bool = False) -> float:
    return median(controls_view.contenders(seen, d, causal, controls.RANDOM)[name]["times_us"])


def test_two_blocks_at_once_are_two_groups(seen: dict[str, Any]) -> None:
    one, _, alone = seen["at_once"]
    assert [seen["at_once"][name]["64"] for name in seen["at_once"]] == [2, 2, 1]
    assert {each["128"] for each in seen["at_once"].values()} == {1}
    assert 1.55 < us(seen, 64, alone) / us(seen, 64, one) < 1.65
    assert abs(us(seen, 64, "ping-pong") / us(seen, 64, one) - 1) < 0.01
    assert abs(us(seen, 128, alone) / us(seen, 128, one) - 1) < 0.005
    assert us(seen, 128, "ping-pong") < 0.7 * us(seen, 128, one)


def test_products_alone_are_slower_and_it_is_not_power(seen: dict[str, Any]) -> None:
    cycles: dict[str, list[float]] = {}
    mhz: dict[str, list[float]] = {}
    for inputs in (controls.RANDOM, controls.ZEROS):
        found = controls_view.contenders(seen, 128, False, inputs)
        for name in controls.ON_ZEROS:
            clock = median(found[name]["mhz"])
            mhz.setdefault(name, []).append(clock)
            cycles.setdefault(name, []).append(clock * median(found[name]["times_us"]))
    for name in controls.ON_ZEROS:
        assert abs(cycles[name][1] / cycles[name][0] - 1) < 0.01
        assert 0.03 < mhz[name][1] / mhz[name][0] - 1 < 0.06
    for alone, whole in zip(cycles[controls.PRODUCTS], cycles[controls.PERSISTENT], strict=True):
        assert round(100 * (alone / whole - 1)) in (14, 15)


def test_turns_are_worth_little(seen: dict[str, Any]) -> None:
    none = "ping-pong, no named barriers"
    for d, causal in controls.CASES:
        ratio = us(seen, d, "ping-pong", causal) / us(seen, d, none, causal)
        assert abs(ratio - 1) < 0.035
    assert us(seen, 64, none, True) < us(seen, 64, "ping-pong", True)
    assert us(seen, 64, none) > us(seen, 64, "ping-pong")


@pytest.mark.nvcc
@pytest.mark.parametrize("d", [64, 128])
def test_products_alone_are_spilled(d: int) -> None:
    assert controls_view.spilled(controls.PRODUCTS, d) > 0
    for name in controls.PERSISTENT, controls.NO_EXPONENTIALS:
        assert controls_view.spilled(name, d) == 0


def test_programs_that_are_the_same_come_out_the_same(record: dict[str, Any]) -> None:
    for name, case in (("tiles of 128 keys", CASES[2]), ("tiles of 128 keys", CASES[3]),
                       ("two groups", CASES[0]), ("two groups", CASES[1])):  # fmt: skip
        assert abs(part(record, name, "persistent", case) - 1) < 0.015


def test_what_half_of_the_maxima_is_worth(record: dict[str, Any]) -> None:
    for case in CASES[:3]:
        lost = 1 - part(record, "maximum of two floats", "persistent", case)
        assert round(100 * lost) in (5, 6)


def taken(waits: dict[str, Any], name: str) -> list[float]:
    """Times in the four cases of the orders, heads of 128 first."""
    return [median(each["contenders"][name]["times_us"]) for each in waits["orders"]]


def part_less(waits: dict[str, Any], one: str, other: str) -> list[int]:
    """Per cent of the other's time that the one takes less."""
    pairs = zip(taken(waits, one), taken(waits, other), strict=True)
    return [round(100 * (1 - a / b)) for a, b in pairs]


def test_exponentials_before_the_wait(waits: dict[str, Any]) -> None:
    """c and d have none there, and pinning them pays less than its branch costs."""
    where = waits["exponentials"]
    assert where["overlapped"]["128"] == [0, 66] and where["persistent"]["128"] == [0, 90]
    assert where["dynamic"]["128"] == [2, 32]
    assert where["exponentials before the wait"]["128"] == [7, 27]
    third, pinned, behind = "overlapped", "overlapped, pinned", "overlapped, pinned behind"
    assert part_less(waits, pinned, behind) == [1, 2, 7, 3]
    ratios = [b / a - 1 for a, b in zip(taken(waits, third), taken(waits, behind), strict=True)]
    assert [round(100 * (1 - 1 / (1 + each))) for each in ratios] == [1, 4, 14, 9]
    pairs = zip(taken(waits, behind), taken(waits, pinned), strict=True)
    assert [round(100 * (b / a - 1)) for b, a in pairs] == [1, 2, 8, 3]
    faster = [a / b - 1 for a, b in zip(taken(waits, third), taken(waits, pinned), strict=True)]
    assert f"{faster[0]:.3f}" == "0.005" and max(faster[1:]) < 0
    assert part_less(waits, "dynamic", "dynamic, pinned") == [2, 1, 7, 4]
    assert max(part_less(waits, "dynamic", "exponentials before the wait")) <= 1


def test_a_softmax_alone_and_beside_products(waits: dict[str, Any]) -> None:
    cycles = {row[0].removeprefix("one group, beside").strip(): float(row[1].replace(",", ""))
              for row in controls_view.alone(waits).rows}  # fmt: skip
    one = cycles["one group"]
    assert f"{one / 512:.1f}" == "1.5"
    assert 1024 < cycles["two groups"] < 1.1 * 1024
    assert 1.15 < cycles["its own product"] / one < 1.25
    assert 1.35 < cycles["the other group's products"] / one < 1.45
    assert cycles["the other group's products"] > 2.1 * 512
    states = controls_view.softmax_states(waits, "overlapped", 128)
    assert round(100 * states[controls_view.OWN_LAST]) == 36
    assert round(100 * states[controls_view.RESULT]) == 8


def test_whose_wait_makes_a_pass_longer(waits: dict[str, Any]) -> None:
    def longer(kernel: str, who: str) -> tuple[list[int], list[float]]:
        lasts, cycles = controls_view.passes(waits, kernel, 128, False, who)
        means = [sum(each) / len(each) for each in cycles]
        return lasts, [each - means[0] for each in means]

    _, third = controls_view.passes(waits, "overlapped", 128, False)
    assert round(sum(third[0]) / 2, -1) == 2590
    lasts, more = longer("overlapped", "all groups")
    assert all(0.7 < a / b < 1.05 for a, b in zip(more[1:], lasts[1:], strict=True))
    indices = [waits["slack"][0]["waits"].index(wait) for wait in controls_view.WAITS[1:]]
    assert sum(more[i] > 0.9 * lasts[i] for i in indices) == 5
    lasts, more = longer("overlapped", "the producer")
    assert lasts[-2] > 950 and max(map(abs, more[:-1])) < 5
    lasts, more = longer("dynamic", "all groups")
    assert 300 < lasts[3] < 320 and 0.45 < more[3] / lasts[3] < 0.55
    assert 0.8 < (more[-1] - more[3]) / (lasts[-1] - lasts[3]) < 0.84
    lasts, more = longer("dynamic", "the producer")
    assert more[1] > 20 and more == sorted(more)
    assert round(more[3]) == 73
    for d, groups in (128, 3), (64, 4):
        cycles = controls_view.passes(waits, "dynamic", d, False)[1][0]
        busy = groups * 2 * (2 * 64 * 64 * d) // 4096 / (sum(cycles) / groups)
        assert 0.92 < busy < 0.95 if d == 128 else 0.6 < busy < 0.62


def test_what_groups_in_turn_could_gain(waits: dict[str, Any]) -> None:
    busy, cycles, passes = {}, {}, {}
    for marks in waits["marks"][:2]:
        name = marks["kernel"]
        cycles[name] = controls_view.passes(waits, name, 64, True)[1][0]
        passes[name] = marks["passes"]
        busy[name] = max(a * b for a, b in zip(cycles[name], passes[name], strict=True))
    assert round(100 * (passes["dynamic"][3] / passes["dynamic"][0] - 1)) == 10
    assert round(100 * (1 - cycles["dynamic"][3] / cycles["dynamic"][0])) == 6
    assert round(100 * (1 - busy["groups in turn"] / busy["dynamic"])) == 2


def test_the_next_scores_before_the_store(waits: dict[str, Any]) -> None:
    found = {}
    for each in waits["ends"]:
        case = each["d"], each["causal"], each["sequence"]
        found[case] = view.row(waits, *case, part="ends")
    gains = {case: round(100 * (rates[rungs.NEXT] / rates[view.LAST] - 1))
             for case, rates in found.items()}  # fmt: skip
    assert {gain for case, gain in gains.items() if case[0] == 64} == {2, 3}
    assert all(abs(gain) <= 1 for case, gain in gains.items() if case[0] == 128)
    parts = [f"{found[64, causal, 1024][name] / found[64, causal, 1024][rungs.FLASH]:.3f}"
             for causal in (False, True) for name in (rungs.NEXT, view.LAST)]  # fmt: skip
    assert parts == ["1.842", "1.793", "1.786", "1.757"]


def test_what_costs_nothing(record: dict[str, Any]) -> None:
    """Of the rows that the guesses before the two tables of changes name."""
    full = CASES[0]
    said = {name: part(record, name, "persistent", full) for name in (
        "no named barriers", "an eighth by polynomial", "maximum of two floats")}  # fmt: skip
    assert abs(said.pop("no named barriers") - 1) < 0.005 and max(said.values()) < 0.98
    barriers, order, eighth = ([part(record, name, "dynamic", case) for case in LATER] for name in (
        "named barriers", "head after head", "an eighth by polynomial, four groups"))  # fmt: skip
    assert max(abs(each - 1) for each in barriers) < 0.015
    assert order[1] < 0.93 and order[3] < 0.88 and max(eighth) < 0.99


def test_what_goes_with_the_exponentials_and_with_the_softmax(record: dict[str, Any]) -> None:
    none, products = (
        [round(100 * part(record, name, "persistent", case)) for case in CASES]
        for name in ("no exponentials", "products alone")
    )
    assert none[2] == 114 and {none[0], none[1], none[3]} == {111, 112}
    assert products[2:] == [121, 114] and max(products[:2]) < 90


def test_what_was_expected_to_be_faster_for_heads_of_64(record: dict[str, Any]) -> None:
    for name in "an eighth by polynomial", "rescaled where the maximum moves":
        assert round(100 * part(record, name, "persistent", CASES[2])) == 95
        assert rungs.EXPECTED[name].startswith("faster")


def test_what_is_left_to_gain(record: dict[str, Any]) -> None:
    left = [part(record, "the last, no exponentials", "dynamic", case) for case in LATER]
    assert max(left[:2]) < 1.045 and min(left[2:]) > 1.1


def test_the_picture_has_the_exponentials_of_the_record(waits: dict[str, Any]) -> None:
    """Before the wait in the pinned copy, behind it in the kernel."""
    drawn = controls_view.stands(waits)
    for name, kernel in controls_view.STANDS.items():
        (wait,) = (each.end for each in drawn.spans
                   if each.row == f"{name}, PV" and each.kind == "consume")  # fmt: skip
        spans = [each for each in drawn.spans if each.row == f"{name}, exponentials"]
        found = [sum(int(each.label) for each in spans if (each.start < wait) == first)
                 for first in (True, False)]  # fmt: skip
        assert found == waits["exponentials"][kernel]["128"]


CAUSAL = [(d, length) for d, causal, length in last_done.CASES if causal]


@pytest.fixture(scope="module")
def last() -> dict[str, Any]:
    return measure.read(last_done.NAME)


def each_off(last: dict[str, Any], d: int, length: int, more: float = 1) -> list[float]:
    """By how much of a launch the model is wrong; ``more``: what a tile costs besides."""
    blocks = last_done_view.of_case(last["done"], d, length)["blocks"]
    return [
        abs(handed_out.idle(seen) - handed_out.idle(handed_out.done(
            [each - 1 + more for each in handed_out.lengths(d, length, n)], len(seen), not late)))
        for late in last_done.LATE for n in last_done.counts(length)
        for seen in [blocks[last_done.contender(n, late)]]
    ]  # fmt: skip


def off(last: dict[str, Any], d: int, length: int, more: float = 1) -> float:
    """At most."""
    return max(each_off(last, d, length, more))


def test_who_is_done_last(last: dict[str, Any]) -> None:
    ends = last_done_view.of_case(last["done"], 64, 1024)["blocks"]
    first = ends[rungs.NEXT]
    assert round(mean(first)) == 84 and round(first[-1]) == 96
    assert round(100 * handed_out.idle(first)) == 13
    read = last_done_view.of_case(last["bytes"], 128, 1024)["read"]
    average = {n: mean(last_done_view.of_case(last["done"], 128, 1024)["blocks"]
                       [last_done.contender(n)]) for n in last_done.COUNTS}  # fmt: skip
    for n in 8, 16:
        assert read[last_done.contender(n)] > 2 * read[rungs.NEXT]
        assert average[n] > 1.1 * max(average[few] for few in (1, 2, 4))
    assert [round(n * 16 * 1024 * 128 * 4 / 1e6) for n in (4, 8)] == [34, 67]


def test_how_wrong_the_model_is(last: dict[str, Any]) -> None:
    wrong = sorted(each_off(last, 64, 1024))
    assert len(wrong) == 10 and 0.0095 < wrong[-2] < 0.0115 and round(wrong[-1], 2) == 0.03
    assert max(off(last, 64, length) for length in (4096, 16384)) < 0.01
    assert round(100 * max(off(last, *case) for case in CAUSAL if case[0] == 128), 1) == 2.5
    for more in 0, 0.5, 1.5, 2, 3:
        assert max(off(last, *case, more) for case in CAUSAL) < 0.041


def test_both_changes_beside_the_rivals(last: dict[str, Any]) -> None:
    times = {(part["d"], part["causal"], part["sequence"]): last_done_view.us(part)
             for part in last["times"]}  # fmt: skip
    of = {case: each[rungs.FLASH] / each[last_done_view.BOTH] for case, each in times.items()}
    narrow = times[64, True, 1024]
    assert f"{narrow[rungs.FLASH] / narrow[rungs.NEXT]:.2f}" == "1.77"
    assert f"{of[64, True, 1024]:.2f}" == "1.93" and len(of) == 7 and min(of.values()) > 1.8
    alone = [f"{narrow[rungs.FLASH] / narrow[name]:.2f}"
             for name in (last_done.LATER, last_done.FITTING)]  # fmt: skip
    assert alone == ["1.86", "1.93"]
    for d in 64, 128:
        blocks = last_done_view.of_case(last["done"], d, 16384)["blocks"]
        assert handed_out.idle(blocks[rungs.NEXT]) < 0.02
    gains = {case: each[rungs.NEXT] / each[last_done_view.BOTH] - 1 for case, each in times.items()}
    assert all(0 < gains[d, True, 16384] < 0.015 for d in (64, 128))
    assert min(gain for (_, causal, length), gain in gains.items() if causal and length < 16384) \
        > 0.03
    assert abs(gains[64, False, 1024]) < 0.005
