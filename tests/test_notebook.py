"""``%%cuda``: whatever goes wrong raises, names the cause and the cell's line, and ends in time."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from phasebit import files, machine, measure, notebook, replay, toolchain
from phasebit.notebook import CudaMagics, ProgramError

needs_gpu = pytest.mark.skipif(machine.gpu() is None, reason="no NVIDIA GPU here")
KERNEL = "__global__ void nothing() {}\nint main() { nothing<<<1, 1>>>(); }\n"


@pytest.fixture(scope="module")
def magics() -> CudaMagics:
    return CudaMagics(InteractiveShell())


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without a GPU, and an empty folder of records."""
    monkeypatch.setattr(machine, "gpu", lambda: None)
    monkeypatch.setattr(files, "records", lambda: tmp_path)
    return tmp_path


def fails(magics: CudaMagics, line: str, cell: str) -> ProgramError:
    with pytest.raises(ProgramError) as caught:
        magics.cuda(line, cell)
    assert caught.value._render_traceback_() == [f"ProgramError: {caught.value}"]
    return caught.value


# What goes wrong. Line 1 of a cell is the magic.


@pytest.mark.nvcc
def test_a_compile_error(magics: CudaMagics) -> None:
    with pytest.raises(toolchain.CompileError, match='line 3 of cell: identifier "x" is undef'):
        magics.cuda("", "int main() {\n  return x; }")


@pytest.mark.nvcc
def test_a_status_that_is_not_zero(magics: CudaMagics, capsys: Any) -> None:
    cell = '#include <cstdio>\nint main() { puts("out"); fputs("why", stderr); return 3; }'
    error = fails(magics, "", cell)
    assert str(error) == "the program ended with exit status 3\nwhy" and error.status == 3
    assert capsys.readouterr().out.splitlines()[-1] == "out"


@pytest.mark.nvcc
def test_a_cuda_call_that_fails(magics: CudaMagics) -> None:
    cell = '#include "check.cuh"\nint main() {\n  void* p;\n  CHECK(cudaMalloc(&p, 1ul << 60));\n}'
    error = fails(magics, "", cell)
    assert error.line == 5
    assert str(error).startswith("line 5 of the cell: ")
    assert "cell:5: cudaMalloc(&p, 1ul << 60) failed: cudaError" in str(error)


@pytest.mark.nvcc
def test_an_endless_loop(magics: CudaMagics, capsys: Any) -> None:
    cell = '#include <cstdio>\nint main() {\n  puts("so far");\n  fflush(stdout);\n  for (;;) {}\n}'
    begin = time.monotonic()
    toolchain.build(cell, name=notebook.CELL, first_line=2)
    begin = time.monotonic()
    error = fails(magics, "--timeout 1", cell)
    assert time.monotonic() - begin < 6
    assert error.line == 6 and "did not end within 1 s" in str(error)
    assert capsys.readouterr().out.splitlines()[-1] == "so far"


@pytest.mark.nvcc
def test_waiting_in_a_library_names_the_line_of_the_cell(magics: CudaMagics) -> None:
    cell = (
        "#include <unistd.h>\nint wait() {\n  return pause() + 1;\n}\nint main() { return wait(); }"
    )
    assert fails(magics, "--timeout 1", cell).line in (4, 6)  # 6 when wait() is inlined


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("statement", "how"),
    [
        ("*(volatile int*)nullptr = 1;", "SIGSEGV"),
        ("__builtin_trap();", "SIG"),
        ("abort();", "SIGABRT"),
    ],
)
def test_a_crash(magics: CudaMagics, statement: str, how: str) -> None:
    error = fails(
        magics, "", f"#include <cstdlib>\nint main() {{\n\n  {statement}\n  return 0;\n}}"
    )
    assert error.line == 5 and f"was ended by {how}" in str(error) and error.status < 0


@pytest.mark.nvcc
def test_endless_output_is_shown_without_its_middle(magics: CudaMagics, capsys: Any) -> None:
    error = fails(magics, "", '#include <cstdio>\nint main() { for (;;) puts("again"); }')
    assert "printed more than 1 MiB" in str(error)
    assert len(capsys.readouterr().out.splitlines()) < 500


@pytest.mark.nvcc
@pytest.mark.gpu
@needs_gpu
def test_an_endless_kernel(magics: CudaMagics) -> None:
    cell = (
        '#include "check.cuh"\n__global__ void spin(volatile int* on) { while (*on == 0) {} }\n'
        "int main() {\n  int* on;\n  CHECK(cudaMalloc(&on, 4));\n  CHECK(cudaMemset(on, 0, 4));\n"
        "  spin<<<1, 1>>>(on);\n  CHECK(cudaDeviceSynchronize());\n}"
    )
    error = fails(magics, "--timeout 3", cell)
    assert error.line == 9 and "did not end within 3 s" in str(error)


@pytest.mark.nvcc
@pytest.mark.gpu
@needs_gpu
def test_a_kernel_that_writes_where_it_must_not(magics: CudaMagics) -> None:
    cell = (
        '#include "check.cuh"\n__global__ void bad(int* p) { *p = 1; }\n'
        "int main() {\n  bad<<<1, 1>>>(nullptr);\n  CHECK(cudaGetLastError());\n"
        "  CHECK(cudaDeviceSynchronize());\n}"
    )
    error = fails(magics, "", cell)
    assert error.line == 7 and "cudaErrorIllegalAddress" in str(error)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--nonsense", "unrecognized arguments: --nonsense"),
        ("--timeout soon", "invalid float value"),
        ("-t", "most of that time is start-up"),
        ("-p", "profile with ncu"),
    ],
)
def test_a_wrong_option_stops_the_cell(magics: CudaMagics, line: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        magics.cuda(line, "int main() {}")


# What goes right


@pytest.mark.nvcc
def test_a_program_without_kernels_runs_anywhere(magics: CudaMagics, capsys: Any) -> None:
    magics.cuda(
        "--args 'one \"two three\"'", "#include <cstdio>\nint main(int, char** v) { puts(v[2]); }"
    )
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("⏱ compiled by nvcc") and first.endswith("run here: it has no kernel")
    assert rest == ["two three"]


@pytest.mark.nvcc
def test_without_a_gpu_and_without_a_record(magics: CudaMagics, no_gpu: Path, capsys: Any) -> None:
    magics.cuda("", KERNEL)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("not run: no GPU here, and this very program has no record")
    assert lines[1].startswith("⏱ ptxas: nothing uses ")
    assert lines[2:] == ["nothing: 0 bytes of static shared memory, no register spills"]
    assert notebook.verdict(KERNEL) == "compiled, not run"


@pytest.mark.nvcc
def test_a_record_is_shown_as_a_record(magics: CudaMagics, no_gpu: Path, capsys: Any) -> None:
    said = "nothing: OK\n⏱ 3 µs\n"
    run = replay.Run("NVIDIA H200", "580", "13.0", "2026-01-02", said, "", 0, "", None, 60.0)
    replay.save(replay.key(KERNEL), run)
    magics.cuda("", KERNEL)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("not run: no GPU here; recorded on NVIDIA H200, 2026-01-02")
    assert lines[-2:] == said.splitlines()
    assert notebook.verdict(KERNEL) == "nothing: OK"


@pytest.mark.nvcc
def test_a_recorded_failure_fails_again(magics: CudaMagics, no_gpu: Path) -> None:
    run = replay.Run("H200", "580", "13.0", "2026-01-02", "", "cell:2: bad\n", 1, "", None, 60.0)
    replay.save(replay.key(KERNEL), run)
    assert fails(magics, "", KERNEL).line == 2
    assert notebook.verdict(KERNEL) == "cell:2: bad"


@pytest.mark.nvcc
def test_a_gpu_of_another_generation_replays(
    magics: CudaMagics, no_gpu: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    t4 = machine.Gpu("Tesla T4", (7, 5), "550")
    monkeypatch.setattr(machine, "gpu", lambda: t4)
    magics.cuda("--arch sm_90a", KERNEL)
    assert "Tesla T4 does not run sm_90a" in capsys.readouterr().out


def test_loading_prints_one_line(no_gpu: Path, capsys: Any) -> None:
    notebook.load(InteractiveShell())
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("⏱ no GPU here; ") and measure.recorded_on() in line


def test_the_middle_of_long_output_is_left_out() -> None:
    text = "".join(f"{i}\n" for i in range(10))
    assert notebook.shorten(text, most=10) == text
    assert notebook.shorten(text, most=4) == "0\n1\n… 6 lines left out …\n8\n9\n"


def test_the_magics_are_registered_under_their_names() -> None:
    shell = InteractiveShell()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", io.StringIO())
        notebook.load(shell)
    assert isinstance(shell.find_cell_magic("cuda").__self__, CudaMagics)
