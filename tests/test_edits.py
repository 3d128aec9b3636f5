"""An edit of a text fits exactly once, or is refused with the place and the words."""

from __future__ import annotations

import pytest

from phasebit.edits import difference, replace_each, replace_once, statement


def test_edits_follow_one_another() -> None:
    assert replace_each("a = 1; b = 2;", [("a = 1", "a = 3"), ("a = 3; b", "c")]) == "c = 2;"


@pytest.mark.parametrize(("old", "times"), [("c", "nowhere"), ("= ", "2 times")])
def test_what_does_not_stand_there_once_is_refused(old: str, times: str) -> None:
    with pytest.raises(ValueError, match=f"^ring.cu must hold .* once .*, and holds it {times}: "):
        replace_once("a = 1; b = 2;", old, "", "ring.cu")


TEXT = """\
void f() {
    asm volatile("one;"
                 "two;"
                 :: "r"(x));
    for (int i = 0; i < n; ++i)
        x += i;
}
""".splitlines()


@pytest.mark.parametrize(("line", "told"), [(2, 2), (3, 2), (4, 2), (5, 5), (6, 6), (1, 1)])
def test_an_assembler_statement_is_told_by_its_first_line(line: int, told: int) -> None:
    assert statement(TEXT, line) == told


def test_a_difference_has_no_comments_and_no_spacing() -> None:
    assert difference("a;\n  b;  // one\nc;", "a;\nb;  // two\nc;") == ""
    assert difference("a;\nb;\nc;\nd;", "a;\nx;\nc;") == "-b;\n+x;\n        …\n-d;"
    assert difference("matmul(1)", "kernel(1)", lambda line: line[6:]) == ""
