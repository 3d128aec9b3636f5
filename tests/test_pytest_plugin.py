"""The plugin for pytest: a test fails by what its kernels do, and names the schedule."""

from __future__ import annotations

import re

import pytest

import phasebit.checked_launches  # noqa: F401  NumPy must be here first: see pytester's snapshots

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.nvcc

CUDA = """
#include <cuda_pipeline.h>
__global__ void reverse(int* x)
{
    __shared__ int s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void race(int* x)
{
    __shared__ int s[64];
    s[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void early(const int* x, int* y)  // which forgets to wait for its copy
{
    __shared__ int s[32];
    s[threadIdx.x] = 0;
    __pipeline_memcpy_async(&s[threadIdx.x], &x[threadIdx.x], 4);
    __pipeline_commit();
    y[threadIdx.x] = s[threadIdx.x];
}
__global__ void meet(int* x)  // blocks in either order
{
    if (threadIdx.x == 0) x[1 + blockIdx.x] = atomicAdd(x, 1);
}
__global__ void beyond(int* x) { x[threadIdx.x + 1] = 0; }
__device__ int total;
template <int N> __global__ void count() { atomicAdd(&total, N); }
template __global__ void count<1>();
template __global__ void count<2>();
"""

HEAD = "import numpy as np\nimport pytest\n\nx = np.arange(64, dtype=np.int32)\n\n"


@pytest.fixture(autouse=True)
def nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other plugin, and no entry point: the plugin by ``-p`` alone."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def run(pytester: pytest.Pytester, body: str, *options: str) -> pytest.RunResult:
    pytester.makefile(".cu", kernels=CUDA)
    pytester.makepyfile(test_own=HEAD + body)
    return pytester.runpytest("-p", "phasebit.pytest_plugin", "-p", "no:cacheprovider", *options)


def test_a_right_kernel_passes_and_has_counters(pytester: pytest.Pytester) -> None:
    body = """
def test_reverse(kernel):
    y = x.copy()
    run = kernel("kernels.cu", "reverse").launch(grid=1, block=64, args=[y])
    assert (y == x[::-1]).all()
    assert run.counters["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"] == 0
    assert run.counters["smsp__inst_executed.sum"] > 0

def test_text(kernel):
    kernel("__global__ void f(int* x) { *x = 1; }\\n").launch(args=[x.copy()])

@pytest.mark.parametrize("n", [1, 2])
def test_a_variable_is_new_in_each_test(kernel, n):
    module = kernel.module("kernels.cu")
    for total in n, 2 * n:
        module[f"count<{n}>"].launch()
        assert module.variable("total").view(np.int32)[0] == total
"""
    run(pytester, body).assert_outcomes(passed=4)


def test_a_finding_fails_the_test_with_its_message_and_the_tests_own_line(
    pytester: pytest.Pytester,
) -> None:
    body = """
def test_race(kernel):
    kernel("kernels.cu", "race").launch(grid=1, block=64, args=[x.copy()])

def test_beyond(kernel):
    kernel("kernels.cu", "beyond").launch(grid=1, block=64, args=[x.copy()])

def test_a_finding_that_is_wanted(kernel):
    with pytest.raises(pytest.fail.Exception, match="race"):
        kernel("kernels.cu", "race").launch(grid=1, block=64, args=[x.copy()])
"""
    result = run(pytester, body)
    result.assert_outcomes(failed=2, passed=1)
    result.stdout.fnmatch_lines([
        ">   *kernel(*race*.launch(*",
        "E   *kernel race, schedule late:",
        "E   *race: thread * of block 0 reads s[[]* (kernels.cu:13)*(kernels.cu:12)*",
        "test_own.py:8: Failed",
        "E   *kernel beyond, schedule late:",
        "E   *256 bytes*",
    ])  # fmt: skip
    assert "checked_launches.py" not in result.stdout.str()


def test_a_seed_that_fails_is_named_and_can_be_repeated(pytester: pytest.Pytester) -> None:
    body = """
@pytest.mark.schedules(6)
def test_early(kernel):
    y = x.copy() - 1
    kernel("kernels.cu", "early").launch(grid=1, block=32, args=[x, y], check=False)
    assert (y[:32] == x[:32]).all()

@pytest.mark.schedules(2)
@pytest.mark.parametrize("name", ["reverse", "race"])
def test_either(kernel, name):
    kernel("kernels.cu", name).launch(grid=1, block=64, args=[x.copy()])
"""
    result = run(pytester, body)
    text = result.stdout.str()
    failed = re.findall(r"^FAILED test_own\.py::test_early\[seed-(\d)\]", text, re.MULTILINE)
    assert 0 < len(failed) < 6, "some schedules hide it, and some do not"
    assert "FAILED test_own.py::test_early[late]" in text, "the strongest"
    assert "test_own.py::test_early[eager]" not in text
    result.assert_outcomes(failed=len(failed) + 1 + 4, passed=6 - len(failed) + 1 + 4)
    for fixed in "late", "eager":
        assert f"kernel race, schedule {fixed}:" in text
    for seed in 0, 1:
        assert f"kernel race, schedule random, seed {seed}:" in text
    hidden = min({*"012345"} - {*failed})
    for seed in failed[0], hidden:
        again = run(pytester, body, f"test_own.py::test_early[seed-{seed}]")
        again.assert_outcomes(**{"passed" if seed == hidden else "failed": 1})


def test_every_order_is_one_test_and_tells_the_shortest_that_fails(
    pytester: pytest.Pytester,
) -> None:
    body = """
@pytest.mark.schedules("every")
@pytest.mark.parametrize("name", ["reverse", "race"])
def test_either(kernel, name):
    kernel("kernels.cu", name).launch(grid=1, block=64, args=[x.copy()])

def test_asked_of_one_launch(kernel):
    run = kernel("kernels.cu", "reverse").launch(
        grid=1, block=64, args=[x.copy()], schedule="every")
    assert run.orders.complete and run.orders.runs >= 1
"""
    result = run(pytester, body)
    result.assert_outcomes(failed=1, passed=2)
    result.stdout.fnmatch_lines([
        "E   *kernel race, every order: complete: *",
        "E   *found, after * steps: *(kernels.cu:*)*",
        "FAILED test_own.py::test_either[[]every-race[]]*",
    ])  # fmt: skip


def test_a_search_that_had_to_stop_is_a_warning(
    pytester: pytest.Pytester,
) -> None:
    body = """
import functools
from phasebit.launching import launch

@pytest.mark.schedules("every")
def test_reverse(kernel, monkeypatch):
    monkeypatch.setattr(launch, "searched", functools.partial(launch.searched, most_runs=1))
    kernel("kernels.cu", "meet").launch(grid=2, block=32, args=[x.copy()])
"""
    result = run(pytester, body)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*kernel meet, every order: incomplete: 1 order run*"])


def test_what_cannot_be_compiled_or_found_fails_in_a_sentence(pytester: pytest.Pytester) -> None:
    body = """
def test_file(kernel):
    kernel("absent.cu")

def test_source(kernel):
    kernel("__global__ void f() { nonsense; }\\n")

def test_name(kernel):
    kernel("kernels.cu")

def test_arguments(kernel):
    kernel("kernels.cu", "race").launch(args=[])
"""
    result = run(pytester, body)
    result.assert_outcomes(failed=4)
    result.stdout.fnmatch_lines([
        "E   *there is no file *absent.cu*",
        'E   *line 1 of source.cu: identifier "nonsense" is undefined',
        "E   *this module has no kernel called ''; it has: *early*",
        "E   *race takes 1 arguments, not 0",
    ])  # fmt: skip
    assert "checked_launches.py" not in result.stdout.str()


@pytest.mark.parametrize(
    ("mark", "asks", "why"),
    [
        ("schedules(0)", "kernel", r"say how many schedules, as in @pytest\.mark\.schedules\(50\)"),
        ("schedules", "kernel", "say how many schedules"),
        ("schedules('5')", "kernel", "say how many schedules"),
        ("schedules(2)", "", "is marked schedules and launches nothing: ask for the fixture kern"),
    ],
)
def test_a_mark_that_says_nothing_is_refused(
    pytester: pytest.Pytester, mark: str, asks: str, why: str
) -> None:
    result = run(pytester, f"@pytest.mark.{mark}\ndef test_own({asks}): pass\n")
    result.assert_outcomes(errors=1)
    assert re.search(why, result.stdout.str())


def test_pytest_knows_the_mark_and_the_fixture(pytester: pytest.Pytester) -> None:
    assert run(pytester, "", "--markers").stdout.str().count("@pytest.mark.schedules(count): ") == 1
    assert "Compile a ``.cu`` file or CUDA text" in run(pytester, "", "--fixtures").stdout.str()
