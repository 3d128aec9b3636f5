# mypy: ignore-errors
"""`phasebit.cute`: host code of CuTe DSL's as it stands, and mistakes that it has.

``pip install nvidia-cutlass-dsl``; with ``torch``, too, its tensors are asked.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("cutlass", reason="nvidia-cutlass-dsl is not installed: NOT asked")

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import cutlass.memory as memory
from cutlass.cute.nvgpu import cpasync
from cutlass.cute.runtime import from_dlpack
from cutlass.utils import HardwareInfo

import phasebit.cute
from phasebit.doors import cuda_streams, device_arrays
from phasebit.emulator import formats
from phasebit.runtime import apart, in_process

pytestmark = pytest.mark.foreign

F32, THREADS = cutlass.Float32, 128


class Turn:
    """A transpose: tiles come by the copy engine and leave by threads."""

    def __init__(self, waits=True):
        self.waits = waits

    @cute.jit
    def __call__(self, a: cute.Tensor, out: cute.Tensor):
        layout = cute.make_layout((32, 64), stride=(64, 1))
        load = cpasync.CopyBulkTensorTileG2SOp()
        copy, box = cpasync.make_tiled_tma_atom(load, a, layout, (32, 64))
        grid = (cute.ceil_div(a.shape[0], 32), cute.ceil_div(a.shape[1], 64), 1)
        self.kernel(copy, box, out, layout).launch(grid=grid, block=(THREADS, 1, 1))

    @cute.kernel
    def kernel(self, copy: cute.CopyAtom, box: cute.Tensor, out: cute.Tensor,
               layout: cute.Layout):  # fmt: skip
        thread, _, _ = cute.arch.thread_idx()
        x, y, _ = cute.arch.block_idx()
        store = memory.SmemAllocator()
        tile = store.allocate_tensor(F32, layout, 128)
        full = store.allocate_array(cutlass.Int64, 1)
        if thread == 0:
            cute.arch.mbarrier_init(full, 1)
            cute.arch.mbarrier_init_fence()
        cute.arch.sync_threads()
        part = cute.local_tile(box, (32, 64), (x, y))
        to, source = cpasync.tma_partition(copy, 0, cute.make_layout(1),
                                           cute.group_modes(tile, 0, 2),
                                           cute.group_modes(part, 0, 2))  # fmt: skip
        if thread // 32 == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(full, 32 * 64 * 4)
            cute.copy(copy, source, to, tma_bar_ptr=full)
        if cutlass.const_expr(self.waits):
            cute.arch.mbarrier_wait(full, 0)
        for i in cutlass.range(thread, 32 * 64, THREADS):
            row, column = x * 32 + i % 32, y * 64 + i // 32
            if cute.elem_less((column, row), out.shape):
                out[column, row] = tile[i % 32, i // 32]


def line_of(text):
    """The line of this file that holds a text."""
    with open(__file__) as file:
        return next(i for i, line in enumerate(file, 1) if text in line)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_arrays_of_the_host_and_a_tensor_map_that_the_host_code_writes(target):
    a = np.random.default_rng().random((100, 200), np.float32)
    out = np.full((200, 100), np.nan, np.float32)
    with phasebit.cute.emulated(target, schedules="all") as runs:
        Turn()(from_dlpack(a, assumed_align=16), from_dlpack(out, assumed_align=16))
    assert not runs.findings and np.array_equal(out, a.T)
    assert [one.grid for one in runs.launches] == [(4, 4, 1)]


def test_a_box_that_nobody_waits_for_is_told_with_the_line():
    with phasebit.cute.emulated("sm_90a") as runs:
        a, out = device_arrays.empty((32, 64)), device_arrays.empty((64, 32))
        Turn(waits=False)(from_dlpack(a, assumed_align=16), from_dlpack(out, assumed_align=16))
    place = f"test_cute_door.py:{line_of('out[column, row] = tile[')}"
    assert any(place in str(one) and "mbarrier" in str(one) for one in runs.findings), runs


def test_a_compiled_function_is_called_again_in_a_later_block():
    a = np.ones((32, 64), np.float32)
    with phasebit.cute.emulated("sm_90a"):
        out = np.zeros((64, 32), np.float32)
        compiled = cute.compile(Turn(), from_dlpack(a, assumed_align=16),
                                from_dlpack(out, assumed_align=16))  # fmt: skip
        assert not out.any()
    with phasebit.cute.emulated("sm_90a", schedules="all") as runs:
        compiled(from_dlpack(a, assumed_align=16), from_dlpack(out, assumed_align=16))
    assert not runs.findings and out.all()


@cute.jit
def turned(a: cute.Tensor, out: cute.Tensor, stream: cuda.CUstream):
    shorter(a, out).launch(grid=(1, 1, 1), block=(64, 1, 1), stream=stream)


@cute.kernel
def shorter(a: cute.Tensor, out: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    out[thread] = out[thread] + a[63 - thread]


def test_a_benchmark_by_graphs_launches_what_it_has_captured():
    """`use_cuda_graphs`: the runtime of cuda.bindings has its library within, so ours stands in."""
    from cutlass import testing

    with phasebit.cute.emulated("sm_90a") as runs:
        a, out = device_arrays.empty(64), device_arrays.empty(64)
        np.asarray(a)[:], np.asarray(out)[:] = np.arange(64), 0
        given = from_dlpack(a, assumed_align=16), from_dlpack(out, assumed_align=16)
        stream = cuda.CUstream(cuda_streams.Stream().cuda_stream)
        compiled = cute.compile(turned, *given, stream)
        arguments = testing.JitArguments(*given, stream)
        testing.benchmark(compiled, kernel_arguments=arguments, stream=stream,
                          warmup_iterations=1, iterations=2, use_cuda_graphs=True)  # fmt: skip
        assert np.array_equal(out, 3 * np.arange(64)[::-1])
    assert len(runs.launches) == 3 and not runs.findings


def test_what_the_hardware_is_asked_for():
    with phasebit.cute.emulated("sm_100a"):
        asked = HardwareInfo()
        assert asked.get_max_active_clusters(2) == asked.get_device_multiprocessor_count() // 2


def test_tensors_of_torch():
    in_process.process()  # its libraries before PyTorch's
    torch = pytest.importorskip("torch", reason="torch is not installed: NOT asked")
    host = torch.rand(32, 64)
    with phasebit.cute.emulated("sm_90a") as runs:
        a, out = host.cuda(), torch.zeros(64, 32, device="cuda")
        Turn()(from_dlpack(a, assumed_align=16), from_dlpack(out, assumed_align=16))
        assert torch.equal(out.cpu(), host.T)
    assert not runs.findings


PROGRAM = """
import sys
import cutlass, cutlass.cute as cute, cutlass.memory as memory
import numpy as np
from cutlass.cute.runtime import from_dlpack

class Reverse:
    @cute.jit
    def __call__(self, out: cute.Tensor):
        self.kernel(out).launch(grid=(1, 1, 1), block=(64, 1, 1))

    @cute.kernel
    def kernel(self, out: cute.Tensor):
        thread, _, _ = cute.arch.thread_idx()
        line = memory.SmemAllocator().allocate_tensor(cutlass.Int32, cute.make_layout(64), 16)
        line[thread] = thread
        WAIT
        out[thread] = line[63 - thread]

out = np.zeros(64, np.int32)
Reverse()(from_dlpack(out, assumed_align=16))
print(sys.argv[1:], out[0])
sys.exit(int(sys.argv[1]))
"""


def test_what_was_found_is_told_where_a_program_ends_in_an_exception(tmp_path):
    program = tmp_path / "reverse.py"
    text = PROGRAM.replace("WAIT", "pass").replace("sys.exit(", "assert not (")
    program.write_text(text)
    done, told = apart.reported(
        lambda file: ["phasebit.cute", "--target", "sm_80", "--report", file, program, "3"], 120
    )
    assert done.status == 1 and "AssertionError" in done.stderr
    assert {one.rule for one in told.findings} == {"race"}


@pytest.mark.parametrize(("wait", "rules"), [("pass", {"race"}),
                                             ("cute.arch.sync_threads()", set())])  # fmt: skip
def test_a_whole_program_is_run_with_its_arguments_and_its_status(wait, rules, tmp_path):
    program = tmp_path / "reverse.py"
    program.write_text(PROGRAM.replace("WAIT", wait))
    done, told = apart.reported(
        lambda file: ["phasebit.cute", "--target", "sm_80", "--report", file, program, "3"], 120
    )
    assert (done.stdout, done.status) == ("['3'] 63\n", 3), done.stderr
    assert {one.rule for one in told.findings} == rules
    assert told.end is not None and told.end.status == 3
    if rules:
        text = str(told.findings[0])
        assert f"reverse.py:{PROGRAM[: PROGRAM.index('line[63')].count(chr(10)) + 1}" in text


BEFORE = """
import numpy as np
import cutlass.cute as cute
from cutlass.cute.runtime import from_dlpack
import phasebit.cute

class Twice:
    @cute.jit
    def __call__(self, x: cute.Tensor):
        self.kernel(x).launch(grid=(1, 1, 1), block=(32, 1, 1))

    @cute.kernel
    def kernel(self, x: cute.Tensor):
        thread, _, _ = cute.arch.thread_idx()
        x[thread] = x[thread] * 2

x = np.ones(32, np.float32)
cute.compile(Twice(), from_dlpack(x, assumed_align=16))  # opens CuTe DSL's own runtime library
for target in "sm_90a", "sm_100a":
    with phasebit.cute.emulated(target) as runs:
        Twice()(from_dlpack(x, assumed_align=16))
        cute.compile(Twice(), from_dlpack(x, assumed_align=16))(from_dlpack(x, assumed_align=16))
    print(x[0], runs)
"""


def test_a_kernel_that_was_compiled_before_the_block_takes_no_library_from_those_within(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("CUTE_DSL_ARCH", "sm_90a")
    program = tmp_path / "before.py"
    program.write_text(BEFORE)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", program], capture_output=True, text=True, check=False
    )
    assert done.stdout == "4.0 2 launches, no finding\n16.0 2 launches, no finding\n", done.stderr


TORCH = """
import torch
import cutlass, cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor

@cute.kernel
def kernel(x: cute.Tensor, y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    y[thread] = x[thread] * 2

@cute.jit
def twice(x: cute.Tensor, y: cute.Tensor):
    kernel(x, y).launch(grid=(1, 1, 1), block=(THREADS, 1, 1))

fake = make_fake_compact_tensor(cutlass.Float32, (64,), assumed_align=16)
compiled = cute.compile(twice, fake, fake, options="--enable-tvm-ffi")
x = torch.arange(64, dtype=torch.float32, device="cuda")
y = torch.zeros(64, device="cuda")
compiled(x, y)
torch.testing.assert_close(y, 2 * x)
print("right")
"""


def test_a_program_finds_the_modules_beside_it(tmp_path):
    (tmp_path / "beside_it.py").write_text("WORD = 'found'\n")
    program = tmp_path / "asks.py"
    program.write_text("from beside_it import WORD\nprint(WORD)\n")
    done, _ = apart.reported(lambda file: ["phasebit.cute", "--report", file, program], 120)
    assert (done.status, done.stdout) == (0, "found\n"), done.stderr


def test_pytorchs_compiler_tells_the_functions_of_its_cuda_apart(tmp_path):
    """It keeps a table of what to do with each of PyTorch's functions, by the function."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed: NOT asked")
    program = tmp_path / "table.py"
    program.write_text(
        "from torch._dynamo.trace_rules import get_torch_obj_rule_map\n"
        "print(len(get_torch_obj_rule_map()) > 100)\n"
    )
    done, _ = apart.reported(lambda file: ["phasebit.cute", "--report", file, program], 300)
    assert (done.status, done.stdout) == (0, "True\n"), done.stderr


@pytest.mark.parametrize(("threads", "out"), [(64, "right"), (2048, "")])
def test_a_program_with_tensors_of_torch_by_tvms_interface(threads, out, tmp_path):
    """PyTorch is loaded after our libraries of CUDA; a launch that cannot be is Python's error."""
    for name in "torch", "tvm_ffi":
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed: NOT asked")
    program = tmp_path / "twice.py"
    program.write_text(TORCH.replace("THREADS", str(threads)))
    done, told = apart.reported(
        lambda file: ["phasebit.cute", "--target", "sm_90a", "--report", file, program], 300
    )
    assert done.stdout.strip() == out, done.stderr
    assert out or "RuntimeError" in done.stderr, done.stderr
    assert not told.findings


@cute.experimental.kernel
def doubled_there(x: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    x[thread] = x[thread] * 2.0


@cute.experimental.jit
def doubling_there(x: cute.Tensor):
    doubled_there(x).launch(grid=(1, 1, 1), block=(THREADS, 1, 1))


def test_the_language_beside_it_cute_experimental():
    x = np.arange(THREADS, dtype=np.float32)
    with phasebit.cute.emulated("sm_100a", schedules="all") as runs:
        doubling_there(from_dlpack(x, assumed_align=16))
    assert np.array_equal(x, 2 * np.arange(THREADS)) and not runs.findings
    assert len(runs.launches) == 1


GRAPH = """
import torch
import cutlass, cutlass.cute as cute
from cuda.bindings.driver import CUstream
from cutlass.cute.runtime import from_dlpack

@cute.kernel
def kernel(x: cute.Tensor, y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    y[thread] = y[thread] + x[thread]

@cute.jit
def add(x: cute.Tensor, y: cute.Tensor, stream: CUstream):
    kernel(x, y).launch(grid=(1, 1, 1), block=(64, 1, 1), stream=stream)

x = torch.arange(64, dtype=torch.float32, device="cuda")
y = torch.zeros(64, device="cuda")
stream = torch.cuda.Stream()
of_cuda = CUstream(stream.cuda_stream)
compiled = cute.compile(add, from_dlpack(x), from_dlpack(y), of_cuda)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=stream):
    compiled(from_dlpack(x), from_dlpack(y), of_cuda)
    print(torch.cuda.is_current_stream_capturing(), int(y.sum()))
for _ in range(3):
    graph.replay()
print(torch.cuda.is_current_stream_capturing(), torch.equal(y, 3 * x))
"""


def test_what_a_graph_of_torch_captured_runs_when_it_is_replayed(tmp_path):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed: NOT asked")
    program = tmp_path / "graph.py"
    program.write_text(GRAPH)
    done, told = apart.reported(
        lambda file: ["phasebit.cute", "--target", "sm_90a", "--report", file, program], 300
    )
    assert done.stdout == "True 0\nFalse True\n", done.stderr
    assert not told.findings


def test_a_graph_keeps_the_machine_code_of_a_function_that_nobody_has_kept(tmp_path):
    """It is compiled within the capture, called and forgotten; the event has a handle."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed: NOT asked")
    program = tmp_path / "graph.py"
    at_once = "compiled = cute.compile(add, from_dlpack(x), from_dlpack(y), of_cuda)\n"
    text = GRAPH.replace(at_once, "assert torch.cuda.Event().cuda_event\n")
    program.write_text(text.replace("compiled(from", "add(from"))
    done, told = apart.reported(
        lambda file: ["phasebit.cute", "--target", "sm_90a", "--report", file, program], 300
    )
    assert done.stdout == "True 0\nFalse True\n", done.stderr
    assert not told.findings


def test_host_code_may_ask_nvidias_runtime_for_python():
    from cuda.bindings import runtime as cuda

    there, back = np.arange(16, dtype=np.int32), np.zeros(16, np.int32)
    with phasebit.cute.emulated("sm_90a"):
        error, place = cuda.cudaMalloc(64)
        errors = [
            error, *cuda.cudaMemcpy(place, there.ctypes.data, 64,
                                    cuda.cudaMemcpyKind.cudaMemcpyHostToDevice),
            *cuda.cudaMemset(place + 32, 0xFF, 32),
            *cuda.cudaMemcpy(back.ctypes.data, place, 64,
                             cuda.cudaMemcpyKind.cudaMemcpyDeviceToHost),
            *cuda.cudaFree(place),
        ]  # fmt: skip
        assert set(errors) == {cuda.cudaError_t.cudaSuccess}
        error, event = cuda.cudaEventCreate()
        assert error == 0 and cuda.cudaEventRecord(event, 0)[0] == 0
    assert back.tolist() == [*range(8), *[-1] * 8]


def test_a_function_is_compiled_for_tensors_that_are_not_there():
    in_process.process()  # its libraries before PyTorch's
    torch = pytest.importorskip("torch", reason="torch is not installed: NOT asked")
    from torch._subclasses.fake_tensor import FakeTensorMode

    with phasebit.cute.emulated("sm_90a") as runs:
        with FakeTensorMode():
            shapes = torch.zeros(32, 64), torch.zeros(64, 32)
            turn = cute.compile(Turn(), *(from_dlpack(one, assumed_align=16) for one in shapes))
        a, out = torch.rand(32, 64, device="cuda"), torch.zeros(64, 32, device="cuda")
        turn(from_dlpack(a, assumed_align=16), from_dlpack(out, assumed_align=16))
        assert torch.equal(out.cpu(), a.cpu().T)
    assert not runs.findings


def test_torchs_profiler_counts_the_hosts_time_alone():
    """A build for the CPU refuses to look at `cuda`, and times here say nothing of a GPU."""
    in_process.process()
    torch = pytest.importorskip("torch", reason="torch is not installed: NOT asked")
    profiler = torch.profiler
    with phasebit.cute.emulated("sm_100a"):
        for asked in ([profiler.ProfilerActivity.CUDA], None):
            with profiler.profile(activities=asked) as prof:
                torch.ones(64, device="cuda").sum()
            assert prof.key_averages()


def test_tvms_tensor_of_one_of_torchs_is_on_the_device():
    in_process.process()
    torch = pytest.importorskip("torch", reason="torch is not installed: NOT asked")
    tvm_ffi = pytest.importorskip("tvm_ffi", reason="tvm_ffi is not installed: NOT asked")
    with phasebit.cute.emulated("sm_100a"):
        x = torch.arange(12, device="cuda", dtype=torch.float32)
        theirs = tvm_ffi.from_dlpack(x)
        assert theirs.device.type == "cuda" and theirs.shape == (12,)
        made = from_dlpack(x, enable_tvm_ffi=True)
        assert made.__tvm_ffi_object__().device.type == "cuda"


@pytest.mark.parametrize(("kind", "of_scale", "size"), [
    ("float4_e2m1fn_x2", "float8_e4m3fn", 16), ("float8_e4m3fn", "float8_e8m0fnu", 32),
])  # fmt: skip
def test_torchs_product_with_block_scales(kind, of_scale, size):
    """What a program compares itself with: PyTorch has it for a GPU alone."""
    in_process.process()
    torch = pytest.importorskip("torch", reason="torch is not installed: NOT asked")
    rows, columns, depth = 200, 136, 4 * size
    random = np.random.default_rng()
    halved = 2 if "x2" in kind else 1

    def given(count):
        codes = random.integers(0, 0x70, (count, depth // halved)).astype(np.uint8)
        across = depth // size
        scales = random.integers(0x30, 0x40, (count, across)).astype(np.uint8)
        if "e8m0" in of_scale:
            scales += 0x50
        laid = np.zeros(-(-count // 128) * 512 * -(-across // 4), np.uint8)
        for row, column in np.ndindex(count, across):  # cuBLAS: tiles of 128 rows, 4 scales
            tile = laid[512 * (row // 128 * -(-across // 4) + column // 4) :]
            tile[16 * (row % 32) + 4 * (row // 32 % 4) + column % 4] = scales[row, column]
        tensors = [torch.from_numpy(one.copy()).view(getattr(torch, name)).cuda()
                   for one, name in ((codes, kind), (laid, of_scale))]  # fmt: skip
        pair = (codes & 15, codes >> 4) if halved == 2 else (codes,)
        apart = np.stack(pair, axis=2).reshape(count, depth)
        value = formats.decode("e2m1" if halved == 2 else "e4m3", apart).astype(np.float64)
        factor = formats.decode("ue8m0" if "e8m0" in of_scale else "e4m3", scales)
        return *tensors, value * np.repeat(factor.astype(np.float64), size, axis=1)

    with phasebit.cute.emulated("sm_100a"):
        a, of_a, left = given(rows)
        b, of_b, right = given(columns)
        got = torch._scaled_mm(a, b.t(), of_a, of_b, out_dtype=torch.float32)
        assert got.is_cuda and got.shape == (rows, columns)
        np.testing.assert_allclose(got.cpu().numpy(), left @ right.T, rtol=1e-6)


@cute.jit
def numbered(out: cute.Tensor):
    for i in range(cute.size(out)):
        out[i] = F32(i)


def test_host_code_alone_changes_arrays_of_the_host():
    """No kernel is launched: what such a function writes was lost."""
    out = np.full(8, -1, np.float32)
    with phasebit.cute.emulated("sm_100a") as runs:
        numbered(from_dlpack(out, assumed_align=16))
    assert np.array_equal(out, np.arange(8)) and not runs.launches
