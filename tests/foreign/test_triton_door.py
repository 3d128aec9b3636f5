# mypy: ignore-errors
"""`phasebit.triton`: host code of Triton's and Gluon's as it stands, and mistakes that it has.

``pip install triton``; with ``torch``, too, its tensors are asked.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("triton", reason="triton is not installed: NOT asked")

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

import phasebit.triton
from phasebit.doors import device_arrays
from phasebit.runtime import apart, in_process

pytestmark = pytest.mark.foreign


@triton.jit
def add(a, b, c, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(a + i, mask=i < n)
    y = tl.load(b + i, mask=i < n)
    tl.store(c + i, x + y, mask=i < n)


@triton.jit
def everybody(c, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(c + i, tl.load(c + i) + tl.program_id(0))  # planted: no atomic


@gluon.jit
def through_shared(a, c, WAIT: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    flat: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    i = gl.arange(0, 128, layout)
    shared = gl.allocate_shared_memory(gl.float32, [128], flat)
    async_copy.async_load(shared, a + i)
    async_copy.commit_group()
    if WAIT:
        async_copy.wait_group(0)
    gl.store(c + i, shared.load(layout))


def test_a_kernel_of_triton():
    with phasebit.triton.emulated("sm_90a", schedules="all") as runs:
        a, b = (device_arrays.array(np.arange(100, dtype=np.float32)) for _ in "ab")
        c = device_arrays.empty(100)
        add[lambda meta: (triton.cdiv(100, meta["BLOCK"]),)](a, b, c, 100, BLOCK=64)
    assert not runs.findings and [one.grid for one in runs.launches] == [(2, 1, 1)]
    assert np.array_equal(c, 2 * np.arange(100))


def test_blocks_that_race_are_told_with_the_line():
    with phasebit.triton.emulated("sm_80") as runs:
        everybody[(4,)](device_arrays.empty(64), BLOCK=64)
    line = everybody.fn.__code__.co_firstlineno + 3
    assert any(f"test_triton_door.py:{line}" in str(one) for one in runs.findings), runs
    assert {one.kernel for one in runs.findings} == {"everybody"}


@pytest.mark.parametrize("wait", [True, False])
def test_a_copy_that_nobody_waits_for_is_told_in_gluon(wait):
    with phasebit.triton.emulated("sm_80", schedules="all") as runs:
        a, c = device_arrays.array(np.arange(128, dtype=np.float32)), device_arrays.empty(128)
        through_shared[(1,)](a, c, wait, num_warps=4)
    line = through_shared.fn.__code__.co_firstlineno + 10
    assert bool(runs.findings) != wait, runs
    assert wait or any(f"test_triton_door.py:{line}" in str(one) for one in runs.findings), runs
    assert not wait or np.array_equal(a, c)


def test_another_target_is_compiled_for():
    for target in ("sm_80", "sm_90a"):
        with phasebit.triton.emulated(target) as runs:
            a, c = device_arrays.empty(64), device_arrays.empty(64)
            made = add[(1,)](a, a, c, 64, BLOCK=64)
        assert made.metadata.target.arch == int(target[3:5]) and not runs.findings


def test_a_kernel_that_tunes_itself_takes_the_first_way_that_runs():
    ways = [triton.Config({"BLOCK": size}, num_warps=1) for size in (32, 64)]
    tuned = triton.autotune(ways, key=["n"])(add)
    with phasebit.triton.emulated("sm_80") as runs:
        c = device_arrays.array(np.ones(64, np.float32))
        tuned[lambda meta: (64 // meta["BLOCK"],)](c, c, c, 64)
    assert [one.grid[0] for one in runs.launches] == [2, 1, 2] and not runs.findings


@pytest.mark.parametrize("how", ["do_bench", "do_bench_cudagraph"])
def test_a_script_that_measures_runs_its_kernel_once(how):
    with phasebit.triton.emulated("sm_90a") as runs:
        c = device_arrays.empty(64)
        taken = getattr(triton.testing, how)(lambda: everybody[(1,)](c, BLOCK=64))
        three = triton.testing.do_bench(lambda: None, quantiles=[0.5, 0.2, 0.8])
        every = triton.testing.do_bench(lambda: None, return_mode="all")
    assert len(runs.launches) == 1 and taken > 0 and len(three) == 3 and len(every) == 1


def test_after_the_block_triton_is_as_before():
    before = triton.runtime.driver._active
    with phasebit.triton.emulated("sm_80"):
        assert triton.runtime.driver.active.get_current_target().arch == 80
    assert triton.runtime.driver._active is before


SCRIPT = """
import numpy as np, triton, triton.language as tl
import phasebit.triton
from phasebit.doors import device_arrays
phasebit.triton.install("sm_80")

@triton.jit
def shift(c):
    i = tl.arange(0, 64)
    tl.store(c + i, tl.load(c + i + 1))

shift[(1,)](device_arrays.empty(64), num_warps=1)
"""


def test_installed_for_a_whole_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=paths)
    assert done.returncode == 0, done.stderr
    assert "phasebit: kernel shift" in done.stdout and "script.py:11" in done.stdout, done.stdout


def test_installed_before_torch_is_imported(tmp_path):
    """The order that a build of PyTorch for CUDA needs: its libraries come after ours."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed: NOT asked")
    script = tmp_path / "script.py"
    script.write_text(
        "import phasebit.triton\nphasebit.triton.install('sm_90a')\nimport torch\n"
        "print(torch.ones(64, device='cuda').device, torch.cuda.get_device_capability())\n"
    )
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=paths)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("cuda:0 (9, 0)"), done.stdout


class TestTorch:
    """Tensors of PyTorch's: of `cuda`, and of the host."""

    @pytest.fixture(autouse=True)
    def torch(self):
        in_process.process()  # its libraries of CUDA before PyTorch's
        self.torch = pytest.importorskip("torch", reason="torch is not installed: NOT asked")

    def test_host_code_that_names_cuda(self):
        torch = self.torch
        with phasebit.triton.emulated("sm_90a") as runs:
            device = triton.runtime.driver.active.get_active_torch_device()
            a, b = torch.randn(90, device=device), torch.rand(90, device="cuda")
            c = torch.empty_like(a)
            assert c.is_cuda and c.device.type == "cuda" and in_process.holds(c.data_ptr())
            add[(2,)](a, b, c, 90, BLOCK=64)
            torch.testing.assert_close(c, a + b)
            assert (a + b).is_cuda and (a + b)[3:].is_cuda and a.to(torch.float16).is_cuda
            assert not c.cpu().is_cuda and torch.ones(3).cuda().is_cuda
            assert torch.cuda.get_device_capability() == (9, 0)
        assert not runs.findings and len(runs.launches) == 1
        assert not torch.cuda.is_available()

    def test_tensors_of_the_host_are_lent(self):
        torch = self.torch
        whole, c = torch.arange(200.0), torch.zeros(100)
        with phasebit.triton.emulated("sm_90a") as runs:
            add[(2,)](whole[:100], whole[100:], c, 100, BLOCK=64)
        assert not runs.findings
        assert torch.equal(c, whole[:100] + whole[100:])

    def test_gradients_flow(self):
        torch = self.torch

        class Twice(torch.autograd.Function):
            @staticmethod
            def forward(context, x):
                y = torch.empty_like(x)
                add[(1,)](x, x, y, x.numel(), BLOCK=64)
                return y

            @staticmethod
            def backward(context, dy):
                dx = torch.empty_like(dy)
                add[(1,)](dy, dy, dx, dy.numel(), BLOCK=64)
                return dx

        with phasebit.triton.emulated("sm_90a") as runs:
            x = torch.ones(64, device="cuda", requires_grad=True)
            (Twice.apply(x) * 3).sum().backward()
            assert torch.equal(x.grad.cpu(), torch.full((64,), 6.0))
        assert not runs.findings and len(runs.launches) == 2

    def test_the_products_that_tutorials_compare_with(self):
        torch = self.torch
        with phasebit.triton.emulated("sm_100a"):
            from triton._C.libtriton import nvidia

            library = nvidia.cublas.CublasLt(torch.empty(64, device="cuda", dtype=torch.uint8))
            a, b = (torch.randn(n, 128, device="cuda").to(torch.float16) for n in (128, 256))
            c = torch.empty(128, 256, device="cuda", dtype=torch.float16)
            d = torch.empty_like(c)
            library.matmul(a, b, c)
            library.gemm(a, b, c, d, 2.0, -1.0)
            wanted = a.cpu().float() @ b.cpu().float().T
            torch.testing.assert_close(c.cpu().float(), wanted, atol=0.1, rtol=0.01)
            torch.testing.assert_close(d.cpu().float(), wanted, atol=0.1, rtol=0.01)
            ones, half = 0x38, 0x30  # of e4m3
            eights = [torch.full((128, 128), ones, device="cuda", dtype=torch.uint8)] * 2
            twos = torch.full((4 * 128,), 128, device="cuda", dtype=torch.uint8)  # of ue8m0
            e = torch.empty(128, 128, device="cuda", dtype=torch.float16)
            eights = [one.view(torch.float8_e4m3fn) for one in eights]
            library.block_scaled_matmul_mxfp8(*eights, e, twos, twos)
            assert torch.equal(e.cpu(), torch.full((128, 128), 512, dtype=torch.float16))
            fours = torch.full((128, 32), 0x22, device="cuda", dtype=torch.uint8)  # ones, of e2m1
            halves = torch.full((4 * 128,), half, device="cuda", dtype=torch.uint8)
            library.block_scaled_matmul_nvfp4(fours, fours, e, halves, halves)
            assert torch.equal(e.cpu(), torch.full((128, 128), 16, dtype=torch.float16))


PROGRAM = """
import sys

import torch
import triton
import triton.language as tl


@triton.jit
def doubled(a, b, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(b + i, 2 * tl.load(a + i, mask=i < n), mask=i < n)


a = torch.arange(100, dtype=torch.float32, device="cuda")
b = torch.empty_like(a)
doubled[(2,)](a, b, 100, BLOCK=64)
sys.exit(int((b.cpu() == 2 * a.cpu()).all()) + len(sys.argv))
"""


def test_a_program_as_it_stands(tmp_path):
    """`python -m phasebit.triton`: its arguments, its exit status, what was found."""
    pytest.importorskip("torch", reason="torch is not installed: NOT asked")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done, report = apart.reported(
        lambda file: ["phasebit.triton", "--schedule", "all", "--report", file, program, "x"], 300
    )
    assert (done.status, report.findings) == (3, ()), done.stderr


TESTS = """\
import torch
from program import doubled

def test_doubled():
    a = torch.arange(100, device="cuda", dtype=torch.float32)
    b = torch.empty_like(a)
    doubled[(2,)](a, b, WIDTH, BLOCK=64)
    assert torch.equal(b.cpu(), 2 * a.cpu())
"""


@pytest.mark.parametrize("width", [100, 60])
def test_tests_of_kernels_as_they_stand(tmp_path, width):
    """`python -m phasebit.triton -m pytest`: the tests' own verdict is the status."""
    pytest.importorskip("torch", reason="torch is not installed: NOT asked")
    (tmp_path / "program.py").write_text(PROGRAM.split("a = torch")[0])
    tests = tmp_path / "test_kernels.py"
    tests.write_text(TESTS.replace("WIDTH", str(width)))
    plain = ["-q", "-p", "no:cacheprovider", "--assert=plain"]
    done, _ = apart.reported(
        lambda file: ["phasebit.triton", "--report", file, "-m", "pytest", *plain, tests], 300
    )
    assert done.status == (width != 100), done.stdout


UNUSABLE = {
    "nowhere.py": "nowhere.py cannot be read: No such file or directory",
    "empty": "empty is a folder without a __main__.py",
    "compiled": "compiled is a compiled program: python -m phasebit run compiled",
    "-m no_such_module_at_all": "there is no module no_such_module_at_all",
    "-m ..": "there is no module ..",
    "--target sm_9000 right.py": "target 'sm_9000': name it as nvcc does",
    "--report nowhere/report right.py": "the report cannot be written: No such file or directory",
}


@pytest.mark.parametrize("words", UNUSABLE)
def test_what_is_no_program_is_refused_in_a_sentence(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "compiled").write_bytes(b"\x7fELF" + bytes(60))
    (tmp_path / "right.py").write_text("")
    with pytest.raises(SystemExit) as left:
        phasebit.triton.main(words.split())
    said = capsys.readouterr().err
    assert left.value.code == 2
    assert UNUSABLE[words] in said.splitlines()[-1], said
