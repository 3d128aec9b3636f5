"""A CMake project of somebody else's: configured, built and tested with the command as compiler."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.book.notebooks import ROOT, code, prose, source

pytestmark = [
    pytest.mark.nvcc,
    pytest.mark.skipif(
        not shutil.which("cmake") or not shutil.which("make"),
        reason="no cmake and make on PATH: pip install cmake; apt-get install make",
    ),
]

NOTEBOOK = ROOT / "book/appendix/your_own_kernels.ipynb"
PAGE = prose(NOTEBOOK)
LISTS = """\
add_library(twice STATIC twice.cu)
add_executable(own own.cu)
target_link_libraries(own PRIVATE twice)
set_target_properties(own twice PROPERTIES CUDA_SEPARABLE_COMPILATION ON CUDA_ARCHITECTURES "80;90")
add_test(NAME right COMMAND phasebit run $<TARGET_FILE:own>)
"""

OWN = """\
#include <cstdio>
__device__ int twice(int x);
__global__ void fill(int* x) { x[threadIdx.x] = twice(threadIdx.x); }
int main()
{
    int* x;
    cudaMallocManaged(&x, 64 * sizeof(int));
    fill<<<1, 64>>>(x);
    if (cudaDeviceSynchronize() != cudaSuccess) return 1;
    std::printf("x[21] is %d\\n", x[21]);
}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The page's project with a library more, and the two commands as a package installs them."""
    (shown,) = re.findall(r"```cmake\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "CMakeLists.txt").write_text(shown + LISTS)
    cell = next(text for text in map(source, code(NOTEBOOK)) if '"reverse.cu", """' in text)
    (tmp_path / "reverse.cu").write_text(cell.split('"""')[1].lstrip("\n"))
    (tmp_path / "own.cu").write_text(OWN)
    (tmp_path / "twice.cu").write_text("__device__ int twice(int x) { return 2 * x; }\n")
    (tmp_path / "bin").mkdir()
    for name, words in (("phasebit", ""), ("phasebit-nvcc", "nvcc")):
        command = tmp_path / "bin" / name
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m phasebit {words} "$@"\n')
        command.chmod(0o755)
    return tmp_path


def test_a_project_with_cuda_is_configured_built_and_tested(project: Path) -> None:
    paths = os.pathsep.join([str(project / "bin"), os.environ["PATH"]])

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, cwd=project, env={**os.environ, "PATH": paths}, timeout=300,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    done = run(
        "cmake", "-B", "build", "-DCMAKE_CUDA_COMPILER=phasebit-nvcc", "-G", "Unix Makefiles"
    )
    assert done.returncode == 0, done.stdout
    done = run("cmake", "--build", "build")
    assert done.returncode == 0, done.stdout
    done = run("ctest", "--test-dir", "build", "-V", "-R", "right")
    assert done.returncode == 0 and "x[21] is 42" in done.stdout, done.stdout
    assert "phasebit:" not in done.stdout
    done = run("ctest", "--test-dir", "build", "-V", "-R", "reverse")
    assert "race: thread" in done.stdout and "(reverse.cu:7)" in done.stdout, done.stdout
    assert done.returncode != 0 and "0% tests passed" in done.stdout
