"""The checks of *Attention: what binds* accept what is right and refuse what people write."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from phasebit.chapters.attention.exercises import handed, highest
from phasebit.chapters.what_binds import exercises as check
from phasebit.edits import replace_once
from tests.book.notebooks import ROOT
from tests.chapters.answers import solved

PAGE = ROOT / "book/part5_hopper/what_binds.ipynb"


def test_no_answer_yet() -> None:
    for each in (check.room, check.stand, handed):
        assert each.verdict(lambda *a: ...).endswith("not answered yet")
    assert highest.verdict("// yours").endswith("not answered yet")


def test_the_solutions_in_python_are_right() -> None:
    for name in ("room", "stand"):
        assert f"{name}: OK" in getattr(check, name).verdict(solved(PAGE)[name])


def fitted(
    model: Callable[[int, int], float] = lambda wait, r: max(0, wait - r),
    off: Callable[[float], float] = lambda x: x * x,
    rooms: Callable[[list[int]], Any] = lambda waits: range(max(waits) + 1),
) -> Callable[[list[int], list[int]], int]:
    def room(waits: list[int], longer: list[int]) -> int:
        return min(rooms(waits), key=lambda r: sum(
            off(model(wait, r) - more) for wait, more in zip(waits, longer, strict=True)))

    return room


def test_room_accepts_another_right_one() -> None:
    assert "room: OK" in check.room.verdict(fitted())


@pytest.mark.parametrize(
    "wrong",
    [
        fitted(model=lambda wait, r: wait - r),
        fitted(model=lambda wait, r: r),
        fitted(model=lambda wait, r: max(0, r - wait)),
        fitted(off=abs),
        fitted(off=lambda x: x),
        fitted(rooms=lambda waits: waits),
        fitted(rooms=lambda waits: range(0, max(waits) + 1, 10)),
        fitted(rooms=lambda waits: range(0, -max(waits) - 1, -1)),
        lambda waits, longer: waits[-1] - longer[-1],
        lambda waits, longer: max(wait for wait, more in zip(waits, longer, strict=True)
                                  if more < 5),
        lambda waits, longer: (sum(waits) - sum(longer)) // len(waits),
        lambda waits, longer: 0,
        lambda waits, longer: "none",
    ],
)  # fmt: skip
def test_room_refuses(wrong: Callable[..., Any]) -> None:
    said = check.room.verdict(wrong)
    assert "not right yet" in said, said


def test_the_rooms_that_the_page_names() -> None:
    said = check.room.verdict(solved(PAGE)["room"])
    assert [int(each) for each in re.findall(r"(?:groups|producer) (\d+)", said)] == [
        40, 1222, 239, 410,
    ]  # fmt: skip


def at(code: list[str], text: str, begin: int = 0) -> int:
    return next(i for i in range(begin, len(code)) if code[i].startswith(text))


SCORES, OUTPUT = "WARPGROUP.DEPBAR.LE gsb0, 0x1", "WARPGROUP.DEPBAR.LE gsb0, 0x0"


def counted(
    first: str = SCORES, second: str = OUTPUT, behind: bool = True, end: str = "HGMMA",
    what: str = "MUFU.EX2", swapped: bool = False,
) -> Callable[[list[str]], tuple[int, int]]:  # fmt: skip
    def stand(code: list[str]) -> tuple[int, int]:
        scores = at(code, first)
        output = at(code, second, scores if behind else 0)
        last = at(code, end, output) if end else len(code)
        found = [sum(each.startswith(what) for each in code[a:b])
                 for a, b in ((scores, output), (output, last))]  # fmt: skip
        return (found[1], found[0]) if swapped else (found[0], found[1])

    return stand


def test_stand_accepts_another_right_one() -> None:
    assert "stand: OK" in check.stand.verdict(counted())


@pytest.mark.parametrize(
    "wrong",
    [
        counted(first="HGMMA"), counted(second="HGMMA"), counted(behind=False), counted(end=""),
        counted(what="MUFU"), counted(swapped=True), counted(first=OUTPUT),
        counted(end="WARPGROUP"), lambda code: code.count("MUFU.EX2"), lambda code: (0, 66),
        lambda code: counted()(code)[0],
    ],
)  # fmt: skip
def test_stand_refuses(wrong: Callable[..., Any]) -> None:
    said = check.stand.verdict(wrong)
    assert "not right yet" in said, said


def test_the_code_of_the_record_has_what_its_table_says() -> None:
    """The same counts as of nvdisasm, which the record keeps apart."""
    from phasebit import measure

    recorded = measure.read(check.RECORD)
    for each in recorded["samples"]:
        kernel, d = each["kernel"], each["d"]
        mine = counted()(check.recorded_code(kernel, d))
        assert [*mine] == recorded["exponentials"][kernel][str(d)]


def given(
    rounds: Callable[[int], int] = lambda ahead: 1 + ahead,
    first: Callable[[list[int], list[float]], int] = lambda some, at: min(
        some, key=lambda b: (at[b], b)),
    take: int = 0, make: int = 0, asks: bool = True, by_block: bool = False,
) -> Callable[[list[int], int, int], list[float]]:  # fmt: skip
    def handed(lengths: list[int], blocks: int, ahead: int) -> list[float]:
        left, mine = list(lengths), [[] for _ in range(blocks)]
        times = rounds(ahead)
        order = [b for b in range(blocks) for _ in range(times)] if by_block else [
            b for _ in range(times) for b in range(blocks)]  # fmt: skip
        for b in order:
            if left:
                mine[b].append(left.pop(take))
        at, working = [0.0] * blocks, list(range(blocks))
        while working:
            b = first(working, at)
            if at[b] and left and asks:
                mine[b].append(left.pop(take))
            if mine[b]:
                at[b] += mine[b].pop(make)
            else:
                working.remove(b)
        return at

    return handed


def test_handed_accepts_the_pages_answer_and_another() -> None:
    assert "handed: OK" in handed.verdict(given())
    said = handed.verdict(solved(PAGE)["handed"])
    assert "handed: OK" in said and "idle 12.9 per cent, asked later 8.2" in said


@pytest.mark.parametrize(
    "wrong",
    [
        given(rounds=lambda ahead: 1), given(rounds=lambda ahead: ahead),
        given(rounds=lambda ahead: 2 + ahead), given(take=-1), given(make=-1), given(asks=False),
        given(by_block=True), given(first=lambda some, at: max(some, key=lambda b: (at[b], b))),
        given(first=lambda some, at: min(some, key=lambda b: (at[b], -b))),
        lambda lengths, blocks, ahead: sorted(given()(lengths, blocks, ahead)),
        lambda lengths, blocks, ahead: max(given()(lengths, blocks, ahead)),
        lambda lengths, blocks, ahead: [sum(lengths) / blocks] * blocks,
    ],
)  # fmt: skip
def test_handed_refuses(wrong: Callable[..., Any]) -> None:
    said = handed.verdict(wrong)
    assert "not right yet" in said, said


@pytest.mark.nvcc
def test_the_search_of_the_page_is_right() -> None:
    assert "highest: OK (9 runs" in highest.verdict(solved(PAGE)["largest"])


FLOATS = """
template <int N> __device__ void highest(const float (&s)[N], float (&high)[2]) const {
    high[0] = top[0], high[1] = top[1];
    for (int i = 0; i < N; ++i) high[i / 2 % 2] = fmaxf(high[i / 2 % 2], s[i]);
}
"""
INTEGERS = """
template <int N> __device__ void highest(const float (&s)[N], float (&high)[2]) const {
    int most[2] = {__float_as_int(top[0]), __float_as_int(top[1])};
    for (int i = 0; i < N; i += 2)
        most[i / 2 % 2] = __vimax3_s32(most[i / 2 % 2], __float_as_int(s[i]),
                                       __float_as_int(s[i + 1]));
    for (int h = 0; h < 2; ++h) high[h] = __int_as_float(most[h]);
}
"""


@pytest.mark.nvcc
@pytest.mark.parametrize("wrong", [FLOATS, INTEGERS, INTEGERS.replace("i / 2 % 2", "i / 4 % 2")])
def test_highest_refuses(wrong: str) -> None:
    said = highest.verdict(wrong)
    assert "not right yet" in said, said


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("if (most[0] < 0 || most[1] < 0) {", "if (most[0] < 0 && most[1] < 0) {"),
        ("if (most[0] < 0 || most[1] < 0) {", "if (most[0] < 0) {"),
        ("high[0] = top[0], high[1] = top[1];", "high[0] = high[1] = 0;"),
        ("high[0] = top[0], high[1] = top[1];", ""),
        ("{__float_as_int(top[0]), __float_as_int(top[1])}", "{}"),
        ("__float_as_int(top[1])}", "__float_as_int(top[0])}"),
        ("high[i / 2 % 2] = fmaxf(high[i / 2 % 2], s[i])",
         "high[i % 2] = fmaxf(high[i % 2], s[i])"),
        ("i += 2", "i += 4"),
    ],
)  # fmt: skip
def test_slips_in_the_search_are_refused(right: str, wrong: str) -> None:
    said = highest.verdict(replace_once(str(solved(PAGE)["largest"]), right, wrong))
    assert "not right yet" in said, said
