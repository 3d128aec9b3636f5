"""The library that CuTe DSL's host code is linked with, built on first use: `cute_runtime.c`."""

from __future__ import annotations

import ctypes
import hashlib
import re
from functools import cache
from pathlib import Path

from phasebit import build_cache
from phasebit.runtime import driver_library, library

SOURCE = Path(__file__).parent / "cute_runtime.c"
NAME = "libphasebit_cute.so"

FORWARDED = """
cuDeviceGet cuKernelGetAttribute cuLibraryGetGlobal cuLibraryGetKernel cuLibraryGetKernelCount
cuLibraryGetManaged cuLibraryGetModule cuLibraryGetUnifiedFunction cuLibraryLoadData
cuLibraryLoadFromFile cuLibraryUnload cuTensorMapEncodeTiled cudaDeviceGetAttribute
cudaDeviceSynchronize cudaEventCreate cudaEventDestroy cudaEventElapsedTime cudaEventRecord
cudaFree cudaFreeAsync cudaFreeHost cudaFuncSetAttribute cudaGetDevice cudaGetDeviceCount
cudaGetDeviceProperties cudaGraphDestroy cudaGraphExecDestroy cudaGraphInstantiate cudaGraphLaunch
cudaKernelSetAttributeForDevice cudaLibraryGetGlobal cudaLibraryGetKernel
cudaLibraryGetKernelCount cudaLibraryGetManaged cudaLibraryGetUnifiedFunction cudaLibraryLoadData
cudaLibraryLoadFromFile cudaLibraryUnload cudaMalloc cudaMallocAsync cudaMallocHost
cudaMallocManaged cudaMemcpy cudaMemcpyAsync cudaMemset cudaMemsetAsync
cudaOccupancyMaxActiveBlocksPerMultiprocessor cudaProfilerStart cudaProfilerStop cudaSetDevice
cudaStreamAddCallback cudaStreamBeginCapture cudaStreamCreate cudaStreamDestroy
cudaStreamEndCapture cudaStreamSynchronize
"""
"""Calls of CUDA that the library has with an underscore before their names, as of CuTe DSL 4.8."""


def generated() -> str:
    """Each forwarded call as a jump, in assembly: arguments stay where they are."""
    lines = [
        "#if defined(__x86_64__)", '#define JUMP(name) "jmp " name "@PLT"',
        "#else", '#define JUMP(name) "b " name', "#endif",
    ]  # fmt: skip
    lines += [
        f'__asm__(".globl _{name}\\n.type _{name}, %function\\n_{name}: " JUMP("{name}") "\\n");'
        for name in FORWARDED.split()
    ]
    return "\n".join(lines) + "\n"


@cache
def build() -> Path:
    """The library. Raises `phasebit.runtime.library.BuildError`."""
    runtime = library.build()
    texts = (SOURCE.read_text(), generated(), str(runtime))
    digest = hashlib.sha256(repr(texts).encode()).hexdigest()[:16]

    def compile_into(built: Path) -> None:
        built.mkdir()
        forwards = built.parent / "forwards.c"
        forwards.write_text(generated())
        library.link(
            library.compiler(), f"-I{driver_library.SOURCES}", SOURCE, forwards,
            runtime / library.SONAME, runtime / driver_library.SONAME, f"-Wl,-rpath,{runtime}",
            f"-Wl,-soname,{NAME}", "-o", built / NAME,
        )  # fmt: skip

    return build_cache.keep(f"cute/{digest}", compile_into) / NAME


@cache
def entries() -> dict[str, int]:
    """The address of each call that the library has. Raises as :func:`build` does."""
    opened = ctypes.CDLL(str(build()))
    own = re.findall(r"^API .*?(\w+)\(", SOURCE.read_text(), re.MULTILINE)
    names = [f"_{name}" for name in FORWARDED.split()] + own
    return {name: ctypes.cast(getattr(opened, name), ctypes.c_void_p).value or 0 for name in names}
