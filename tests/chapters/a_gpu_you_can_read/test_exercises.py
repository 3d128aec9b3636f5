"""The checks of the appendix: right answers pass, planted wrong ones are refused."""

from __future__ import annotations

import json
from collections import Counter
from math import gcd
from pathlib import Path

import numpy as np
import pytest

from phasebit.chapters.a_gpu_you_can_read import exercises as check
from phasebit.emulator.ptx.table import TABLE
from tests.book.notebooks import solutions

NOTEBOOK = Path(__file__).resolve().parents[3] / "book/appendix/a_gpu_you_can_read.ipynb"


def verdict(judge: object, *answers: object) -> str:
    return judge.verdict(*answers)  # type: ignore[attr-defined, no-any-return]


def skeleton(*arguments: object) -> object:
    return ...


@pytest.mark.parametrize(
    ("judge", "answer"),
    [
        (check.executed, skeleton),
        (check.traffic, skeleton),
        (check.missing_barrier, ...),
        (check.deadlock, ...),
        (check.new_instruction, skeleton),
        (check.new_instruction, lambda a, b: None),
    ],
)
def test_skeletons_are_not_answered_yet(judge: object, answer: object) -> None:
    assert verdict(judge, answer).endswith(": not answered yet")


def test_the_kernel_is_the_notebooks() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert any(f'"""\\\n{check.MULTIPLY_ADD}"""' in "".join(cell["source"]) for cell in cells)


def test_the_solutions_of_the_page() -> None:
    names: dict[str, object] = {"Counter": Counter, "__name__": "answers"}
    for text in solutions(NOTEBOOK):
        exec(text, names)
    assert "OK" in verdict(check.executed, names["executed"])
    assert "OK" in verdict(check.traffic, names["traffic"])
    assert "OK" in verdict(check.missing_barrier, names["line"])
    assert "OK" in verdict(check.deadlock, names["body"])
    assert "OK" in verdict(check.new_instruction, names["avg"])


class TestExecuted:
    def test_right(self) -> None:
        def answer(n: int, block: int) -> int:
            return 11 * (-(-n // block) * block // 32) + 12 * -(-n // 32)

        assert "OK (27 launches)" in verdict(check.executed, answer)

    @pytest.mark.parametrize(
        "wrong",
        [
            lambda n, block: 23 * -(-n // 32),  # idle warps execute nothing
            lambda n, block: 23 * (-(-n // block) * block // 32),  # idle warps execute all
            lambda n, block: 11 * (-(-n // block) * block // 32) + 12 * (n // 32),
            lambda n, block: 10 * (-(-n // block) * block // 32) + 12 * -(-n // 32),  # no ret
            lambda n, block: 23 * n,  # threads, not warps
        ],
    )
    def test_wrong(self, wrong: object) -> None:
        assert "the machine counts" in verdict(check.executed, wrong)


def sectors(first: int, stride: int) -> int:
    return len({4 * (first + stride * lane) // 32 for lane in range(32)})


class TestTraffic:
    def test_right(self) -> None:
        def answer(first: int, stride: int) -> tuple[int, int]:
            return sectors(first, stride), gcd(stride, 32) if stride else 1

        assert "OK (85 patterns)" in verdict(check.traffic, answer)

    @pytest.mark.parametrize(
        "wrong",
        [
            lambda f, s: (sectors(f, s), gcd(s, 32)),  # gcd(0, 32): a broadcast is no conflict
            lambda f, s: (sectors(0, s), gcd(s, 32) if s else 1),  # alignment
            lambda f, s: (min(4 * s, 32) or 1, gcd(s, 32) if s else 1),
            lambda f, s: (32, 32),
            lambda f, s: (sectors(f, s), 1),
            lambda f, s: (sectors(f, s), 2 if s % 2 == 0 and s else 1),
            lambda f, s: sectors(f, s),  # half an answer
        ],
    )
    def test_wrong(self, wrong: object) -> None:
        assert "for first=" in verdict(check.traffic, wrong)


class TestMissingBarrier:
    def lines(self) -> list[int]:
        text = check.TURN_AROUND.splitlines()
        return [
            number for number, line in enumerate(text, 1) if line.split()[:1] in (
                ["ld.shared.u32"], ["st.shared.u32"], ["bar.sync"],
            )
        ]  # fmt: skip

    def test_right(self) -> None:
        _, _, read, second_write, *_ = self.lines()
        for answer in range(read, second_write):
            assert "OK" in verdict(check.missing_barrier, answer)

    def test_the_numbers_are_right_without_it(self) -> None:
        run, right = check.turn_around(check.TURN_AROUND)
        assert right and len(run.findings) == 1

    def test_every_other_line_is_refused(self) -> None:
        _, _, read, second_write, *_ = self.lines()
        for wrong in range(1, len(check.TURN_AROUND.splitlines())):
            if not read <= wrong < second_write:
                assert "not right yet: with a barrier" in verdict(check.missing_barrier, wrong)

    @pytest.mark.parametrize("wrong", [0, -3, 1000, "24", 24.0])
    def test_no_line(self, wrong: object) -> None:
        assert "give the number of a line" in verdict(check.missing_barrier, wrong)


TWO_WAYS = """
    .reg .pred %p<2>;
    .reg .b32 %r<2>;
    mov.u32 %r1, %tid.x;
    setp.ge.u32 %p1, %r1, 32;
    @%p1 bra OTHER;
{}
    ret;
OTHER:
{}
    ret;
"""


class TestDeadlock:
    @pytest.mark.parametrize(
        "answer",
        [
            TWO_WAYS.format("bar.sync 1;", "bar.sync 2;"),
            TWO_WAYS.format("bar.sync 1, 64; bar.sync 2, 64;", "bar.sync 2, 64; bar.sync 1, 64;"),
        ],
    )
    def test_right(self, answer: str) -> None:
        assert "OK" in verdict(check.deadlock, answer)

    @pytest.mark.parametrize(
        ("wrong", "why"),
        [
            ("ret;", "it ends"),
            (TWO_WAYS.format("bar.sync 1, 32;", "bar.sync 2, 32;"), "it ends"),
            (TWO_WAYS.format("bar.sync 2;", "bar.sync 1;"), "another one: warp 0 at barrier 2"),
            (TWO_WAYS.format("bar.sync 1, 64;", ""), "another one: warp 0 at barrier 1"),
            ("bar.sync 1, 96; ret;", "another one: all threads at barrier 1"),
            ("AGAIN: bra AGAIN;", "in another way: livelock"),
            ("bar.sink 1;", "in another way: PTX line 7: the emulator does not know 'bar.sink'"),
            ("}", "in another way: PTX line"),
            (7, "give PTX, as a string"),
        ],
    )
    def test_wrong(self, wrong: object, why: str) -> None:
        assert why in verdict(check.deadlock, wrong)


class TestNewInstruction:
    @pytest.mark.parametrize(
        "answer",
        [
            lambda a, b: (a & b) + ((a ^ b) >> 1),
            lambda a, b: ((a.astype(np.int64) + b) >> 1).astype(a.dtype),
        ],
    )
    def test_right(self, answer: object) -> None:
        assert "OK" in verdict(check.new_instruction, answer)

    @pytest.mark.parametrize(
        ("wrong", "why"),
        [
            (lambda a, b: (a + b) >> 1, "avg.u32 of 1 and 4294967295 is"),  # the sum wraps
            (lambda a, b: a // 2 + b // 2, "avg.u32 of 1 and 1 is 1, not 0"),
            (lambda a, b: (a | b) - ((a ^ b) >> 1), "avg.u32 of 0 and 1 is 0, not 1"),  # up
            (lambda a, b: (a.astype(float) / 2 + b / 2).astype(a.dtype), "avg.s32 of"),  # to zero
            (lambda a, b: a, "avg.u32 of 0 and 2 is"),
            (lambda a: a, "raises TypeError"),
            (lambda a, b: 1 // 0, "raises ZeroDivisionError"),
        ],
    )
    def test_wrong(self, wrong: object, why: str) -> None:
        assert why in verdict(check.new_instruction, wrong)

    def test_the_table_is_as_before(self) -> None:
        verdict(check.new_instruction, lambda a, b: a)
        assert "avg" not in TABLE
