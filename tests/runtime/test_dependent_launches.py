"""Programmatic dependent launch (PTX ISA 9.7.13.13): what a kernel touches before it has waited."""

from __future__ import annotations

from pathlib import Path

import pytest

from phasebit import bugs

pytestmark = pytest.mark.nvcc

SOURCE = """
#include <cstdio>
#define WAIT asm volatile("griddepcontrol.wait;" ::: "memory")
__global__ void first(int* x, int* y) {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    x[threadIdx.x] = 7 + y[threadIdx.x];
}
__global__ void between(int* z) { BETWEEN; z[threadIdx.x] = 1; }
__global__ void second(int* x, int* y, int* z) {
    SECOND
}
template <class... T> void early(void (*kernel)(T...), T... arguments) {
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = ALLOWED;
    cudaLaunchConfig_t config{};
    config.gridDim = 1, config.blockDim = 64, config.attrs = &attribute, config.numAttrs = 1;
    cudaLaunchKernelEx(&config, kernel, arguments...);
}
int main() {
    int *x, *y, *z;
    cudaMalloc(&x, 256), cudaMalloc(&y, 256), cudaMalloc(&z, 256);
    cudaMemset(x, 0, 256), cudaMemset(y, 0, 256), cudaMemset(z, 0, 256);
    first<<<1, 64>>>(x, y);
    MIDDLE;
    early(second, x, y, z);
    int out[64];
    cudaMemcpy(out, z, 256, cudaMemcpyDeviceToHost);
    puts(out[63] == 7 ? "right" : "wrong");
}
"""
COPY = "z[threadIdx.x] = x[threadIdx.x];"


def run(
    second: str, middle: str = "", between: str = "", allowed: str = "1"
) -> tuple[str, list[str]]:
    """What the program prints, and the findings, each as rule and text."""
    text = SOURCE
    for name, value in (("SECOND", second), ("MIDDLE", middle), ("BETWEEN", between)):
        text = text.replace(name, value)
    program = bugs.build(text.replace("ALLOWED", allowed), "dependent.cu", "sm_90")
    seen = bugs.emulate(Path(program))
    return seen.result, [f"{finding.rule}: {finding}" for finding in seen.findings]


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (COPY, "reads cudaMalloc #1"),
        ("y[threadIdx.x] = 1; WAIT; " + COPY, "writes cudaMalloc #2"),
        ("if (threadIdx.x < 32) WAIT; " + COPY, "thread 32 of block 0 reads cudaMalloc #1"),
    ],
    ids=["reads", "writes", "half"],
)
def test_what_the_kernel_before_touches_is_found_before_the_wait(second: str, said: str) -> None:
    _, (finding,) = run(second)
    assert finding.startswith("missing-grid-wait: ") and said in finding
    assert "kernel first, which may still be under way" in finding


@pytest.mark.parametrize(
    "second",
    [
        "WAIT; " + COPY,
        "if (threadIdx.x == 0) WAIT; __syncthreads(); " + COPY,
        "z[threadIdx.x] = y[threadIdx.x]; WAIT; " + COPY,  # both kernels only read y
    ],
)
def test_after_the_wait_nothing_is_found(second: str) -> None:
    assert run(second) == ("right", [])


@pytest.mark.parametrize(
    "options",
    [{"allowed": "0"}, {"middle": "cudaDeviceSynchronize()"}, {"middle": "cudaMemset(y, 0, 256)"}],
)
def test_a_kernel_that_begins_after_the_end_need_not_wait(options: dict[str, str]) -> None:
    assert run(COPY, **options) == ("right", [])


def test_one_wait_reaches_no_further_than_the_kernel_between() -> None:
    _, (finding,) = run("WAIT; " + COPY, "early(between, z)")
    assert "the kernel between the two has no griddepcontrol.wait" in finding
    assert run("WAIT; " + COPY, "early(between, z)", "WAIT") == ("right", [])
