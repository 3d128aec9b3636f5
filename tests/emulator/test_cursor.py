"""Numbers in PTX text, and what is said where something else stands (PTX ISA 4.5)."""

from __future__ import annotations

import math

import pytest

from phasebit.emulator.errors import PtxError
from phasebit.emulator.ptx.cursor import Cursor, integer


@pytest.mark.parametrize(("text", "value"), [
    ("0", 0), ("12", 12), ("12U", 12), ("0x1F", 31), ("0X1fU", 31), ("0b101", 5), ("0B11U", 3),
    ("017", 15), ("00", 0), ("09", 9), ("18446744073709551615", 2**64 - 1), ("07U", 7),
])  # fmt: skip
def test_integers_of_every_base(text: str, value: int) -> None:
    assert integer(text) == value
    assert Cursor(text).integer() == value and Cursor(f"-{text}").integer() == -value


@pytest.mark.parametrize(("text", "value", "bits"), [
    ("5", 5, None), ("-5", -5, None), ("+5", 5, None), ("--5", 5, None), ("-+-+5", 5, None),
    ("-0x10", -16, None), ("2.5", 2.5, None), ("-2.5", -2.5, None), ("+1.5e3", 1500.0, None),
    ("--0.5", 0.5, None), ("-3.0", -3.0, None), ("0f3F800000", 1.0, 0x3F800000),
    ("0F40000000", 2.0, 0x40000000), ("-0f3F800000", -1.0, 0xBF800000),
    ("-0fBF800000", 1.0, 0x3F800000),
    ("0d3FF0000000000000", 1.0, 0x3FF0000000000000), ("-0d4000000000000000", -2.0,
     0xC000000000000000),
    ("0D3FE0000000000000", 0.5, 0x3FE0000000000000), ("--0f3F800000", 1.0, 0x3F800000),
])  # fmt: skip
def test_numbers_of_every_form(text: str, value: float, bits: int | None) -> None:
    found = Cursor(text).immediate()
    assert found.value == value and type(found.value) is type(value) and found.bits == bits


def test_bits_that_are_no_number() -> None:
    found = Cursor("-0f7FC00000").immediate()
    assert math.isnan(found.value) and found.bits == 0xFFC00000


@pytest.mark.parametrize(("text", "value"), [
    ("", 0), ("+4", 4), ("-4", -4), ("+4-8+1", -3), ("+-4", -4), ("--4", 4), ("+0x10]", 16),
])  # fmt: skip
def test_offsets_are_summed(text: str, value: int) -> None:
    assert Cursor(text).offset() == value


@pytest.mark.parametrize(("read", "text", "says"), [
    ("word", "\n\n5", "line 3: expected a name but found '5'"),
    ("integer", "\nx", "line 2: expected an integer but found 'x'"),
    ("integer", "-1.5", "line 1: expected an integer but found '1.5'"),
    ("immediate", "- x", "line 1: expected a number but found 'x'"),
    ("immediate", "-",
     "expected a number but found 'the end of the text'; the text seems to be cut short"),
    ("word", "", "expected a name but found 'the end of the text'; the text seems to be cut short"),
])  # fmt: skip
def test_what_stands_in_place_of_it(read: str, text: str, says: str) -> None:
    with pytest.raises(PtxError) as raised:
        getattr(Cursor(text), read)()
    assert says in str(raised.value)


def test_tokens_one_by_one() -> None:
    cursor = Cursor('a , "," b')
    assert cursor.following().text == "," and cursor.word() == "a"
    assert not cursor.accept("b") and cursor.accept(",") and not cursor.accept(",")
    with pytest.raises(PtxError, match="expected ',' but found"):
        cursor.expect(",")  # a string is none
    cursor.next()
    assert cursor.expect("b").text == "b"
    assert cursor.next().kind == cursor.next().kind == cursor.following().kind == "end"


def test_skipping_to_a_closing_sign() -> None:
    cursor = Cursor("a ( b } c")
    cursor.skip_to("}", "never closed")
    assert cursor.word() == "c"
    with pytest.raises(PtxError, match="never closed"):
        Cursor("a b").skip_to("}", "never closed")
