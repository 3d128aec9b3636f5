"""A finding in an assembler statement is told by its first line, whichever line a compiler says."""

from __future__ import annotations

import pytest

from phasebit.chapters.warp_specialisation import clinic

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
    assert clinic.statement(TEXT, line) == told
