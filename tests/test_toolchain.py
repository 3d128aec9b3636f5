"""The compiler is found, builds the right target once, and its errors become exceptions."""

from __future__ import annotations

import ctypes
import os
import shutil
from pathlib import Path

import pytest

from phasebit import files, process, toolchain
from phasebit.hardware import Gpu
from phasebit.runtime import library
from phasebit.toolchain import CompileError, CudaError, Nvcc, Resources, ToolMissing

KERNEL = "__global__ void twice(float* x) { x[threadIdx.x] *= 2; }\n"
NEWEST = Nvcc(Path("nvcc"), "13.0.88", ("sm_75", "sm_80", "sm_86", "sm_90", "sm_90a", "sm_100a"))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PHASEBIT_CACHE", str(tmp_path))
    return tmp_path


def gpu(major: int, minor: int) -> Gpu:
    return Gpu("some GPU", (major, minor), "580")


# Targets


def test_the_target_fits_the_gpu() -> None:
    assert NEWEST.target_for(gpu(9, 0)) == "sm_90a"
    assert NEWEST.target_for(gpu(7, 5)) == "sm_75"
    assert NEWEST.target_for(gpu(8, 9)) == "sm_86"  # the newest of its generation
    assert NEWEST.target_for(None) == toolchain.DEFAULT_TARGET == "sm_90a"


def test_a_gpu_that_the_compiler_does_not_know() -> None:
    with pytest.raises(CudaError, match=r"builds nothing that some GPU \(sm_70\) runs"):
        NEWEST.target_for(gpu(7, 0))
    old = Nvcc(Path("nvcc"), "11.2.1", ("sm_75", "sm_80"))
    with pytest.raises(CudaError, match="too old to build sm_90a"):
        old.target_for(None)


@pytest.mark.nvcc
def test_this_compiler() -> None:
    found = toolchain.nvcc()
    assert found.version.count(".") == 2
    assert {"sm_75", "sm_80", "sm_90a", "sm_100a"} <= set(found.targets)
    assert "sm_75a" not in found.targets


@pytest.mark.parametrize("there", ["none", "file"])
def test_a_temporary_folder_that_is_none_is_named(
    there: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nvcc would answer nothing, and be taken for one that cannot be used."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("TMPDIR", str(tmp_path / there))
    with pytest.raises(ToolMissing, match=rf"^TMPDIR=\S+{there} is no folder that can be written"):
        toolchain.nvcc.__wrapped__()


@pytest.mark.nvcc
def test_a_target_that_cannot_be_built() -> None:
    with pytest.raises(CudaError, match=r"cannot build sm_20: it builds .*sm_75"):
        toolchain.build(KERNEL, target="sm_20")


def test_no_compiler_is_a_sentence_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "_places", lambda: iter([Path("no", "nvcc")]))
    with pytest.raises(ToolMissing, match=r"no nvcc on PATH.*pip install"):
        toolchain.nvcc.__wrapped__()


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def nvcc_of(path: Path, version: str) -> Path:
    """A stand-in for an nvcc of this version."""
    said = f"Cuda compilation tools, release x, V{version}"
    return script(
        path, f'#!/bin/sh\n[ "$1" = --version ] && echo "{said}" || echo sm_75 sm_80 sm_90\n'
    )


UNUSABLE = {
    "too old": (lambda path: nvcc_of(path, "11.8.89"), "is 11.8.89, older than 12.0"),
    "no interpreter": (
        lambda path: script(path, "#!/nowhere/sh\n"),
        "cannot be started, No such file",
    ),
    "no program": (lambda path: script(path, "\0\1\2"), "cannot be started, Exec format error"),
    "a folder": (lambda path: path.mkdir(parents=True) or path, "cannot be started, Permission"),
    "silent": (lambda path: script(path, "#!/bin/sh\nexit 1\n"), "does not say its version"),
}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_a_compiler_that_cannot_be_used_is_passed_over(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Alone it is a sentence with the remedy; the remedy is then what is used."""
    make, why = UNUSABLE[kind]
    unusable = make(tmp_path / "bin" / "nvcc")
    monkeypatch.setattr(toolchain, "_places", lambda: iter([unusable]))
    with pytest.raises(ToolMissing, match=f"{unusable} {why}.*: install one with: pip install"):
        toolchain.nvcc.__wrapped__()
    good = nvcc_of(tmp_path / "pip" / "nvcc", "13.4.92")
    monkeypatch.setattr(toolchain, "_places", lambda: iter([unusable, good]))
    found = toolchain.nvcc.__wrapped__()
    assert (found.path, found.version) == (good, "13.4.92")
    assert len(found.passed_over) == 1 and why in found.passed_over[0]


def test_a_host_compiler_that_cannot_be_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = script(tmp_path / "g++", "#!/nowhere/sh\n")
    monkeypatch.setenv("CXX", str(broken))
    with pytest.raises(ToolMissing, match=r"g\+\+ cannot be started.*: install g\+\+ or set CXX"):
        toolchain.host_compiler.__wrapped__()


def test_a_host_compiler_that_is_named_and_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "nowhere++")
    with pytest.raises(ToolMissing, match=r"^CXX=nowhere\+\+ is no program on PATH: set it to"):
        toolchain.host_compiler.__wrapped__()


def test_compilers_are_found_from_the_folders_that_they_work_in(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where they are named from the current folder, as with PATH=bin."""
    monkeypatch.chdir(tmp_path)
    made = nvcc_of(tmp_path / "bin" / "nvcc", "13.4.92")
    script(tmp_path / "bin" / "g++", "#!/bin/sh\necho g++ 12.2.0 > library.so; cat library.so\n")
    monkeypatch.setenv("PATH", "bin", prepend=os.pathsep)
    assert toolchain.nvcc.__wrapped__().path == made
    chosen = toolchain.host_compiler.__wrapped__("g++")
    monkeypatch.setattr(toolchain, "host_compiler", lambda _: chosen)
    assert toolchain.build_library("one").library.read_text() == "g++ 12.2.0\n"


def test_a_compiler_that_is_gone_since_it_was_found(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gone = toolchain.HostCompiler(tmp_path / "g++", "g++ 12.2.0")
    monkeypatch.setattr(toolchain, "host_compiler", lambda _: gone)
    with pytest.raises(ToolMissing, match=r"g\+\+ cannot be started any more, No such file or"):
        toolchain.build_library("another")


@pytest.mark.nvcc
def test_no_host_compiler(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toolchain.nvcc()
    monkeypatch.setattr(toolchain.shutil, "which", lambda name: None)
    with pytest.raises(ToolMissing, match="install g"):
        toolchain.build("int main() {}")


# The cache


@pytest.mark.nvcc
def test_the_same_is_built_once_and_anything_else_again(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kernels = tmp_path_factory.mktemp("kernels")
    (kernels / "include").mkdir()
    header = kernels / "include" / "answer.cuh"
    (kernels / "include" / "outer.cuh").write_text('#include "answer.cuh"\n')
    header.write_text("#define ANSWER 1\n")
    monkeypatch.setattr(files, "kernels", lambda: kernels)
    source = '#include "outer.cuh"\nint main() { return ANSWER; }\n'

    def status() -> tuple[int, bool]:
        build = toolchain.build(source)
        return process.run([build.program], timeout=10).status, build.cached

    assert [status(), status()] == [(1, False), (1, True)]
    header.write_text("#define ANSWER 2\n")  # included by a header that is included
    assert [status(), status()] == [(2, False), (2, True)]
    assert not toolchain.build(source, options=["-DX"]).cached
    assert not toolchain.build(source, target="sm_75").cached
    assert not toolchain.build(source + "//").cached
    assert not list(cache.glob(".new-*"))


@pytest.mark.nvcc
def test_a_program_is_kept_wherever_the_runtime_lies(cache: Path, tmp_path: Path) -> None:
    """A stand-in that changed is another folder; programs find it when they start."""
    folder = library.for_linking(toolchain.nvcc().major)
    other = shutil.copytree(folder, tmp_path / "other", symlinks=True)
    source = "__global__ void k() {}\nint main() { k<<<1, 1>>>(); }\n"
    first = toolchain.build(source, runtime=folder)
    again = toolchain.build(source, runtime=other)
    assert again.cached and again.program == first.program
    assert not toolchain.build(source).cached


@pytest.mark.nvcc
def test_a_library_is_loaded_and_called(cache: Path) -> None:
    """Every symbol of it is found: nothing is linked into it that only a whole program has."""
    build = toolchain.build('extern "C" int seven() { return 7; }', library=True)
    assert ctypes.CDLL(str(build.program)).seven() == 7


@pytest.mark.nvcc
def test_what_failed_is_not_cached(cache: Path) -> None:
    for _ in range(2):
        with pytest.raises(CompileError):
            toolchain.build("int main() { return x; }")
    assert list(cache.iterdir()) == []


@pytest.mark.nvcc
def test_the_compiler_has_a_time_limit(cache: Path) -> None:
    with pytest.raises(CompileError, match=r"stopped after 0.05 s without finishing slow\.cu"):
        toolchain.build("int main() {}", name="slow.cu", timeout=0.05)


# Errors


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ("int main() {\n    return y\n}", 3, "line 3 of cell"),
        (KERNEL + "\nint main() { undefined(); }", 4, 'identifier "undefined" is undefined'),
        ('#include "nothing.h"\nint main() {}', 2, "nothing.h"),
        ("\ntemplate <class T> void f() { static_assert(sizeof(T) == 3); }\n"
         "int main() { f<int>(); }", 3, "static assertion failed"),
        ("int f();\nint main() { return f(); }", None, "undefined reference to `f()'"),
        ('__global__ void k() { asm("nonsense;"); }\nint main() { k<<<1, 1>>>(); }', None, "cell"),
        ("__global__ void k(int i) { __shared__ int a[99999]; a[i] = i; __syncthreads();\n"
         "  asm volatile(\"\" :: \"r\"(a[i + 1])); }\nint main() { k<<<1, 1>>>(0); }",
         None, "too much shared data"),
    ],
)  # fmt: skip
def test_an_error_says_file_line_and_cause(source: str, line: int | None, words: str) -> None:
    with pytest.raises(CompileError) as caught:
        toolchain.build(source, name="cell", first_line=2)
    assert words in str(caught.value)
    assert caught.value.line == line and caught.value.file == ("cell" if line else None)
    assert caught.value._render_traceback_() == [f"CompileError: {caught.value}"]


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", ["tiled", "barrier_double_buffer"])
def test_a_syntax_error_planted_in_a_kernel(kernel: str) -> None:
    lines = files.kernel(f"double_buffering/{kernel}").splitlines()
    planted = next(i for i, line in enumerate(lines) if "__syncthreads();" in line)
    lines[planted] = lines[planted].replace("();", "(;")
    with pytest.raises(CompileError) as caught:
        toolchain.build("\n".join(lines), name=f"{kernel}.cu")
    assert (caught.value.file, caught.value.line) == (f"{kernel}.cu", planted + 1)


def test_output_that_nobody_foresaw_is_shown() -> None:
    error = toolchain.explain("something\nnobody\nforesaw", "cell")
    assert str(error) == "nvcc failed on cell:\nsomething\nnobody\nforesaw" and error.line is None


# ptxas


def test_reading_the_report_of_ptxas() -> None:
    log = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN2ab5twiceEPf' for 'sm_90a'
ptxas info    : Function properties for _ZN2ab5twiceEPf
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 8192 bytes smem
ptxas info    : Compiling entry function 'plain' for 'sm_90a'
ptxas info    : Used 6 registers, 360 bytes cmem[0]
ptxas info    : Compiling entry function '_ZN7harness5flushEv' for 'sm_90a'
ptxas info    : Used 10 registers
"""
    first, second = toolchain.parse_resources(log)
    assert first == Resources("ab::twice", 255, 8192, 16, 8, 12) and first.spills
    assert second == Resources("plain", 6, 0, 0, 0, 0) and not second.spills


@pytest.mark.nvcc
def test_a_kernel_that_spills_says_so() -> None:
    body = "".join(f"float v{i} = x[{i} * n];\n" for i in range(80))
    body += "__syncthreads();\n" + "".join(f"x[{i} + n] = v{i} * v{79 - i};\n" for i in range(80))
    source = f"__global__ void many(float* x, int n) {{ {body} }}\nint main() {{}}"
    build = toolchain.build(source, options=["-maxrregcount=24"])
    assert build.resources[0].kernel == "many" and build.resources[0].spills


@pytest.mark.nvcc
def test_warnings_are_kept_apart_from_the_report() -> None:
    build = toolchain.build(KERNEL + "int main() { int unused; }", name="cell")
    assert "cell(2): warning" in build.warnings and "ptxas" not in build.warnings
