"""Programs of the driver library.  What they print is compared with what they printed on an H200.

Built there with `nvcc -arch=sm_90 NAME.cu -lcuda`.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from phasebit import toolchain
from phasebit.runtime import driver_library, library
from phasebit.runtime.command import nvcc_command
from phasebit.runtime.emulated import EmulatorBackend

HERE = Path(__file__).parent / "driver"
OLDER = {
    "cuCtxCreate_v2", "cuCtxCreate_v3", "cuDeviceGetUuid", "cuDevicePrimaryCtxRelease",
    "cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxSetFlags", "cuEventElapsedTime",
    "cuFuncSetSharedMemConfig", "cuGetProcAddress",
}  # fmt: skip
"""Which cuda.h of CUDA 13 replaces by newer ones, of the same meaning."""

NEWER = {"cuCtxGetDevice_v2"}
"""Which only CUDA 13 has; CuTe DSL calls it. No GPU was asked what it says."""

DEVICE = """#include <cuda.h>
#include <cstdio>

int main() {
    CUcontext context, now;
    CUdevice a = 7, b = 7;
    cuInit(0);
    int nobody = cuCtxGetDevice_v2(&a, nullptr);
    cuCtxCreate(&context, nullptr, 0, 0);
    int named = cuCtxGetDevice_v2(&a, context), current = cuCtxGetDevice_v2(&b, nullptr);
    cuCtxDestroy(context);
    printf("%d %d %d %d %d %d\\n", nobody, named, a, current, b, cuCtxGetDevice_v2(&a, context));
}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("driver")

    def build(name: str) -> Path:
        program = folder / name
        if not program.exists():
            source = str(HERE / f"{name}.cu")
            command = nvcc_command(["-w", "-arch=sm_90", source, "-lcuda"])
            done = subprocess.run([*command, "-o", program], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        return program

    return build


@pytest.mark.nvcc
@pytest.mark.parametrize("name", sorted(path.stem for path in HERE.glob("*.cu")))
def test_prints_what_it_printed_on_an_h200(name, built, run):
    ran = run(built(name), backend=EmulatorBackend())
    assert (ran.status, ran.output) == (0, (HERE / f"{name}.out").read_text())


@pytest.mark.nvcc
def test_a_program_of_the_driver_alone_has_one_device_from_first_to_last(tmp_path, run):
    """Compiled as plain C++: no fat binary says what it was compiled for."""
    folder, program = library.build(), tmp_path / "driver"
    command = [toolchain.nvcc().path, "-w", "-x", "c++", "-cudart", "none", HERE / "driver.cu",
               f"-L{folder}", "-lcuda", "-Xlinker", f"-rpath-link={folder}"]  # fmt: skip
    done = subprocess.run([*command, "-o", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert run(program, backend=EmulatorBackend()).output == (HERE / "driver.out").read_text()


@pytest.mark.nvcc
def test_every_call_that_the_stand_in_has_is_made(built):
    made: set[str] = set()
    for name in ("driver", "values"):
        listed = subprocess.run(["nm", "-Du", built(name)], capture_output=True, text=True)
        made |= set(re.findall(r"\bcu[A-Z]\w+", listed.stdout))
    assert driver_library.defined() - made == OLDER | NEWER


@pytest.mark.nvcc
def test_the_device_of_a_context_that_is_named(tmp_path, run):
    if toolchain.nvcc().major < 13:
        pytest.skip("a call of CUDA 13")
    source, program = tmp_path / "device.cu", tmp_path / "device"
    source.write_text(DEVICE)
    command = nvcc_command(["-w", "-arch=sm_90", str(source), "-lcuda"])
    done = subprocess.run([*command, "-o", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert run(program, backend=EmulatorBackend()).output == "201 0 0 0 0 201\n"


@pytest.mark.nvcc
def test_findings_of_a_driver_program_name_the_kernel_and_the_line(built, run):
    ran = run(built("driver"), backend=EmulatorBackend())
    assert "kernel stray: invalid global access" in ran.said and "PTX line 28" in ran.said


def test_every_name_is_exported_and_is_defined_an_alias_or_lacking():
    try:
        handle = ctypes.CDLL(str(library.build() / driver_library.SONAME))
    except library.BuildError as error:
        pytest.skip(str(error))
    exported = driver_library.exported()
    assert all(hasattr(handle, name) for name in exported)
    sorts = [driver_library.defined(), driver_library.aliases(), driver_library.lacking()]
    assert sorted(name for sort in sorts for name in sort) == sorted(exported)


def test_a_call_that_is_missing_says_its_name(capfd):
    try:
        handle = ctypes.CDLL(str(library.build() / driver_library.SONAME))
    except library.BuildError as error:
        pytest.skip(str(error))
    assert handle.cuTexObjectCreate() == 801
    assert "the program called cuTexObjectCreate" in capfd.readouterr().err
