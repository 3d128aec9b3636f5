"""A fault is laid to the access that is wrong, and a named barrier to the warps that open it.

Accesses that share a base register are checked at once, and warps that stand at one place arrive
at once; neither may show.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from phasebit.emulator import Run
from phasebit.emulator.errors import Fault
from phasebit.launching.launch import compile

pytestmark = pytest.mark.nvcc

FAULTS = {
    "shared": (
        """__global__ void f(int* p) {
            extern __shared__ int s[];
            s[threadIdx.x] = 1;
            s[threadIdx.x + 32] = 2;
            s[threadIdx.x + 64] = 3;  // <-
            p[threadIdx.x] = s[31 - threadIdx.x];
        }""",
        r"shared access by thread 0 of block 0: address 256 ",
    ),
    "global": (
        """__global__ void f(int* p) {
            p[threadIdx.x] = 1;
            p[threadIdx.x + 32] = 2;
            p[threadIdx.x + 33] = 3;  // <-
        }""",
        r"global access by thread 31 of block 0: address \w+ is 0 bytes after the end",
    ),
    "misaligned": (
        """__global__ void f(char* p) {
            *(int*)(p + 8 * threadIdx.x) = 1;
            *(int2*)(p + 8 * threadIdx.x + 4) = make_int2(2, 3);  // <-
        }""",
        r"global access by thread 0 of block 0: address \w+ is misaligned: not a multiple of 8",
    ),
    "local": (
        """__global__ void f(int* p) {
            int stack[8];
            for (int i = 0; i < 8; ++i) stack[i] = p[i];
            int* end = stack + p[8];
            end[0] = 1;
            end[1] = 2;
            end[2] = 3;  // <-
            p[0] = stack[p[9]];
        }""",
        r"local access by thread 0 of block 0: address 32 of a stack of 32 bytes",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_laid_to_its_line(name: str) -> None:
    text, what = FAULTS[name]
    line = next(i for i, each in enumerate(text.splitlines(), 1) if "<-" in each)
    data = np.zeros(64, np.int32)
    data[8] = 6
    with pytest.raises(Fault, match=what) as caught:
        compile(text)["f"].launch(1, 32, [data], shared=256)
    assert re.search(rf"\(source\.cu:{line}\)$", str(caught.value))


def groups(count: str) -> Run:
    """Two groups of two warps: in each, both warps write, wait at barrier 1 and read the other."""
    text = f"""__global__ void f(int* out) {{
        __shared__ int s[128];
        s[threadIdx.x] = threadIdx.x;
        asm volatile("bar.sync 1, %0;" :: "r"({count}) : "memory");
        out[threadIdx.x] = s[threadIdx.x ^ {64 if count == "64" else 32}];
    }}"""
    return compile(text)["f"].launch(1, 128, [np.zeros(128, np.int32)])


def test_the_first_warps_open_a_named_barrier() -> None:
    """64 of 128 threads open it, whichever come first; the others wait for each other.

    That runs, but nothing says which: so the checker finds that a warp may be counted with
    others than it means to, and the race that follows from it.
    """
    assert {finding.kind for finding in groups("64").findings} == {"barrier", "race"}
    assert not groups("128").findings
