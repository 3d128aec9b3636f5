"""What a program's memory is when it is freed, asked for by kernels, or used by many launches."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from phasebit.launching.launch import compile
from tests.runtime.test_emulated import phasebit

pytestmark = pytest.mark.nvcc

SOURCE = r"""
#include <cstdio>
#include <cstdlib>
#include <cstring>
__global__ void write(int *p) { p[3] = 1; }
__global__ void take(size_t bytes) {
    int count = 0;
    while (malloc(bytes)) count++;
    printf("%d\n", count);
}
static void give_back(int *p) {
    cudaFree(p);
}
int main(int argc, char **argv) {
    const char *what = argv[1];
    int *p, *q, number;
    cudaMalloc(&p, 4096);
    cudaMalloc(&q, 4096);
    if (strstr(what, "launched")) write<<<1, 1>>>(p);
    if (strstr(what, "written")) give_back(p), write<<<1, 1>>>(p);
    if (strstr(what, "stream")) cudaFreeAsync(p, 0), write<<<1, 1>>>(p);
    if (strstr(what, "copied")) give_back(p), cudaMemcpy(&number, p + 5, 4, cudaMemcpyDefault);
    if (strstr(what, "heap")) take<<<1, 1>>>(1 << 20);
    if (strstr(what, "larger")) {
        cudaDeviceSetLimit(cudaLimitMallocHeapSize, 20 << 20);
        take<<<1, 1>>>(1 << 20);
    }
    cudaDeviceSynchronize();
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("memory")
    (folder / "memory.cu").write_text(SOURCE)
    done = phasebit("nvcc", folder / "memory.cu", "-o", folder / "memory")
    assert done.returncode == 0, done.stderr
    return folder / "memory"


@pytest.mark.parametrize("before", ["", ", launched"], ids=["first", "launched"])
@pytest.mark.parametrize(("what", "by"), [("written", "    cudaFree"), ("stream", "cudaFreeAsync"),
                                          ("copied", "    cudaFree")])  # fmt: skip
def test_freed_memory_is_told_with_the_line(what: str, by: str, before: str, program: Path) -> None:
    said = phasebit("run", program, what + before).stderr
    line = SOURCE[: SOURCE.index(by)].count("\n") + 1
    into = 20 if what == "copied" else 12
    assert f"{into} bytes into cudaMalloc #1 (4096 bytes), which was freed by the host at " \
           f"memory.cu:{line}" in said  # fmt: skip


def test_what_kernels_ask_for_has_an_end(program: Path) -> None:
    assert phasebit("run", program, "heap").stdout == "8\n"
    assert phasebit("run", program, "heap larger").stdout == "8\n12\n", "8 of 20 are taken"
    assert phasebit("run", "--memory", "16", program, "larger").stdout in ("14\n", "15\n")


def test_launches_leave_nothing_large_behind() -> None:
    """Without waiting for Python to look for circles of references."""
    source = 'extern "C" __global__ void one(int *p) { p[threadIdx.x] = 1; }'
    kernel, array = compile(source, "sm_75")["one"], np.zeros(1 << 18, np.int32)
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        kept = []
        for _ in range(4):
            kernel.launch(1, 32, [array])
            kept.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
        gc.enable()
    assert kept[-1] - kept[0] < array.nbytes, "what is noted of each word has ten times as many"
