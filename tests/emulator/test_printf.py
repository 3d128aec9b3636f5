"""What a kernel prints is what C prints: signs, prefixes, fillings, hexadecimal numbers.

The host writes it: CUDA C++ Programming Guide, formatted output.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phasebit.emulator import Module, Run
from phasebit.emulator.errors import FailedAssertion, Fault, OutOfBounds
from phasebit.emulator.machine import system
from phasebit.emulator.ptx.placement import GLOBAL_BASE
from phasebit.launching.launch import compile

FLAGS = ("", "-", "+", " ", "#", "0", "+0", "-0", "#0", " 0")
SHAPES = [
    flags + width + digits
    for flags, width, digits in itertools.product(FLAGS, ("", "3", "16"), ("", ".", ".0", ".3"))
]
NUMBERS: list[tuple[str, float]] = [
    ("d", -42), ("i", 0), ("i", 7), ("u", 4000000000), ("x", 255), ("X", 0xBEEF), ("x", 0),
    ("o", 8), ("o", 0), ("a", 1.96875), ("A", -3.75), ("a", 0.0), ("a", -0.0), ("a", 1e-310),
    ("a", 1.999755859375), ("a", 1.00146484375), ("g", -float("inf")), ("f", float("inf")),
    ("F", float("nan")), ("A", float("inf")), ("a", float("nan")), ("e", 12345.678), ("E", -1e-9),
    ("g", 1e10), ("G", 1e-10), ("f", -2.5), ("g", 100000.0), ("f", -0.0),
]  # fmt: skip


def c_writes(spec: str, *values: Any) -> str:
    """The C library's own printf says what is right."""
    text = ctypes.create_string_buffer(400)
    ctypes.CDLL(None).snprintf(text, 400, spec.encode(), *values)
    return text.value.decode()


def written(spec: str, data: bytes = b"") -> str:
    """What is written of packed arguments."""
    return system._format(None, 0, spec, data)[0]  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "value"), NUMBERS)
def test_each_number_is_written_as_c_writes_it(kind: str, value: float) -> None:
    whole = not isinstance(value, float)
    passed: Any = ctypes.c_uint(int(value)) if whole else ctypes.c_double(value)
    data = struct.pack("<I" if whole else "<d", int(value) & 0xFFFFFFFF if whole else value)
    for shape in SHAPES:
        spec = f"<%{shape}{kind}>"
        assert written(spec, data) == c_writes(spec, passed), spec


@pytest.mark.parametrize("length", ["hh", "h", "", "l", "ll", "z", "j", "t"])
@pytest.mark.parametrize("kind", [*"dioxXu"])
def test_an_integer_has_the_size_that_its_letters_say(kind: str, length: str) -> None:
    for value in (0, 1, 127, 128, 200, 40000, -1, 2**31 - 1, -(2**31), 2**40 + 3, -(2**63)):
        long = length not in ("", "h", "hh")
        if long or -(2**31) <= value < 2**31:
            spec = f"%{length}{kind}|"
            data = struct.pack("<q" if long else "<i", value)
            passed = ctypes.c_longlong(value) if long else ctypes.c_int(value)
            assert written(spec, data) == c_writes(spec, passed), (spec, value)


@pytest.mark.parametrize("spec", [
    "%*d|", "%-*d|", "%0*d|", "%.*d|", "%+.*f|", "%*.*f|", "%-*.*e|", "%.*s|", "%*s|",
])  # fmt: skip
@pytest.mark.parametrize("first", [-6, -1, 0, 2, 9])
def test_widths_and_digits_may_be_arguments(spec: str, first: int, monkeypatch: Any) -> None:
    """A width below 0 stands to the left, and so many digits are none."""
    monkeypatch.setattr(system, "_string", lambda g, lane, address: {16: "seven"}[address])
    last: dict[str, tuple[str, Any, Any]] = {
        "d": ("i", -42, ctypes.c_int(-42)), "s": ("Q", 16, ctypes.c_char_p(b"seven")),
    }  # fmt: skip
    form, value, passed = last.get(spec[-2], ("d", -2.71828, ctypes.c_double(-2.71828)))
    stars = [first, 3][: spec.count("*")]
    data = struct.pack("<" + "i" * len(stars), *stars)
    if struct.calcsize(form) == 8:
        data = data.ljust(8, b"\0")
    data += struct.pack("<" + form, value)
    expected = c_writes(spec, *(ctypes.c_int(each) for each in stars), passed)
    assert written(spec, data) == expected


def test_letters_pointers_and_signs_for_per_cent() -> None:
    for spec, form, value, passed in (
        ("%c|", "I", 65, ctypes.c_int(65)), ("%5c|", "I", 0x141, ctypes.c_int(0x141)),
        ("%-5c|", "I", 66, ctypes.c_int(66)), ("%p|", "Q", 0xBEEF, ctypes.c_void_p(0xBEEF)),
        ("%20p|", "Q", 1, ctypes.c_void_p(1)), ("%p|", "Q", 0, ctypes.c_void_p(0)),
        ("100%%|%d", "I", 5, ctypes.c_int(5)),
    ):  # fmt: skip
        assert written(spec, struct.pack("<" + form, value)) == c_writes(spec, passed), spec


def test_each_argument_lies_at_a_multiple_of_its_size() -> None:
    data = struct.pack("<i4xdi4xqii", 1, 2.5, 3, 4, 5, 6)
    spec = "%d %g %u %lld %x %i %%"
    assert system._format(None, 0, spec, data) == ("1 2.5 3 4 5 6 %", 6)  # type: ignore[arg-type]
    data = struct.pack("<iid", 9, 2, 1.0)
    assert system._format(None, 0, "%*.*f", data)[1] == 3  # type: ignore[arg-type]
    assert system._format(None, 0, "none %%", b"") == ("none %", 0)  # type: ignore[arg-type]


# -- from a kernel --------------------------------------------------------------------------------


def literal(text: str) -> str:
    return ", ".join(str(each) for each in text.encode() + b"\0")


KERNEL = """
.version 9.0
.target sm_90a
.address_size 64
.extern .func (.param .b32 result) vprintf (.param .b64 format, .param .b64 arguments);
.extern .func __assertfail (.param .b64 message, .param .b64 file, .param .b32 line,
                            .param .b64 function, .param .b64 size);
.extern .func (.param .b64 result) malloc (.param .b64 size);
.extern .func free (.param .b64 pointer);
TEXTS
.visible .entry k(.param .u64 out)
{
    .local .align 8 .b8 packed[24];
    .reg .b32 %r<9>; .reg .b64 %rd<12>; .reg .pred %p<3>;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
    BODY
    ret;
}
"""
PRINT = """
    cvta.global.u64 %rd2, %rd2; cvta.local.u64 %rd3, %rd3;
    { .param .b64 p0; .param .b64 p1; .param .b32 q;
      st.param.b64 [p0], %rd2; st.param.b64 [p1], %rd3;
      call.uni (q), vprintf, (p0, p1); ld.param.b32 %r5, [q]; }
"""


def launch(body: str, out: np.ndarray[Any, Any], grid: int, block: int, **texts: str) -> Run:
    lines = "".join(f".global .b8 {n}[] = {{{literal(t)}}};\n" for n, t in texts.items())
    for name, text in texts.items():
        lines = lines.replace(f"{name}[]", f"{name}[{len(text.encode()) + 1}]")
    text = KERNEL.replace("TEXTS", lines).replace("BODY", body)
    return Module(text)["k"].launch(grid, block, [out])


def test_each_thread_prints_its_own_and_is_told_how_many_arguments() -> None:
    body = f"""
    mov.u64 %rd3, packed; st.local.u32 [packed], %r1; cvt.rn.f64.u32 %rd4, %r2;
    st.local.f64 [packed+8], %rd4; mov.u64 %rd5, name; cvta.global.u64 %rd5, %rd5;
    st.local.u64 [packed+16], %rd5; mov.u64 %rd2, format;
    {PRINT} mad.lo.u32 %r6, %r2, 3, %r1; mul.wide.u32 %rd6, %r6, 4; add.u64 %rd6, %rd1, %rd6;
    st.global.u32 [%rd6], %r5;"""
    out = np.zeros(6, np.uint32)
    run = launch(body, out, 2, 3, format="thread %d of %.1f is a \u00fcber-%s\n", name="thread")
    expected = [f"thread {t} of {b}.0 is a \u00fcber-thread" for b in (0, 1) for t in range(3)]
    assert run.output.splitlines() == expected and not run.findings
    assert out.tolist() == [3] * 6


def test_a_text_without_arguments_needs_none() -> None:
    body = f"mov.u64 %rd3, 0; mov.u64 %rd2, format; {PRINT} st.global.u32 [%rd1], %r5;"
    body = body.replace("cvta.local.u64 %rd3, %rd3;", "")
    out = np.full(1, 9, np.uint32)
    assert launch(body, out, 1, 1, format="100%% there").output == "100% there"
    assert out[0] == 0


def test_a_text_in_the_stack_of_a_thread_is_its_own() -> None:
    body = f"""
    add.u32 %r3, %r1, 65; st.local.u32 [packed], %r3; mov.u64 %rd3, packed;
    mov.u64 %rd2, packed; {PRINT.replace("cvta.global", "cvta.local")}"""
    assert launch(body, np.zeros(1), 1, 3).output == "ABC"


FAIL = """
    setp.lt.u32 %p1, %r1, 2; @%p1 ret;
    mov.u64 %rd2, message; cvta.global.u64 %rd2, %rd2; mov.u64 %rd3, file;
    cvta.global.u64 %rd3, %rd3; mov.u64 %rd4, function; cvta.global.u64 %rd4, %rd4;
    mov.u32 %r3, 42; EACH
    { .param .b64 p0; .param .b64 p1; .param .b32 p2; .param .b64 p3; .param .b64 p4;
      st.param.b64 [p0], %rd2; st.param.b64 [p1], %rd3; st.param.b32 [p2], %r3;
      st.param.b64 [p3], %rd4; st.param.b64 [p4], 1;
      call.uni __assertfail, (p0, p1, p2, p3, p4); }"""


@pytest.mark.parametrize("each", [
    "",
    # A compiler may make one call of several: thread 3 fails at another place than thread 2.
    "setp.eq.u32 %p2, %r1, 3; selp.u64 %rd2, %rd3, %rd2, %p2; selp.u64 %rd3, %rd4, %rd3, %p2; "
    "selp.u64 %rd4, %rd2, %rd4, %p2; selp.u32 %r3, 43, 42, %p2;",
])  # fmt: skip
def test_an_assertion_that_fails_is_told_as_cuda_tells_it(each: str) -> None:
    body = FAIL.replace("EACH", each)
    with pytest.raises(FailedAssertion) as caught:
        launch(body, np.zeros(1), 1, 4, message="n > 3", file="a.cu", function="void k(int *)")
    assert str(caught.value) == (
        "a.cu:42: void k(int *): thread 2 of block 0: Assertion `n > 3` failed."
    )


ASK = """
    add.u32 %r3, %r1, 1; mul.wide.u32 %rd2, %r3, 8;
    { .param .b64 p; .param .b64 q; st.param.b64 [p], %rd2;
      call.uni (q), malloc, (p); ld.param.b64 %rd4, [q]; }
    mul.wide.u32 %rd5, %r1, 8; add.u64 %rd5, %rd1, %rd5; st.global.u64 [%rd5], %rd4;
"""
GIVE = "{ .param .b64 p; st.param.b64 [p], %rd4; call.uni free, (p); }"


def test_each_thread_gets_memory_of_its_own_and_may_free_it() -> None:
    out = np.zeros(4, np.uint64)
    assert not launch(f"{ASK} st.u64 [%rd4], %rd5; {GIVE}", out, 1, 4).findings
    assert len({*out.tolist()}) == 4 and all(int(each) >= GLOBAL_BASE for each in out)
    assert not launch(f"mov.u64 %rd4, 0; {GIVE}", out, 1, 4).findings, "a null pointer is nothing"


def test_what_no_malloc_gave_is_not_freed() -> None:
    twice = f"{ASK} {GIVE} setp.ne.u32 %p1, %r1, 2; @%p1 ret; {GIVE}"
    out = np.zeros(4, np.uint64)
    with pytest.raises(Fault) as caught:
        launch(twice, out, 1, 4)
    first, _, rest = str(caught.value).partition(": it is ")
    assert first == f"thread 2 of block 0 frees {int(out[2]):#x}, which no malloc of a kernel gave"
    assert rest.startswith("0 bytes into memory from malloc (24 bytes), which was freed by thread")
    with pytest.raises(Fault, match=r"frees 0x\w+, which no malloc of a kernel gave: it is 0"):
        launch(f"add.u64 %rd4, %rd1, 32; {GIVE}", out, 1, 1)


# -- what is nowhere ------------------------------------------------------------------------------


def reader(size: int) -> Any:
    """A group of two threads of which nothing counts but where its memory is."""
    memory = SimpleNamespace(u1=np.frombuffer(b"a" * size, np.uint8))
    batch = SimpleNamespace(
        local_base=16, local_stride=8, machine=SimpleNamespace(where=lambda g: "there"),
        describe=lambda lanes: f"thread {lanes[0]}",
    )  # fmt: skip
    return SimpleNamespace(memory=memory, batch=batch)


def test_addresses_that_are_nowhere_are_not_read() -> None:
    g = reader(5000)
    assert len(system._read(g, 0, GLOBAL_BASE + 4996, 8)) == 4
    assert system._read(g, 1, GLOBAL_BASE, 3) == b"aaa"
    assert len(system._string(g, 0, GLOBAL_BASE)) == 4096, "no longer text is looked for"
    for address in (GLOBAL_BASE - 1, GLOBAL_BASE + 5000):
        with pytest.raises(OutOfBounds, match=f"invalid address {address:#x}: thread 1; there"):
            system._read(g, 1, address, 1)


@pytest.mark.nvcc
def test_what_nvcc_compiles_is_written_as_c_writes_it() -> None:
    lines, expected = [], []
    for shape, (kind, value) in itertools.product(SHAPES[::5], NUMBERS):
        passed: Any = ctypes.c_double(value) if isinstance(value, float) else ctypes.c_uint(value)
        expected.append(c_writes(f"%{shape}{kind}|", passed))
        given = str(value).replace("inf", "1 / zero").replace("nan", "__builtin_nan(\"\")")
        lines.append(f'printf("%{shape}{kind}|\\n", {given});')
    source = f'#include <cstdio>\n__global__ void say(double zero) {{ {"".join(lines)} }}'
    run = compile(source, "sm_80", ["-w"])["say"].launch(1, 1, [0.0])
    assert run.output.splitlines() == expected


@pytest.mark.nvcc
def test_a_string_that_is_nowhere_names_the_line_that_prints_it() -> None:
    source = '#include <cstdio>\n__global__ void say(const char* x) {\n printf("%s", x); }'
    with pytest.raises(OutOfBounds, match=r"invalid address 0x0: thread 0 of block 0; .*:3"):
        compile(source, "sm_80")["say"].launch(1, 32, [0])
