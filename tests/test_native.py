"""C++ functions are called with arguments that fit, or not at all; a guarded call comes back."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from phasebit import cpp_cells, hardware, native, toolchain
from phasebit.native import CallError

pytestmark = pytest.mark.nvcc

SOURCE = """#include <cstdint>
// extern "C" void not_this(int64_t n)
extern "C" void scale(int64_t n, float by, const float* x, float* __restrict y) {
    for (int64_t i = 0; i < n; i++) y[i] = by * x[i];
}
extern "C" double sum(int64_t n, const double* x) {
    double all = 0;
    for (int64_t i = 0; i < n; i++) all += x[i];
    return all;
}
extern "C" void outside(float* x) { for (int64_t i = 0; ; i++) x[i << 20] = 1; }
extern "C" void forever(float* x) { for (;;) *(volatile float*)x = 1; }
"""


@pytest.fixture(scope="module")
def library() -> native.Library:
    return native.compile(SOURCE)


def test_a_function_computes(library: native.Library) -> None:
    x = np.arange(5, dtype=np.float32)
    y = np.full(7, np.nan, np.float32)
    library.scale(5, 2.0, x, y)
    assert y[:5].tolist() == [0, 2, 4, 6, 8] and np.isnan(y[5:]).all()
    assert library.sum(4, np.array([1.0, 2, 3, 4])) == 10.0
    assert list(library.functions) == ["scale", "sum", "outside", "forever"]
    assert repr(library.scale) == "scale(n, by, x, y)"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((4, 1.0, np.zeros(4)), r"takes 4 arguments \(n, by, x, y\), not 3"),
        ((4, 1.0, np.zeros(4), np.zeros(4, np.float32)), r"x is an array of float32, not of float"),
        ((4, 1.0, [0.0], np.zeros(4, np.float32)), r"x is an array of float32: give one, not"),
        ((4.0, 1.0, np.zeros(4, np.float32), np.zeros(4, np.float32)), "n is one int64: give a"),
        ((4, np.zeros(1), np.zeros(4, np.float32), np.zeros(4, np.float32)), "by is one float32"),
    ],
)
def test_arguments_that_do_not_fit(
    library: native.Library, arguments: tuple[native.Argument, ...], said: str
) -> None:
    with pytest.raises(CallError, match=said):
        library.scale(*arguments)


def test_a_read_only_array_is_not_written(library: native.Library) -> None:
    y = np.zeros(4, np.float32)
    y.setflags(write=False)
    with pytest.raises(CallError, match="y is written, and this array is read-only"):
        library.scale(4, 1.0, np.ones(4, np.float32), y)


def test_a_guarded_call_writes_the_arrays(library: native.Library) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    y = np.zeros((2, 3), np.float32)
    assert 0 < library.scale.guarded(6, 3.0, x, y) < 10
    assert y.tolist() == (3 * x).tolist()


def test_a_guarded_call_outlives_a_crash_and_a_loop(library: native.Library) -> None:
    x = np.zeros(4, np.float32)
    with pytest.raises(CallError, match="outside was ended by SIGSEGV"):
        library.outside.guarded(x)
    begin = time.monotonic()
    with pytest.raises(CallError, match=r"forever did not come back within 0\.2 s"):
        library.forever.guarded(x, timeout=0.2)
    assert time.monotonic() - begin < 10
    assert not x.any()  # what they wrote is theirs


def test_a_guarded_call_takes_arrays_without_gaps(library: native.Library) -> None:
    with pytest.raises(CallError, match="x has gaps"):
        library.scale.guarded(2, 1.0, np.zeros(4, np.float32)[::2], np.zeros(2, np.float32))


def test_times_are_of_the_calls_asked_for(library: native.Library) -> None:
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    times = library.scale.times((8, 2.0, x, y), repeats=5)
    assert len(times) == 5 and min(times) > 0 and (y == 2).all()


def test_an_error_names_the_line() -> None:
    with pytest.raises(toolchain.CompileError, match=r"line 3 of twice\.cpp: .*nothing") as caught:
        native.compile("\n\nint f() { return nothing; }\n", name="twice.cpp")
    assert caught.value.line == 3


STDINT = "#include <cstdint>\n"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("int f() { return 1; }", 'declares no function: begin one with extern "C"'),
        ('extern "C" void f(long double x) {}', "cannot read the parameter 'long double x'"),
        ('struct S { int x; };\nextern "C" void f(S x) {}', "passes no S to a function"),
        (STDINT + 'extern "C" void f(int32_t) {}', "cannot read the parameter 'int32_t'"),
        ('extern "C" void f(float*) {}', r"cannot read the parameter 'float\*'"),
        ('extern "C" void f(float x);', "declares f and does not define it"),
        ('void g(int);\nextern "C" void f(float x) { g(1); }', "nobody defines g$"),
    ],
)
def test_declarations_that_python_cannot_call(source: str, said: str) -> None:
    with pytest.raises(CallError, match=said):
        native.compile(source)


def test_a_function_without_parameters_may_say_so() -> None:
    library = native.compile('#include <cstdint>\nextern "C" int32_t f(void) { return 7; }\n'
                             'extern "C" float g(float*a, const float *b) { return *a + *b; }')
    assert library.f() == 7 and library.f.parameters == ()
    one = np.ones(1, np.float32)
    assert library.g(one, one) == 2


def test_no_such_kernel() -> None:
    with pytest.raises(ValueError, match=r"no 'nothing' in C\+\+: choose from caches_and_tiles/"):
        native.load("nothing")


def test_no_such_compiler() -> None:
    with pytest.raises(toolchain.ToolMissing, match=r"no c\+\+98 on PATH: install c\+\+98"):
        toolchain.host_compiler("c++98")


def test_a_cell(capsys: pytest.CaptureFixture[str]) -> None:
    shell = InteractiveShell()
    cpp_cells.load(shell)
    shell.run_cell_magic("cpp", "mine", SOURCE)
    text = capsys.readouterr().out
    assert "mine: scale(n, by, x, y), sum(n, x)" in text
    assert text.startswith("⏱ compiled by ") and "-O3 -march=native" in text
    assert shell.user_ns["mine"].sum(2, np.ones(2)) == 2
    for name in ("", "class", "1", "-O1"):
        with pytest.raises(UsageError, match="give the name"):
            shell.run_cell_magic("cpp", name, SOURCE)
    with pytest.raises(UsageError, match='No closing quotation in: mine "'):
        shell.run_cell_magic("cpp", 'mine "', SOURCE)
    with pytest.raises(toolchain.CompileError, match=r"made no library.so of cell"):
        shell.run_cell_magic("cpp", "mine --version", SOURCE)
    with pytest.raises(toolchain.CompileError, match="line 2 of cell"):
        shell.run_cell_magic("cpp", "mine", "int f() { return nothing; }\n")


def test_the_processor_is_described(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    core = "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fma avx2\n"
    info.write_text(core + "\n" + core.replace("0", "1"))
    for number, (level, kind, size) in enumerate(
        [(1, "Data", "32K"), (1, "Instruction", "32K"), (2, "Unified", "1024K")]
    ):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        facts = {"level": level, "type": kind, "size": size}
        for name, value in {**facts, "ways_of_associativity": 8, "coherency_line_size": 64}.items():
            (folder / name).write_text(f"{value}\n")
    cpu = hardware.read_cpu(info, tmp_path)
    assert cpu.model == "Some CPU" and cpu.features == ("fma", "avx2")
    near, far = cpu.caches
    assert (near.level, near.bytes, near.sets) == (1, 32768, 64) and cpu.cache(2) == far
    assert cpu.cache(3) is None


def test_a_processor_that_nobody_describes(tmp_path: Path) -> None:
    cpu = hardware.read_cpu(tmp_path / "none", tmp_path / "none")
    assert cpu.model and cpu.caches == () and cpu.page > 0
