"""What a kernel prints is what C prints: signs, prefixes, fillings, hexadecimal numbers."""

from __future__ import annotations

import ctypes
import itertools

import pytest

from phasebit.emulator.errors import OutOfBounds
from phasebit.launching.launch import compile

pytestmark = pytest.mark.nvcc

SHAPES = [
    flags + width + digits
    for flags, width, digits in itertools.product(
        ("", "-", "+", " ", "#", "0", "+0"), ("", "16"), ("", ".", ".3")
    )
]
NUMBERS: list[tuple[str, float]] = [
    ("i", -42), ("i", 0), ("x", 255), ("o", 8), ("a", 1.96875), ("A", -3.75), ("a", 0.0),
    ("a", 1e-310), ("g", -float("inf")),
]  # fmt: skip


def test_each_number_is_written_as_c_writes_it() -> None:
    """The C library's own printf says what is right."""
    library = ctypes.CDLL(None)
    lines, expected = [], []
    for shape, (kind, value) in itertools.product(SHAPES, NUMBERS):
        text = ctypes.create_string_buffer(100)
        passed = ctypes.c_double(value) if isinstance(value, float) else ctypes.c_int(value)
        library.snprintf(text, 100, f"%{shape}{kind}|".encode(), passed)
        expected.append(text.value.decode())
        literal = str(value).replace("inf", "1 / zero")
        lines.append(f'printf("%{shape}{kind}|\\n", {literal});')
    source = f'#include <cstdio>\n__global__ void say(double zero) {{ {"".join(lines)} }}'
    run = compile(source, "sm_80", ["-w"])["say"].launch(1, 1, [0.0])
    assert run.output.splitlines() == expected


def test_a_string_that_is_nowhere_names_the_line_that_prints_it() -> None:
    source = '#include <cstdio>\n__global__ void say(const char* x) {\n printf("%s", x); }'
    with pytest.raises(OutOfBounds, match=r"invalid address 0x0: thread 0 of block 0; .*:3"):
        compile(source, "sm_80")["say"].launch(1, 32, [0])
