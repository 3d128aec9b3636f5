"""CUDA source to PTX: files with headers of their own, and builds that are as new as these."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import phasebit as pb
from phasebit.launching import build


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A kernel that includes a header beside it, which includes one from a folder."""
    (tmp_path / "include" / "deep").mkdir(parents=True)
    (tmp_path / "add.cu").write_text(
        '#include "step.cuh"\n__global__ void add(int* x) { x[threadIdx.x] += step(); }\n'
    )
    (tmp_path / "step.cuh").write_text(
        "#include <deep/one.h>\n__device__ int step() { return ONE; }\n"
    )
    (tmp_path / "include/deep/one.h").write_text('#include "two.h"\n')
    (tmp_path / "include/deep/two.h").write_text("#define ONE 1\n")
    return tmp_path


def added(project: Path, option: str) -> int:
    x = np.zeros(1, np.int32)
    pb.compile(project / "add.cu", options=option.split())["add"].launch(args=[x])
    return int(x[0])


@pytest.mark.nvcc
def test_a_file_finds_its_headers_and_is_built_again_when_one_changes(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)  # where a relative folder counts from
    assert added(project, "-Iinclude") == 1
    (project / "include/deep/two.h").write_text("#define ONE 41\n")
    assert added(project, "-I include") == 41


@pytest.mark.parametrize(
    "option",
    ["-Iinclude", "-I include", "-I=include", "--include-path=include", "--include-path include"],
)
def test_every_header_of_ones_own_counts(
    project: Path, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    folders = [project, *build._include_folders(option.split())]
    found = [name for name, _ in build._own_headers('#include "step.cuh"\n', folders)]
    assert found == ["deep/one.h", "step.cuh", "two.h"]


def test_a_file_that_is_no_text_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "x.cu").write_bytes(b"// caf\xe9\n")
    with pytest.raises(pb.CudaError, match=r"x\.cu is no text of UTF-8: save it as one"):
        pb.compile(tmp_path / "x.cu")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("plain.cu", "plain.cu"), ("größe.cu", "größe.cu"), ("it's 2.cu", "it's 2.cu"),
        ('a "b".cu', "a 'b'.cu"), ("back\\x.cu", "back\\x.cu"), ("two\nlines.cu", "two lines.cu"),
    ],
)  # fmt: skip
def test_whatever_a_file_is_called_its_lines_are_named(
    tmp_path: Path, name: str, shown: str
) -> None:
    """An editor has put a byte order mark first, and the lines end as Windows has them."""
    (tmp_path / "three.h").write_text("#define THREE 3\n")
    text = '#include "three.h"\r\n__global__ void k(int* x) {\r\n  x[5] = THREE;\r\n}\r\n'
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.encode())
    with pytest.raises(pb.EmulatorError, match=re.escape(f"({shown}:3)")):
        pb.compile(tmp_path / name)["k"].launch(1, 1, [np.zeros(1, np.int32)])


@pytest.mark.nvcc
@pytest.mark.parametrize("option", ["--help", "--version"])
def test_options_with_which_nothing_is_compiled(option: str) -> None:
    with pytest.raises(pb.CompileError, match=r"nvcc made no PTX of source\.cu: see its options"):
        pb.compile("__global__ void k() {}\n", options=[option])
