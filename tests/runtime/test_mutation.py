"""`phasebit mutate`: each barrier, fence and wait is left out once, and somebody notices or not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from phasebit.__main__ import main
from phasebit.runtime import mutation
from phasebit.runtime.command import nvcc_command
from phasebit.runtime.deletions import deletions

PTX = """
.visible .entry _Z1kPf(.param .u64 x) // bar.sync 9;
{
    bar.sync 0; /* fence.proxy.async;
    bar.sync 8; */ @%p1 bar.warp.sync -1;
WAIT:
    @!%p3 mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], %r5; @!%p2 bra WAIT;
    mbarrier.arrive.release.cta.shared::cta.b64 %rd4, [empty];
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 512;
    { .reg .pred p; L: mbarrier.test_wait.b64 p, [%rd1],
        %rd2; }
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 16, [full];
    bar.red.popc.u32 %r1, 0, %p1; call.uni barrier, (x);
}
.func (.param .b32 r) helper(.param .b32 a)
{
    fence.proxy.async.shared::cta;
    ret;
}
"""


def test_what_can_be_left_out_and_what_stands_in_its_place() -> None:
    assert [(d.line, d.kernel, d.instruction.split()[0], d.instead) for d in deletions(PTX)] == [
        (4, "_Z1kPf", "bar.sync", ""),
        (5, "_Z1kPf", "@%p1", ""),
        (7, "_Z1kPf", "@!%p3", "@!%p3 setp.eq.u32 %p2, 0, 0;"),
        (8, "_Z1kPf", "mbarrier.arrive.release.cta.shared::cta.b64", "mov.b64 %rd4, 0;"),
        (9, "_Z1kPf", "mbarrier.arrive.expect_tx.shared::cta.b64", ""),
        (10, "_Z1kPf", "mbarrier.test_wait.b64", "setp.eq.u32 p, 0, 0;"),
        (17, "", "fence.proxy.async.shared::cta;", ""),
    ]


@pytest.mark.parametrize(("token", "instead"), [
    ("%rd1", "mov.b64 %rd1, 0;"), ("token", "mov.b64 token, 0;"), ("Z", "mov.b64 Z, 0;"),
    ("_", ""), ("_a", "mov.b64 _a, 0;"),
])  # fmt: skip
def test_a_token_that_is_kept_is_0(token: str, instead: str) -> None:
    (one,) = deletions(f".entry k()\n{{ mbarrier.arrive.shared.b64 {token}, [empty]; }}")
    assert (one.kernel, one.instead) == ("k", instead)


def test_all_else_stays_on_its_line() -> None:
    for deletion in deletions(PTX):
        text = deletion.applied(PTX)
        assert text.count("\n") == PTX.count("\n")
        changed = [i for i, (a, b) in enumerate(zip(PTX.splitlines(), text.splitlines(),
                                                    strict=True), 1) if a != b]  # fmt: skip
        assert changed[0] == deletion.line and len(changed) <= 2


SOURCE = r"""
#include <cstdio>
__global__ void turn(int* x) {
    __shared__ int tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = tile[63 - threadIdx.x];
    __syncthreads();
}
__global__ void never(int* x) { __syncthreads(); x[0] = 1; }
int main(int n, char**) {
    int *x, first;
    cudaMalloc(&x, 256); cudaMemset(x, 0, 256);
    turn<<<1, 64>>>(x);
    if (n > 7) never<<<1, 64>>>(x);
    cudaMemcpy(&first, x, 4, cudaMemcpyDeviceToHost);
    printf("%d\n", first);
    return n > 1;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("mutation")
    (folder / "turn.cu").write_text(SOURCE, encoding="utf-8")
    made = folder / "turn"
    subprocess.run(
        [*nvcc_command(["-arch=sm_80", str(folder / "turn.cu")]), "-o", made],
        check=True, capture_output=True,
    )  # fmt: skip
    return str(made)


@pytest.mark.nvcc
class TestProgram:
    def test_one_is_missed_and_one_is_not(
        self, program: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        needed, redundant = mutation.survey([program], ["late", "eager"])
        assert needed.rules == ("race",) and needed.schedule == "late"
        assert redundant.silent and redundant.deletion.line > needed.deletion.line
        assert main(["mutate", "--schedule", "random", program]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == "kernel _Z4turnPi" and lines[1].endswith("race (random)")
        assert lines[2].endswith("silent") and lines[3] == "1 of 2 deletions are noticed"

    def test_a_program_that_is_wrong_as_it_is(
        self, program: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["mutate", program, "fail"]) == 2
        said = capsys.readouterr().err
        assert "does not end well as it is" in said and said.count("\n") == 1

    def test_what_is_no_program(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["mutate", str(Path(__file__))]) == 2
        assert capsys.readouterr().err.count("\n") == 1
