"""Programs of CUDA 12 find the same stand-in under the name and the versions that they ask for."""

from __future__ import annotations

import ctypes
import re
import subprocess

import pytest

from phasebit import toolchain
from phasebit.runtime import elf, library
from phasebit.runtime.command import nvcc_command

from .conftest import PROGRAMS


@pytest.fixture(scope="module")
def built():
    try:
        return library.build()
    except library.BuildError as error:
        pytest.skip(str(error))


def test_calls_that_changed_mean_what_they_meant(built, tmp_path, run):
    program = tmp_path / "old_calls"
    folder = library.for_linking(12)
    words = [*library.compiler(), PROGRAMS / "old_calls.c", "-o", program, f"-L{folder}"]
    subprocess.run([*words, "-lcudart"], check=True)
    assert library.SONAME_12 in elf.needed(program.read_bytes())
    ran = run(program)
    assert ran.status == 0
    assert ran.output.splitlines() == [
        "managed memory: 0",
        "attributes: 0",
        "type 3, what lies behind them is kept: 1",
        "advice: 0, prefetch: 0",
        "version of CUDA 12: 1",
        "properties: 0, what lies behind them is kept: 1",
        "capture: 0, begun: 1, has a number: 1",
        "the same by three arguments: 0, begun: 1",
        "an edge: 0",
        "the properties of CUDA 11: 801",
    ]
    assert "cudaGetDeviceProperties of CUDA 11, which the stand-in" in ran.said
    listed = subprocess.run(["nm", "-Du", program], capture_output=True, text=True, check=True)
    made = set(re.findall(r"\b(\w*cuda\w+)@libcudart.so.12", listed.stdout))
    means = library.of_cuda_12()
    assert library.only_12() <= {means[name] for name in made}


def test_both_names_are_one_library(built):
    """A program of CUDA 12 that loads a library of CUDA 13 has one device."""
    libc = ctypes.CDLL(None)
    libc.dlvsym.restype = ctypes.c_void_p
    libc.dlvsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
    older, newer = (
        [
            libc.dlvsym(ctypes.CDLL(str(built / name))._handle, call, name.encode())
            for call in (b"cudaMalloc", b"cudaMemAdvise")
        ]
        for name in (library.SONAME_12, library.SONAME)
    )
    assert older[0] == newer[0] is not None
    assert older[1] and newer[1] and older[1] != newer[1]


@pytest.mark.nvcc
def test_a_kernel_of_a_program_of_cuda_12(built, tmp_path, run):
    """What nvcc writes around kernels is the same for both; the library's name is not."""
    program = tmp_path / "kernels"
    try:
        command = nvcc_command([f"-L{library.for_linking(12)}", str(PROGRAMS / "basics.cu")])
    except toolchain.ToolMissing as error:
        pytest.skip(str(error))
    command = [word for word in command if word != f"-L{built}"]
    subprocess.run([*command, "-o", program], check=True)
    assert library.SONAME_12 in elf.needed(program.read_bytes())
    ran = run(program)
    assert ran.status == 0, ran.said
    assert ran.output == (PROGRAMS / "basics.out").read_text("utf-8")
