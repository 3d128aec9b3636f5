"""Machine code of a source: the bytes, what ptxas said, and the listing."""

from __future__ import annotations

import shutil

import pytest

from phasebit import toolchain
from phasebit.instruments import disassembly

SOURCE = "__global__ void twice(float* x) {\n    x[threadIdx.x] *= 2;\n}\n"


@pytest.mark.nvcc
def test_a_kernel_is_compiled_and_told() -> None:
    code, said = disassembly.cubin(SOURCE, "sm_90a", ["-Xptxas", "-v"])
    assert code.startswith(b"\x7fELF") and "registers" in said


@pytest.mark.nvcc
def test_a_mistake_names_its_line() -> None:
    with pytest.raises(toolchain.CompileError, match=r"line 2 of kernel\.cu"):
        disassembly.cubin("void f() {\n    nonsense;\n}\n", "sm_90a")


@pytest.mark.nvcc
@pytest.mark.skipif(shutil.which("nvdisasm") is None, reason="no nvdisasm on PATH")
def test_the_listing_has_the_instructions() -> None:
    code, _ = disassembly.cubin(SOURCE, "sm_90a")
    assert "STG" in disassembly.listing(code) and "twice" in disassembly.listing(code)
    with pytest.raises(toolchain.CudaError, match="nvdisasm failed"):
        disassembly.listing(b"no machine code")
