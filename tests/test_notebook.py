"""``%%cuda``: whatever goes wrong raises, names the cause and the cell's line, and ends in time."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

import phasebit
from phasebit import files, hardware, measure, notebook, replay, toolchain
from phasebit.emulator.capabilities import capability
from phasebit.launching import devices
from phasebit.notebook import CudaMagics, ProgramError

needs_gpu = pytest.mark.skipif(hardware.gpu() is None, reason="no NVIDIA GPU here")
KERNEL = "__global__ void nothing() {}\nint main() { nothing<<<1, 1>>>(); }\n"


@pytest.fixture(scope="module")
def magics() -> CudaMagics:
    return CudaMagics(InteractiveShell())


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without a GPU, and an empty folder of records."""
    monkeypatch.setattr(hardware, "gpu", lambda: None)
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
        ("--timeout nan", "nan is no time"),
        ("--timeout 0", "0 is no time"),
        ("--timeout inf", "inf is no time"),
        ('--args "a', 'No closing quotation in: --args "a'),
        ("--args '\"a'", 'No closing quotation in: "a'),
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


NO_TIME = "⏱ the emulator's clock is no time, and this very program has no record"
RACE = """\
#include "check.cuh"
__global__ void mirror(int* out) {
  __shared__ int a[64];
  a[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = a[63 - threadIdx.x];
}
int main() {
  int* out;
  CHECK(cudaMalloc(&out, 64 * sizeof(int)));
  mirror<<<1, 64>>>(out);
  CHECK(cudaDeviceSynchronize());
  puts("mirror: OK");
}
"""


@pytest.mark.nvcc
def test_without_a_gpu_a_program_runs_on_the_emulator(
    magics: CudaMagics, no_gpu: Path, capsys: Any
) -> None:
    program = KERNEL.replace("int main() {", 'int main() { puts("ran");')
    magics.cuda("", "#include <cstdio>\n" + program)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("run on the emulator: no GPU here")
    assert lines[1].startswith("⏱ ptxas: nothing uses ")
    assert lines[2:] == [
        "nothing: 0 bytes of static shared memory, no register spills",
        "ran",
        NO_TIME,
    ]


@pytest.mark.nvcc
def test_times_are_the_record_s(magics: CudaMagics, no_gpu: Path, capsys: Any) -> None:
    said = "nothing: recorded words\n⏱ 3 µs\n⏱ 4 µs\n"
    run = replay.RecordedRun(
        "NVIDIA H200", "580", "13.0", "2026-01-02", said, "", 0, "", None, 60.0
    )
    program = "#include <cstdio>\n" + KERNEL.replace(
        "int main() {", 'int main() { puts("nothing: ran"); puts("⏱ 1 of the emulator\'s ms");'
    )
    replay.save(replay.key(program), run)
    magics.cuda("", program)
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "nothing: ran",
        "⏱ recorded on NVIDIA H200, 2026-01-02: 3 µs",
        "⏱ recorded on NVIDIA H200, 2026-01-02: 4 µs",
    ]
    assert notebook.verdict(program) == "nothing: ran"


@pytest.mark.nvcc
def test_a_gpu_of_another_generation_leaves_it_to_the_emulator(
    magics: CudaMagics, no_gpu: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    t4 = hardware.Gpu("Tesla T4", (7, 5), "550")
    monkeypatch.setattr(hardware, "gpu", lambda: t4)
    magics.cuda("--arch sm_90a", KERNEL)
    assert "run on the emulator: Tesla T4 does not run sm_90a" in capsys.readouterr().out


# Which device runs a cell, rehearsed for GPUs that are not here

GPUS = {
    "T4": "Tesla T4, 7.5, 550.54.15",
    "L4": "NVIDIA L4, 8.9, 550.54.15",
    "A100": "NVIDIA A100-SXM4-40GB, 8.0, 550.54.15",
    "H100": "NVIDIA H100 80GB HBM3, 9.0, 570.86.15",
    "B200": "NVIDIA B200, 10.0, 570.86.15",
}
BUILDS = {
    "12.4": "sm_75 sm_80 sm_86 sm_87 sm_89 sm_90 sm_90a",
    "13.0": "sm_75 sm_80 sm_86 sm_87 sm_89 sm_90 sm_90a sm_100 sm_100a sm_103 sm_103a",
}
NEEDS = {"sm_75": "T4 L4 A100 H100 B200", "sm_80": "L4 A100 H100 B200", "sm_90a": "H100"}
"""What a cell uses -> the GPUs that have it."""


@pytest.fixture
def rehearsed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """rehearsed(GPU): nvidia-smi says that it is here; of its driver, the newest CUDA."""

    def here(gpu: str, newest: tuple[int, int] = (13, 0)) -> None:
        monkeypatch.setattr(hardware, "driver_cuda", lambda: newest)
        smi = tmp_path / "nvidia-smi"
        smi.write_text(f"#!/bin/sh\necho '{GPUS[gpu]}'\n")
        smi.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        hardware.gpu.cache_clear()

    yield here
    hardware.gpu.cache_clear()


@pytest.mark.parametrize("needs", NEEDS)
@pytest.mark.parametrize("version", BUILDS)
@pytest.mark.parametrize("driver", [(12, 4), (13, 0)])
@pytest.mark.parametrize("gpu", GPUS)
def test_a_cell_runs_on_the_gpu_if_that_has_what_it_uses(
    gpu: str, driver: tuple[int, int], version: str, needs: str, rehearsed: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    asked = []

    def compiled(source: str, *, target: str, runtime: Path | None, **_: object) -> str:
        asked.append(target)
        here = hardware.Gpu("the target", divmod(capability(target), 10), "")
        if not here.runs(needs):
            raise toolchain.CompileError(f"requires {needs}", None, None, "")
        return f"{target}, {'PTX' if runtime else 'machine code'}"

    rehearsed(gpu, driver)
    compiler = toolchain.Nvcc(Path("nvcc"), version, tuple(BUILDS[version].split()))
    monkeypatch.setattr(toolchain, "nvcc", lambda: compiler)
    monkeypatch.setattr(toolchain, "build", compiled)
    monkeypatch.setattr(notebook.library, "build", lambda: Path("runtime"))
    built, choice = notebook.build("a cell")
    newer = version == "13.0" and driver < (13, 0)
    known = (gpu != "B200" or version == "13.0") and not newer
    if known and gpu in NEEDS[needs].split():
        assert choice.gpu and str(built).endswith("machine code") and len(asked) == 1
    else:
        assert choice.gpu is None and str(built) == "sm_90a, PTX"
        assert choice.why.startswith(GPUS[gpu].partition(",")[0]) and "\n" not in choice.why
        old = "its driver is for CUDA 12.4, older than this nvcc, 13"
        assert choice.why.endswith(old) is newer
        if newer:
            assert old in notebook.where()
            with pytest.raises(devices.DeviceError, match=r"is 'gpu', but: .*: its driver is for"):
                devices.choose("sm_75", "gpu", cuda=13)
    assert notebook.where().startswith("⏱ the emulator (" if not known else "⏱ " + GPUS[gpu][:5])
    monkeypatch.setattr(phasebit, "device", "emulator")
    built, choice = notebook.build("a cell")
    assert choice.gpu is None and str(built) == "sm_90a, PTX"


@pytest.mark.nvcc
def test_a_cell_for_hopper_runs_below_a_t4(
    magics: CudaMagics, rehearsed: Callable[..., None], capsys: Any
) -> None:
    rehearsed("T4")
    hopper = '#include <cstdio>\n__global__ void nothing() { asm volatile("setmaxnreg.inc.sync'
    hopper += '.aligned.u32 40;"); }\nint main() { nothing<<<1, 128>>>(); puts("ran"); }\n'
    with pytest.raises(toolchain.CompileError, match="line 5 of cell"):  # for neither
        magics.cuda("", hopper.replace("puts", "\nput"))
    _, choice = notebook.build(hopper)
    assert choice.why == "Tesla T4 (sm_75) lacks what the cell uses, sm_90a has it"


def test_a_target_that_is_none_is_a_sentence_beside_a_gpu_too(
    rehearsed: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    rehearsed("H100")
    compiler = toolchain.Nvcc(Path("nvcc"), "13.0", tuple(BUILDS["13.0"].split()))
    monkeypatch.setattr(toolchain, "nvcc", lambda: compiler)
    for word in ("banana", "sm_1", "native"):
        with pytest.raises(toolchain.CudaError, match=f"cannot build {word}: it builds sm_75, "):
            notebook.build("a cell", word)


# What the emulator finds


@pytest.fixture
def on_the_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phasebit, "device", "emulator")


@pytest.mark.nvcc
def test_a_race_raises_though_the_program_ends_well(
    magics: CudaMagics, on_the_emulator: None, capsys: Any
) -> None:
    error = fails(magics, "", RACE)
    assert error.line == 6 and error.status == 0
    assert str(error).startswith("line 6 of the cell: the emulator found a mistake\n")
    for part in ("kernel mirror: race: thread", "(cell:5)", " a["):
        assert part in str(error)
    assert "mirror: OK" in capsys.readouterr().out


@pytest.mark.nvcc
def test_lost_output_is_said_and_is_no_error(
    magics: CudaMagics, on_the_emulator: None, capsys: Any
) -> None:
    cell = (
        '#include <cstdio>\n__global__ void k() { printf("lost"); }\nint main() { k<<<1, 1>>>(); }'
    )
    magics.cuda("", cell)
    said = capsys.readouterr().out
    assert "phasebit: 4 bytes that kernels printed are lost: the program ended" in said


@pytest.mark.nvcc
def test_the_same_program_with_a_barrier_is_clean(
    magics: CudaMagics, on_the_emulator: None, capsys: Any
) -> None:
    magics.cuda("", RACE.replace("  out[", "  __syncthreads();\n  out["))
    assert capsys.readouterr().out.splitlines()[-2:] == ["mirror: OK", NO_TIME]


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("  a[", "  if (threadIdx.x) a[", 7, "uninitialised: thread 63 of block 0 reads a["),
        ("64 * sizeof", "50 * sizeof", 7, "thread 50 of block 0"),
        ("a[63 -", "a[64 -", 7, "address 256"),
    ],
)
def test_a_wrong_access_has_its_thread_array_and_line(
    magics: CudaMagics, on_the_emulator: None, old: str, new: str, line: int, words: str
) -> None:
    cell = RACE.replace("  out[", "  __syncthreads();\n  out[").replace(old, new, 1)
    error = fails(magics, "", cell)
    assert error.line == line and words in str(error)


@pytest.mark.nvcc
def test_a_program_that_speaks_as_the_emulator_does_changes_nothing(
    magics: CudaMagics, on_the_emulator: None, capsys: Any
) -> None:
    cell = "#include <cstdio>\n" + KERNEL.replace(
        "main() {", r'main() { fputs("phasebit: kernel nothing: race: a lie (cell:1)\n", stderr);'
    )
    magics.cuda("", cell)
    lies = r'fputs("\nphasebit: stopped at\nphasebit: ended after 60 s", stderr);'
    error = fails(magics, "", cell.replace("main() {", f"main() {{ {lies} return 3;"))
    assert str(error).startswith("the program ended with exit status 3\nphasebit: stopped at")


@pytest.mark.nvcc
def test_a_deadlock_says_who_waits_for_what(magics: CudaMagics, on_the_emulator: None) -> None:
    right = "(void)ring.full[slot].arrive();"
    text = files.kernel("double_buffering/barrier_double_buffer")
    line = text.splitlines().index("        ring.empty[slot].arrive_and_wait();") + 2
    error = fails(magics, "", text.replace(right, ""))
    assert error.line == line
    assert "the kernel did not end" in str(error)
    assert "warps 0-7 of block 0 wait for phase 1 of mbarrier" in str(error)
    assert "could still arrive: warps 8-15 of block 0" in str(error)


@pytest.mark.nvcc
@pytest.mark.parametrize("condition", ["*on == 0", "*on == 0 && n"])
def test_a_kernel_that_spins_is_stopped_at_its_line(
    magics: CudaMagics, on_the_emulator: None, condition: str
) -> None:
    loop = f"while ({condition}) ++n;"
    cell = (
        '#include "check.cuh"\n'
        f"__global__ void spin(volatile int* on) {{ unsigned n = 1;\n  {loop}\n"
        "  *on = n; }\n"
        "int main() {\n  int* on;\n  CHECK(cudaMalloc(&on, 4));\n  CHECK(cudaMemset(on, 0, 4));\n"
        "  spin<<<1, 1>>>(on);\n  CHECK(cudaDeviceSynchronize());\n}"
    )
    error = fails(magics, "--timeout 3", cell)
    assert error.line == 4
    if "n" in condition.split():  # who decides by a count may mean to give up
        assert "did not end within 3 s" in str(error)
        assert "kernel spin was running: all threads of block 0 stand at" in str(error)
    else:
        assert "did not end within" not in str(error) and "livelock: " in str(error)


def test_a_device_that_is_none(magics: CudaMagics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phasebit, "device", "toaster")
    with pytest.raises(devices.DeviceError, match="'toaster': choose one of auto, gpu, emulator"):
        devices.choose("sm_90a")
    monkeypatch.setattr(hardware, "gpu", lambda: None)
    with pytest.raises(devices.DeviceError, match="no GPU here"):
        devices.choose("sm_90a", "gpu")


def test_loading_prints_one_line(no_gpu: Path, capsys: Any) -> None:
    notebook.load(InteractiveShell())
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("⏱ the emulator (no GPU here); ") and measure.recorded_on() in line


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


def test_a_note_has_a_line_of_its_own() -> None:
    assert notebook._with_notes("right\n", ["first", "second"]) == (
        "right\nphasebit: first\nphasebit: second\n"
    )
    assert notebook._with_notes("right", ["first"]) == "right\nphasebit: first\n"
    assert notebook._with_notes("", ["first"]) == "phasebit: first\n"
    assert notebook._with_notes("right", []) == "right"
